"""The committed tables of the same thing again: every method beside the plain one it builds on.

    python benchmarks/same_thing.py EVAL_FOLDER [--out out/same-thing] [--page docs/results/same-thing.md] [--learned]

EVAL_FOLDER holds `covers`, `facades` and `objects`. Every row is one `wherein bench run`, every table one `wherein
bench report` with paired intervals against its first row; what is finished is not run again. `--learned` adds the
features and matchers of the extra `learned`, on `facades` only: they take seconds an image. What the page says below
its tables (`## Speed`, …) stays as it is.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

GROUPS = {
    "An embedding, its pyramid, and whole-ranking methods": [
        "mini",
        "mini+pyramid",
        "mini+qe",
        "mini+qe~average",
        "mini+qe~ranked",
        "mini+dba",
        "mini+dba+qe",
        "mini+diffusion",
    ],
    "Kernels of local features": ["bow", "vlad", "asmk", "asmk:midlevel", "asmk:midlevel:dense"],
    "Spatial verification": ["bow", "bow+sp", "asmk+sp"],
    "Compact storage, other features, propagation": [
        "bow+sp",
        "bow:rootsift:compact+sp",
        "bow:rootsift:upright+sp",
        "bow+sp~affine",
        "bow+sp+propagate",
    ],
    "Fused": ["mini+bow+sp", "mini", "bow+sp", "mini+bow", "mini+sp", "mini+bow+sp+propagate"],
}
LEARNED = ["bow+sp", "bow:xfeat+sp", "bow:xfeat+sp~learned", "bow:aliked+sp", "bow:aliked+sp~learned"]
SETS = {
    "covers": "200 photos, 50 covers among 132 others",
    "facades": "25 photos, 76 images",
    "objects": "81 photos of 15 things, each left out in turn",
}
HEAD = """# The same thing again

Made by `python benchmarks/same_thing.py EVAL_FOLDER`: each row is `wherein bench run SET --data EVAL_FOLDER/SET
--method METHOD`, each pair of tables `wherein bench report RUN… --format markdown`, compared with its first row.
Percent. Seconds are of two cores that others shared, at some rows much more than at others: do not compare them. Bytes
count the layers that a method needs. A method of the command that has no row here was not run yet.
"""
BELOW = "## Speed"


def main() -> None:
    """Run what is missing, then write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/same-thing"))
    parser.add_argument("--page", type=Path, default=Path("docs/results/same-thing.md"))
    parser.add_argument("--only", nargs="*", default=list(SETS), choices=list(SETS), help="sets to run now")
    parser.add_argument("--learned", action="store_true", help="needs the extra `learned`")
    arguments = parser.parse_args()
    for name in arguments.only:
        methods = [method for group in GROUPS.values() for method in group]
        methods += LEARNED if arguments.learned and name == "facades" else []
        for method in dict.fromkeys(methods):
            run(name, method, arguments.data / name, arguments.out / name)
    sections = [section(name, about, arguments.out / name) for name, about in SETS.items()]
    written = arguments.page.read_text("utf-8") if arguments.page.exists() else BELOW
    below = written[written.index(BELOW) :]
    arguments.page.write_text("\n".join([HEAD, *filter(None, sections), below]), "utf-8")


def run(name: str, method: str, data: Path, out: Path) -> None:
    """One run; methods of a set share an index."""
    if not (out / method / "report.html").exists():
        words = ["run", name, "--data", str(data), "--method", method]
        bench(*words, "--out", str(out / method), "--collection", str(out / "index"), "--json")


def section(name: str, about: str, out: Path) -> str:
    """The tables of a set; of those methods that were run."""
    parts = [f"## {name}: {about}"]
    for title, methods in (GROUPS | {"Learned features and matchers": LEARNED}).items():
        runs = [str(out / method) for method in methods if (out / method / "report.html").exists()]
        if len(runs) > 1:
            _, _, tables = bench("report", *runs, "--format", "markdown").partition("\n")
            parts.append(f"### {name}: {title.lower()}\n{tables.rstrip()}")
    return "\n\n".join(parts) + "\n" if len(parts) > 1 else ""


def bench(*words: str) -> str:
    """What `wherein bench` prints."""
    command = [sys.executable, "-m", "wherein", "bench", *words]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    main()
