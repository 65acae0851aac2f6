"""Write docs/reliability.md from the figures of a long run, or of its parts: report.py FIGURES.json …"""

import json
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
HEAD = """# Reliability, as measured

Written by `./check --long` (`tests/faults/report.py`); every line is a harness in `tests/faults/`, and its short form
runs in `./check`. Parts may be run apart (`WHEREIN_LONG=1 WHEREIN_FIGURES=FILE pytest tests/faults/test_kills.py`)
and joined (`python tests/faults/report.py FILE …`); what has no line here was not run then.

| what was tried | how often | what came of it |
|---|---|---|
"""


def line(name: str, found: dict[str, Any]) -> str:
    """A row of the table."""
    if name == "load":
        memory = [int(found[f"bytes_{when}"]) >> 20 for when in ("early", "late")]
        said = (
            f"{found['requests']:,} requests, {found['errors']} answers other than those expected; half within "
            f"{found['p50_seconds']} s, 99 of 100 within {found['p99_seconds']} s; "
            f"memory {memory[0]} → {memory[1]} MB, "
            f"descriptors {found['descriptors_early']} → {found['descriptors_late']}"
        )
        kinds: dict[str, list[float]] = found["kinds"]
        rows = [f"| mixed requests | {found['clients']} clients, {found['seconds']:.0f} s | {said} |"]
        rows += [
            f"| … of them {kind} | | half within {half} s, 99 of 100 within {most} s |"
            for kind, (half, most) in kinds.items()
        ]
        return "\n".join(rows)
    said = ", ".join(f"{value:,} {word}" for word, value in found.items() if word not in ("tries", "bytes"))
    said += f"; at most {found['bytes'] / 2**30:.2f} GB in a decoder" if "bytes" in found else ""
    return f"| {name} | {found['tries']:,} | {said or 'answered or refused, nothing else'} |"


def main() -> None:
    """Write the page."""
    figures = dict[str, dict[str, Any]]()
    for path in sys.argv[1:]:
        figures |= json.loads(Path(path).read_text())
    rows = [line(name, found) for name, found in sorted(figures.items())]
    struck = sum(found["tries"] for name, found in figures.items() if name.startswith(("struck", "killed", "cut")))
    lost = sum(found.get("lost", 0) for found in figures.values())
    foot = f"\nKills, cuts and failed writes in all: {struck:,}; collections that lost committed work: {lost}.\n"
    PAGE.write_text(HEAD + "\n".join(rows) + "\n" + foot)


if __name__ == "__main__":
    main()
