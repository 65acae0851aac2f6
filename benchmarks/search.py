"""Many vectors per image: how fast the best 100 images are found, beside what people would pick instead.

    pip install -r benchmarks/requirements.txt
    python benchmarks/search.py [--images 79000] [--vectors 32] [--dim 768] [--rows FILE.npy] [--engines …] [--json]
    python benchmarks/search_page.py RUN.json …     # docs/results/search.md and its plots, from what --json printed

Every engine runs in a process of its own, alone, over the same rows (made up by benchmarks/clustered.py, or a file
(n, v, d)), at the cheapest of its settings whose recall@100 of images is at least 0.99, or at its best one. A figure is
the median of warm queries. An engine that is not built within --limit, or needs more than --memory, is listed as such.
Beside the time on the clock stands the processor time, which a busy machine changes less.
On a machine that others use, start it with `nice` and give --lock FILE: an engine is then built in the background,
and asked at the highest priority there is while that file is locked (`flock`), so that no other such measurement runs.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from clustered import World, write_rows
from search_engines import ENGINES, Floats, Ints, TooSlow, blocks_of

DEEP = 100
WANTED = 0.99
TRIED = 12
"""Queries by which a setting is chosen; the others measure it."""
BANDWIDTH = "bandwidth"
"""Measured as an engine is, alone."""
CLOCK_TIMES = 2
"""So many times the processor time that an engine may take it may take on the clock, where others use the machine."""
OUT_OF_MEMORY = ("MemoryError", "bad_alloc", "out of memory", "OutOfMemory", "Cannot allocate", "memory allocation of")
"""What engines say that got no more memory."""


def main() -> None:
    """Make the rows, run one process per engine, print a table or JSON."""
    asked = arguments()
    if asked.engine:
        try:
            print(json.dumps(bandwidth(asked.lock) if asked.engine == BANDWIDTH else measured(asked)))
        except TooSlow as error:
            print(json.dumps({"error": str(error)}))
        return
    with tempfile.TemporaryDirectory() as made:
        home = asked.scratch or Path(made)
        shape = f"{asked.images}x{asked.vectors}x{asked.dim}" if asked.rows is None else asked.rows.stem
        rows, truth = asked.rows or home / f"{shape}.npy", home / f"{shape}.{asked.queries}.truth.npz"
        if not rows.exists():
            write_rows(rows, images=asked.images, vectors=asked.vectors, dim=asked.dim)
        if not truth.exists():
            queries = queries_of(rows, asked)
            np.savez(truth, queries=queries, best=exact(np.load(rows, mmap_mode="r"), queries))
        speed = run(BANDWIDTH, rows, truth, asked)["gb_s"]
        engines = {}
        for name in asked.engines.split(","):
            engines[name] = run(name, rows, truth, asked)
            print(line(name, engines[name], engines.get("numpy"), speed, rows), flush=True, file=sys.stderr)
        shape_of = np.load(rows, mmap_mode="r").shape
    if asked.json:
        print(json.dumps({"engines": engines, "bandwidth_gb_s": speed, "shape": shape_of, "rows": shape}))


def arguments() -> argparse.Namespace:
    """What was asked on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=79_000)
    parser.add_argument("--vectors", type=int, default=32)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--rows", type=Path, help="Vectors (n, v, d) from a file instead.")
    parser.add_argument("--queries", type=int, default=62)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--scratch", type=Path, help="Where rows and truth stay for the next run.")
    parser.add_argument("--limit", type=int, default=900, help="Seconds of processor time that an engine may take.")
    parser.add_argument("--memory", type=int, default=14, help="GB of memory of its own that an engine may take.")
    parser.add_argument("--lock", type=Path, help="A file that is locked while queries are timed.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--truth", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def queries_of(rows: Path, asked: argparse.Namespace) -> Floats:
    """Queries of the made-up world, or noisy rows of a file that was given."""
    if asked.rows is None:
        shape = np.load(rows, mmap_mode="r").shape
        return World.of(vectors=shape[1], dim=shape[2]).queries(asked.queries)
    stored = np.load(rows, mmap_mode="r")
    random = np.random.default_rng(0)
    picked = stored[
        np.sort(random.choice(len(stored), asked.queries)), random.integers(0, stored.shape[1], asked.queries)
    ]
    noise = random.standard_normal(picked.shape).astype(np.float32)
    mixed = np.asarray(picked, np.float32) + 0.5 * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    return np.asarray(mixed / np.linalg.norm(mixed, axis=1, keepdims=True), np.float32)


def exact(rows: Any, queries: Floats) -> Ints:
    """(queries, DEEP): the best images, by comparing every row in float32."""
    flat, vectors = rows.reshape(-1, rows.shape[-1]), rows.shape[1]
    scores = np.concatenate([some @ queries.T for _, some in blocks_of(flat)]).reshape(-1, vectors, len(queries))
    every = scores.max(axis=1).T
    few = np.argpartition(-every, DEEP, axis=1)[:, :DEEP]
    return np.take_along_axis(few, np.argsort(-np.take_along_axis(every, few, axis=1), axis=1), axis=1)


def run(name: str, rows: Path, truth: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """One engine in a process of its own; one that cannot is listed with the reason."""
    command = [sys.executable, __file__, "--engine", name, "--rows", str(rows), "--truth", str(truth)]
    command += ["--limit", str(asked.limit), "--memory", str(asked.memory)]
    command += ["--lock", str(asked.lock)] if asked.lock else []
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, err = process.communicate(timeout=CLOCK_TIMES * asked.limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {"error": f"did not finish building in {CLOCK_TIMES * asked.limit // 60:,} minutes"}
    if process.returncode == -signal.SIGXCPU:
        return {"error": f"did not finish building in {asked.limit // 60:,} minutes of processor time"}
    if process.returncode:
        said = (err.strip().splitlines() or [f"ended with {process.returncode}"])[-1]
        full = process.returncode == -signal.SIGKILL or any(word in err for word in OUT_OF_MEMORY)
        return {"error": f"does not fit in {asked.memory} GB" if full else f"failed: {said[:120]}"}
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


@contextmanager
def alone(lock: Path | None) -> Iterator[None]:
    """While others that keep to the same lock wait, at the highest priority that is allowed."""
    if lock is None:
        yield
        return
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        prioritise(-15)
        yield


def prioritise(niceness: int) -> None:
    """Run every thread of this process with a priority, where that is allowed; Linux weighs sessions first."""
    with suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(task.name), niceness)
        Path("/proc/self/autogroup").write_text(str(niceness))


def measured(asked: argparse.Namespace) -> dict[str, Any]:
    """Build, choose a setting, ask warm queries one by one."""
    rows, known = np.load(asked.rows, mmap_mode="r"), np.load(asked.truth)
    truth, queries = known["best"], known["queries"]
    engine = ENGINES[asked.engine]()
    engine.limit = asked.limit
    prioritise(os.getpriority(os.PRIO_PROCESS, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (asked.limit, asked.limit + 60))
    resource.setrlimit(resource.RLIMIT_DATA, (asked.memory << 30, asked.memory << 30))  # mapped files do not count
    started = time.perf_counter()
    engine.build(rows)
    build, spent = time.perf_counter() - started, time.process_time()
    with alone(asked.lock):
        found = asked_one_by_one(engine, queries, truth)
    return {
        **found,
        "bytes_per_image": round(engine.size() / len(rows)),
        "build_s": round(build, 1),
        "build_cpu_s": round(spent, 1),
        "rss_mb": anonymous_mb(),
    }


def asked_one_by_one(engine: Any, queries: Floats, truth: Ints) -> dict[str, Any]:
    """Choose a setting by the first queries, measure it by the others."""
    setting, sweep = dict[str, Any](), list[dict[str, Any]]()
    for setting in engine.settings:
        if setting:
            engine.use(setting)
        found, times = list[Ints](), list[float]()
        for query in queries[:TRIED]:
            before = time.perf_counter()
            found.append(engine.ask(query, DEEP))
            times.append(time.perf_counter() - before)
        sweep.append({"recall": recall(found, truth[:TRIED]), "ms": 1000 * median(times), **setting})
        if sweep[-1]["recall"] >= WANTED:
            break
    clock, processor, answers, bare = list[float](), list[float](), list[Ints](), list[float]()
    for query in queries[TRIED:]:
        before, spent = time.perf_counter(), time.process_time()
        answers.append(engine.ask(query, DEEP))
        processor.append(time.process_time() - spent)
        clock.append(time.perf_counter() - before)
        if hasattr(engine, "ask_bare"):
            before = time.perf_counter()
            engine.ask_bare(query, DEEP)
            bare.append(time.perf_counter() - before)
    return {
        "ms": round(1000 * median(clock), 2),
        "cpu_ms": round(1000 * median(processor), 2),
        "recall": round(recall(answers, truth[TRIED:]), 4),
        "setting": setting,
        "sweep": sweep,
        **({"bare_ms": round(1000 * median(bare), 2)} if bare else {}),
    }


def recall(found: list[Ints], truth: Ints) -> float:
    """The mean share of the best images that were found."""
    return float(np.mean([len(np.intersect1d(own, real)) / len(real) for own, real in zip(found, truth, strict=True)]))


def anonymous_mb() -> int:
    """Memory of this process that no file backs."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon"))


def bandwidth(lock: Path | None) -> dict[str, float]:
    """GB a second at which numpy reads an array of 512 MB: the best of five."""
    values = np.ones(1 << 27, np.float32)
    times = []
    with alone(lock):
        for _ in range(5):
            started = time.perf_counter()
            values.sum()
            times.append(time.perf_counter() - started)
    return {"gb_s": round(values.nbytes / min(times) / 1e9, 1)}


def line(name: str, own: dict[str, Any], base: dict[str, Any] | None, speed: float, rows: Path) -> str:
    """A row of the table."""
    if "error" in own:
        return f"{name:<12}{own['error']}"
    naive = np.load(rows, mmap_mode="r")
    share = 4 * naive.size / (own["ms"] / 1000) / 1e9 / speed
    times = f"{base['ms'] / own['ms']:5.1f}×" if base and "ms" in base else ""
    return (
        f"{name:<12}{own['ms']:8.1f} ms {own['cpu_ms']:8.1f} cpu {times} recall {own['recall']:.4f} "
        f"{own['bytes_per_image']:>8,} bytes/image  build {own['build_s']:6.1f} s  {own['rss_mb']:6,} MB  "
        f"{share:5.2f} of the bandwidth {own['setting']}"
    )


if __name__ == "__main__":
    main()
