"""What people judge of hits, and how far confidence can be trusted by it. A part of the facade."""

from __future__ import annotations

from collections.abc import Iterable

from wherein.errors import InputError
from wherein.options import Asked
from wherein.search.confidence import Measured
from wherein.search.engine import Candidate, Ranked
from wherein.search.judgements import Curves
from wherein.search.signs import FEWEST
from wherein.search.views import View
from wherein.store.store import Store
from wherein.values.judgement import Calibration, Judgement, Reliability
from wherein.values.method import Method
from wherein.values.ranking import Hit


class Judging:
    """What people say of hits, kept and used."""

    _store: Store
    _curves: Curves

    def _keys(self, image_ids: str | Iterable[str | Iterable[str]]) -> list[int]:
        """The catalogue's keys of images; unknown ids are refused."""
        raise NotImplementedError

    def _ranked(self, asked: Asked) -> tuple[View, int, Ranked, Measured | None]:
        """What a search looked at, how many images passed, what it found, and how strong the evidence is."""
        raise NotImplementedError

    def _by_trained(self, asked: Asked) -> Asked:
        """The search by the trained encoder that knows its labels, where only one does."""
        raise NotImplementedError

    def _hit(self, view: View, found: Candidate) -> Hit:
        """A candidate as it is answered."""
        raise NotImplementedError

    def calibrate(self, judgements: Iterable[Judgement], *, method: str | Method = "") -> list[Calibration]:
        """Let judged hits, those among the first 20 of each query, say how likely others are right; they add up.

        A few move later confidences only a little, and most where the query is the same. Unknown ids are refused.
        """
        judged, given = dict[str, dict[str, tuple[float, bool]]](), list(judgements)
        if not given:
            raise InputError("nothing is judged: there is no query with right and wrong images to learn from.")
        self._keys({image_id for one in given for image_id in one.named})
        for judgement in given:
            asked = self._by_trained(Asked.of(judgement.query, {"method": method, "frames": True}))
            view, _, ranked, measured = self._ranked(asked)
            if measured is None:
                raise InputError(
                    f"hits of method {method or 'whole'} cannot be calibrated here: an example needs {FEWEST} images "
                    "to be compared with."
                )
            found = [self._hit(view, one).image_id for one in ranked.candidates]
            judged.setdefault(measured.source, {}).update(judgement.of(found, measured.values().tolist()))
        if not any(judged.values()):
            raise InputError("no judged image is among the first 20 of its query: there is nothing to learn from.")
        with self._store.keeping():
            return self._curves.judge(judged)

    def uncalibrate(self, step: int | None = None, *, reset: bool = False) -> str:
        """Take back what one `step` judged (the last, unless given), or all with `reset`; says so in a sentence."""
        with self._store.keeping():
            return self._curves.reset() if reset else self._curves.undo(step)

    def reliability(self) -> list[Reliability]:
        """How far confidence can be trusted here, by what was judged: what was said, and what was right."""
        return self._curves.reliability()
