"""Many clients at once against a served collection, for as long as is asked.

    python tests/faults/load.py FOLDER --clients 100 --seconds 600

Traffic goes to this machine alone. Printed as JSON: requests, answers other than those expected, how long half and 99
of a hundred took at most, of all and of each kind, and the server's memory and descriptors at a third of the time and
at the end: they should not grow.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

SEARCH = "/api/v1/collections/{name}/search"
ASKED: dict[str, tuple[int, str, str, dict[str, Any] | None]] = {
    "health": (200, "GET", "/api/v1/health", None),
    "page": (200, "GET", "/", None),
    "collections": (200, "GET", "/api/v1/collections", None),
    "metrics": (200, "GET", "/api/v1/metrics", None),
    "info": (200, "GET", "/api/v1/collections/{name}/info", None),
    "thumb": (200, "GET", "/api/v1/collections/{name}/thumb?image_id=red.png", None),
    "text": (200, "POST", SEARCH, {"parts": [{"text": "red {number}"}]}),
    "place": (200, "POST", SEARCH, {"parts": [{"text": "blue {number}", "where": "left"}], "method": "static-9"}),
    "example": (200, "POST", SEARCH, {"parts": [{"image_id": "cover.png"}], "k": "{k}"}),
    "bow": (200, "POST", SEARCH, {"parts": [{"image_id": "cover.png"}], "method": "bow", "k": "{k}"}),
    "refused": (422, "POST", SEARCH, {"parts": "broken"}),
    "missing": (404, "GET", "/nothing/here", None),
}
"""What is asked, each kind as often as the others, and the status that it must be answered with. Searches ask for
something else every time, so that few are answered from memory."""
WORKERS = 4
"""Processes that the clients are spread over: one alone would measure how its own threads wait for each other."""


def served(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """A server of a folder, and where it is."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "wherein", "serve", "-c", str(folder), "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            httpx.get(f"{address}/api/v1/health", timeout=5)
            return server, address
        except httpx.TransportError:
            time.sleep(0.1)
    server.kill()
    raise RuntimeError("the server never answered")


def state(pid: int) -> tuple[int, int]:
    """(bytes in memory, open descriptors) of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE"), len(list(Path(f"/proc/{pid}/fd").iterdir()))


def client(address: str, name: str, seed: int, end: float) -> Iterator[tuple[str, float, str]]:
    """(kind, seconds, what failed) of one request after the other until the time is over."""
    draw, host = random.Random(seed), address.removeprefix("http://")
    door = http.client.HTTPConnection(host, timeout=120)
    while time.time() < end:
        kind = draw.choice(list(ASKED))
        status, method, path, body = ASKED[kind]
        text = None if body is None else json.dumps(body).replace("{number}", str(draw.random()))
        text = None if text is None else text.replace('"{k}"', str(draw.randrange(1, 5000)))
        headers = {} if text is None else {"content-type": "application/json"}
        started, failed = time.perf_counter(), ""
        try:
            door.request(method, path.replace("{name}", name), body=text, headers=headers)
            answer = door.getresponse()
            told = answer.read()
            failed = "" if answer.status == status else f"{kind}: {answer.status} {told[:300]!r}"
        except (OSError, http.client.HTTPException) as error:
            failed = f"{kind}: {error!r}"
            door.close()
        yield kind, time.perf_counter() - started, failed
    door.close()


def work(address: str, name: str, seeds: Sequence[int], end: float) -> list[tuple[str, float, str]]:
    """What the clients of one process met."""
    with ThreadPoolExecutor(len(seeds)) as threads:
        met = threads.map(lambda seed: list(client(address, name, seed, end)), seeds)
        return [one for each in met for one in each]


def run(folder: Path, *, clients: int, seconds: float, seed: int = 0) -> dict[str, Any]:
    """What came of it."""
    server, address = served(folder)
    try:
        name = httpx.get(f"{address}/api/v1/collections", timeout=60).json()[0]["name"]
        end, seeds = time.time() + seconds, range(seed, seed + clients)
        with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
            parts = [seeds[part::WORKERS] for part in range(WORKERS) if seeds[part::WORKERS]]
            working = [pool.submit(work, address, name, part, end) for part in parts]
            time.sleep(seconds / 3)
            early = state(server.pid)
            met = [one for each in working for one in each.result()]
        time.sleep(1.0)
        late = state(server.pid)
    finally:
        server.terminate()
        server.wait()
    errors = [failed for _, _, failed in met if failed]
    return {
        "clients": clients,
        "seconds": seconds,
        "requests": len(met),
        "errors": len(errors),
        "p50_seconds": share(met, 0.5),
        "p99_seconds": share(met, 0.99),
        "kinds": {
            kind: [share(own, 0.5), share(own, 0.99)]
            for kind in ASKED
            if (own := [one for one in met if one[0] == kind])
        },
        "bytes_early": early[0],
        "bytes_late": late[0],
        "descriptors_early": early[1],
        "descriptors_late": late[1],
    } | ({"first_error": errors[0]} if errors else {})


def share(met: Sequence[tuple[str, float, str]], part: float) -> float:
    """Seconds within which a part of the requests were answered."""
    ordered = sorted(seconds for _, seconds, _ in met)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * part))], 3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=600.0)
    asked = parser.parse_args()
    sys.stdout.write(json.dumps(run(asked.folder, clients=asked.clients, seconds=asked.seconds), indent=1) + "\n")
