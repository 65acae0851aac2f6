"""Drawn boxes and what is written about them, in a real browser: they stay together, whatever is removed."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

LEFT, RIGHT = (0.05, 0.2, 0.3, 0.6), (0.6, 0.2, 0.85, 0.6)


@pytest.fixture
def annotating(page: Page) -> Page:
    """An image to describe, of whose regions nothing is drawn yet."""
    page.goto("/?view=annotate")
    page.get_by_label("Your name").fill("ada")
    page.get_by_text("Begin").click()
    page.locator(".annotate img").evaluate("image => image.decode()")
    return page


def asked(page: Page) -> list[dict[str, Any]]:
    """The parts of the search, as the address says them."""
    parts: list[dict[str, Any]] = json.loads(page.evaluate("new URLSearchParams(location.search).get('q')"))
    return parts


@pytest.mark.parametrize("key", ["Delete", "Backspace"])
def test_a_removed_region_takes_its_description_with_it(annotating: Page, drag: Callable[..., None], key: str) -> None:
    for box, name in ((LEFT, "first"), (RIGHT, "second")):
        drag(".annotate .boxes", box)
        annotating.keyboard.type(name)
        annotating.locator(".regions li:last-child textarea").fill(f"the {name} one")
    annotating.locator(".annotate .box").first.press(key)
    expect(annotating.get_by_label("Short description of region 1")).to_have_value("second")
    expect(annotating.get_by_label("Long description of region 1")).to_have_value("the second one")
    with annotating.expect_request("**/annotations") as sent:
        annotating.get_by_text("Save and go on").click()
    (region,) = json.loads(sent.value.post_data or "")["regions"]
    assert region["short"] == "second"
    assert region["box"] == pytest.approx(RIGHT, abs=0.01)


def test_a_region_too_many_costs_none_of_the_others(annotating: Page) -> None:
    for _ in range(20):
        annotating.get_by_text("Place a box").click()
    annotating.get_by_label("Short description of region 1", exact=True).fill("the first")
    annotating.get_by_text("Place a box").click()
    expect(annotating.locator("#say")).to_contain_text("There is room for 20")
    expect(annotating.locator(".annotate .box")).to_have_count(20)
    expect(annotating.get_by_label("Short description of region 1", exact=True)).to_have_value("the first")


def test_a_removed_place_takes_its_words_with_it(page: Page, drag: Callable[..., None]) -> None:
    page.goto("/")
    page.locator("#place").click()
    for box, words in ((LEFT, "blue"), (RIGHT, "red")):
        drag("#sketch .boxes", box)
        page.keyboard.type(words)  # what is typed after drawing is about what was drawn
    page.locator("#sketch .box").first.press("Delete")
    expect(page.get_by_label("What is in place 1")).to_have_value("red")
    page.locator("#sketch .solid").click()
    expect(page.locator(".chip .at")).to_have_count(1)
    (part,) = asked(page)
    assert (part["words"], part["where"]) == ("red", pytest.approx(RIGHT, abs=0.01))


def test_drawing_on_keeps_signs_weights_and_places_in_words(page: Page) -> None:
    parts: list[dict[str, Any]] = [
        {"words": "red", "where": list(RIGHT)},
        {"words": "blue", "where": list(LEFT), "negative": True, "weight": 3},
        {"words": "green", "where": "left"},
    ]
    page.goto(f"/?q={json.dumps(parts)}")
    expect(page.locator(".chip")).to_have_count(3)
    page.locator("#place").click()
    page.get_by_label("What is in place 1").fill("yellow")
    page.locator("#sketch .solid").click()
    expect(page.locator(".chip").nth(1)).to_contain_text("yellow")
    found = {part["words"]: part for part in asked(page)}
    assert found == {"yellow": {**parts[0], "words": "yellow"}, "blue": parts[1], "green": parts[2]}


def begun(page: Page, tool: str) -> str:
    """One of the drawing tools, open; the selector of its surface."""
    if tool == "canvas":
        page.goto("/")
        page.locator("#place").click()
        return "#sketch .boxes"
    if tool == "part of an example":
        page.goto('/?q=[{"image_id":"blue.png"}]')
        page.get_by_label("Choose the part of blue.png that counts").click()
        page.locator("#crop img").evaluate("image => image.decode()")
        return "#crop .boxes"
    page.goto("/?open=red.png")
    expect(page.locator("#large dl")).to_contain_text("320 × 240 px")
    page.locator("#large .stage img").evaluate("image => image.decode()")
    return "#large .boxes"


def drawn(page: Page, surface: str) -> list[float]:
    """The one box on a surface, as fractions of it."""
    style = "box => ['left', 'top', 'width', 'height'].map((side) => parseFloat(box.style[side]) / 100)"
    left, top, width, height = page.locator(f"{surface} .box").evaluate(style)
    return [left, top, left + width, top + height]


@pytest.mark.parametrize("tool", ["canvas", "part of an example", "large view"])
def test_a_box_is_resized_by_each_of_its_corners(page: Page, drag: Callable[..., None], tool: str) -> None:
    surface = begun(page, tool)
    drag(surface, (0.3, 0.3, 0.6, 0.6))
    drag(surface, (0.6, 0.6, 0.8, 0.7))  # the lower right corner, to the right
    assert drawn(page, surface) == pytest.approx([0.3, 0.3, 0.8, 0.7], abs=0.01)
    drag(surface, (0.3, 0.3, 0.2, 0.1))
    assert drawn(page, surface) == pytest.approx([0.2, 0.1, 0.8, 0.7], abs=0.01)
    drag(surface, (0.8, 0.1, 0.7, 0.2))
    drag(surface, (0.2, 0.7, 0.1, 0.9))
    assert drawn(page, surface) == pytest.approx([0.1, 0.2, 0.7, 0.9], abs=0.01)
    drag(surface, (0.7, 0.9, 0.1, 0.2))  # onto its opposite: too small to be a box, so it stays as it was
    assert drawn(page, surface) == pytest.approx([0.1, 0.2, 0.7, 0.9], abs=0.01)
    drag(surface, (0.4, 0.5, 0.5, 0.5))  # inside: moved as a whole
    assert drawn(page, surface) == pytest.approx([0.2, 0.2, 0.8, 0.9], abs=0.01)


def test_a_place_without_words_is_asked_about_and_not_dropped(page: Page, drag: Callable[..., None]) -> None:
    page.goto("/")
    page.locator("#place").click()
    page.locator("#sketch .solid").click()
    expect(page.locator("#say")).to_have_text("Draw a box first, and say what is in it.")
    drag("#sketch .boxes", LEFT)
    page.keyboard.type("blue")
    drag("#sketch .boxes", RIGHT)
    page.locator("#sketch .solid").click()
    expect(page.locator("#say")).to_have_text("Say what is in place 2, or remove it.")
    expect(page.locator("#sketch")).to_be_visible()
    expect(page.get_by_label("What is in place 2")).to_be_focused()
    page.keyboard.type("red")
    page.keyboard.press("Enter")
    expect(page.locator(".chip .at")).to_have_count(2)
    assert [part["words"] for part in asked(page)] == ["blue", "red"]
