"""The server under load: time to the first hits, thumbnails a second, many searchers at once, and the page's weight.

    python benchmarks/server.py [--images 100000]

The collection holds made-up embeddings of the usual size (512 numbers an image) and one small thumbnail for all.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import wherein
from made_up import image_id, make_collection

HERE = "/api/v1/collections/images"


def ask(port: int, method: str, path: str, body: Any = None) -> bytes:
    """One request on a connection of its own."""
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, path, None if body is None else json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status} {content[:200]!r}")
    return content


def first_hits(port: int, rounds: int = 20) -> tuple[float, float]:
    """Median milliseconds: from the engine's answer to the first hit on the wire, and to the end of the page."""
    first, last = [], []
    for number in range(rounds):
        body = {"parts": [{"words": f"a picture of thing {number}"}], "k": 60}
        connection = HTTPConnection("127.0.0.1", port, timeout=120)
        started = time.perf_counter()
        connection.request("POST", f"{HERE}/search/stream", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        engine = json.loads(answer.readline())["seconds"]
        answer.readline()
        first.append(time.perf_counter() - started - engine)
        answer.read()
        last.append(time.perf_counter() - started - engine)
        connection.close()
    return 1000 * statistics.median(first), 1000 * statistics.median(last)


def on_the_page(port: int, rounds: int = 10) -> float:
    """Median milliseconds from the engine's answer to the first hit drawn in Chromium; needs playwright."""
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        page.locator(".hit").first.wait_for()
        for number in range(rounds):
            took = page.evaluate(
                """(words) => new Promise((done) => {
                  document.getElementById("words").value = words;
                  const started = performance.now();
                  const wait = () => {
                    const line = document.querySelector(".summary").textContent.match(/· (\\d+) ms/);
                    const score = document.querySelector(".hit .score");
                    if (line && score && document.title.startsWith(words)) {
                      done(performance.now() - started - Number(line[1]));
                    } else requestAnimationFrame(wait);
                  };
                  document.getElementById("ask").requestSubmit();
                  requestAnimationFrame(wait);
                })""",
                f"thing number {number}",
            )
            times.append(float(took))
        browser.close()
    return statistics.median(times)


def _thumbs(port: int, ids: list[str], seconds: float, results: multiprocessing.Queue[int]) -> None:
    """Ask over one kept connection, with as little work of our own as can be: the server is what is measured."""
    head = "HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    requests = [f"GET {HERE}/thumb?image_id={image_id} {head}".encode() for image_id in ids]
    end, count = time.perf_counter() + seconds, 0
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while time.perf_counter() < end:
            connection.sendall(requests[count % len(requests)])
            answer = connection.recv(1 << 16)
            while b"\r\n\r\n" not in answer:
                answer += connection.recv(1 << 16)
            length = int(answer.split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
            missing = answer.index(b"\r\n\r\n") + 4 + length - len(answer)
            while missing > 0:
                missing -= len(connection.recv(1 << 16))
            if not answer.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(answer[:200])
            count += 1
    results.put(count)


def thumbs_a_second(port: int, ids: list[str], *, seconds: float = 4.0, clients: int = 4) -> float:
    """From memory, over kept connections, as a browser does it."""
    for name in ids:
        ask(port, "GET", f"{HERE}/thumb?image_id={name}")
    results: multiprocessing.Queue[int] = multiprocessing.Queue()
    crowd = [multiprocessing.Process(target=_thumbs, args=(port, ids, seconds, results)) for _ in range(clients)]
    for one in crowd:
        one.start()
    total = sum(results.get() for _ in crowd)
    for one in crowd:
        one.join()
    return total / seconds


def searchers(port: int, *, people: int = 50, each: int = 4) -> tuple[int, float, float]:
    """Errors, median and slowest seconds when that many people search at once."""
    errors, times = list[str](), list[float]()

    def person(number: int) -> None:
        for turn in range(each):
            started = time.perf_counter()
            try:
                ask(port, "POST", f"{HERE}/search", {"parts": [{"words": f"thing {number} {turn}"}], "k": 20})
            except Exception as error:
                errors.append(str(error))
            times.append(time.perf_counter() - started)

    crowd = [threading.Thread(target=person, args=(number,)) for number in range(people)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    return len(errors), statistics.median(times), max(times)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--encoder", default="mini")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "images"
        folder.mkdir()
        timed(
            f"making {options.images:,} images",
            lambda: make_collection(folder, images=options.images, encoder=options.encoder),
        )
        words = [sys.executable, "-m", "wherein", "serve", "-c", str(folder), "--port", "0"]
        server = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        try:
            line = server.stderr.readline() if server.stderr else ""
            port = int(re.findall(r":(\d+)/", line)[0])
            timed(
                "first search, which loads all",
                lambda: ask(port, "POST", f"{HERE}/search", {"parts": [{"words": "x"}]}),
            )
            first, last = first_hits(port)
            print(f"first hit after the engine's answer   {first:8.1f} ms   (≤ 150)")
            print(f"all 60 hits after the engine's answer {last:8.1f} ms")
            print(f"first hit drawn in Chromium after it    {on_the_page(port):8.1f} ms   (≤ 150)")
            ids = [image_id(n) for n in range(0, options.images, max(1, options.images // 500))][:500]
            print(f"thumbnails from memory                {thumbs_a_second(port, ids):8.0f} /s   (≥ 500)")
            errors, median, most = searchers(port)
            print(
                f"50 searchers at once                  {errors:8d} errors, median {median:.2f} s, slowest {most:.2f} s"
            )
        finally:
            server.terminate()
            server.wait()
    page = Path(wherein.__file__ or "").parent / "web"
    print(
        f"page                                  {sum(p.stat().st_size for p in page.iterdir()) / 1000:8.1f} kB  (≤ 200)"
    )


def timed(what: str, act: Callable[[], object]) -> None:
    """Run and say how long it took."""
    started = time.perf_counter()
    act()
    print(f"{what:<38}{time.perf_counter() - started:8.1f} s")


if __name__ == "__main__":
    main()
