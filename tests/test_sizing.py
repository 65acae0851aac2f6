"""The page of sizes is what the measured figures say."""

import importlib.util
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def sizing() -> Any:
    spec = importlib.util.spec_from_file_location("sizing", ROOT / "benchmarks" / "sizing.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_follows_from_the_figures() -> None:
    made = sizing()
    assert made.PAGE.read_text("utf-8") == made.page(json.loads(made.FIGURES.read_text("utf-8")))


def test_amounts_worked_by_hand() -> None:
    made = sizing()
    assert made.amount(1_109_000_000) == "1.1 GB"
    assert made.core_hours({"core_ms_per_image": 36.0}, 100_000) == 1.0
    assert (made.span(3.0), made.span(0.5), made.span(0.01)) == ("3 days", "12.0 hours", "14 minutes")
