"""The labelling tool in a real browser: masks are drawn, erased, undone and saved; votes; describing from memory."""

import io
import json
import re
from typing import Any

import httpx
import numpy as np
import PIL.Image
import pytest
from playwright.sync_api import Page, Route, expect

FILLED = """canvas => {
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.filter((value, place) => place % 4 === 3 && value > 127).length / (canvas.width * canvas.height);
}"""


@pytest.fixture
def pairs(site: Any) -> None:
    """A selection of a query and two images to label."""
    where = f"{site.url}api/v1/collections/pictures"
    ids = [
        one["image_id"]
        for one in httpx.post(f"{where}/search", json={"parts": [{"words": "red"}], "k": 3}).json()["hits"]
    ]
    items = {"items": [{"image_id": image_id, "box": [0.0, 0.0, 0.5, 1.0]} for image_id in ids]}
    httpx.put(f"{where}/selections/pairs", json=items).raise_for_status()


def begin(page: Page, name: str) -> None:
    """Open the tool as somebody."""
    page.goto("/?view=label")
    page.get_by_label("Your name").fill(name)
    page.get_by_role("button", name="Begin").click()
    expect(page.locator(".labelling canvas.trace")).to_be_visible()


@pytest.mark.usefixtures("pairs")
def test_a_polygon_is_drawn_erased_undone_and_saved(page: Page) -> None:
    begin(page, "ada")
    line = page.locator(".labelling canvas.trace")
    frame = line.bounding_box()
    assert frame is not None
    for x, y in ((0.1, 0.1), (0.5, 0.1), (0.5, 0.9), (0.1, 0.9)):
        line.click(position={"x": x * frame["width"], "y": y * frame["height"]})
    line.press("Enter")
    filled = FILLED
    assert page.locator("canvas.mask").evaluate(filled) == pytest.approx(0.32, abs=0.02)
    page.get_by_role("button", name="Erase").click()
    line.click(position={"x": 0.3 * frame["width"], "y": 0.5 * frame["height"]})
    assert page.locator("canvas.mask").evaluate(filled) < 0.32
    page.get_by_role("button", name="Undo").click()
    assert page.locator("canvas.mask").evaluate(filled) == pytest.approx(0.32, abs=0.02)
    page.get_by_role("button", name="Snap to edges").click()
    expect(page.get_by_role("button", name="Snap to edges")).to_be_enabled()
    with page.expect_request("**/labels") as sent:
        page.get_by_role("button", name="Save and go on").click()
    body = json.loads(sent.value.post_data or "")
    assert sum(body["mask"]["counts"]) == body["mask"]["size"][0] * body["mask"]["size"][1]
    assert body["author"] == "ada"
    assert body["seconds"] > 0


@pytest.mark.usefixtures("pairs")
def test_the_picture_stays_while_the_pointer_is_over_it(page: Page) -> None:
    begin(page, "eve")
    page.mouse.move(0, 0)
    stage = page.locator(".labelling .fit .stage")
    away = stage.screenshot()
    page.locator(".labelling canvas.trace").hover()
    page.locator(".labelling canvas.trace").evaluate("canvas => canvas.blur()")
    over = stage.screenshot()
    pixels, others = (np.asarray(PIL.Image.open(io.BytesIO(one)).convert("RGB"), int) for one in (away, over))
    assert np.abs(pixels - others).max() <= 2
    frame, drawn = stage.bounding_box(), page.locator(".labelling canvas.trace").bounding_box()
    assert frame == drawn
    padding = "canvas => getComputedStyle(canvas).padding"
    assert page.locator(".labelling canvas.trace").evaluate(padding) == "0px", "what is drawn lies under the pointer"


@pytest.mark.usefixtures("pairs")
def test_the_outline_of_what_is_meant_lies_on_it(page: Page) -> None:
    begin(page, "fay")
    page.locator(".panel .stage img").evaluate("image => image.decode()")
    image, drawn = (page.locator(f".panel .stage {one}").bounding_box() for one in ("img", ".outline"))
    assert image == drawn


@pytest.mark.usefixtures("pairs")
def test_a_vote_is_cast_with_a_key(page: Page) -> None:
    page.goto("/?view=label")
    page.get_by_label("Your name").fill("bea")
    page.get_by_role("button", name="Vote").click()
    expect(page.get_by_text("How hard is it")).to_be_visible()
    with page.expect_request("**/votes") as sent:
        page.keyboard.press("3")
    assert json.loads(sent.value.post_data or "")["difficulty"] == "hard"


def test_an_image_is_described_from_memory(page: Page) -> None:
    page.goto("/?view=annotate")
    page.get_by_label("Your name").fill("cleo")
    page.get_by_label("Seconds to look").fill("1")
    page.get_by_label("from memory").check()
    page.get_by_role("button", name="Begin").click()
    expect(page.locator(".stage img")).to_be_visible()
    expect(page.locator(".stage.blank")).to_be_visible(timeout=15_000)
    assert page.locator(".stage img").count() == 0
    page.get_by_role("button", name="Place a box").click()
    page.get_by_label("Short description of region 1").fill("red")
    page.get_by_label("Long description of region 1").fill("something red")
    with page.expect_request("**/annotations") as sent:
        page.get_by_role("button", name="Save and go on").click()
    assert json.loads(sent.value.post_data or "")["memory_seconds"] == 1


def test_a_label_is_checked_with_a_key(page: Page, site: Any) -> None:
    where = f"{site.url}api/v1/collections/pictures"
    hit = httpx.post(f"{where}/search", json={"parts": [{"words": "red"}], "k": 1}).json()["hits"][0]["image_id"]
    items = {"items": [{"image_id": hit, "box": [0.0, 0.0, 0.5, 1.0], "label": "fire"}]}
    httpx.put(f"{where}/selections/checked", json=items).raise_for_status()
    page.goto("/?view=label")
    page.get_by_label("Your name").fill("dora")
    page.get_by_role("button", name="Check labels").click()
    expect(page.get_by_text("Is this")).to_be_visible()
    with page.expect_request("**/reviews") as sent:
        page.keyboard.press("2")
    assert json.loads(sent.value.post_data or "")["verdict"] == "wrong"


@pytest.mark.usefixtures("pairs")
def test_a_second_key_and_a_key_of_the_browser_cast_no_vote(page: Page) -> None:
    page.goto("/?view=label")
    page.get_by_label("Your name").fill("gus")
    page.get_by_role("button", name="Vote").click()
    expect(page.get_by_text("How hard is it")).to_be_visible()
    held = list[Route]()
    page.route("**/votes", lambda route: held.append(route))
    page.keyboard.press("Control+1")
    with page.expect_request("**/votes"):
        page.keyboard.press("2")
    page.keyboard.press("3")
    before = page.locator(".labelling .stage img").get_attribute("src") or ""
    held[0].continue_()
    expect(page.locator(".labelling .stage img")).not_to_have_attribute("src", before)
    assert [json.loads(route.request.post_data or "")["difficulty"] for route in held] == ["medium"]


def test_what_is_pressed_twice_is_sent_once(page: Page, site: Any) -> None:
    for number in range(4):
        items = [{"image_id": f"many/{4 * number + step:03}.png", "box": [0, 0, 1, 1]} for step in range(4)]
        where = f"{site.url}api/v1/collections/pictures"
        httpx.put(f"{where}/selections/thing {number}", json={"items": items}).raise_for_status()
    httpx.post(f"{where}/studies/twice", json={}).raise_for_status()
    held = list[Route]()
    page.route(re.compile("/participants$|/annotations$"), lambda route: held.append(route))
    page.goto("/?view=study")
    page.get_by_role("button", name="Take part").dblclick()
    page.wait_for_function("performance.now()")  # what was sent has come to the route
    assert len(held) == 1
    held.pop().continue_()
    expect(page.locator(".question")).to_be_visible()
    page.unroute(re.compile("/participants$|/annotations$"))
    page.goto("/?view=annotate")
    page.get_by_label("Your name").fill("hal")
    page.get_by_role("button", name="Begin").click()
    page.get_by_role("button", name="Place a box").click()
    page.get_by_label("Short description of region 1").fill("red")
    page.get_by_label("Long description of region 1").fill("something red")
    page.route("**/annotations", lambda route: held.append(route))
    page.get_by_role("button", name="Save and go on").dblclick()
    page.wait_for_function("performance.now()")
    assert len(held) == 1
    held[0].continue_()
    expect(page.locator("#view")).to_contain_text("1 of at least 20")


def test_a_label_is_checked_once_however_often_a_key_is_pressed(page: Page, site: Any) -> None:
    where = f"{site.url}api/v1/collections/pictures"
    items = [{"image_id": one, "box": [0.0, 0.0, 0.5, 1.0], "label": "fire"} for one in ("red.png", "red-again.png")]
    httpx.put(f"{where}/selections/checked", json={"items": items}).raise_for_status()
    page.goto("/?view=label")
    page.get_by_label("Your name").fill("ida")
    asked, sent = list[str](), list[Route]()
    page.on("request", lambda request: asked.append(request.url) if "/reviews/next" in request.url else None)
    page.get_by_role("button", name="Check labels").dblclick()
    expect(page.get_by_text("2 labels left")).to_be_visible()
    assert len(asked) == 1
    page.route("**/reviews", lambda route: sent.append(route))
    page.keyboard.press("Control+2")
    with page.expect_request("**/reviews"):
        page.keyboard.press("1")
    page.keyboard.press("2")
    sent[0].continue_()
    expect(page.get_by_text("1 label left")).to_be_visible()
    assert [json.loads(route.request.post_data or "")["verdict"] for route in sent] == ["right"]


@pytest.mark.parametrize("button", ["Begin", "Check labels", "Vote"])
def test_a_name_that_nobody_can_have_is_refused_at_once(page: Page, button: str) -> None:
    page.goto("/?view=label")
    page.get_by_label("Your name").fill("a/b")
    page.get_by_role("button", name=button).click()
    expect(page.locator("#say")).to_contain_text("“a/b” holds a slash")
