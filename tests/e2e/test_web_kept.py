"""What is kept stays kept, in a real browser: two tabs, names that are taken, images that leave, a mistaken click."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

import wherein

RED = '/?q=[{"words":"red"}]'


def api(site: Any, method: str, path: str, **sent: Any) -> Any:
    where = f"{site.url}api/v1/collections/pictures{path}"
    answer = httpx.request(method, where, trust_env=False, verify=False, **sent)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def kept(site: Any) -> dict[str, list[str]]:
    """The images of every selection, as the server has them."""
    return {one["name"]: [item["image_id"] for item in one["items"]] for one in api(site, "GET", "/selections")}


@pytest.fixture(autouse=True)
def _nothing_kept(site: Any) -> Iterator[None]:
    yield
    for name in kept(site):
        api(site, "DELETE", f"/selections/{name}")


def keep(page: Page, image_id: str) -> None:
    page.locator(f"[data-id='{image_id}'] .open").focus()
    page.keyboard.press("s")
    expect(page.locator("#say")).to_contain_text("Kept in Selection.")


def test_two_tabs_keep_in_one_selection(page: Page, site: Any) -> None:
    other = page.context.new_page()
    for tab in (page, other):
        tab.goto(RED)
        expect(tab.locator("[data-id='red.png']")).to_be_visible()
    keep(page, "red.png")
    keep(other, "red-again.png")
    expect(other.locator("#tray")).to_contain_text("2 images")
    keep(page, "trips/red-left.png")
    expect(page.locator("#tray")).to_contain_text("3 images")
    expect(page.locator("[data-id='red-again.png'] .keep")).to_have_attribute("aria-pressed", "true")
    assert kept(site) == {"Selection": ["red.png", "red-again.png", "trips/red-left.png"]}


def test_what_one_tab_renames_is_kept_under_its_new_name_in_the_other(page: Page, site: Any) -> None:
    page.goto(RED)
    expect(page.locator("[data-id='red.png']")).to_be_visible()
    keep(page, "red.png")
    other = page.context.new_page()
    other.goto("/?view=curate")
    other.get_by_label("Name of the selection").fill("warm")
    other.get_by_label("Name of the selection").press("Enter")
    expect(other.locator(".side")).to_contain_text("warm")
    expect(page.locator("#tray")).to_contain_text("in warm")
    page.locator("[data-id='red-again.png'] .open").focus()
    page.keyboard.press("s")
    expect(page.locator("#say")).to_contain_text("Kept in warm.")
    assert kept(site) == {"warm": ["red.png", "red-again.png"]}


def test_a_name_that_is_taken_is_not_taken_over(page: Page, site: Any) -> None:
    api(site, "PUT", "/selections/a", json={"items": [{"image_id": "red.png"}]})
    api(site, "PUT", "/selections/b", json={"items": [{"image_id": "blue.png"}]})
    page.goto("/?view=curate")
    page.get_by_role("button", name="a 1").click()
    name = page.get_by_label("Name of the selection")
    expect(name).to_have_value("a")
    name.fill("b")
    name.press("Enter")
    expect(page.locator("#say")).to_contain_text("there is a selection 'b' already")
    expect(name).to_have_value("a")
    assert kept(site) == {"a": ["red.png"], "b": ["blue.png"]}


def test_the_selection_that_is_open_is_not_drawn_again_while_somebody_types_in_it(page: Page, site: Any) -> None:
    api(site, "PUT", "/selections/a", json={"items": [{"image_id": "red.png"}]})
    page.goto("/?view=curate")
    name = page.get_by_label("Name of the selection")
    expect(name).to_have_value("a")
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("button", name="a 1").click()
    name.fill("b")
    page.wait_for_load_state("networkidle")
    expect(name).to_have_value("b")
    assert not [url for url in asked if url.endswith("/selections")]


def test_a_selection_is_forgotten_only_when_that_is_meant(page: Page, site: Any) -> None:
    page.goto(RED)
    expect(page.locator("[data-id='red.png']")).to_be_visible()
    keep(page, "red.png")
    trash = page.locator("#tray").get_by_label("Forget the selection")
    trash.click()
    expect(page.locator(".confirm")).to_contain_text("1 image will be taken out")
    page.keyboard.press("Escape")
    expect(page.locator(".confirm")).to_have_count(0)
    assert kept(site) == {"Selection": ["red.png"]}
    trash.click()
    page.get_by_role("button", name="Forget it").click()
    expect(page.locator("#tray")).to_be_hidden()
    assert kept(site) == {}


def test_an_image_that_is_gone_is_shown_as_gone_and_holds_nothing_up(page: Page, site: Any) -> None:
    ids = ["red.png", "blue.png"]
    api(site, "PUT", "/selections/Selection", json={"items": [{"image_id": one} for one in ids]})
    api(site, "POST", "/remove", json={"image_ids": ["blue.png"]})
    try:
        page.goto(RED)
        expect(page.locator("[data-id='red-again.png']")).to_be_visible()
        keep(page, "red-again.png")
        page.get_by_label("Tag all of the selection").fill("warm")
        page.keyboard.press("Enter")
        expect(page.locator("#say")).to_contain_text("2 images tagged warm")
        page.get_by_role("link", name="Curate").click()
        expect(page.locator(".card")).to_have_count(3)
        expect(page.locator(".card .gone")).to_have_count(1)
        expect(page.locator(".chosen")).to_contain_text("One is no longer in the collection; exports leave it out.")
        page.get_by_label("Take blue.png out").click()
        expect(page.locator(".card")).to_have_count(2)
        assert kept(site) == {"Selection": ["red.png", "red-again.png"]}
    finally:
        with wherein.open(site.folder) as collection:
            collection.add(site.folder)


def test_what_the_server_did_not_keep_does_not_look_kept(page: Page, site: Any) -> None:
    page.goto(RED)
    expect(page.locator("[data-id='red.png']")).to_be_visible()
    page.route("**/selections/**", lambda route: route.abort("connectionrefused"))
    page.locator("[data-id='red.png'] .open").focus()
    page.keyboard.press("s")
    expect(page.locator("#say")).to_have_text("The server does not answer. Is `wherein serve` running?")
    expect(page.locator("[data-id='red.png'] .keep")).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#tray")).to_be_hidden()
    page.unroute("**/selections/**")
    keep(page, "red.png")
    assert kept(site) == {"Selection": ["red.png"]}


def test_what_is_kept_can_be_tagged_on_a_phone(page: Page, site: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(RED)
    expect(page.locator("[data-id='trips/red-left.png']")).to_be_visible()
    keep(page, "trips/red-left.png")
    tag, trash = page.get_by_label("Tag all of the selection"), page.get_by_label("Forget the selection")
    for one in (tag, trash, *page.locator("#tray .exports a").all()):
        expect(one).to_be_in_viewport(ratio=1)
    tag.click()
    page.keyboard.type("phone")
    page.keyboard.press("Enter")
    expect(page.locator("#say")).to_contain_text("1 image tagged phone")
    assert api(site, "GET", "/image", params={"image_id": "trips/red-left.png"})["tags"] == ["phone"]
    api(site, "POST", "/untag", json={"tag": "phone", "image_ids": ["trips/red-left.png"]})


def labels(site: Any) -> list[str | None]:
    """The labels of what is kept."""
    return [item["label"] for one in api(site, "GET", "/selections") for item in one["items"]]


def test_what_is_kept_on_the_map_is_not_called_what_was_searched_for(page: Page, site: Any) -> None:
    page.goto(f"{RED}&view=explore&open=trips/green.png")
    expect(page.locator("#large dl")).to_contain_text("240 × 320 px")
    page.keyboard.press("s")
    expect(page.locator("#say")).to_contain_text("Kept in Selection.")
    assert labels(site) == [None]


def test_what_is_kept_in_a_review_is_called_what_is_reviewed(page: Page, site: Any) -> None:
    with wherein.open(site.folder) as collection:
        collection.tag("warm", ["red.png", "red-again.png"])
        collection.tag("cold", ["many/000.png", "trips/green.png"])
        collection.train("mood")
    page.goto(f"{RED}&view=review")
    page.get_by_role("button", name="Review warm of mood").click()
    expect(page.get_by_role("heading", name="Is this “warm”?")).to_be_visible()
    page.keyboard.press("s")
    expect(page.locator("#say")).to_contain_text("Kept in Selection.")
    assert labels(site) == ["warm"]
