"""wherein speaks to nobody: in a network of their own, its commands look up no name and connect to nothing outside.

`strace` watches every process for names that are looked up and connections that are tried; `unshare` takes the network
away, so that a try that was missed would go nowhere. A program that does try is seen, which is tested first.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

Paint = Callable[..., Path]

TRIED = re.compile(r"(connect|sendto|sendmsg|sendmmsg)\(.*?AF_INET6?.*?port=htons\((\d+)\).*?\"([0-9a-f.:]+)\"")
LOOPBACK = re.compile(r"^(127\.|::1$|0\.0\.0\.0$|::$)")


def possible() -> str:
    """Why the proof cannot be made here; empty where it can."""
    if shutil.which("strace") is None or shutil.which("unshare") is None:
        return "strace and unshare (util-linux) are needed"
    alone = subprocess.run([*ALONE, "strace", "-f", "-e", "trace=connect", "true"], capture_output=True, text=True)
    return "" if alone.returncode == 0 else f"no network namespace or no tracing here: {alone.stderr.strip()[-200:]}"


ALONE = ["unshare", "--user", "--map-root-user", "--net"] if os.geteuid() else ["unshare", "--net"]
WHY_NOT = possible()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


def tries(command: list[str], log: Path, *, cwd: Path) -> list[tuple[str, str]]:
    """(address, port) of whatever outside a command tried to reach, names looked up included."""
    up = 'ip link set lo up 2>/dev/null || true; exec "$@"'
    watch = ["strace", "-f", "-qq", "-e", "trace=connect,sendto,sendmsg,sendmmsg", "-o", str(log)]
    home = cwd / "home"
    home.mkdir(exist_ok=True)
    environment = {k: v for k, v in os.environ.items() if k not in ("ORT_DISABLE_TELEMETRY", "HF_HUB_OFFLINE")}
    done = subprocess.run(
        [*ALONE, "sh", "-c", up, "sh", *watch, *command],
        cwd=cwd,
        env=environment | {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = [(match[3], match[2]) for match in map(TRIED.search, log.read_text(errors="replace").splitlines()) if match]
    return [(address, port) for address, port in found if port == "53" or not LOOPBACK.match(address)]


def wherein(*words: str) -> list[str]:
    return [sys.executable, "-m", "wherein", *words]


@pytest.fixture
def place(folder: Path, film: Callable[..., Path]) -> Path:
    film(folder / "clip.mp4", ["yellow", "green"])
    return folder


def test_the_instrument_sees_a_program_that_looks_up_a_name(tmp_path: Path) -> None:
    code = "import socket\ntry: socket.create_connection(('example.org', 80), 1)\nexcept OSError: pass"
    direct = "import socket\ntry: socket.create_connection(('192.0.2.1', 80), 1)\nexcept OSError: pass"
    assert tries([sys.executable, "-c", direct], tmp_path / "direct", cwd=tmp_path) == [("192.0.2.1", "80")]
    assert tries([sys.executable, "-c", code], tmp_path / "name", cwd=tmp_path) != []


def test_indexing_and_searching_reach_for_nothing(place: Path, tmp_path: Path) -> None:
    assert tries(wherein("index", str(place), "--encoder", "mini"), tmp_path / "index", cwd=tmp_path) == []
    for words in (["red"], ["red", "--method", "static-9"], ["--image", str(place / "red.png")]):
        asked = wherein("search", *words, "-c", str(place))
        assert tries(asked, tmp_path / "search", cwd=tmp_path) == [], words


def test_serving_reaches_for_nothing(place: Path, tmp_path: Path) -> None:
    subprocess.run(wherein("index", str(place), "--encoder", "mini"), check=True, capture_output=True)
    serve = textwrap.dedent(
        f"""
        import subprocess, sys, time, urllib.request
        command = [sys.executable, "-m", "wherein", "serve", "-c", {str(place)!r}, "--port", "8765"]
        server = subprocess.Popen(command)
        door = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
        for _ in range(600):
            try:
                door.open("http://127.0.0.1:8765/api/v1/health", timeout=5)
                break
            except OSError:
                time.sleep(0.1)
        door.open("http://127.0.0.1:8765/", timeout=60)
        time.sleep(20)  # telemetry that was sent came in the first sixteen seconds
        server.terminate()
        server.wait()
        """
    )
    assert tries([sys.executable, "-c", serve], tmp_path / "serve", cwd=tmp_path) == []


def test_a_benchmark_reaches_for_nothing(tmp_path: Path, paint: Paint) -> None:
    data = tmp_path / "data"
    lines = []
    for colour in ("red", "blue"):
        paint(data / "images" / f"{colour}.png", colour)
        lines.append(json.dumps({"image": f"images/{colour}.png", "captions": [f"something {colour}"]}))
    (data / "captions.jsonl").write_text("\n".join(lines))
    run = wherein("bench", "run", "captions", "--data", str(data), "--method", "mini", "--out", str(tmp_path / "out"))
    assert tries(run, tmp_path / "bench", cwd=tmp_path) == []
