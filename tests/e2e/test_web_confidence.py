"""How sure the page is, with the real engine: confidence, "no match", the fold, the slider, learning from marks."""

import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from wherein.encoders.toy import COLOURS

MANY = list(COLOURS)[4:]


@pytest.fixture(scope="module")
def judged(site: Any) -> Any:
    """The site, after pictures that are mostly of the colour that was asked for were judged right."""
    judgements = [
        {
            "parts": [{"text": colour}],
            "right": [f"many/{n:03}.png" for n in range(150) if {n % 7, n // 7 % 7} == {number}],
        }
        for number, colour in enumerate(MANY)
    ]
    where = f"{site.url}api/v1/collections/pictures/calibrate"
    made = httpx.post(where, json={"judgements": judgements}, trust_env=False, verify=False, timeout=60).json()
    assert made[0]["curve"] is not None
    return site


def test_hits_say_how_likely_they_are_and_unlikely_ones_are_folded_away(page: Page, judged: Any) -> None:
    page.goto('/?q=[{"words":"yellow"}]')
    expect(page.locator(".hit .sure").first).to_have_text(re.compile(r"\d+ %"))
    expect(page.locator(".more")).to_contain_text("; all others are right with less than 50 %.")
    assert page.locator(".grid").first.locator(".hit").count() < 156
    expect(page.locator(".rejected .hit").first).to_be_hidden()
    page.locator(".hit .open").first.click()
    expect(page.locator("#large dl")).to_contain_text("Confidence")


def test_no_match_is_said_plainly_and_the_best_rejected_can_be_looked_at(page: Page, judged: Any) -> None:
    page.goto('/?q=[{"words":"black"}]')
    expect(page.locator(".none h2")).to_have_text("No match")
    expect(page.locator(".none")).to_contain_text(re.compile(r"Nearest is \S+ \(0 %\)\."))
    expect(page.locator(".rejected .hit").first).to_be_hidden()
    page.locator(".rejected summary").click()
    expect(page.locator(".rejected summary")).to_have_text("60 weaker hits")
    expect(page.locator(".rejected .hit").first).to_be_visible()
    ids = page.locator(".rejected .hit").evaluate_all("hits => hits.map(hit => hit.dataset.id)")
    page.locator(".rejected .hit .open").first.click()
    for image_id in ids[:3]:
        expect(page.locator("#large h2")).to_have_text(image_id.rpartition("/")[2])
        expect(page.locator("#large dl")).to_contain_text("Confidence")
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    expect(page.locator("#large")).to_be_hidden()  # closing gives the focus back to where it was
    page.locator(".rejected .hit .open").first.focus()
    page.keyboard.press("s")
    expect(page.locator(".rejected .keep").first).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("y")
    expect(page).to_have_url(re.compile("liked="))


def test_the_slider_chooses_how_sure_to_be_and_is_part_of_the_address(page: Page, judged: Any) -> None:
    page.goto('/?q=[{"words":"black"}]')
    expect(page.locator(".none h2")).to_have_text("No match")
    page.get_by_text("Filters").click()
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    expect(page).to_have_url(re.compile(r"[&?]sure=0(&|$)"))
    expect(page.locator(".hit").first).to_be_visible()
    expect(page.locator(".none")).to_have_count(0)
    expect(slider).to_be_focused()
    page.go_back()
    expect(page.locator(".none h2")).to_have_text("No match")


@pytest.mark.parametrize("more", ["&liked=many/000.png", "&method=patches", "&method=static-9"])
def test_the_slider_cuts_also_what_has_no_confidence_of_its_own(page: Page, judged: Any, more: str) -> None:
    page.goto(f'/?q=[{{"words":"yellow"}}]{more}')
    expect(page.locator(".hit").first).to_be_visible()
    page.get_by_text("Filters").click()
    expect(page.locator(".hit .sure")).to_have_count(0)
    if "liked" not in more:
        expect(page.locator(".sure-at-least .why")).to_contain_text("Nothing is cut")
    page.goto(f'/?q=[{{"words":"yellow"}}]{more}&sure=0.5')
    expect(page.locator(".more")).to_contain_text("all others are right with less than 50 %.")
    shown = page.locator(".grid").first.locator(".hit .sure").all_inner_texts()
    assert shown
    assert all(int(one.removesuffix(" %")) >= 50 for one in shown)
    expect(page.locator(".summary .note").last).to_contain_text("how likely an image shows yellow at all")
    expect(page.locator(".sure-at-least .why")).to_have_text("")
    page.locator(".rejected summary").click()
    expect(page.locator(".rejected .hit").first).to_be_visible()


@pytest.mark.parametrize("sure", ["0.5", "0.6", "0.7"])
def test_as_many_images_are_counted_as_pass_the_slider(page: Page, judged: Any, sure: str) -> None:
    page.goto(f'/?q=[{{"words":"yellow"}}]&sure={sure}')
    expect(page.locator(".more")).to_contain_text("all others are right with less than")
    tiles = page.locator(".grid").first.locator(".hit").count()
    expect(page.locator(".more")).to_contain_text(re.compile(rf"^{tiles} images?; all others"))


def test_the_slider_cuts_by_the_percentage_that_is_shown(page: Page, judged: Any) -> None:
    page.goto("/")
    page.locator(".hit").first.wait_for()
    hits: list[dict[str, float | None]] = [{"confidence": 0.5}, {"confidence": 0.49}, {"confidence": None}, {}]
    passes = page.evaluate("async (hits) => hits.map((await import('/web/filters.js')).likely)", hits)
    assert passes == [True, False, True, True]  # what reads 50 % passes


def test_marks_teach_confidence(page: Page, judged: Any) -> None:
    before = _judged_right(judged)
    page.goto('/?q=[{"words":"pink"}]')
    expect(page.locator(".hit").first).to_be_visible()
    page.locator(".hit .open").first.focus()
    page.keyboard.press("n")
    expect(page.locator("#say")).to_contain_text("0 right and 1 wrong hits were judged: what was")
    expect(page.locator("#say")).to_contain_text(re.compile(r"At 50 %, \d+ of \d+ judged hits were right\."))
    assert _judged_right(judged) == before - 1
    page.locator("#say").get_by_role("button", name="Undo").click()
    expect(page).not_to_have_url(re.compile("disliked="))
    assert _judged_right(judged) == before


@pytest.mark.parametrize("by", ["the same key", "forget it"])
def test_taking_a_mark_back_takes_back_what_it_taught(page: Page, judged: Any, by: str) -> None:
    before = _judged_right(judged)
    page.goto('/?q=[{"words":"pink"}]')
    hit = page.locator(".hit").first
    hit.locator(".open").focus()
    image_id = hit.get_attribute("data-id")
    page.keyboard.press("n")
    expect(page.locator("#say")).to_contain_text("counts as wrong")
    assert _judged_right(judged) == before - 1
    if by == "forget it":
        page.get_by_role("button", name="forget it").click()
    else:
        page.locator(f"[data-id='{image_id}'] .open").focus()
        page.keyboard.press("n")
    expect(page.locator("#say")).to_contain_text("is no longer marked")
    expect(page).not_to_have_url(re.compile("disliked="))
    assert _judged_right(judged) == before


def test_a_mark_after_which_nothing_is_likely_says_so_and_can_be_taken_back(page: Page, judged: Any) -> None:
    page.goto('/?q=[{"words":"yellow"}]&sure=0.5')
    hits = page.locator(".grid").first.locator(".hit")
    expect(hits.first).to_be_visible()
    page.wait_for_load_state("networkidle")
    page.route("**/search/stream", lambda route: _answer(route, hits=0))
    hits.first.locator(".open").focus()
    page.keyboard.press("y")
    expect(page.locator(".none h2")).to_have_text("No match")
    expect(page.locator("#say")).to_contain_text("counts as right: no hit is likely any more.")
    page.unroute("**/search/stream")
    page.locator("#say").get_by_role("button", name="Undo").click()
    expect(hits.first).to_be_visible()
    expect(page).not_to_have_url(re.compile("liked="))


def test_a_mark_says_how_many_of_the_first_hits_are_gone(page: Page) -> None:
    page.goto('/?q=[{"words":"red"}]&method=static-9')
    first = page.locator(".hit").first
    expect(page.locator("[aria-posinset='12']")).to_be_attached()
    page.wait_for_load_state("networkidle")
    page.route("**/search/stream", lambda route: _answer(route, hits=1))
    first.locator(".open").focus()
    page.keyboard.press("y")
    expect(page.locator("#say")).to_contain_text("counts as right: 11 of the first 12 are gone.")
    page.unroute("**/search/stream")
    page.locator("#say").get_by_role("button", name="Undo").click()
    expect(page.locator("#say")).to_contain_text("is no longer marked: 11 of the first 12 are new.")


def _answer(route: Route, *, hits: int) -> None:
    """The server's answer, of which only the first hits are left."""
    answer = route.fetch()
    route.fulfill(response=answer, body="".join(answer.text().splitlines(keepends=True)[: 1 + hits]))


def test_a_panel_that_is_closed_looks_closed(page: Page, judged: Any) -> None:
    page.goto('/?q=[{"words":"yellow"}]')
    page.get_by_text("Filters").click()
    shown = "summary => getComputedStyle(summary, '::before').content"
    trust = page.get_by_text("How far to trust it")
    assert trust.evaluate(shown) == '"▸"'
    trust.click()
    assert trust.evaluate(shown) == '"▾"'


def _judged_right(site: Any) -> int:
    """How many of the hits that were judged in the collection are right."""
    where = f"{site.url}api/v1/collections/pictures/reliability"
    (found,) = httpx.get(where, trust_env=False, verify=False, timeout=60).json()
    return int(found["right"])


def test_the_page_says_how_far_to_trust_confidence_and_reads_a_cut_three_ways(page: Page, judged: Any) -> None:
    page.goto('/?q=[{"words":"yellow"}]')
    expect(page.locator(".summary .about")).to_have_text(re.compile(r"About \d+ images? match(es)? \(\d+ to \d+\)"))
    expect(page.locator(".hit .score")).to_have_count(0)
    page.get_by_text("Filters").click()
    expect(page.locator(".readings")).to_have_text(re.compile(r"\d+ hits?: \d+ % of them right, \d+\.\d wrong\."))
    page.get_by_text("How far to trust it").click()
    expect(page.locator(".trusted p").first).to_contain_text("judged hits were right.")
    assert page.locator(".reliability circle").count() > 1
