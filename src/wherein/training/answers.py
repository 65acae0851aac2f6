"""What people answered in reviews, and which tags were given for them: `kept/answers.json`.

Tags that a label gave are told from those of people, so that nothing is learnt from its own guesses. Each change is a
step, which can be taken back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from wherein.copies import write_guarded
from wherein.errors import InputError

UNDO_MOST: Final = 100
"""Steps that can be taken back, at most, as of judgements."""
_FORMAT: Final = 1  # the version of what is written here
_FILE: Final = "kept/answers.json"

Tags = dict[str, list[str]]
"""label → image_ids"""


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """What one change did: tags put on and taken off, by label, and what was said before."""

    tagged: Tags = field(default_factory=dict)
    untagged: Tags = field(default_factory=dict)
    pushed: Tags = field(default_factory=dict)
    """What counted as given by a label before and does not any more."""
    by_label: bool = False
    """Whether the tags were given by labels, not by a person."""
    said: dict[str, dict[str, bool | None]] = field(default_factory=dict)
    """label → image_id → what was said before; None: nothing."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {name: getattr(self, name) for name in ("tagged", "untagged", "pushed", "by_label", "said")}


@dataclass(frozen=True, slots=True)
class _Kept:
    said: dict[str, dict[str, bool]]
    pushed: Tags
    steps: dict[str, AnswerChange]
    last: int

    @classmethod
    def from_dict(cls, known: Mapping[str, Any]) -> Self:
        said = {label: {one: bool(right) for one, right in images.items()} for label, images in known["said"].items()}
        steps = {number: AnswerChange(**step) for number, step in known["steps"].items()}
        return cls(said, dict(known["pushed"]), steps, int(known["last"]))


class AnswerBook:
    """The answers and the given tags of one collection."""

    def __init__(self, folder: Path) -> None:
        self._home, self._path = folder, folder / _FILE

    def said(self) -> Mapping[str, Mapping[str, bool]]:
        """label → image_id → whether a person said that it is right."""
        return self._read().said

    def pushed(self) -> Mapping[str, Sequence[str]]:
        """label → images whose tag was given by the label, and that nobody has confirmed."""
        return self._read().pushed

    def push(self, tags: Tags) -> int:
        """Remember that labels gave these tags; the number of the step."""
        kept = self._read()
        for label, image_ids in tags.items():
            kept.pushed[label] = sorted({*kept.pushed.get(label, ()), *image_ids})
        return self._stepped(kept, AnswerChange(tagged=tags, by_label=True))

    def answer(self, label: str, image_id: str, *, right: bool, tagged: bool) -> AnswerChange:
        """Remember what a person said of an image that bears the tag already, or not; what its tag becomes."""
        kept = self._read()
        own = kept.said.setdefault(label, {})
        pushed = image_id in kept.pushed.get(label, ())
        step = AnswerChange(
            tagged={label: [image_id]} if right and not tagged else {},
            untagged={label: [image_id]} if tagged and not right else {},
            pushed={label: [image_id]} if pushed else {},
            said={label: {image_id: own.get(image_id)}},
        )
        own[image_id] = right
        _take(kept.pushed, step.pushed)
        self._stepped(kept, step)
        return step

    @property
    def last(self) -> int:
        """The number of the last step."""
        return self._read().last

    def undo(self, number: int | None = None) -> AnswerChange:
        """Forget what one step said, the last one unless given; the tags that have to be turned back."""
        kept = self._read()
        key = str(max(map(int, kept.steps), default=0) if number is None else number)
        if key not in kept.steps:
            what = "there is no answer and no tag that" if number is None else f"step {number} is not among those that"
            raise InputError(f"{what} can be taken back.")
        step = kept.steps.pop(key)
        if step.by_label:
            _take(kept.pushed, step.tagged)
        for label, image_ids in step.pushed.items():
            kept.pushed[label] = sorted({*kept.pushed.get(label, ()), *image_ids})
        for label, before in step.said.items():
            for image_id, right in before.items():
                if right is None:
                    kept.said.get(label, {}).pop(image_id, None)
                else:
                    kept.said.setdefault(label, {})[image_id] = right
        self._write(kept)
        return step

    def _stepped(self, kept: _Kept, step: AnswerChange) -> int:
        number = kept.last + 1
        steps = dict(list({**kept.steps, str(number): step}.items())[-UNDO_MOST:])
        self._write(_Kept(kept.said, kept.pushed, steps, number))
        return number

    def _read(self) -> _Kept:
        if not self._path.exists():
            return _Kept({}, {}, {}, 0)
        try:
            return _Kept.from_dict(json.loads(self._path.read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{self._path}: cannot be read ({error}). Remove it, and answer again.") from error

    def _write(self, kept: _Kept) -> None:
        document = {
            "format": _FORMAT,
            "said": {label: images for label, images in kept.said.items() if images},
            "pushed": {label: image_ids for label, image_ids in kept.pushed.items() if image_ids},
            "steps": {number: step.to_dict() for number, step in kept.steps.items()},
            "last": kept.last,
        }
        write_guarded(self._home, _FILE, json.dumps(document, ensure_ascii=False).encode())


def _take(tags: Tags, gone: Tags) -> None:
    for label, image_ids in gone.items():
        tags[label] = [one for one in tags.get(label, ()) if one not in set(image_ids)]
