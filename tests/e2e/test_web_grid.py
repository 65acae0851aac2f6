"""A long list of hits in a real browser: what is drawn of it, how it is walked, marked, left and come back to."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

import wherein

RED = '/?q=[{"words":"red"}]'
MARKED = "[data-id='trips/red-left.png']"
AT_END = "scrollY + innerHeight >= document.documentElement.scrollHeight - 1"
TOP_TILE = """() => [...document.querySelectorAll('.hit')]
  .map((hit) => [hit.getBoundingClientRect().top, hit.dataset.id])
  .filter(([top]) => top > 120).sort((a, b) => a[0] - b[0])[0]"""


def ranked(site: Any, words: str, k: int = 156) -> list[str]:
    """The image_ids of a search, best first, as the server answers."""
    where = f"{site.url}api/v1/collections/pictures/search"
    answer = httpx.post(where, json={"parts": [{"words": words}], "k": k}, trust_env=False, verify=False, timeout=60)
    return [hit["image_id"] for hit in answer.json()["hits"]]


def title(page: Page, image_id: str) -> None:
    expect(page.locator("#large h2")).to_have_text(image_id.rpartition("/")[2])


def test_twenty_thousand_hits_keep_the_page_small(page: Page) -> None:
    page.goto("/")
    page.locator(".hit").first.wait_for()
    seen = page.evaluate(
        """async () => {
          HTMLImageElement.prototype.setAttribute = () => {};  // there are no such pictures to load
          const { Grid } = await import("/web/grid.js");
          const grid = new Grid("pictures", { open: () => {} });
          document.getElementById("view").replaceChildren(grid.element);
          const named = (n) => ({ image_id: `${n}.png`, size_wh: [200 + n % 170, 150] });
          const hits = Array.from({ length: 20000 }, (_, n) => named(n));
          for (let n = 0; n < 20000; n += 1000) grid.add(hits.slice(n, n + 1000), { more: n < 19000 });
          const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
          const inSight = (tile) => {
            const { top, bottom } = tile.getBoundingClientRect();
            return bottom > 0 && top < innerHeight;
          };
          const height = document.documentElement.scrollHeight;
          const found = { tiles: 0, nodes: 0, empty: 0, height, last: "" };
          for (let step = 0; step <= 40; step += 1) {
            scrollTo(0, step * height / 40);
            await frame();
            const tiles = [...grid.element.querySelectorAll(".hit")];
            found.tiles = Math.max(found.tiles, tiles.length);
            found.nodes = Math.max(found.nodes, document.querySelectorAll("*").length);
            found.empty += tiles.some(inSight) ? 0 : 1;
            found.last = tiles.at(-1).dataset.id;
          }
          return found;
        }"""
    )
    assert seen["tiles"] < 300
    assert seen["nodes"] < 3000
    assert (seen["empty"], seen["last"]) == (0, "19999.png")
    assert seen["height"] > 400_000


@pytest.mark.parametrize("at_once", [1, 7, 30])
def test_rows_are_full_and_stay_where_they_are_however_hits_come_in(page: Page, at_once: int) -> None:
    page.goto("/docs")
    left = page.evaluate(
        """async (atOnce) => {
          const { justify } = await import("/web/layout.js");
          const ratios = Array.from({ length: 60 }, (_, n) => 0.4 + (n * 37 % 100) / 40);
          const how = { width: 1200, row: 200, gap: 10, below: 20 };
          const whole = justify(ratios, how);
          let moved = 0;
          for (let to = atOnce; to < 60; to += atOnce) {
            const some = justify(ratios.slice(0, to), { ...how, open: true });
            moved += some.filter((row, number) => JSON.stringify(row) !== JSON.stringify(whole[number])).length;
          }
          const widths = whole.slice(0, -1).map((row) => row.lefts.at(-1) + ratios[row.to - 1] * row.height);
          return { moved, wrong: widths.filter((width) => Math.abs(width - 1200) > 0.01).length, tiles: whole.at(-1).to,
            low: Math.min(...whole.slice(0, -1).map((row) => row.height)) };
        }""",
        at_once,
    )
    assert left["low"] >= 200
    assert (left["moved"], left["wrong"], left["tiles"]) == (0, 0, 60)


def test_scrolling_reaches_the_last_image(page: Page, site: Any) -> None:
    page.goto(RED)
    page.locator(".hit").first.wait_for()
    seen = set[str]()
    for _ in range(60):
        seen.update(page.locator(".hit").evaluate_all("hits => hits.map(hit => hit.dataset.id)"))
        page.mouse.wheel(0, 700)
        page.wait_for_timeout(50)
        if page.locator(".more p").is_visible() and page.evaluate(AT_END):
            break
    expect(page.locator(".more")).to_contain_text("156 images, that is all.")
    seen.update(page.locator(".hit").evaluate_all("hits => hits.map(hit => hit.dataset.id)"))
    assert seen == set(ranked(site, "red"))
    page.locator(".hit .open").first.focus()
    page.keyboard.press("End")
    expect(page.locator(".hit .open:focus")).to_be_in_viewport(ratio=1)
    last = page.locator(".hit").last.get_attribute("data-id")
    expect(page.locator(f"[data-id='{last}'] .open")).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Home")
    expect(page.locator(f"[data-id='{ranked(site, 'red', 1)[0]}'] .open")).to_be_focused()
    expect(page.locator(".hit .open:focus")).to_be_in_viewport(ratio=1)


def test_the_large_view_goes_on_beyond_the_first_page(page: Page, site: Any) -> None:
    ids = ranked(site, "red")
    page.goto(f"{RED}&open={ids[58]}")
    title(page, ids[58])
    expect(page.locator("#large dl")).to_contain_text("Raw score")
    for number in (59, 60, 61):
        page.keyboard.press("ArrowRight")
        title(page, ids[number])
    page.keyboard.press("ArrowLeft")
    title(page, ids[60])
    page.goto(f"{RED}&folder=trips&open={ranked(site, 'green')[0]}")
    expect(page.locator("#large dl")).to_contain_text("Raw score")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#say")).to_have_text("That was the last one.")


def test_hits_are_marked_and_kept_in_the_large_view(page: Page, site: Any) -> None:
    page.goto(f"{RED}&open=trips/red-left.png")
    dialog = page.locator("#large")
    expect(dialog.locator("dl")).to_contain_text("Raw score")
    right, wrong, keep = (dialog.get_by_role("button", name=name, exact=True) for name in ("Right", "Wrong", "Keep"))
    page.keyboard.press("y")
    expect(page).to_have_url(re.compile("liked=trips"))
    expect(right).to_have_attribute("aria-pressed", "true")
    title(page, "red-left.png")
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile("disliked=trips"))
    expect(right).to_have_attribute("aria-pressed", "false")
    expect(wrong).to_have_attribute("aria-pressed", "true")
    wrong.click()
    expect(page).not_to_have_url(re.compile("liked="))
    expect(wrong).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("s")
    expect(keep).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#say")).to_have_text("Kept in Selection.")
    keep.click()
    expect(keep).to_have_attribute("aria-pressed", "false")
    page.goto("/?open=red.png")
    expect(dialog.locator("dl")).to_contain_text("320 × 240")
    expect(right).to_have_count(0)  # nothing was asked for, so nothing is right


@pytest.mark.parametrize("address", ["/", RED])
def test_back_leads_to_where_one_was(page: Page, address: str) -> None:
    page.goto(address)
    page.locator(".hit").first.wait_for()
    for _ in range(12):
        page.mouse.wheel(0, 400)
        page.wait_for_timeout(60)
    page.wait_for_function("scrollY > 2500")
    page.wait_for_timeout(300)
    y, (_, top) = page.evaluate("scrollY"), page.evaluate(TOP_TILE)
    page.get_by_role("link", name="Curate").click()
    expect(page.locator(".curate")).to_be_visible()
    page.go_back()
    expect(page.locator(f"[data-id='{top}']")).to_be_in_viewport()
    assert (page.evaluate("scrollY"), page.evaluate(TOP_TILE)[1]) == (y, top)
    page.locator("#words").fill("blue")
    page.keyboard.press("Enter")
    expect(page.locator(".hit").first).to_have_attribute("data-id", "blue.png")
    assert page.evaluate("scrollY") == 0
    page.go_back()
    expect(page.locator(f"[data-id='{top}']")).to_be_in_viewport()
    page.reload()
    expect(page.locator(f"[data-id='{top}']")).to_be_in_viewport()
    assert page.evaluate("scrollY") == y


def test_the_page_does_not_follow_an_image_that_was_disliked(page: Page, site: Any) -> None:
    page.goto(RED)
    first = page.locator(".hit .open").first
    first.focus()
    page.keyboard.press("n")
    disliked = ranked(site, "red", 1)[0]
    expect(page.locator("#say")).to_contain_text(f"{disliked} counts as wrong")
    assert page.evaluate("scrollY") == 0
    expect(page.locator(".hit .open:focus")).to_be_in_viewport(ratio=1)


def test_a_mark_says_what_it_changed_and_is_taken_back(page: Page) -> None:
    page.goto(RED)
    page.locator(f"{MARKED} .open").focus()
    before = page.locator(".hit").evaluate_all("hits => hits.slice(0, 12).map(hit => hit.dataset.id)")
    page.keyboard.press("y")
    expect(page.locator("#say")).to_have_text(re.compile(r"^red-left.png counts as right: .*the first 12 .*Undo$"))
    expect(page.locator(f"{MARKED} .yes")).to_have_attribute("aria-pressed", "true")
    page.locator("#say").get_by_role("button", name="Undo").click()
    expect(page).not_to_have_url(re.compile("liked="))
    expect(page.locator("#say")).to_contain_text("red-left.png is no longer marked")
    expect(page.locator(f"{MARKED} .yes")).to_have_attribute("aria-pressed", "false")
    assert page.locator(".hit").evaluate_all("hits => hits.slice(0, 12).map(hit => hit.dataset.id)") == before


def test_the_message_of_a_mark_goes_with_its_question(page: Page) -> None:
    page.goto(f"{RED}&liked=blue.png")
    page.locator(f"{MARKED} .open").focus()
    page.keyboard.press("y")
    say = page.locator("#say")
    expect(say).to_contain_text("red-left.png counts as right")
    page.locator("#words").fill("blue")
    page.keyboard.press("Enter")
    expect(page.locator(".hit").first).to_have_attribute("data-id", "blue.png")
    expect(say).to_be_hidden()
    expect(page).not_to_have_url(re.compile("liked="))


def test_a_message_of_a_mark_that_comes_late_is_not_said_of_another_question(page: Page) -> None:
    held = list[Route]()
    page.route("**/calibrate", lambda route: held.append(route))
    page.goto(RED)
    page.locator(f"{MARKED} .open").focus()
    page.keyboard.press("y")
    expect(page.locator(f"{MARKED} .yes")).to_have_attribute("aria-pressed", "true")
    page.locator("#words").fill("blue")
    page.keyboard.press("Enter")
    expect(page.locator(".hit").first).to_have_attribute("data-id", "blue.png")
    page.evaluate(
        """() => {
          const line = document.getElementById("say");
          window.said = [];
          new MutationObserver(() => window.said.push(line.textContent)).observe(line, { childList: true });
        }"""
    )
    with page.expect_response("**/calibrate"):
        held[0].continue_()
    page.evaluate("fetch('/api/v1/collections').then(() => null)")  # what came before this was told of
    page.locator("#outlines").click()
    expect(page.locator("#say")).to_have_text("Outlines off.")
    assert page.evaluate("window.said") == ["Outlines off."]


def test_one_goes_on_in_place_of_a_hit_that_went_to_a_row_not_shown_yet(page: Page) -> None:
    page.goto("/")
    page.locator(".hit").first.wait_for()
    left = page.evaluate(
        """async () => {
          HTMLImageElement.prototype.setAttribute = () => {};  // there are no such pictures to load
          const { Grid } = await import("/web/grid.js");
          const grid = new Grid("pictures", { open: () => {} });
          document.getElementById("view").replaceChildren(grid.element);
          const named = (n) => ({ image_id: `${n}.png`, size_wh: [300, 200] });
          grid.add(Array.from({ length: 20 }, (_, n) => named(n)), { more: true });
          grid.resume("19.png", 2);
          return [Boolean(grid.known.get("19.png").element), document.activeElement.closest(".hit").dataset.id];
        }"""
    )
    assert left == [False, "2.png"]


def test_a_search_that_runs_is_seen_and_can_be_cancelled(page: Page) -> None:
    held = list[Route]()
    page.goto("/")
    page.locator(".hit").first.wait_for()
    page.route("**/search/stream", lambda route: held.append(route))
    page.locator("#words").fill("red")
    page.keyboard.press("Enter")
    expect(page.locator(".running")).to_contain_text("Searching…")
    expect(page.locator(".running")).to_be_in_viewport()
    with page.expect_event("requestfailed", lambda request: "search/stream" in request.url):
        page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".none h2")).to_have_text("Cancelled")
    expect(page.locator(".running")).to_have_count(0)
    page.unroute("**/search/stream")
    page.get_by_role("button", name="Search again").click()
    expect(page.locator(".hit").first).to_have_attribute("data-id", "red-again.png")
    expect(page.locator(".running")).to_have_count(0)


def test_a_slider_that_cannot_cut_says_why(page: Page) -> None:
    page.goto(f"{RED}&method=patches&sure=0.5")
    page.get_by_text("Filters").click()
    for place in (".summary .note", ".sure-at-least .why"):
        expect(page.locator(place).last).to_contain_text("hits of method patches have no confidence here")
    page.goto("/")
    expect(page.locator(".sure-at-least .why")).to_have_text("Images that are only browsed have no confidence.")
    expect(page.get_by_role("slider")).to_be_disabled()


def test_hits_of_one_clip_stand_behind_the_best_of_them(page: Page, site: Any, film: Callable[..., Path]) -> None:
    film(site.folder / "clip.mp4", ["red", "blue", "green"])
    with wherein.open(site.folder) as collection:
        collection.add(site.folder)
    for address in ("/?folder=*.mp4*", RED):
        page.goto(address)
        tile = page.locator(".hit[data-id^='clip.mp4#t=']")
        expect(tile).to_have_count(1)
    expect(tile).to_have_attribute("data-id", "clip.mp4#t=0")  # the red frame, of those of the clip the best for red
    page.goto("/?folder=*.mp4*")
    expect(tile.locator(".stack")).to_have_text("+2")
    tile.get_by_label("2 more of clip.mp4: show them").click()
    expect(tile).to_have_count(3)
    expect(page.locator("[data-id='clip.mp4#t=2'] .open")).to_be_focused()
