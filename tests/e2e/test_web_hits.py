"""Hits that are folded, filtered, missing or not answered, in a real browser."""

import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

import wherein

RED = '/?q=[{"words":"red"}]'
SILENT = "The server does not answer. Is `wherein serve` running?"


@pytest.fixture(autouse=True)
def _nothing_kept(site: Any) -> Iterator[None]:
    yield
    httpx.delete(f"{site.url}api/v1/collections/pictures/selections/Selection", trust_env=False, verify=False)


def title(page: Page, name: str) -> None:
    expect(page.locator("#large h2")).to_have_text(name)


def test_keys_act_on_the_look_alike_they_are_pressed_on(page: Page) -> None:
    page.goto(f"{RED}&group=1")
    leader, like = page.locator("[data-id='red-again.png']"), page.locator("[data-id='red.png']")
    expect(leader.locator(".stack")).to_have_text("+1")
    leader.locator(".open").focus()
    page.keyboard.press("s")
    expect(leader.locator(".keep")).to_have_attribute("aria-pressed", "true")
    leader.locator(".stack").click()
    expect(like.locator(".open")).to_be_focused()
    page.keyboard.press("s")
    expect(like.locator(".keep")).to_have_attribute("aria-pressed", "true")
    expect(leader.locator(".keep")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#tray")).to_contain_text("2 images")
    page.keyboard.press("Enter")
    title(page, "red.png")
    expect(page.locator("#large dl")).to_contain_text("Raw score")
    page.keyboard.press("ArrowLeft")
    title(page, "red-again.png")
    third = page.locator(".hit").nth(2).get_attribute("data-id") or ""
    for name in ("red.png", third):
        page.keyboard.press("ArrowRight")
        title(page, name.rpartition("/")[2])
    page.keyboard.press("Escape")
    expect(page.locator(f"[data-id='{third}'] .open")).to_be_focused()  # closed, and the focus given back
    like.locator(".open").focus()
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile("disliked=red.png"))


def test_a_folded_look_alike_is_opened_with_its_score_and_gone_on_from(page: Page) -> None:
    page.goto(f"{RED}&group=1&open=red.png")
    title(page, "red.png")
    expect(page.locator("#large dl")).to_contain_text("Raw score")
    second = page.locator(".hit").nth(1).get_attribute("data-id") or ""
    page.keyboard.press("ArrowRight")
    title(page, second.rpartition("/")[2])


def test_the_same_search_can_be_asked_again_when_the_server_is_back(page: Page) -> None:
    page.goto("/")
    expect(page.locator(".summary")).to_contain_text("156 images")
    page.route("**/search/stream", lambda route: route.abort("connectionrefused"))
    page.locator("#words").fill("red")
    page.keyboard.press("Enter")
    expect(page.locator(".problem")).to_contain_text(SILENT)
    page.keyboard.press("Enter")
    expect(page.locator(".problem")).to_contain_text(SILENT)
    page.unroute("**/search/stream")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".hit").first).to_have_attribute("data-id", "red-again.png")
    expect(page.locator(".problem")).to_have_count(0)


def test_enter_asks_a_failed_search_again(page: Page) -> None:
    page.route("**/search/stream", lambda route: route.abort("connectionrefused"))
    page.goto(RED)
    expect(page.locator(".problem")).to_contain_text(SILENT)
    page.unroute("**/search/stream")
    page.locator("#words").press("Enter")
    expect(page.locator(".hit").first).to_have_attribute("data-id", "red-again.png")


@pytest.mark.parametrize("missing", ["**/web/curate.js", "**/api/v1/collections"])
def test_a_view_that_did_not_come_can_be_tried_again(page: Page, missing: str) -> None:
    page.route(missing, lambda route: route.abort("connectionrefused"))
    page.goto("/?view=curate")
    expect(page.locator(".problem")).to_contain_text(SILENT)
    page.unroute(missing)
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".curate")).to_contain_text("Nothing kept yet")


def test_until_takes_in_the_day_it_names(page: Page, site: Any) -> None:
    day = date.fromtimestamp((site.folder / "blue.png").stat().st_mtime)
    for address in ("/?", f"{RED}&"):
        page.goto(f"{address}after={day}&before={day}")
        expect(page.locator("[data-id='blue.png']")).to_be_attached()
    page.goto(f"/?before={day - timedelta(days=1)}")
    expect(page.locator(".none h2")).to_have_text("No match")


def test_a_new_tag_is_offered_at_once(page: Page) -> None:
    page.goto(RED)
    page.get_by_text("Filters").click()
    page.locator("[data-id='red.png'] .open").click()
    page.get_by_label("Add a tag").fill("warm")
    page.keyboard.press("Enter")
    expect(page.locator("#large .tags .chip")).to_contain_text("warm")
    page.keyboard.press("Escape")
    expect(page.locator("#large")).to_be_hidden()
    page.get_by_label("Tag", exact=True).select_option("warm")
    expect(page.locator(".hit")).to_have_count(1)
    page.locator(".hit .open").click()
    page.get_by_label("Take off warm").click()
    page.keyboard.press("Escape")
    expect(page.locator("#large")).to_be_hidden()
    tag = page.get_by_label("Tag", exact=True)
    expect(tag.locator("option:checked")).to_have_text("warm (0)")  # nobody has it, and it is still filtered by
    tag.select_option("any")
    expect(page).not_to_have_url(re.compile("tag="))
    expect(page.locator(".filters option[value=warm]")).to_have_count(0)


def test_more_like_an_open_image_shows_what_is_found_and_not_the_image(page: Page) -> None:
    page.goto(f"{RED}&open=blue.png")
    title(page, "blue.png")
    page.locator("#large").get_by_role("button", name="More like this", exact=True).click()
    expect(page.locator(".hit").first).to_have_attribute("data-id", "blue.png")
    expect(page.locator("#large")).to_be_hidden()


def test_an_empty_collection_leads_to_indexing(
    page: Page, tmp_path: Path, serve: Callable[..., str], collection: wherein.Collection
) -> None:
    page.goto(serve(collection.folder))
    expect(page.locator(".none h2")).to_have_text("Nothing is indexed yet")
    page.get_by_role("button", name="Index a folder").click()
    expect(page.locator(".chooser")).to_be_visible()


def test_the_current_view_is_named_and_in_sight_on_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 700})
    page.goto("/?view=index")
    here = page.locator("#views [aria-current]")
    expect(here).to_have_attribute("aria-current", "page")
    expect(here).to_have_text("Index")
    expect(here).to_be_in_viewport(ratio=1)


def test_what_cannot_be_pressed_looks_so(page: Page) -> None:
    page.goto("/?view=annotate")
    page.get_by_label("Your name").fill("ada")
    page.get_by_text("Begin").click()
    finish, skip = page.get_by_role("button", name="Finish"), page.get_by_text("Nothing here: skip")
    expect(finish).to_be_disabled()
    looks = "button => [getComputedStyle(button).color, getComputedStyle(button).cursor]"
    assert finish.evaluate(looks) != skip.evaluate(looks)
    assert finish.evaluate(looks)[1] == "not-allowed"
