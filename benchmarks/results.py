"""The committed table of `mini` on the development sets; regions and local features have tables of their own.

    python benchmarks/results.py EVAL_FOLDER [--out out/results] [--page docs/results/mini.md]

EVAL_FOLDER holds `captions`, `covers`, … as `wherein bench run` reads them. Every row is one `wherein bench run`;
what is finished is not run again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

METHODS = {
    "captions": ["mini"],
    "facades": ["mini"],
    "objects": ["mini"],
    "road": ["mini", "mini+patches"],
    "underwater": ["mini", "mini+patches"],
}
HEAD = """# `mini` on the development sets

Made by `python benchmarks/results.py EVAL_FOLDER`; each row is `wherein bench run SET --data EVAL_FOLDER/SET --method
METHOD`. Percent, except mean and median ranks. These sets were looked at while building; others are held back.
Seconds are of a shared machine with two cores: compare rows, not absolute values.
"""
TAIL = """

In `underwater` the query says where the thing is, so `patches` points inside that place; the pointing game without a
place (51.2 % against 37.2 % for the centre point), and how it was tuned, is in the
[model card](../../training/README.md).
"""


def main() -> None:
    """Run what is missing, then write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/results"))
    parser.add_argument("--page", type=Path, default=Path("docs/results/mini.md"))
    arguments = parser.parse_args()
    sections = [HEAD]
    for name, methods in METHODS.items():
        rows = {method: run(name, method, arguments.data / name, arguments.out / name) for method in methods}
        sections.append(section(name, rows))
    arguments.page.parent.mkdir(parents=True, exist_ok=True)
    arguments.page.write_text("\n".join([*sections, TAIL]), "utf-8")


def run(name: str, method: str, data: Path, out: Path) -> dict[str, float]:
    """The figures of one run, flat."""
    words = ["bench", "run", name, "--data", str(data), "--method", method, "--out", str(out / method), "--json"]
    done = subprocess.run([sys.executable, "-m", "wherein", *words], stdout=subprocess.PIPE, text=True, check=True)
    document = json.loads(done.stdout)
    timing = document.pop("timing")
    size = document.pop("bytes_per_image")
    return flat(document) | {"s/query": timing["seconds_per_query"], "bytes/image": size}


def flat(document: dict[str, object], prefix: str = "") -> dict[str, float]:
    """Nested figures under names such as `mIoU S`."""
    found: dict[str, float] = {}
    for key, value in document.items():
        name = f"{prefix} {key}".strip()
        if isinstance(value, dict):
            found |= flat(value, name)
        elif isinstance(value, int | float):
            found[name] = float(value)
    return found


def section(name: str, rows: dict[str, dict[str, float]]) -> str:
    """A Markdown table of one set."""
    columns = list(dict.fromkeys(column for figures in rows.values() for column in figures))
    lines = [f"\n## {name}\n", f"| method | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for method, figures in rows.items():
        lines.append(f"| `{method}` | {' | '.join(shown(column, figures.get(column)) for column in columns)} |")
    return "\n".join(lines)


def shown(column: str, value: float | None) -> str:
    """Percent for fractions; ranks, seconds and bytes as they are."""
    if value is None:
        return "–"
    if column == "bytes/image":
        return f"{value:,.0f}"
    if column == "s/query":
        return f"{value:.3f}"
    return f"{value:.1f}" if column.split()[-1] in ("MedR", "MNR") else f"{100 * value:.1f}"


if __name__ == "__main__":
    main()
