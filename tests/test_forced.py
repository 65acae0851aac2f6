"""What the benchmark of a forced index says it scored, also when it goes on with what was run before."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wherein import Collection

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, with searches that look at one image of four, and runs that ask what is left of two questions."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    script = importlib.import_module("forced")
    answered = set[tuple[Path, int]]()

    def search(*_: Any, **__: Any) -> None:
        script.SCORED["looked at"] += 1
        script.SCORED["there"] += 4

    def run(plan: Any) -> Any:
        plan.out.mkdir(parents=True, exist_ok=True)
        for question in {(plan.out, 0), (plan.out, 1)} - answered:
            Collection.search([], "red")  # type: ignore[arg-type]
            answered.add(question)
        return SimpleNamespace(scores={"R@1": 0.5})

    monkeypatch.setattr(Collection, "search", search)
    for name, value in (("run", run), ("force", lambda: None), ("METHODS", {"set": ["mini"]})):
        monkeypatch.setattr(script, name, value)
    return script


def test_what_was_scored_before_counts_when_a_run_goes_on(
    forced: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(sys, "argv", ["forced", str(tmp_path), "--out", str(tmp_path / "out"), "--page", str(page)])
    for _ in range(2):
        forced.main()
        assert "| set | `mini` | R@1 | 50.00 | 50.00 | +0.00 | 25 % |" in page.read_text("utf-8")
    for kept in (tmp_path / "out").rglob("scored.json"):
        kept.unlink()
    forced.main()
    assert "| +0.00 | – |" in page.read_text("utf-8")  # of a run that was finished before it was counted
