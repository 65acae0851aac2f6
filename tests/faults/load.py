"""Many clients at once against a served collection, for as long as is asked.

    python tests/faults/load.py FOLDER --clients 100 --seconds 600

Traffic goes to this machine alone. Printed as JSON: requests, errors of the server, the slowest of a hundred, and the
server's memory and descriptors at a third of the time and at the end: they should not grow.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx

ASKED: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
    ("GET", "/api/v1/health", None),
    ("GET", "/", None),
    ("GET", "/api/v1/collections", None),
    ("GET", "/api/v1/metrics", None),
    ("GET", "/api/v1/collections/{name}/info", None),
    ("GET", "/api/v1/collections/{name}/thumb?image_id=red.png", None),
    ("POST", "/api/v1/collections/{name}/search", {"query": [{"text": "red"}]}),
    ("POST", "/api/v1/collections/{name}/search", {"query": [{"text": "blue"}], "method": "static-9"}),
    ("POST", "/api/v1/collections/{name}/search", {"query": "broken"}),
    ("GET", "/nothing/here", None),
)


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


def run(folder: Path, *, clients: int, seconds: float, seed: int = 0) -> dict[str, Any]:
    """What came of it."""
    server, address = served(folder)
    try:
        name = httpx.get(f"{address}/api/v1/collections", timeout=60).json()[0]["name"]
        times, errors, end, turn = list[float](), list[str](), time.monotonic() + seconds, threading.Lock()

        def client(number: int) -> None:
            draw = random.Random(seed + number)
            with httpx.Client(base_url=address, timeout=120) as door:
                while time.monotonic() < end:
                    method, path, body = draw.choice(ASKED)
                    started = time.perf_counter()
                    try:
                        status = door.request(method, path.replace("{name}", name), json=body).status_code
                        failed = f"{method} {path}: {status}" if status >= 500 else ""
                    except httpx.TransportError as error:
                        failed = f"{method} {path}: {error!r}"
                    with turn:
                        times.append(time.perf_counter() - started)
                        errors.extend([failed] if failed else [])

        threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        time.sleep(seconds / 3)
        early = state(server.pid)
        for thread in threads:
            thread.join()
        time.sleep(1.0)
        late = state(server.pid)
    finally:
        server.terminate()
        server.wait()
    ordered = sorted(times)
    return {
        "clients": clients,
        "seconds": seconds,
        "requests": len(times),
        "errors": len(errors),
        "p50_seconds": round(ordered[len(ordered) // 2], 3),
        "p99_seconds": round(ordered[int(len(ordered) * 0.99)], 3),
        "bytes_early": early[0],
        "bytes_late": late[0],
        "descriptors_early": early[1],
        "descriptors_late": late[1],
    } | ({"first_error": errors[0]} if errors else {})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=600.0)
    asked = parser.parse_args()
    sys.stdout.write(json.dumps(run(asked.folder, clients=asked.clients, seconds=asked.seconds), indent=1) + "\n")
