"""The pictures of docs/screenshots, taken of a real page over the photographs that come with wherein.

    python benchmarks/screenshots.py [--out docs/screenshots]

Needs Chromium and Playwright (the extra `dev`). The photographs of the demonstration and one of them turned are indexed
with `mini`, served, and looked at: a search by words, boxes drawn where things should be, the lines between an example
and a hit, and the page of a phone.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import PIL.Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

import wherein
from wherein.demo import PHOTOS

DESK = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 800}
QUALITY = 88
"""JPEG quality: letters stay clean, and a picture takes less than 150 kB."""


def main() -> None:
    """Write the four pictures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "screenshots")
    out: Path = parser.parse_args().out
    with tempfile.TemporaryDirectory() as home, served(Path(home) / "Pictures") as url, sync_playwright() as driver:
        binary = shutil.which("chromium") or shutil.which("google-chrome")
        browser = driver.chromium.launch(executable_path=binary, args=["--no-sandbox"])
        words = [{"words": "a cup of coffee on a wooden table"}]
        with page_of(browser, DESK) as page:
            asked(page, url, words)
            keep(page, out / "search.jpg")
        with page_of(browser, DESK) as page:
            page.goto(url)
            draw(page)
            keep(page, out / "where.jpg")
        with page_of(browser, DESK, color_scheme="dark") as page:
            asked(page, url, [{"image_id": "coffee-turned.jpg"}], open_="coffee.jpg")
            page.get_by_text("Match lines").click()
            expect(page.locator(".matches line").nth(19)).to_be_attached()
            keep(page, out / "matches.jpg")
        with page_of(browser, PHONE) as page:
            asked(page, url, words)
            keep(page, out / "phone.jpg")
        browser.close()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server with the photographs."""
    shutil.copytree(PHOTOS, folder, ignore=shutil.ignore_patterns("*.md"))
    turned = PIL.Image.open(folder / "coffee.jpg").rotate(9, PIL.Image.Resampling.BICUBIC, expand=False)
    turned.crop((40, 40, turned.width - 40, turned.height - 40)).save(folder / "coffee-turned.jpg", quality=92)
    with wherein.open(folder, create=True) as collection:
        collection.add(folder)
    words = [sys.executable, "-m", "wherein", "serve", "-c", str(folder), "--port", "0", "--no-open"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        line = server.stderr.readline() if server.stderr else ""
        found = re.search(r"http://[\d.:]+/", line)
        if found is None:
            sys.exit(f"the server did not say where it is: {line}")
        try:
            yield found[0]
        finally:
            server.terminate()


@contextmanager
def page_of(browser: Browser, viewport: dict[str, int], **options: Any) -> Iterator[Page]:
    """A fresh page of a size."""
    context = browser.new_context(viewport=viewport, **options)  # type: ignore[arg-type]
    yield context.new_page()
    context.close()


def asked(page: Page, url: str, parts: list[dict[str, Any]], *, open_: str | None = None) -> None:
    """A search, once its hits are there."""
    more = "" if open_ is None else f"&open={quote(open_)}"
    page.goto(f"{url}?q={quote(json.dumps(parts))}{more}")
    expect(page.locator("[data-id]").first).to_be_visible()
    page.wait_for_load_state("networkidle")


def draw(page: Page) -> None:
    """Two boxes, and what should be in each."""
    page.locator("#place").click()
    for (x1, y1, x2, y2), words in (
        ((0.05, 0.1, 0.45, 0.9), "a woman in an orange suit"),
        ((0.6, 0.1, 0.9, 0.5), "a rocket"),
    ):
        area = page.locator("#sketch .boxes").bounding_box()
        if area is None:
            sys.exit("the page has no canvas to draw on")
        page.mouse.move(area["x"] + x1 * area["width"], area["y"] + y1 * area["height"])
        page.mouse.down()
        page.mouse.move(area["x"] + x2 * area["width"], area["y"] + y2 * area["height"], steps=4)
        page.mouse.up()
        page.keyboard.type(words)
    page.wait_for_load_state("networkidle")


def keep(page: Page, path: Path) -> None:
    """What is seen now, as a JPEG; the hover and the caret of a mouse that is not there are not shown."""
    shown = PIL.Image.open(io.BytesIO(page.screenshot(animations="disabled", caret="hide"))).convert("RGB")
    shown.save(path, "JPEG", quality=QUALITY, optimize=True)
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
