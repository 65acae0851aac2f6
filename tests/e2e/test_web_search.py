"""Searching in a real browser, by mouse and by keyboard."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

TWO_PICTURES = ["red-again.png", "red.png"]
MARKED = "[data-id='trips/red-left.png']"


def address(*parts: dict[str, object], more: str = "") -> str:
    return f"/?q={quote(json.dumps(parts))}{more}"


def first(page: Page, *names: str) -> None:
    """The first hits are these, in this order, and are shown."""
    for number, name in enumerate(names):
        expect(page.locator(".hit").nth(number)).to_have_attribute("data-id", name)
        expect(page.locator(".hit").nth(number)).to_be_visible()


def test_text_from_the_keyboard_and_back(page: Page) -> None:
    page.goto("/")
    expect(page.locator(".summary")).to_contain_text("156 images")
    page.keyboard.press("/")
    page.keyboard.type("red")
    page.keyboard.press("Enter")
    first(page, *TWO_PICTURES)
    expect(page.locator(".summary")).to_contain_text("whole")
    assert "red" in page.url
    assert page.title().startswith("red")
    page.go_back()
    first(page, "blue.png")
    expect(page.locator("#words")).to_have_value("")
    page.go_forward()
    first(page, *TWO_PICTURES)


def test_a_shared_address_shows_the_same_search(page: Page) -> None:
    page.goto(address({"words": "blue"}, {"words": "green", "negative": True, "weight": 2}))
    first(page, "blue.png")
    expect(page.locator("#words")).to_have_value("blue")
    expect(page.locator(".chip.negative")).to_contain_text("green")
    expect(page.locator(".chip .weight")).to_have_value("2")


def test_chips_are_added_turned_weighed_and_removed(page: Page) -> None:
    page.goto("/")
    expect(page.locator(".summary")).to_contain_text("156 images")
    words = page.locator("#words")
    words.fill("red")
    page.locator("#plus").click()
    expect(page.locator(".chip")).to_have_count(1)
    words.fill("blue")
    words.press("Alt+Minus")
    expect(page.locator(".chip.negative")).to_contain_text("blue")
    first(page, *TWO_PICTURES)
    page.locator(".chip.negative .sign").click()
    expect(page.locator(".chip.negative")).to_have_count(0)
    page.locator(".chip .weight").nth(1).fill("3")
    page.locator(".chip .weight").nth(1).press("Enter")
    expect(page.locator(".chip .weight").nth(1)).to_have_value("3")
    assert '"weight":3' in json.dumps(page.evaluate("new URLSearchParams(location.search).get('q')")).replace("\\", "")
    page.get_by_label("Remove red").click()
    words.press("Backspace")
    expect(page.locator(".chip")).to_have_count(0)
    expect(page.locator(".summary")).to_have_text("156 images")


def test_a_picked_image_and_a_part_of_it(page: Page, tmp_path: Path, site: object, drag: Callable[..., None]) -> None:
    page.goto("/")
    expect(page.locator(".summary")).to_contain_text("156 images")
    page.locator("#file").set_input_files(site.folder / "trips" / "red-left.png")  # type: ignore[attr-defined]
    first(page, "trips/red-left.png")
    page.get_by_label("Choose the part of image that counts").click()
    expect(page.locator("#crop img")).to_have_js_property("complete", True)
    drag("#crop .boxes", (0.05, 0.1, 0.45, 0.9))
    page.get_by_text("Search with this part").click()
    first(page, *TWO_PICTURES)
    page.reload()
    first(page, *TWO_PICTURES)


@pytest.mark.parametrize("kind", ["paste", "drop"])
def test_an_image_that_is_pasted_or_dropped(page: Page, site: object, kind: str) -> None:
    page.goto("/")
    expect(page.locator(".summary")).to_contain_text("156 images")
    data = list((site.folder / "blue.png").read_bytes())  # type: ignore[attr-defined]
    page.evaluate(
        """([data, kind]) => {
          const files = new DataTransfer();
          files.items.add(new File([new Uint8Array(data)], "blue.png", { type: "image/png" }));
          const event = kind === "paste" ? new ClipboardEvent("paste", { clipboardData: files, bubbles: true })
            : new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true });
          document.body.dispatchEvent(event);
        }""",
        [data, kind],
    )
    first(page, "blue.png")
    expect(page.locator(".chip img")).to_be_visible()


def test_where_is_drawn_with_the_mouse(page: Page, drag: Callable[..., None]) -> None:
    page.goto("/")
    expect(page.locator(".summary")).to_contain_text("156 images")
    page.locator("#place").click()
    drag("#sketch .boxes", (0.02, 0.05, 0.26, 0.95))
    page.get_by_label("What is in place 1").fill("blue")
    drag("#sketch .boxes", (0.74, 0.05, 0.98, 0.95))
    page.get_by_label("What is in place 2").fill("red")
    page.locator("#sketch .solid").click()
    first(page, "trips/red-right.png")
    expect(page.locator(".chip .at")).to_have_count(2)
    expect(page.locator(".hit").first.locator(".outline")).to_be_attached()


def test_words_that_were_typed_are_asked_for_with_what_is_drawn(page: Page, drag: Callable[..., None]) -> None:
    page.goto("/")
    expect(page.locator(".summary")).to_contain_text("156 images")
    page.locator("#words").fill("blue")
    page.locator("#place").click()
    drag("#sketch .boxes", (0.02, 0.05, 0.26, 0.95))
    page.get_by_label("What is in place 1").fill("red")
    page.locator("#sketch .solid").click()
    expect(page.locator(".chip .at")).to_have_count(1)
    expect(page.locator("#words")).to_have_value("blue")
    parts = json.loads(page.evaluate("new URLSearchParams(location.search).get('q')"))
    assert [part["words"] for part in parts] == ["blue", "red"]


def test_a_chip_is_weighed_and_turned_from_the_keyboard(page: Page) -> None:
    page.goto(address({"words": "red", "chip": True}, {"words": "blue", "chip": True}))
    weight = page.get_by_label("Weight of blue")
    weight.focus()
    for reached in ("1.25", "1.5", "1.75"):
        page.keyboard.press("ArrowUp")
        expect(weight).to_have_value(reached)
        expect(weight).to_be_focused()
    for label in ("Look for blue", "Avoid blue"):
        page.get_by_label(label).press("Enter")
    expect(page.get_by_label("Look for blue")).to_be_focused()
    page.get_by_label("Remove blue").press("Enter")
    expect(page.locator("#words")).to_be_focused()


def test_a_dialog_does_not_stay_over_another_question(page: Page) -> None:
    page.goto(address({"words": "red"}))
    first(page, *TWO_PICTURES)
    page.locator("#words").fill("blue")
    page.keyboard.press("Enter")
    first(page, "blue.png")
    page.locator("#place").click()
    expect(page.locator("#sketch")).to_be_visible()
    page.go_back()
    first(page, *TWO_PICTURES)
    expect(page.locator("#sketch")).to_be_hidden()
    page.goto(address({"image_id": "blue.png"}))
    first(page, "blue.png")
    page.locator("#words").fill("red")
    page.keyboard.press("Enter")
    expect(page.locator("#words")).to_have_value("red")
    page.get_by_label("Choose the part of blue.png that counts").click()
    expect(page.locator("#crop")).to_be_visible()
    page.go_back()
    expect(page.locator("#words")).to_have_value("")
    expect(page.locator("#crop")).to_be_hidden()


def test_where_is_drawn_with_the_keyboard(page: Page) -> None:
    page.goto("/")
    expect(page.locator(".summary")).to_contain_text("156 images")
    page.locator("#place").focus()
    page.keyboard.press("Enter")
    page.locator("#sketch").get_by_text("Place a box").press("Enter")
    for _ in range(16):
        page.keyboard.press("ArrowLeft")
    for _ in range(4):
        page.keyboard.press("Shift+ArrowDown")
    page.get_by_label("What is in place 1").fill("red")
    page.keyboard.press("Enter")
    expect(page.locator(".chip .at")).to_have_count(1)
    expect(page.locator(".summary")).to_contain_text("static-36")


def test_walking_the_grid_and_the_large_view_by_keyboard(page: Page) -> None:
    page.goto(address({"words": "red"}, more="&method=static-9"))
    first(page, *TWO_PICTURES)
    page.locator(".hit .open").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    dialog = page.locator("#large")
    expect(dialog).to_be_visible()
    expect(dialog.locator("h2")).to_have_text("red.png")
    assert "open=red.png" in page.url
    page.keyboard.press("ArrowLeft")
    expect(dialog.locator("h2")).to_have_text("red-again.png")
    expect(dialog.locator("dl")).to_contain_text("330 × 240 px")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page).not_to_have_url(re.compile("open="))
    expect(page.locator("[data-id='red-again.png'] .open")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".hit .open:focus")).to_have_count(1)
    page.keyboard.press("o")
    expect(page.locator(".hit .outline").first).to_be_hidden()
    page.keyboard.press("o")
    expect(page.locator(".hit .outline").first).to_be_visible()


def test_a_box_on_a_hit_searches_for_that(page: Page, drag: Callable[..., None]) -> None:
    page.goto(address({"words": "blue"}, more="&open=trips/red-left.png"))
    expect(page.locator("#large .facts h2")).to_have_text("red-left.png")
    expect(page.locator("#large dl")).to_contain_text("320 × 240")
    drag("#large .boxes", (0.05, 0.1, 0.4, 0.9))
    page.get_by_text("Search for this").click()
    first(page, *TWO_PICTURES)
    page.go_back()
    first(page, "blue.png")


def test_marks_refine_at_once(page: Page) -> None:
    page.goto(address({"words": "red"}))
    first(page, *TWO_PICTURES)
    expect(page.locator(MARKED)).to_be_visible()
    page.locator(f"{MARKED} .open").focus()
    page.keyboard.press("y")
    expect(page.locator(f"{MARKED} .yes")).to_have_attribute("aria-pressed", "true")
    first(page, *TWO_PICTURES, "trips/red-left.png")
    assert "liked=" in page.url
    page.locator("[data-id='red.png']").hover()
    page.locator("[data-id='red.png'] .no").click()
    expect(page.locator("[data-id='red.png'] .no")).to_have_attribute("aria-pressed", "true")
    page.get_by_text("forget them").click()
    expect(page.locator("[data-id='red.png'] .no")).to_have_attribute("aria-pressed", "false")
    first(page, *TWO_PICTURES)


def test_three_right_and_one_wrong_are_learned_from_until_one_is_taken_back(page: Page) -> None:
    right = "".join(f"&liked={name}" for name in ("red.png", "trips/red-left.png", "trips/red-right.png"))
    page.goto(address({"words": "red"}, more=f"{right}&disliked=blue.png"))
    note = page.locator(".summary .note", has_text="learned what is meant from 3 right images (✓) and 1 wrong one (✗)")
    expect(note).to_be_visible()
    page.locator("[data-id='red.png']").hover()
    page.locator("[data-id='red.png'] .yes").click()
    expect(page.locator("[data-id='red.png'] .yes")).to_have_attribute("aria-pressed", "false")
    expect(note).to_have_count(0)


def test_filters_and_no_match(page: Page) -> None:
    page.goto(address({"words": "red"}))
    page.get_by_text("Filters").click()
    page.get_by_label("Folder").fill("trips")
    page.get_by_label("Folder").press("Enter")
    expect(page.locator(".summary")).to_contain_text("3 images")
    page.get_by_label("Size").select_option("640")
    expect(page.locator(".summary")).to_contain_text("1 image ")
    first(page, "trips/red-right.png")
    page.get_by_label("Until").fill("1999-01-01")
    expect(page.locator(".none h2")).to_have_text("No match")
    page.go_back()
    first(page, "trips/red-right.png")


@pytest.mark.parametrize("enter", [True, False])
def test_a_day_is_typed_digit_by_digit(page: Page, *, enter: bool) -> None:
    page.goto("/")
    page.get_by_text("Filters").click()
    until = page.get_by_label("Until")
    until.focus()
    page.keyboard.type("12311999")
    expect(until).to_be_focused()
    if enter:
        page.keyboard.press("Enter")
    else:
        page.locator("#words").focus()
    expect(page.locator(".none h2")).to_have_text("No match")
    expect(until).to_have_value("1999-12-31")
    assert "before=1999-12-31" in page.url


@pytest.mark.parametrize("where", ["/?folder=red*", address({"words": "red"})], ids=["while browsing", "in a search"])
def test_look_alikes_are_grouped(page: Page, where: str) -> None:
    page.goto(where)
    expect(page.locator("[data-id='red.png']")).to_be_attached()
    page.get_by_text("Group look-alikes").click()
    expect(page.locator("[data-id='red-again.png'] .stack")).to_have_text("+1")
    expect(page.locator("[data-id='red.png']")).to_have_count(0)
    page.locator("[data-id='red-again.png'] .stack").click()
    expect(page.locator("[data-id='red.png'] .open")).to_be_focused()


def test_an_error_is_shown_as_the_server_says_it(page: Page) -> None:
    page.goto(address({"words": "red"}, more="&method=nothing"))
    expect(page.locator(".problem")).to_contain_text("nothing is called 'nothing'")


def test_nothing_moves_after_it_is_drawn(page: Page) -> None:
    page.add_init_script(
        "window.shift = 0; new PerformanceObserver((list) => { for (const entry of list.getEntries()) "
        "if (!entry.hadRecentInput) window.shift += entry.value; }).observe({type: 'layout-shift', buffered: true});"
    )
    page.goto(address({"words": "red"}))
    first(page, *TWO_PICTURES)
    page.wait_for_load_state("networkidle")
    assert page.evaluate("window.shift") < 0.02


def test_outlines_are_smooth_and_no_cell_of_a_grid_is_drawn_as_one(page: Page) -> None:
    page.goto("/")
    drawn = page.evaluate(
        """async () => {
          const { loops, outline } = await import("/web/outline.js");
          const counts = [];
          let [run, now] = [0, 0];
          for (let place = 0; place < 1600; place += 1) {
            const value = Math.hypot(Math.floor(place / 40) - 20, place % 40 - 20) < 15 ? 1 : 0;
            if (value !== now) { counts.push(run); run = 0; now = value; }
            run += 1;
          }
          const disc = { size: [40, 40], counts: [...counts, run] };
          const path = outline({ mask: disc }).querySelector("path");
          const away = [];
          for (let at = 0; at < path.getTotalLength(); at += 1) {
            const { x, y } = path.getPointAtLength(at);
            away.push(Math.hypot(x - 20.5, y - 20.5));
          }
          return { loops: loops(disc).length, away, cell: outline({ mask: null, box: [0, 0, 0.5, 0.5] }) };
        }"""
    )
    assert (drawn["loops"], drawn["cell"]) == (1, None)
    assert max(drawn["away"]) - min(drawn["away"]) < 0.6  # along the stairs it is 1.2
