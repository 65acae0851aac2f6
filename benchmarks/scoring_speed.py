"""Scoring at full size: SearchAD's 90 × 79,000 ranked paths and FORB's 13,901 queries, files included.

    python benchmarks/scoring_speed.py [searchad|forb]

Each part runs in its own process so that its peak memory is its own. The made files are deleted afterwards.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SEARCHAD_IMAGES = 79_000
FORB_QUERIES = 13_901
LIMITS = {"searchad": (15.0, 2.0), "forb": (10.0, 2.0)}  # seconds, GB
FASTER = 10.0  # than scoring query by query in Python


def make_searchad(root: Path) -> None:
    """Annotations of 79,000 images and a full ranking of them for each of the 90 labels."""
    from wherein.bench.searchad.dataset import LABELS, SOURCES

    rng = np.random.default_rng(0)
    paths = [
        f"{SOURCES[n % len(SOURCES)]}/images/validation/sequence_{n % 97:04d}/frame_{n:09d}_left_rgb_anon.png"
        for n in range(SEARCHAD_IMAGES)
    ]
    annotations: dict[str, list[dict[str, object]]] = {path: [] for path in paths}
    for number, label in enumerate(LABELS):
        for row in rng.choice(SEARCHAD_IMAGES, size=20 + 7 * number, replace=False):
            side = int(rng.integers(3, 90))
            annotations[paths[row]].append({"label": label, "bbox": [10, 20, 10 + side, 20 + side]})
    (root / "searchad_annotations_val.json").write_text(json.dumps(annotations))
    with (root / "predictions.json").open("w") as file:
        file.write("{\n")
        for number, label in enumerate(LABELS):
            order = rng.permutation(SEARCHAD_IMAGES)
            comma = "," if number + 1 < len(LABELS) else ""
            file.write(f"{json.dumps(label)}: {json.dumps([paths[row] for row in order], indent=4)}{comma}\n")
        file.write("}\n")


def make_forb(root: Path) -> None:
    """Eight objects, 13,901 queries, ten candidates each against everything and against distractors."""
    from wherein.bench.forb.dataset import OBJECTS, OFFICIAL_OFFSETS, OFFICIAL_SIZES, OFFICIAL_TOTAL

    rng = np.random.default_rng(0)
    (root / "metadata").mkdir()
    (root / "results").mkdir()
    for number, name in enumerate(OBJECTS):
        count = FORB_QUERIES // 8 + (number < FORB_QUERIES % 8)
        truth, ranked, rejected = [], [], []
        for query in range(1, count + 1):
            ids = (rng.choice(OFFICIAL_SIZES[name], size=int(rng.integers(1, 4)), replace=False) + 1).tolist()
            level = ("easy", "medium", "hard")[query % 3]
            truth.append({"query_id": query, "groundtruth_ids": ids, "difficulty": level})
            found = rng.choice(OFFICIAL_TOTAL, size=10, replace=False)
            wanted = ids[0] - 1 + OFFICIAL_OFFSETS[name]
            if wanted not in found:
                found[rng.integers(0, 10)] = wanted
            for rows, ids10 in ((ranked, found), (rejected, rng.choice(OFFICIAL_TOTAL, size=10, replace=False))):
                scores = np.sort(rng.random(10))[::-1]
                rows.append({"query_id": query, "candidate_db_ids": ids10.tolist(), "global_scores": scores.tolist()})
        files = {f"metadata/{name}_gt": truth, f"results/{name}_all": ranked, f"results/{name}_oods": rejected}
        for file, rows in files.items():
            (root / f"{file}.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))


def loop_ap(kept: list[int], truth: set[int], k: int) -> float:
    """AP@k by the official rule, one query at a time."""
    hits, total = 0, 0.0
    for place, item in enumerate(kept[:k], 1):
        if item in truth:
            hits += 1
            total += hits / place
    return total / max(len(truth), total, 1)


def loop_scores(
    candidates: list[tuple[int, ...]], scores: list[tuple[float, ...]], truth: list[set[int]], thresholds: list[float]
) -> list[list[float]]:
    """(mAP@1, mAP@5) at every threshold with Python loops over the queries."""
    rows = []
    for threshold in thresholds:
        sums = [0.0, 0.0]
        for ids, values, wanted in zip(candidates, scores, truth, strict=True):
            kept = [item for item, value in zip(ids, values, strict=True) if value >= threshold]
            sums[0] += loop_ap(kept, wanted, 1)
            sums[1] += loop_ap(kept, wanted, 5)
        rows.append([total / len(truth) for total in sums])
    return rows


def best_of(runs: int, function: object, *arguments: object) -> tuple[float, object]:
    """The shortest time of several runs, and the result."""
    times, result = [], None
    for _ in range(runs):
        start = time.perf_counter()
        result = function(*arguments)  # type: ignore[operator]
        times.append(time.perf_counter() - start)
    return min(times), result


def compare_forb(root: Path) -> float:
    """How many times faster the vectorised kernel is than the loops, on the same lists."""
    from wherein.bench import metrics
    from wherein.bench.forb import dataset as forb

    data = forb.load(root)
    read = [forb.read_results(root / "results", name=name, against="all") for name in data.objects]
    candidates = [row for part in read for row in part.candidates]
    scores = [row for part in read for row in part.scores]
    truth = [[item - 1 + data.offsets[query.object] for item in query.truth] for query in data.queries]
    rejected = [forb.read_results(root / "results", name=name, against="oods") for name in data.objects]
    best = [max(row) for part in rejected for row in part.scores]

    def vectorised() -> list[list[float]]:
        lists = metrics.candidate_lists(candidates, scores, truth=truth)
        thresholds = metrics.rejection_thresholds(best)
        plain = metrics.truncated_ap(lists, ks=(1, 5)).mean(axis=1)
        return [plain.tolist(), *metrics.thresholded_ap(lists, ks=(1, 5), thresholds=thresholds).mean(axis=2).tolist()]

    def looped() -> list[list[float]]:
        thresholds = [-float("inf"), *metrics.rejection_thresholds(best).tolist()]
        return loop_scores(candidates, scores, [set(ids) for ids in truth], thresholds)

    fast, own = best_of(15, vectorised)
    slow, theirs = best_of(3, looped)
    if not np.allclose(own, theirs, atol=1e-9):  # type: ignore[arg-type]
        raise SystemExit("the loops and the kernel disagree")
    print(f"forb kernel: {fast * 1000:.1f} ms vectorised, {slow * 1000:.0f} ms in Python loops: {slow / fast:.1f}x")
    return slow / fast


def measure(benchmark: str, root: Path) -> bool:
    """Score the made files in a fresh process; print time and peak memory; say whether both are in bounds."""
    predictions = root / ("predictions.json" if benchmark == "searchad" else "results")
    program = (
        "import sys, time, resource; from pathlib import Path\n"
        "from wherein.bench.evaluate import evaluate\n"
        "start, busy = time.perf_counter(), time.process_time()\n"
        "made = evaluate(sys.argv[1], data=sys.argv[2], predictions=sys.argv[3])\n"
        "took, busy = time.perf_counter() - start, time.process_time() - busy\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20\n"
        "print(took, busy, peak, len(made.queries))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, benchmark, str(root), str(predictions)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    took, busy, peak, queries = map(float, done.stdout.split())
    seconds, gigabytes = LIMITS[benchmark]
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) / 1e6
    print(
        f"{benchmark}: {queries:.0f} queries, {size:.0f} MB of files: {took:.2f} s (≤ {seconds:.0f}), "
        f"{busy:.2f} s of it computing, peak {peak:.2f} GB (≤ {gigabytes:.0f})"
    )
    return took <= seconds and peak <= gigabytes


def main() -> None:
    """Make, measure, compare; exit code 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=("searchad", "forb"))
    chosen = parser.parse_args().part
    good = True
    for benchmark, make in (("searchad", make_searchad), ("forb", make_forb)):
        if chosen in (None, benchmark):
            with tempfile.TemporaryDirectory() as folder:
                make(Path(folder))
                good &= measure(benchmark, Path(folder))
                if benchmark == "forb":
                    good &= compare_forb(Path(folder)) >= FASTER
    print("within bounds" if good else "OUT OF BOUNDS")
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
