"""`hypergraph`: verification spreads along regions that images share, several hops far, from one community of hits.

After An, Huo and Yoon (2021): an edge does not join two images but a region of one with a region of another, so that a
hop goes on only from what the hit before it shows of the example. Where the first hits fall into many groups that
share nothing, the ranking is uncertain, and only the group of the surest hit spreads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from wherein.errors import QueryError
from wherein.search.engine import Candidate, Context, Ranked
from wherein.search.steps import SearchStep
from wherein.search.verification import VERIFIED, Verifier, with_heirs
from wherein.values.method import Method, Option
from wherein.values.region import Box

Linked = Callable[[int, int], bool]

HOPS: Final = 3
"""How far verification is passed on: the number of the authors' own code."""
SPREADING: Final = 15
"""Hits that pass their verification on, in all hops together: each compares its region with twenty images, so that
these are three hundred comparisons at most."""
ASKED_OF: Final = 5
"""First hits that are compared with the whole ranking besides, as many as `propagate` takes."""
GROUPED: Final = 8
"""First hits whose groups are looked for: every pair of them is compared, 28 in all."""
UNCERTAIN: Final = 1.0
"""Entropy (in nats) of the sizes of the groups above which only one of them spreads: the authors' threshold."""


class Hypergraph(SearchStep):
    """Puts those that inherit inliers, over up to three hops, among the verified ones."""

    name = "hypergraph"
    summary = "passes verification on along shared regions, three hops far, from the surest community"
    options = (Option("community", ("selected", "every")),)
    depth = VERIFIED

    def needs_local(self, method: Method) -> bool:  # noqa: ARG002 — always
        """It compares local features."""
        return True

    def __call__(self, context: Context, ranked: Ranked) -> Ranked:
        """The ranking with its heirs."""
        verifier = Verifier.of(context, self.name)
        if all(one.inliers is None for one in ranked.candidates) or ranked.source is None:
            raise QueryError("hypergraph passes on what sp verified: put it after sp, as bow+sp+hypergraph.")
        start = [one for one in ranked.candidates if one.inliers]
        if context.method.choice(self.name, "community") == "selected":
            start = surest_community(verifier, ranked.candidates[:GROUPED], start)
        heirs = _spread(verifier, context, ranked, start)
        verifier.links.keep()
        return with_heirs(ranked, heirs, evidence=verifier.evidence)


HYPERGRAPH: Final = Hypergraph()


def _spread(verifier: Verifier, context: Context, ranked: Ranked, start: Sequence[Candidate]) -> dict[int, Candidate]:
    """Who inherits from the start, hop by hop; each with the union of the regions by which it was reached."""
    known = {one.image: one for one in ranked.candidates}
    verified = {one.image for one in ranked.candidates if one.inliers}
    adopted = dict[int, Candidate]()
    frontier, left = list(start), SPREADING
    for hop in range(HOPS):
        found = dict[int, Candidate]()
        for number, source in enumerate(frontier[:left]):
            region = verifier.region(source)
            reached = set(verifier.reached(region, context))
            reached |= set(known) if hop == 0 and number < ASKED_OF else set()
            for image in sorted(reached - verified - adopted.keys()):
                one = known.get(image) or Candidate(image, _score(ranked, image))
                heir = verifier.linked(one, source, region)
                if heir.inliers:
                    found[image] = joined(found.get(image), heir)
        left -= min(left, len(frontier))
        adopted |= found
        frontier = sorted(found.values(), key=lambda one: (-(one.inliers or 0), one.image))
        if not frontier or not left:
            break
    return adopted


def _score(ranked: Ranked, image: int) -> float:
    if ranked.source is None:
        return 0.0
    return float(ranked.source.scores(np.array([image]))[0])


def joined(before: Candidate | None, heir: Candidate) -> Candidate:
    """An heir of several hits: the most that it inherits, and the region that all of its matches span."""
    if before is None:
        return heir
    more, less = (before, heir) if (before.inliers or 0) >= (heir.inliers or 0) else (heir, before)
    if more.box is None or less.box is None:
        return more
    one, other = more.box, less.box
    spanned = Box(min(one.x1, other.x1), min(one.y1, other.y1), max(one.x2, other.x2), max(one.y2, other.y2))
    return replace(more, box=spanned, mask=None if spanned != one else more.mask)


def surest_community(verifier: Verifier, first: Sequence[Candidate], verified: Sequence[Candidate]) -> list[Candidate]:
    """The verified hits that may spread: all of them, or those of the surest hit's group where the groups are many."""
    if len(verified) < 2:  # there is nothing to choose from
        return list(verified)
    groups = communities([one.image for one in first], verifier.share_something)
    if entropy([len(group) for group in groups]) <= UNCERTAIN:
        return list(verified)
    surest = max(verified, key=lambda one: (one.inliers or 0, -one.image))
    own = next((group for group in groups if surest.image in group), {surest.image})
    return [one for one in verified if one.image in own]


def communities(images: Sequence[int], linked: Linked) -> list[set[int]]:
    """Images in groups: whoever is linked with one of a group belongs to it."""
    groups: list[set[int]] = []
    for image in images:
        mine = [group for group in groups if any(linked(image, other) for other in sorted(group))]
        groups = [group for group in groups if group not in mine]
        groups.append({image}.union(*mine))
    return groups


def entropy(sizes: Sequence[int]) -> float:
    """Of groups of these sizes, in nats: 0 for one group, the logarithm of their number for equal ones."""
    total = sum(sizes)
    return -sum(size / total * math.log(size / total) for size in sizes if size) if total else 0.0
