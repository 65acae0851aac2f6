"""The committed figures of search inside regions and of pixels: `docs/results/where.md` and its plot.

    python benchmarks/where.py EVAL_FOLDER [--out out/where] [--page docs/results/where.md] [--draws 3]

EVAL_FOLDER holds `masks`, `underwater` and `road` as `wherein bench run` reads them. Every row is one `wherein bench
run SET --data EVAL_FOLDER/SET --method METHOD`; what is finished is not run again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from wherein.bench.datasets.local import load_masks, read_mask
from wherein.bench.evaluation import Curve, Evaluation
from wherein.bench.metrics import trapezoidal_ap
from wherein.bench.plots import line_plot
from wherein.bench.run import Plan, run
from wherein.bench.task import Options
from wherein.encoders import load
from wherein.image import decode
from wherein.locating import locate_in, scene_of, sought_of
from wherein.masks import mask_box
from wherein.query import Part, Query
from wherein.region import iou

MASKS = ("mini", "mini+locate~coarse", "mini+locate", "mini+locate~support", "mini+locate~similar", "mini+segrank")
UNDERWATER = (
    "mini+whole",
    "mini+append-short",
    "mini+append-long",
    "mini+static-5",
    "mini+static-9",
    "mini+static-9@0.1",
    "mini+static-9~soft",
    "mini+static-5~crop",
    "mini+static-9~crop",
    "mini+static-9@0.1~crop",
    "mini+static-9~best~crop",
    "mini+static-9~soft~crop",
    "mini+static-9@0.1~soft~crop",
    "mini+patches",
    "mini+proposals",
)
ROAD = ("mini+whole", "mini+whole+locate", "mini+patches", "mini+proposals", "mini+proposals+locate")
SPREADS = ((0.0, 0.0), (0.1, 0.1), (0.25, 0.25), (0.5, 0.5))
SWEPT = ("mini+whole", "mini+static-9~crop", "mini+static-9~soft~crop", "mini+static-9@0.1~soft~crop")
ROUNDS = 10_000
# The clips that thresholds and counts were chosen on; the others were only looked at afterwards.
CHOSEN_ON = ("breakdance", "cows", "drift-straight", "libby", "scooter-black")


def main() -> None:
    """Run what is missing, then write the page and the plot."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/where"))
    parser.add_argument("--page", type=Path, default=Path("docs/results/where.md"))
    parser.add_argument("--draws", type=int, default=3)
    asked = parser.parse_args()
    asked.page.parent.mkdir(parents=True, exist_ok=True)
    sections = [HEAD, masks(asked.data / "masks", asked.out), speed(asked.data / "masks")]
    sections += [underwater(asked.data / "underwater", asked.out), road(asked.data / "road", asked.out)]
    asked.page.write_text("\n".join(sections), "utf-8")
    plot = asked.page.with_suffix(".svg")
    sections.append(sweep(asked.data / "underwater", asked.out, plot, draws=asked.draws))
    asked.page.write_text("\n".join(sections), "utf-8")


def ran(data: Path, method: str, out: Path, **options: Any) -> Evaluation:
    """One run; the runs of a set share their index."""
    name = "-".join([method, *(f"{key}{value}" for key, value in options.items())]).replace("/", "_").replace(" ", "")
    plan = Plan(data.name, data, method, out / data.name / name, Options(**options), home=out / data.name / "index")
    return run(plan)


def masks(data: Path, out: Path) -> str:
    """Pixel retrieval."""
    rows = []
    for method in MASKS:
        evaluation = ran(data, method, out)
        scores = evaluation.scores
        by_clip = {query.query_id: query.metrics["mIoU S"] for query in evaluation.queries}
        chosen = np.mean([value for clip, value in by_clip.items() if clip in CHOSEN_ON])
        other = np.mean([value for clip, value in by_clip.items() if clip not in CHOSEN_ON])
        at = scores["mAP@50:5:95"]
        rows.append(
            [method, _3(scores["mAP"]), _3(scores["mIoU"]["D"]), _3(scores["mIoU"]["S"]), _3(chosen), _3(other)]
            + [_3(at[name]) for name in ("official", "paper-D", "paper-S")]
        )
    head = ["method", "image mAP", "box IoU", "mask IoU", "chosen on", "not chosen on", "mAP@50:5:95 official"]
    return MASKS_TEXT + table([*head, "paper, boxes", "paper, masks"], rows) + whole_frames(data) + own_boxes(data)


def whole_frames(data: Path) -> str:
    """The baseline of the ranking: the global embedding of the whole query frame, alone."""
    encoder, dataset = load("mini"), load_masks(data)
    names = list(dataset.image_ids)
    rows = np.concatenate([encoder.images(encoder.prepare(decode(dataset.root / n))[None]).global_ for n in names])
    found = []
    for clip in dataset.clips:
        others = [number for number, name in enumerate(names) if name != clip.query]
        scores = rows[others] @ rows[names.index(clip.query)]
        ranked = [names[others[place]] for place in np.argsort(-scores, kind="stable")]
        places = [place for place, name in enumerate(ranked) if name in clip.frames()]
        found.append(trapezoidal_ap(np.array(places), relevant=len(places)))
    return f"\nThe global embedding of the whole query frame alone ranks with an image mAP of {np.mean(found):.3f}.\n"


def own_boxes(data: Path) -> str:
    """Every object's box, asked for in its own image."""
    encoder, dataset = load("mini"), load_masks(data)
    found: dict[bool, list[float]] = {False: [], True: []}
    for clip in dataset.clips:
        for name, path in clip.masks.items():
            box = mask_box(read_mask(path))
            if box is None:
                continue
            sought = sought_of(Query((Part(image=dataset.root / name, box=box),)), encoder)
            scene = scene_of(decode(dataset.root / name), encoder)
            for refine, ious in found.items():
                answer = locate_in(scene, sought, refine=refine).box
                ious.append(0.0 if answer is None else iou(answer, box))
    medians = {refine: float(np.median(ious)) for refine, ious in found.items()}
    return (
        f"\nThe box of each of {len(found[True])} objects, asked for in its own image, comes back with a median IoU of "
        f"{medians[False]:.2f} coarse and {medians[True]:.2f} refined.\n"
    )


def speed(data: Path) -> str:
    """Milliseconds of processor time to locate in one hit whose layers are in memory."""
    encoder, dataset = load("mini", threads=2), load_masks(data)
    clip = dataset.clips[0]
    masked = Part(image=dataset.root / clip.query, mask=read_mask(clip.masks[clip.query]))
    scenes = [scene_of(decode(dataset.root / name), encoder) for name in clip.frames()]
    rows = []
    for name, part in (("a region of an example", masked), ("a text", Part(text=clip.name))):
        started = time.process_time()
        sought = sought_of(Query((part,)), encoder)
        asking = time.process_time() - started
        each = []
        for refine in (False, True):
            laps = []
            for scene in scenes * 5:
                with threadpool_limits(1):
                    started = time.process_time()
                    locate_in(scene, sought, refine=refine)
                    laps.append(time.process_time() - started)
            each.append(float(np.median(laps)))
        rows.append([name, *(f"{1000 * value:.1f}" for value in (*each, asking))])
        print(f"locate, {name}: coarse {1000 * each[0]:.1f} ms, refined {1000 * each[1]:.1f} ms a hit", flush=True)
    return SPEED_TEXT + table(["query", "coarse, ms a hit", "refined, ms a hit", "once a query, ms"], rows)


def underwater(data: Path, out: Path) -> str:
    """Known items: a label and a box."""
    found = {method: ran(data, method, out) for method in UNDERWATER}
    base = found[UNDERWATER[0]]
    rows = []
    for method, evaluation in found.items():
        low, high = ratio_interval(evaluation, base)
        scores = evaluation.scores
        ratio = scores["R@10"] / base.scores["R@10"]
        interval = "" if evaluation is base else f"{ratio:.2f} [{low:.2f}, {high:.2f}]"
        rows.append(
            [method, _3(scores["R@1"]), _3(scores["R@10"]), f"{scores['MNR']:.1f}", _3(scores["pointing"]), interval]
        )
    return UNDERWATER_TEXT + table(["method", "R@1", "R@10", "mean rank", "pointing", "R@10 / whole, 95 %"], rows)


def ratio_interval(one: Evaluation, base: Evaluation) -> tuple[float, float]:
    """Paired bootstrap of the ratio of macro R@10: questions are drawn within their labels."""
    first, second = ({q.query_id: q for q in evaluation.queries} for evaluation in (one, base))
    random = np.random.default_rng(0)
    totals = np.zeros((2, ROUNDS))
    for label in sorted({query.group for query in first.values()}):
        names = [name for name, query in first.items() if query.group == label]
        hits = np.array([[side[name].metrics["rank"] <= 10 for name in names] for side in (first, second)], float)
        drawn = random.integers(0, len(names), (ROUNDS, len(names)))
        totals += hits[:, drawn].mean(axis=2)
    low, high = np.percentile(totals[0] / np.maximum(totals[1], 1e-9), [2.5, 97.5])
    return float(low), float(high)


def road(data: Path, out: Path) -> str:
    """Odd things on roads."""
    rows = []
    for method in ROAD:
        scores = ran(data, method, out).scores
        rows.append([method, _3(scores["mAP"]), _3(scores["pointing"])])
    return ROAD_TEXT + table(["method", "mAP", "pointing"], rows)


def sweep(data: Path, out: Path, plot: Path, *, draws: int) -> str:
    """R@10 when the box is sloppy: the same draws for every method."""
    rows, curves = [], []
    for method in SWEPT:
        values = []
        for spread in SPREADS:
            count = 1 if spread == (0.0, 0.0) or method.endswith("whole") else draws
            runs = [ran(data, method, out, perturb=spread, draw=draw) for draw in range(count)]
            values.append(float(np.mean([one.scores["R@10"] for one in runs])))
        rows.append([method, *map(_3, values)])
        curves.append(Curve(method, "spread of shift and size", "R@10", [spread[0] for spread in SPREADS], values))
    plot.write_text(_standalone(line_plot(curves)), "utf-8")
    head = ["method", *(f"σ {shift:g}, {size:.0%}" for shift, size in SPREADS)]
    return SWEEP_TEXT.format(draws=draws, plot=plot.name) + table(head, rows)


def _standalone(figure: str) -> str:
    """The plot's SVG alone, with the colours that a page would give it, and a legend."""
    svg = figure[figure.index("<svg") : figure.index("</svg>")]
    colours = ("#4b5563", "#d2410f", "#1d6fb8", "#2f8f4e")
    for number, (method, colour) in enumerate(zip(SWEPT, colours, strict=True)):
        svg = svg.replace(f"var(--line-{number})", colour)
        place = f'x="70" y="{24 + 16 * number}" fill="{colour}" font-size="12" font-family="sans-serif"'
        svg += f"<text {place}>{method}</text>"
    svg += "<style>.rule{stroke:#ddd} text{font:11px sans-serif}</style></svg>\n"
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" style="background:#fff" ', 1)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _3(value: float) -> str:
    return f"{value:.3f}"


HEAD = """# Where: regions and pixels

Made by `python benchmarks/where.py EVAL_FOLDER`; each row is one `wherein bench run SET --data EVAL_FOLDER/SET --method
METHOD`. Fractions. These sets are small and were looked at while building; what was chosen on what is said below.
"""
MASKS_TEXT = f"""
## Pixel retrieval (`masks`)

The query is the first frame of a clip and its mask; the 49 other frames of ten clips are found and segmented. The
number of query patches, the threshold and the filter's radius were chosen on five clips
({", ".join(CHOSEN_ON)}),
while the figures of the other five were in sight; nothing was trained. `~support` and `~similar` are the other
localizers; `segrank` ranks by the located region too. `paper` counts an image whose region fails as missed, `official`
leaves it out.

"""
SPEED_TEXT = """
### Speed

Medians of processor time with one thread for linear algebra, since other work shared the machine; grids and thumbs as
a collection keeps them. A hit's layers take 64 kB
(`dense`), 16 kB (`patches`) and about 10 kB (`thumbs`).

"""
UNDERWATER_TEXT = """
## Known items with a place (`underwater`)

A label's name and the box of its largest object are a query for that one photo among 127; macro over seven labels, 172
queries. The interval is a paired bootstrap (10,000 draws of questions within labels) of the ratio of R@10. Of the
choices of cells only the paper's (`~any`) was fixed beforehand.

"""
ROAD_TEXT = """
## Odd things on roads (`road`)

Thirty photos with something odd among a hundred, found with four generic texts. Pointing: does the hit's region lie on
the odd thing? Proposals are six boxes an image, made from colours and edges alone.

"""
SWEEP_TEXT = """
## Sloppy boxes

R@10 on `underwater` when every box is shifted by N(0, σ) of the frame and each side scaled by N(1, σ); mean of {draws}
draws that all methods share.

![R@10 against the spread of the box]({plot})

"""

if __name__ == "__main__":
    main()
