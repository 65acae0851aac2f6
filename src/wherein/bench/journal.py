"""The append-only record of a run: finished questions and running costs. A killed run goes on after its last line."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wherein.errors import DataError


class Journal:
    """`answers.ndjson`: one line per finished question, `{"question", "seconds", "answer"}`, and cost lines."""

    def __init__(self, path: Path) -> None:
        """Read what is there; a line that was cut off by a kill is dropped."""
        self.path = path
        self.answers: dict[str, dict[str, Any]] = {}
        self.seconds: list[float] = []
        self.costs: list[dict[str, Any]] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self._mend()
        for line in self._lines():
            self._take(line)

    def answer(self, question_id: str, *, seconds: float, kept: Mapping[str, Any]) -> None:
        """Record a finished question."""
        self._append({"question": question_id, "seconds": seconds, "answer": dict(kept)})

    def cost(self, **figures: Any) -> None:
        """Record a running cost."""
        self._append({"cost": figures})

    def _append(self, line: dict[str, Any]) -> None:
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
        self._take(json.loads(text))  # what a restart would read, so that both score the same

    def _take(self, line: dict[str, Any]) -> None:
        if "cost" in line:
            self.costs.append(line["cost"])
        elif line["question"] not in self.answers:
            self.answers[line["question"]] = line["answer"]
            self.seconds.append(line["seconds"])

    def _mend(self) -> None:
        with self.path.open("rb+") as file:
            data = file.read()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                file.truncate(whole)

    def _lines(self) -> Iterator[dict[str, Any]]:
        with self.path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                try:
                    line = json.loads(text)
                    if not isinstance(line, dict) or not (
                        "cost" in line or {"question", "answer", "seconds"} <= set(line)
                    ):
                        raise ValueError("it is not a line of a run")
                except ValueError as error:
                    raise DataError(
                        f"{self.path}, line {number}: cannot be read ({error}); "
                        "delete the file to ask every question again"
                    ) from error
                yield line

    def timing(self) -> dict[str, Any]:
        """Seconds per query, setup seconds and peak memory, over all the sittings of the run."""
        setup = [cost for cost in self.costs if "setup_seconds" in cost]
        peaks = [cost["peak_memory_bytes"] for cost in self.costs if cost.get("peak_memory_bytes")]
        return {
            "seconds_per_query": float(np.mean(self.seconds)) if self.seconds else 0.0,
            "seconds_per_query_median": float(np.median(self.seconds)) if self.seconds else 0.0,
            "queries": len(self.answers),
            "setup_seconds": float(sum(cost["setup_seconds"] for cost in setup)),
            "setup_complete": all(not cost.get("interrupted") for cost in setup),
            "peak_memory_bytes": max(peaks, default=None),
        }
