"""The real command serving a collection, and a real browser. What is missing fails loudly; nothing is skipped."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

import wherein
from wherein.encoders.toy import COLOURS

ROOT = Path(__file__).parents[2]
PATIENCE_MS = 30_000
Drag = Callable[[str, tuple[float, float, float, float]], None]

expect.set_options(timeout=PATIENCE_MS)


def stripes(path: Path, *colours: str, size_wh: tuple[int, int] = (320, 240)) -> Path:
    """A picture of upright stripes."""
    width, height = size_wh
    column = np.array([COLOURS[colours[x * len(colours) // width]] for x in range(width)], np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(np.broadcast_to(column, (height, width, 3)).copy()).save(path)
    return path


def fill(folder: Path) -> None:
    """Named pictures with known answers, and 150 more to scroll through."""
    stripes(folder / "red.png", "red")
    stripes(folder / "red-again.png", "red", size_wh=(330, 240))
    stripes(folder / "blue.png", "blue")
    stripes(folder / "trips" / "red-left.png", "red", "blue")
    stripes(folder / "trips" / "red-right.png", "blue", "red", size_wh=(700, 400))
    stripes(folder / "trips" / "green.png", "green", size_wh=(240, 320))
    names = list(COLOURS)
    for number in range(150):
        first, second = names[number % 7 + 4], names[(number // 7) % 7 + 4]
        stripes(folder / "many" / f"{number:03}.png", first, second, "white", size_wh=(160 + number, 120))


@dataclass(frozen=True)
class Site:
    """A server that runs, and its collection's folder."""

    url: str
    folder: Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """`wherein serve` over the pictures of `fill`."""
    folder = tmp_path_factory.mktemp("site") / "pictures"
    fill(folder)
    with wherein.open(folder, create=True, encoder="toy") as collection:
        collection.add(folder)
    reports = folder.parent / "reports"
    reports.mkdir()
    (reports / "run.html").write_text("<!doctype html><title>captions, toy</title><h1>captions</h1>")
    words = ["serve", "-c", str(folder), "--port", "0", "--no-open", "--reports", str(reports)]
    process = subprocess.Popen([sys.executable, "-m", "wherein", *words], stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline() if process.stderr else ""
        found = re.search(r"http://[\d.:]+/", line)
        assert found, f"the server did not say where it is: {line!r}"
        yield Site(found[0], folder)
    finally:
        process.terminate()
        process.wait(timeout=20)
        if process.stderr:
            process.stderr.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert binary, "no Chromium: apt-get install chromium"
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=binary, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """A fresh page of the site, on which no script may fail."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, base_url=site.url)
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE_MS)
    failures = list[str]()
    opened.on("pageerror", lambda error: failures.append(str(error)))
    opened.on("requestfailed", lambda request: failures.append(request.url) if "127.0.0.1" not in request.url else None)
    yield opened
    context.close()
    assert failures == []


@pytest.fixture
def drag(page: Page) -> Drag:
    """Draw a box with the mouse over what a selector finds."""

    def draw(selector: str, box: tuple[float, float, float, float]) -> None:
        area = page.locator(selector).bounding_box()
        assert area
        x1, y1, x2, y2 = box
        page.mouse.move(area["x"] + x1 * area["width"], area["y"] + y1 * area["height"])
        page.mouse.down()
        page.mouse.move(area["x"] + x2 * area["width"], area["y"] + y2 * area["height"], steps=4)
        page.mouse.up()

    return draw


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's source, from npm, kept below the git-ignored folder .check."""
    home = ROOT / ".check"
    source = home / "node_modules" / "axe-core" / "axe.min.js"
    if not source.is_file():
        home.mkdir(exist_ok=True)
        words = ["npm", "install", "--prefix", str(home), "--no-save", "--no-audit", "--no-fund", "axe-core@4"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert source.is_file(), f"axe-core cannot be installed with npm: {done.stderr[-500:]}"
    return source.read_text("utf-8")
