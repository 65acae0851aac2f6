"""Nobody is shut out: axe-core finds nothing serious in any view or dialog, light or dark, desktop or phone."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

RED = '/?q=[{"words":"red"}]'
PLACED = {"words": "red", "where": [0, 0, 0.5, 1]}
AVOIDED = {"image_id": "blue.png", "negative": True}
PHONE = {"width": 375, "height": 700}
Act = Callable[[Page], object]


def filters(page: Page) -> None:
    page.get_by_text("Filters").click()
    expect(page.get_by_label("Folder")).to_be_visible()


def sketch(page: Page) -> None:
    page.locator("#place").click()
    page.locator("#sketch").get_by_text("Place a box").click()
    expect(page.get_by_label("What is in place 1")).to_be_visible()


def crop(page: Page) -> None:
    page.get_by_label("Choose the part of blue.png that counts").click()
    page.locator("#crop").get_by_text("Place a box").click()
    expect(page.locator("#crop .box")).to_be_visible()


def large(page: Page) -> None:
    expect(page.locator("#large dl")).to_contain_text("320 × 240 px")
    page.get_by_text("Search for a part").click()
    expect(page.get_by_text("Search for this")).to_be_visible()


def describe(page: Page) -> None:
    page.get_by_label("Your name").fill("ada")
    page.get_by_text("Begin").click()
    page.get_by_text("Place a box").click()
    expect(page.get_by_label("Short description of region 1")).to_be_visible()


def hits(page: Page) -> None:
    page.locator(".hit").nth(20).wait_for()


def marks(page: Page) -> None:
    expect(page.locator(".hit").first).to_be_visible()
    page.locator(".hit .open").first.focus()
    page.keyboard.press("y")
    expect(page.get_by_text("forget it")).to_be_visible()
    expect(page.locator("#tray")).to_be_visible()


def nothing(page: Page) -> None:
    expect(page.locator(".none h2")).to_have_text("No match")


def drawn(page: Page) -> None:
    page.locator("#view > * > *").first.wait_for()


def described(page: Page) -> None:
    page.locator(".route summary").first.click()


PLACES: dict[str, tuple[str, Act]] = {
    "browsing": ("/", hits),
    "a search": (RED, hits),
    "filters": (RED, filters),
    "marks and a selection": (RED, marks),
    "no match": (RED + "&before=1999-01-01", nothing),
    "an image": (RED + "&open=red.png", large),
    "a search with a place": ("/?q=" + json.dumps([PLACED, AVOIDED]), hits),
    "drawing where": ("/", sketch),
    "a part of an example": ("/?q=" + json.dumps([{"image_id": "blue.png"}]), crop),
    "explore": ("/?view=explore", drawn),
    "curate": ("/?view=curate", drawn),
    "annotate": ("/?view=annotate", drawn),
    "describing a region": ("/?view=annotate", describe),
    "label": ("/?view=label", drawn),
    "study": ("/?view=study", drawn),
    "reports": ("/?view=reports", drawn),
    "index": ("/?view=index", drawn),
    "the API": ("/docs", described),
}


@pytest.fixture(scope="module")
def kept(site: Any) -> None:
    """A selection and a tag, so that there is something to curate."""
    where = f"{site.url}api/v1/collections/pictures"
    items = {"items": [{"image_id": "red.png", "label": "fire"}, {"image_id": "blue.png"}]}
    httpx.put(f"{where}/selections/Selection", json=items, trust_env=False, verify=False).raise_for_status()
    tagged = {"tag": "warm", "image_ids": ["red.png"]}
    httpx.post(f"{where}/tags", json=tagged, trust_env=False, verify=False).raise_for_status()


def serious(page: Page, axe: str, rules: dict[str, Any]) -> list[str]:
    """What axe-core finds on the page as it is."""
    page.evaluate(axe)
    report = page.evaluate("(rules) => axe.run({resultTypes: ['violations'], iframes: false, ...rules})", rules)
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:160]}"
        for one in report["violations"]
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("name", PLACES)
def test_nothing_serious_is_found(page: Page, axe: str, kept: None, name: str) -> None:
    address, act = PLACES[name]
    page.goto(address)
    act(page)
    found = serious(page, axe, {})
    page.emulate_media(color_scheme="dark")
    found += serious(page, axe, {"runOnly": ["color-contrast"]})  # in the dark only the colours differ
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    found += serious(page, axe, {})
    assert found == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
