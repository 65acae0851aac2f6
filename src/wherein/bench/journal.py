"""The append-only record of a run: finished questions and running costs. A killed run goes on after its last line."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wherein.errors import DataError


class Journal(Mapping[str, dict[str, Any]]):
    """`answers.ndjson`: a line per question, `{"question", "seconds", "score_kind", "answer"}`, and cost lines.

    Answers are read from disk when they are looked at: full rankings of a large benchmark do not fit in memory.
    """

    def __init__(self, path: Path) -> None:
        """Find the lines that are there; one that was cut off by a kill is dropped."""
        self.path = path
        self.seconds: list[float] = []
        self.costs: list[dict[str, Any]] = []
        self.score_kinds: set[str] = set()  # empty where the run was made before they were kept
        self._places: dict[str, int] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self._mend()
        place = 0
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                self._take(self._parse(text, number), place)
                place += len(text)

    def __getitem__(self, question_id: str) -> dict[str, Any]:
        with self.path.open("rb") as file:
            file.seek(self._places[question_id])
            answer: dict[str, Any] = json.loads(file.readline())["answer"]
        return answer

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def answer(self, question_id: str, *, seconds: float, kept: Mapping[str, Any], score_kind: str) -> None:
        """Record a finished question."""
        self._append({"question": question_id, "seconds": seconds, "score_kind": score_kind, "answer": dict(kept)})

    def cost(self, **figures: Any) -> None:
        """Record a running cost."""
        self._append({"cost": figures})

    def note(self, notes: Iterable[str]) -> None:
        """Record what the engine said about a query, each thing once."""
        for note in dict.fromkeys(notes):
            if note not in self.notes():
                self._append({"cost": {"note": note}})

    def notes(self) -> tuple[str, ...]:
        """What the engine said about the queries."""
        return tuple(cost["note"] for cost in self.costs if "note" in cost)

    def _append(self, line: dict[str, Any]) -> None:
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"
        with self.path.open("ab") as file:
            place = file.seek(0, 2)
            file.write(text.encode("utf-8"))
        self._take(line, place)

    def _take(self, line: dict[str, Any], place: int) -> None:
        if "cost" in line:
            self.costs.append(line["cost"])
        elif line["question"] not in self._places:
            self._places[line["question"]] = place
            self.seconds.append(line["seconds"])
            self.score_kinds |= {line["score_kind"]} if "score_kind" in line else set()

    def _mend(self) -> None:
        """Cut the file after its last whole line."""
        with self.path.open("rb+") as file:
            end = file.seek(0, 2)
            while end:
                start = max(0, end - 65536)
                file.seek(start)
                newline = file.read(end - start).rfind(b"\n")
                if newline >= 0:
                    end = start + newline + 1
                    break
                end = start
            file.truncate(end)

    def _parse(self, text: bytes, number: int) -> dict[str, Any]:
        try:
            line = json.loads(text)
            if not isinstance(line, dict) or not ("cost" in line or {"question", "answer", "seconds"} <= set(line)):
                raise ValueError("it is not a line of a run")
        except ValueError as error:
            raise DataError(
                f"{self.path}, line {number}: cannot be read ({error}); delete the file to ask every question again"
            ) from error
        return line

    def timing(self, *, setup_seconds: float) -> dict[str, Any]:
        """Seconds per query, setup seconds and peak memory, over all the sittings of the run."""
        peaks = [cost["peak_memory_bytes"] for cost in self.costs if cost.get("peak_memory_bytes")]
        return {
            "seconds_per_query": float(np.mean(self.seconds)) if self.seconds else 0.0,
            "seconds_per_query_median": float(np.median(self.seconds)) if self.seconds else 0.0,
            "queries": len(self),
            "setup_seconds": setup_seconds,
            "peak_memory_bytes": max(peaks, default=None),
        }


@dataclass(frozen=True)
class SetupLog:
    """`setup.ndjson` beside an index: the seconds that indexing took, one line per sitting and encoder.

    Runs that share an index share its setup time; layers that only another method needed count too.
    """

    path: Path

    def add(self, *, encoder: str, layers: Iterable[str], seconds: float) -> None:
        """Record one sitting of indexing: its encoder, its layers and its seconds."""
        line = {"encoder": encoder, "layers": list(layers), "seconds": seconds}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def seconds(self, *, encoder: str) -> float:
        """What indexing with an encoder took so far."""
        if not self.path.is_file():
            return 0.0
        total = 0.0
        for text in self.path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue  # cut off by a kill: that sitting's time is lost, nothing else
            total += line["seconds"] if line["encoder"] == encoder else 0.0
        return total
