"""The review of labels in a real browser: by keyboard, with undo, trained again with one key; labels are offered."""

from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

import wherein


@pytest.fixture(scope="module")
def mood(site: Any) -> str:
    """A head that calls red pictures warm and blue ones cold, trained over HTTP; its routes."""
    with wherein.open(site.folder) as collection:
        collection.tag("warm", ["red.png", "red-again.png"])
        collection.tag("cold", ["blue.png", "trips/green.png"])
        collection.train("mood")
    return f"{site.url}api/v1/collections/pictures"


def tagged(mood: str) -> int:
    count: int = httpx.get(f"{mood}/tags", trust_env=False).json()["warm"]
    return count


def test_a_label_is_reviewed_by_keyboard_and_trained_again(page: Page, mood: str) -> None:
    page.goto("/?view=review")
    expect(page.locator("caption")).to_have_text("toy:mood, from tags")
    page.get_by_role("button", name="Review warm of mood").click()
    expect(page.get_by_role("heading", name="Is this “warm”?")).to_be_visible()
    first = page.locator(".panel .name").get_attribute("title")
    page.keyboard.press("y")
    expect(page.locator(".panel")).to_contain_text("1 answer")
    assert page.locator(".panel .name").get_attribute("title") != first
    assert tagged(mood) == 3
    page.keyboard.press("u")
    expect(page.locator(".panel")).to_contain_text("0 answers")
    assert page.locator(".panel .name").get_attribute("title") == first
    assert tagged(mood) == 2
    for number, key in enumerate(["y", "n", "n"], 1):
        page.keyboard.press(key)
        expect(page.locator(".panel")).to_contain_text(f"{number} answer")
    second = page.locator(".panel .name").get_attribute("title") or ""
    page.keyboard.press("ArrowRight")
    expect(page.locator(f".panel .name[title='{second}']")).to_have_count(0)
    page.keyboard.press("t")
    expect(page.locator("#say")).to_contain_text("mood is trained: 2 labels from 7 images")
    expect(page.get_by_role("heading", name="Is this “warm”?")).to_be_visible()


def test_labels_are_offered_while_typing_and_need_no_method(page: Page, mood: str) -> None:
    assert mood
    page.goto("/")
    expect(page.locator("#labels option")).to_have_count(2)
    assert [one.get_attribute("value") for one in page.locator("#labels option").all()] == ["label:cold", "label:warm"]
    page.get_by_label("What to look for").fill("label:warm")
    page.keyboard.press("Enter")
    expect(page.locator("[data-id='red.png']")).to_be_visible()


def test_a_head_is_trained_from_the_page(page: Page, mood: str) -> None:
    assert mood
    page.goto("/?view=review")
    page.get_by_label("Name of what is trained").fill("from-page")
    page.get_by_role("button", name="Train from the tags").click()
    expect(page.locator("caption", has_text="toy:from-page")).to_be_visible()
    page.get_by_role("button", name="Search for cold by from-page").click()
    expect(page.locator("[data-id='blue.png']")).to_be_visible()
