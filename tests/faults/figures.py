"""How long the harnesses run, and what they found, for docs/reliability.md."""

import json
import os
from pathlib import Path
from typing import Any

LONG = bool(os.environ.get("WHEREIN_LONG"))
"""Whether the full form is asked for: `./check --long`."""
_FILE = os.environ.get("WHEREIN_FIGURES", "")


def size(short: int, long: int) -> int:
    """How many there are in this form."""
    return long if LONG else short


def note(name: str, **figures: Any) -> None:
    """Keep figures for the report of a long run."""
    if _FILE:
        path = Path(_FILE)
        known = json.loads(path.read_text()) if path.is_file() else {}
        known[name] = figures
        path.write_text(json.dumps(known, indent=1))
