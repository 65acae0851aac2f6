"""The other views in a real browser: curating, annotating, the study, the map, reports, indexing."""

import csv
import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import PIL.Image
import pytest
from playwright.sync_api import Page, Route, expect

import wherein
from wherein.bench.subregion.dataset import load

RED = "/?q=%5B%7B%22words%22%3A%22red%22%7D%5D"


def api(site: Any, method: str, path: str, **sent: Any) -> Any:
    answer = httpx.request(
        method, f"{site.url}api/v1/collections/pictures{path}", trust_env=False, verify=False, **sent
    )
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def test_keeping_labelling_tagging_and_exporting(page: Page, site: Any) -> None:
    page.goto(RED)
    expect(page.locator("[data-id='red.png']")).to_be_visible()
    page.locator("[data-id='red.png'] .open").focus()
    page.keyboard.press("s")
    expect(page.locator("#tray")).to_contain_text("1 image")
    page.locator("[data-id='trips/red-left.png']").hover()
    page.locator("[data-id='trips/red-left.png'] .keep").click()
    expect(page.locator("#tray")).to_contain_text("2 images")
    page.get_by_label("Tag all of the selection").fill("warm")
    page.keyboard.press("Enter")
    expect(page.locator("#say")).to_contain_text("2 images tagged warm")
    page.reload()
    expect(page.locator("#tray")).to_contain_text("2 images")
    page.get_by_role("link", name="Curate").click()
    expect(page.locator(".card")).to_have_count(2)
    page.get_by_label("Label of red.png").fill("fire")
    page.get_by_label("Label of red.png").press("Tab")
    page.get_by_label("Name of the selection").fill("warm things")
    page.get_by_label("Name of the selection").press("Enter")
    expect(page.locator(".side")).to_contain_text("warm things")
    with page.expect_download() as download:
        page.locator(".chosen").get_by_label("Export as CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    assert [(row["image_id"], row["label"]) for row in rows] == [("red.png", "fire"), ("trips/red-left.png", "red")]
    page.locator(".tagline .line").click()
    expect(page.locator(".hit")).to_have_count(2)
    assert "tag=warm" in page.url
    page.locator(".hit .open").first.click()
    page.get_by_label("Take off warm").click()
    expect(page.locator("#large .tags .chip")).to_have_count(0)
    page.get_by_label("Add a tag").fill("cool")
    page.keyboard.press("Enter")
    expect(page.locator("#large .tags .chip")).to_contain_text("cool")


def test_annotating_writes_what_the_benchmark_reads(
    page: Page, site: Any, tmp_path: Path, drag: Callable[..., None]
) -> None:
    page.goto("/?view=annotate")
    page.get_by_label("Your name").fill("ada")
    page.get_by_text("Begin").click()
    skipped = page.locator(".annotate img").get_attribute("src") or ""
    page.get_by_text("Nothing here: skip").click()
    expect(page.locator(".annotate img")).not_to_have_attribute("src", skipped)
    expect(page.locator("#view")).to_contain_text("0 of at least 20")
    page.locator(".annotate img").evaluate("image => image.decode()")
    drag(".annotate .boxes", (0.05, 0.05, 0.95, 0.95))
    expect(page.locator(".regions")).to_contain_text("at most 30 %")
    page.get_by_label("Short description of region 1").fill("all")
    page.get_by_label("Long description of region 1").fill("all of it")
    page.get_by_text("Save and go on").click()
    expect(page.locator("#say")).to_contain_text("at most 30%")
    page.get_by_label("Remove region 1").click()
    page.get_by_text("Place a box").press("Enter")
    page.get_by_label("Short description of region 1").fill("a stripe")
    page.get_by_label("Long description of region 1").fill("a broad upright stripe in the middle")
    page.get_by_text("Save and go on").click()
    expect(page.locator("#view")).to_contain_text("1 of at least 20")
    expect(page.get_by_role("button", name="Finish")).to_be_disabled()
    page.get_by_role("link", name="Annotate").click()
    expect(page.get_by_role("row", name="ada")).to_contain_text("19 to go")
    page.get_by_label("Run").select_option("non-skippable")
    page.get_by_text("Begin").click()
    expect(page.get_by_text("Nothing here: skip")).to_have_count(0)
    page.goto("/?view=annotate")
    with page.expect_download() as download:
        page.get_by_text("Download all annotations").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        archive.extractall(tmp_path)
    (one,) = load(tmp_path).annotations
    assert (one.author, one.set, one.short) == ("ada", "skippable", "a stripe")
    assert one.xyxy == pytest.approx((0.4 * 682, 0.4 * 384, 0.6 * 682, 0.6 * 384))


def test_an_author_finishes_with_twenty_regions(page: Page, site: Any) -> None:
    region = {"short": "a stripe", "long": "a broad upright stripe"}
    for number in range(4):
        regions = [{**region, "box": [0.2 * step, 0, 0.2 * step + 0.2, 1]} for step in range(5 if number < 3 else 4)]
        sent = {"author": "grace", "set": "skippable", "image_id": f"many/{number:03}.png", "regions": regions}
        api(site, "POST", "/annotations", json=sent)
    page.goto("/?view=annotate")
    page.get_by_label("Your name").fill("grace")
    page.get_by_label("Run").select_option("non-skippable")
    page.get_by_text("Begin").click()
    expect(page.locator("#view")).to_contain_text("19 of at least 20 · every image counts")
    finish = page.get_by_role("button", name="Finish")
    expect(finish).to_be_disabled()
    page.get_by_text("Place a box").press("Enter")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".annotate .box")).to_be_focused()  # also while it moves
    page.get_by_label("Short description of region 1").fill("the middle")
    page.get_by_label("Long description of region 1").fill("what is in the middle")
    page.get_by_text("Save and go on").click()
    expect(page.locator("#view")).to_contain_text("20 of at least 20")
    finish.click()
    expect(page.locator(".none")).to_contain_text("20 regions described.")
    page.get_by_text("To the start").click()
    expect(page.get_by_role("row", name="grace")).to_contain_text("enough")


def test_a_late_answer_does_not_draw_over_the_next_view(page: Page) -> None:
    late = list[Route]()
    page.goto(RED)
    page.locator(".hit").first.wait_for()
    page.route("**/studies", lambda route: late.append(route))
    page.get_by_role("link", name="Study").click()
    expect(page.locator(".hit")).to_have_count(0)
    page.locator("#words").fill("not asked yet")
    page.get_by_role("link", name="Search").click()
    page.locator(".hit").first.wait_for()
    with page.expect_response("**/studies"):
        late[0].continue_()
    expect(page.locator(".hit").first).to_be_visible()
    expect(page.locator(".studies")).to_have_count(0)
    expect(page.locator("#words")).to_have_value("not asked yet")


def test_a_view_asked_for_while_the_server_starts_is_shown_when_it_answers(page: Page) -> None:
    late = list[Route]()
    page.route("**/api/v1/collections", lambda route: late.append(route))
    with page.expect_request("**/api/v1/collections"):
        page.goto("/")
    page.get_by_role("link", name="Curate").click()
    expect(page).to_have_url(re.compile("view=curate"))
    expect(page.locator("#view")).to_have_text("")
    late[0].continue_()
    expect(page.locator(".curate")).to_be_visible()


def test_what_is_known_late_does_not_draw_a_view_that_was_left(page: Page) -> None:
    late = list[Route]()
    page.route("**/selections", lambda route: late.append(route) if not late else route.continue_())
    with page.expect_request("**/selections"):
        page.goto("/")
    page.get_by_role("link", name="Explore").click()
    expect(page.locator(".map")).to_be_visible()
    with page.expect_response("**/selections"):
        late[0].continue_()
    page.wait_for_load_state("networkidle")
    expect(page.locator(".map")).to_be_visible()
    expect(page.locator(".grid")).to_have_count(0)


def test_the_study_from_its_making_to_its_results(page: Page, site: Any) -> None:
    for number in range(4):
        ids = [f"many/{4 * number + step:03}.png" for step in range(4)]
        items = [{"image_id": image_id, "box": [0.1, 0.1, 0.5, 0.5]} for image_id in ids]
        api(site, "PUT", f"/selections/thing {number}", json={"items": items})
    page.goto("/?view=study")
    page.get_by_label("Name of a new study").fill("outlines")
    page.get_by_text("Make it from the selections").click()
    expect(page.locator(".studies")).to_contain_text("4 questions")
    page.get_by_text("Take part").click()
    outlined = 0
    for number in range(4):
        expect(page.locator(".asked")).to_contain_text(f"Question {number + 1} of 4")
        expect(page.locator(".candidates li")).to_have_count(12)
        outlined += page.locator(".candidates .outline").count() > 0
        for candidate in range(3):
            page.locator(".candidates button").nth(candidate).click()
        page.get_by_text("Next").click()
    assert outlined == 2
    page.get_by_role("button", name="6").click()
    expect(page.locator(".none")).to_contain_text("Thank you")
    page.goto("/?view=study")
    page.get_by_text("Results").click()
    expect(page.locator(".sheet")).to_contain_text("1 finished of 1 who began")
    expect(page.locator(".sheet")).to_contain_text("paired t")
    expect(page.locator(".sheet")).to_contain_text("6.00")


def test_nobody_is_timed_while_pictures_load(page: Page, site: Any) -> None:
    for number in range(4):
        ids = [f"many/{4 * number + step:03}.png" for step in range(4)]
        items = [{"image_id": image_id, "box": [0, 0, 1, 1]} for image_id in ids]
        api(site, "PUT", f"/selections/thing {number}", json={"items": items})
    api(site, "POST", "/studies/timed", json={})
    late = list[Route]()
    page.goto("/?view=study")
    page.route("**/thumb?*", lambda route: late.append(route))
    page.locator(".studies li", has_text="timed").get_by_text("Take part").click()
    expect(page.locator(".question")).to_have_attribute("aria-busy", "true")
    expect(page.locator(".candidates button").first).to_be_hidden()
    page.wait_for_timeout(1500)
    began = page.evaluate("performance.now()")
    for route in late:
        route.continue_()
    page.unroute("**/thumb?*")
    expect(page.locator(".candidates button").first).to_be_visible()
    for candidate in range(3):
        page.locator(".candidates button").nth(candidate).click()
    with page.expect_request("**/answers") as sent:
        page.get_by_text("Next").click()
    seconds = json.loads(sent.value.post_data or "")["seconds"]
    assert seconds <= (page.evaluate("performance.now()") - began) / 1000


def test_the_map_zooms_and_opens_images(page: Page, site: Any) -> None:
    page.goto("/?view=explore")
    expect(page.locator(".summary")).to_contain_text("156 images")
    canvas = page.locator(".map")
    expect(canvas).to_have_attribute("data-shown", re.compile(r"\d+"))
    canvas.focus()
    for _ in range(3):
        page.keyboard.press("+")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.locator("#large")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("open="))
    page.goto("/?view=explore")
    expect(canvas).to_have_attribute("data-shown", re.compile(r"\d+"))
    found = api(site, "GET", "/map")
    area = canvas.bounding_box()
    assert area
    place = {"x": 32 + found["x"][0] * (area["width"] - 64), "y": 32 + found["y"][0] * (area["height"] - 64)}
    canvas.click(position=place)  # type: ignore[arg-type]
    expect(page.locator("#large")).to_be_visible()


def test_a_click_beside_every_picture_of_the_map_opens_none(page: Page) -> None:
    page.goto("/?view=explore")
    canvas = page.locator(".map")
    expect(canvas).to_have_attribute("data-shown", re.compile(r"\d+"))
    canvas.focus()
    for _ in range(12):
        page.keyboard.press("+")
    for _ in range(40):
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowUp")
    # The middle of the canvas is now the upper left corner of the map: nothing lies beyond it.
    page.wait_for_function("document.querySelector('.map').dataset.shown < 20")
    canvas.click(position={"x": 20, "y": 20})
    canvas.click()
    canvas.click(position={"x": 20, "y": 20})
    page.wait_for_timeout(200)
    expect(page.locator("#large")).to_be_hidden()


def test_the_arrows_of_the_large_view_walk_the_map(page: Page) -> None:
    page.goto("/?view=explore")
    canvas = page.locator(".map")
    expect(canvas).to_have_attribute("data-shown", re.compile(r"\d+"))
    canvas.focus()
    page.keyboard.press("Enter")
    title = page.locator("#large h2")
    walked = [title.inner_text()]
    for _ in range(5):
        page.keyboard.press("ArrowRight")
        expect(title).not_to_have_text(walked[-1])
        walked.append(title.inner_text())
    assert len(set(walked)) == 6
    for name in walked[-2::-1]:
        page.keyboard.press("ArrowLeft")
        expect(title).to_have_text(name)
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#say")).to_have_text("This is the first one.")
    page.keyboard.press("Escape")
    expect(canvas).to_be_focused()


def test_reports_are_shown_inside_the_page(page: Page) -> None:
    page.goto("/?view=reports")
    expect(page.frame_locator(".report").locator("h1")).to_have_text("captions")


def test_back_leaves_the_reports_whichever_was_open(page: Page, site: Any) -> None:
    second = site.folder.parent / "reports" / "second.html"
    second.write_text("<!doctype html><title>regions, toy</title><h1>regions</h1>")
    try:
        page.goto("/")
        page.locator(".hit").first.wait_for()
        page.get_by_role("link", name="Reports").click()
        for name, heading in (("captions, toy", "captions"), ("regions, toy", "regions")):
            page.get_by_role("button", name=name).click()
            expect(page.frame_locator(".report").locator("h1")).to_have_text(heading)
            expect(page.locator(".reports [aria-current=true]")).to_contain_text(name)
        page.evaluate("history.back()")
        expect(page.locator(".hit").first).to_be_visible()
    finally:
        second.unlink()


def test_indexing_from_the_page(page: Page, site: Any) -> None:
    for number in range(40):
        target = site.folder / "fresh" / f"{number}.png"
        target.parent.mkdir(exist_ok=True)
        PIL.Image.new("RGB", (100 + number, 80), "purple").save(target)
    page.goto("/?view=index")
    page.get_by_role("button", name=site.folder.name, exact=True).click()
    page.get_by_role("button", name="fresh").click()
    page.get_by_text("Index this folder").click()
    expect(page.locator(".job.done")).to_contain_text("40 added")
    page.get_by_text("Look at it").click()
    expect(page.locator(".summary")).to_contain_text("196 images")


def test_a_job_is_cancelled_and_gone_on_with(page: Page, site: Any) -> None:
    folder = site.folder / "slow"
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (900, 1200, 3), dtype=np.uint8)
    for number in range(160):
        pixels[0, 0] = number
        PIL.Image.fromarray(pixels).save(folder / f"{number}.jpg", quality=95)
    page.goto("/?view=index")
    page.get_by_role("button", name=site.folder.name, exact=True).click()
    page.get_by_role("button", name="slow").click()
    page.get_by_text("Index this folder").click()
    page.locator(".job.running").get_by_text("Cancel").click()
    expect(page.locator(".job.cancelled")).to_contain_text("What is indexed stays")
    page.locator(".job.cancelled").get_by_text("Go on").click()
    expect(page.locator(".job").first).to_have_class("job done")


def test_match_lines_and_neighbours_in_a_video(page: Page, site: Any, film: Callable[..., Path]) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    whole = PIL.Image.fromarray(pixels).resize((640, 480), PIL.Image.Resampling.BICUBIC)
    whole.save(site.folder / "lines-whole.png")
    whole.crop((100, 80, 540, 400)).save(site.folder / "lines-part.png")
    film(site.folder / "clip.mp4", ["red", "blue", "green"])
    with wherein.open(site.folder) as collection:
        collection.add(site.folder)
    late = list[Route]()
    page.route("**/image?*", lambda route: late.append(route))
    page.goto('/?q=[{"image_id":"lines-part.png"}]&open=lines-whole.png')
    page.get_by_text("Match lines").click()
    expect(page.locator(".matches line").nth(19)).to_be_attached()
    late[0].continue_()
    expect(page.locator("#large dl")).to_contain_text("640 × 480 px")
    expect(page.locator(".matches line").nth(19)).to_be_attached()
    page.unroute("**/image?*")
    page.get_by_text("Match lines").click()
    expect(page.locator(".matches")).to_have_count(0)
    page.goto("/?open=clip.mp4%23t%3D2")
    expect(page.locator(".frames button")).to_have_count(3)
    page.get_by_label("Frame 4 s").click()
    expect(page.locator("#large h2")).to_have_text("clip.mp4#t=4")
    expect(page.locator("#large dl")).to_contain_text("4.00 s")


def test_dark_and_light_are_remembered(page: Page) -> None:
    page.goto("/")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.locator("#theme").click()
    dark = page.evaluate(background)
    assert light != dark
    page.reload()
    assert page.evaluate(background) == dark


def test_focus_can_always_be_seen(page: Page) -> None:
    page.goto(RED)
    page.locator(".hit").first.wait_for()
    page.keyboard.press("Tab")
    for _ in range(16):
        page.keyboard.press("Tab")
        seen = page.evaluate(
            """() => { const one = document.activeElement, style = getComputedStyle(one);
            const ring = (s) => s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0;
            const bar = one.id === 'words' && getComputedStyle(one.form).boxShadow !== 'none';
            return one === document.body || ring(style) || bar }"""
        )
        assert seen, page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
