"""An image that is opened is one step, one that is closed is none, in a real browser: Back, Forward, Esc, reload."""

import pytest
from playwright.sync_api import Page, expect

RED = '/?q=[{"words":"red"}]'
STEP = "navigation.currentEntry.index"  # how many steps of this tab lie below the page


@pytest.fixture
def step(page: Page) -> int:
    """The step of a search for red, which was asked for after all images were browsed."""
    page.goto("/")
    expect(page.locator(".summary")).to_contain_text("156 images")
    page.locator("#words").fill("red")
    page.keyboard.press("Enter")
    searched(page, "red-again.png")
    return int(page.evaluate(STEP))


def searched(page: Page, best: str) -> None:
    """No image is open over a search."""
    expect(page.locator(".hit").first).to_have_attribute("data-id", best)
    expect(page.locator("#large")).to_be_hidden()
    assert "open=" not in page.url


def browsed(page: Page) -> None:
    """Back leads to where one was before the search."""
    page.go_back()
    expect(page.locator("#words")).to_have_value("")
    expect(page.locator("#large")).to_be_hidden()
    assert "q=" not in page.url


def opened(page: Page, image_id: str) -> None:
    page.locator(f"[data-id='{image_id}'] .open").click()
    title(page, image_id)


def title(page: Page, name: str) -> None:
    expect(page.locator("#large h2")).to_have_text(name)


def close(page: Page, way: str) -> None:
    if way == "Esc":
        page.keyboard.press("Escape")
    else:
        page.get_by_label("Close (Esc)").click()


@pytest.mark.parametrize("way", ["Esc", "the button"])
def test_images_that_were_closed_leave_no_step_that_does_nothing(page: Page, step: int, way: str) -> None:
    for name in ("red.png", "blue.png", "red-again.png"):
        opened(page, name)
        assert page.evaluate(STEP) == step + 1
        close(page, way)
        searched(page, "red-again.png")
        expect(page.locator(f"[data-id='{name}'] .open")).to_be_focused()
        assert page.evaluate(STEP) == step
    browsed(page)


def test_back_closes_an_image_and_forward_opens_it_again(page: Page, step: int) -> None:
    opened(page, "red.png")
    page.go_back()
    searched(page, "red-again.png")
    page.go_forward()
    title(page, "red.png")
    close(page, "Esc")
    searched(page, "red-again.png")
    assert page.evaluate(STEP) == step
    browsed(page)


@pytest.mark.parametrize("way", ["Esc", "the button"])
def test_an_image_that_is_loaded_again_is_closed_as_one_step(page: Page, step: int, way: str) -> None:
    opened(page, "red.png")
    page.reload()
    title(page, "red.png")
    close(page, way)
    page.wait_for_function(f"{STEP} === {step}")
    searched(page, "red-again.png")
    browsed(page)


def test_going_on_to_the_next_image_is_no_step(page: Page, step: int) -> None:
    opened(page, "red-again.png")
    page.keyboard.press("ArrowRight")
    title(page, "red.png")
    close(page, "Esc")
    searched(page, "red-again.png")
    expect(page.locator("[data-id='red.png'] .open")).to_be_focused()
    assert page.evaluate(STEP) == step
    browsed(page)


def test_back_from_more_like_this_leads_to_the_image_and_then_to_its_search(page: Page, step: int) -> None:
    opened(page, "blue.png")
    page.locator("#large").get_by_role("button", name="More like this", exact=True).click()
    searched(page, "blue.png")
    page.go_back()
    title(page, "blue.png")
    close(page, "the button")
    searched(page, "red-again.png")
    assert page.evaluate(STEP) == step
    browsed(page)


def test_closing_twice_goes_back_once(page: Page, step: int) -> None:
    opened(page, "red.png")
    page.get_by_label("Close (Esc)").evaluate("button => { button.click(); button.click(); }")
    page.wait_for_function(f"{STEP} === {step}")
    searched(page, "red-again.png")
    browsed(page)


def test_a_mark_stays_when_its_image_is_closed(page: Page, step: int) -> None:
    opened(page, "red.png")
    page.keyboard.press("y")
    expect(page.locator("#say")).to_contain_text("counts as right")
    close(page, "Esc")
    expect(page.locator("#large")).to_be_hidden()
    assert "liked=red.png" in page.url
    assert "open=" not in page.url
    assert page.evaluate(STEP) == step + 2


def test_an_image_that_an_address_names_is_closed_without_leaving_the_page(page: Page) -> None:
    page.goto(f"{RED}&open=red.png")
    title(page, "red.png")
    step = page.evaluate(STEP)
    close(page, "Esc")
    searched(page, "red-again.png")
    assert page.evaluate(STEP) == step


def test_going_back_to_another_search_closes_the_image_that_is_open(page: Page, step: int) -> None:
    page.locator("#words").fill("blue")
    page.keyboard.press("Enter")
    searched(page, "blue.png")
    opened(page, "blue.png")
    page.evaluate("history.go(-2)")
    searched(page, "red-again.png")
    assert page.evaluate(STEP) == step
