"""What the page says and where, in a real browser; names, addresses, drops and sizes that people get wrong."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from wherein.server.settings import Settings

RED = '/?q=[{"words":"red"}]'
# Whether the message is what one sees where it stands; it lets clicks through, so it is asked to catch them first.
IN_FRONT = """line => {
  line.style.pointerEvents = "auto";
  const area = line.getBoundingClientRect();
  const seen = document.elementFromPoint(area.x + area.width / 2, area.y + area.height / 2);
  line.style.pointerEvents = "";
  return line.contains(seen);
}"""


@pytest.fixture(autouse=True)
def _nothing_kept(site: Any) -> Iterator[None]:
    yield
    where = f"{site.url}api/v1/collections/pictures/selections"
    for one in httpx.get(where, trust_env=False, verify=False).json():
        httpx.delete(f"{where}/{one['name']}", trust_env=False, verify=False)


def test_a_message_is_seen_over_an_open_dialog_and_after_it(page: Page) -> None:
    page.goto(f"{RED}&open=red.png")
    expect(page.locator("#large dl")).to_contain_text("320 × 240 px")
    say = page.locator("#say")
    page.get_by_label("Add a tag").fill("a/b")
    page.keyboard.press("Enter")
    expect(say).to_have_class(re.compile("error"))
    assert say.evaluate(IN_FRONT)
    page.keyboard.press("Escape")
    expect(page.locator("#large")).to_be_hidden()
    assert say.evaluate(IN_FRONT)
    page.keyboard.press("o")
    expect(say).to_have_text("Outlines off.")
    assert say.evaluate(IN_FRONT)


@pytest.mark.parametrize("size", [(1280, 800), (375, 700)])
def test_a_message_does_not_cover_the_search_field(page: Page, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto(RED)
    page.locator(".hit .open").first.focus()
    page.keyboard.press("s")
    say, bar, tray = page.locator("#say"), page.locator(".bar"), page.locator("#tray")
    expect(say).to_have_text("Kept in Selection.")
    expect(say).to_be_in_viewport(ratio=1)
    areas = [one.bounding_box() for one in (say, bar, tray)]
    message, top, bottom = (area for area in areas if area)
    assert message["y"] > top["y"] + top["height"]
    assert message["y"] + message["height"] <= bottom["y"]


@pytest.mark.parametrize("name", ["cars/red", "a\\b", ".", ".."])
def test_a_name_that_no_selection_can_have_is_refused_at_once(page: Page, name: str) -> None:
    page.goto("/?view=curate")
    page.get_by_label("Name of a new selection").fill(name)
    page.keyboard.press("Enter")
    expect(page.locator("#say")).to_contain_text(f"“{name}”")
    expect(page.locator(".curate")).to_be_visible()
    page.get_by_role("link", name="Search").click()
    page.locator("[data-id='blue.png'] .open").focus()
    page.keyboard.press("s")
    expect(page.locator("#tray")).to_contain_text("1 image")
    expect(page.locator("#tray")).to_contain_text("in Selection")
    expect(page.locator("#say")).to_have_text("Kept in Selection.")  # the server has it, so that it can be forgotten


def test_a_name_with_a_slash_that_was_remembered_does_not_jam_keeping(page: Page) -> None:
    page.goto("/")
    page.locator(".hit").first.wait_for()
    page.evaluate("localStorage.setItem('selection:pictures', 'cars/red')")
    page.reload()
    page.locator("[data-id='blue.png'] .open").focus()
    page.keyboard.press("s")
    expect(page.locator("#say")).to_have_text("Kept in Selection.")


def test_a_selection_is_not_renamed_to_a_name_with_a_slash(page: Page) -> None:
    page.goto("/")
    page.locator("[data-id='blue.png'] .open").focus()
    page.keyboard.press("s")
    expect(page.locator("#say")).to_have_text("Kept in Selection.")
    page.get_by_role("link", name="Curate").click()
    name = page.get_by_label("Name of the selection")
    name.fill("cars/red")
    name.press("Enter")
    expect(page.locator("#say")).to_contain_text("a name has none")
    expect(name).to_have_value("Selection")


@pytest.mark.parametrize("typed", ["red", "  red ", "7"])
def test_words_typed_into_the_address_are_searched_for(page: Page, typed: str) -> None:
    page.goto(f"/?q={typed}")
    expect(page.locator("#words")).to_have_value(typed.strip())
    expect(page.locator(".summary")).to_contain_text("whole")  # how it was searched, which browsing does not say


def test_an_address_with_a_token_keeps_its_search(page: Page, site: Any, serve: Callable[..., str]) -> None:
    address = serve(site.folder, settings=Settings(token="secret"))
    page.goto(f"{address}/docs")
    expect(page.locator(".problem")).to_contain_text("This server asks for its token")
    page.goto(f"{address}/?q=red&token=secret&group=1")
    expect(page.locator("#words")).to_have_value("red")
    expect(page.locator(".hit").first).to_have_attribute("data-id", "red-again.png")
    assert "token" not in page.url
    assert "group=1" in page.url
    page.goto(f"{address}/docs")
    expect(page.locator(".route").first).to_be_visible()


def test_dragged_words_are_no_image_file_and_no_error(page: Page) -> None:
    page.goto("/")
    page.locator(".hit").first.wait_for()
    dropped = """([kind, name]) => {
      const held = new DataTransfer();
      if (kind === "words") held.setData("text/plain", "red");
      else held.items.add(new File(["a,b"], name, { type: "text/csv" }));
      const how = { dataTransfer: held, bubbles: true, cancelable: true };
      const events = ["dragover", "drop"].map((type) => new DragEvent(type, how));
      for (const event of events) document.getElementById("words").dispatchEvent(event);
      return [...events.map((event) => event.defaultPrevented), document.body.classList.contains("dropping")];
    }"""
    # The browser puts dragged words into the field by itself, where nobody prevents it.
    assert page.evaluate(dropped, ["words", ""]) == [False, False, False]
    expect(page.locator("#say")).to_have_text("")
    assert page.evaluate(dropped, ["file", "table.csv"]) == [True, True, False]
    expect(page.locator("#say")).to_have_text("table.csv is no image file.")


@pytest.mark.parametrize(
    ("size", "said"),
    [(0, "0 bytes"), (999, "999 bytes"), (1540, "1.5 kB"), (204_800, "205 kB"), (4_200_000, "4.2 MB"), (3e8, "300 MB")],
)
def test_sizes_of_files_are_said_as_people_say_them(page: Page, size: float, said: str) -> None:
    page.goto("/docs")
    assert page.evaluate("async (size) => (await import('/web/dom.js')).bytes(size)", size) == said


def test_the_large_view_says_how_large_a_small_file_is(page: Page, site: Any) -> None:
    page.goto("/?open=red.png")
    size = (site.folder / "red.png").stat().st_size
    assert size < 1000
    expect(page.locator("#large dl")).to_contain_text(f"320 × 240 px, {size} bytes")


SILENT = "The server does not answer. Is `wherein serve` running?"


def test_a_selection_that_cannot_be_opened_is_told_of(page: Page, site: Any) -> None:
    where = f"{site.url}api/v1/collections/pictures/selections"
    for name in ("a", "b"):
        httpx.put(f"{where}/{name}", json={"items": [{"image_id": "red.png"}]}, trust_env=False).raise_for_status()
    page.goto("/?view=curate")
    expect(page.locator(".card")).to_have_count(1)
    page.route("**/selections", lambda route: route.abort("connectionrefused"))
    page.get_by_role("button", name="b 1").click()
    expect(page.locator("#say")).to_have_text(SILENT)
    page.keyboard.press("o")
    expect(page.locator("#say")).to_contain_text("Outlines")
    page.get_by_label("Name of a new selection").fill("c")
    page.keyboard.press("Enter")
    expect(page.locator("#say")).to_have_text(SILENT)


def test_a_folder_that_cannot_be_opened_is_told_of(page: Page) -> None:
    page.goto("/?view=index")
    folder = page.locator(".chooser .line").first
    expect(folder).to_be_visible()
    page.route("**/folders?*", lambda route: route.abort("connectionrefused"))
    folder.click()
    expect(page.locator("#say")).to_have_text(SILENT)
