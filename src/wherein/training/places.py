"""What the boxes of examples teach: for each label a vector that is compared with patches instead of whole images.

Right are the mean patches under a label's boxes, wrong some patches of images that do not show it. What is learnt and
the vector of whole images count alike: by the boxes alone places are found as well, but images are ranked worse. Where
boxes that are held out stand lower among the wrong patches than by the vector of whole images, that one is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from wherein.arrays import Floats, unit
from wherein.index.patches import share_under
from wherein.search.head import Usual, learn_label, standings, told_by
from wherein.training.examples import Examples

WRONG_PATCHES: Final = 4
"""Patches of each wrong image, by chance: with the usual ones of the collection enough to say what is not meant."""
BOXES_MOST: Final = 2_000
"""Boxes of a label that teach, by chance: time grows with their number (two labels of 50,000 took a minute), and the
mean of so many hardly moves."""
GRIDS_MOST: Final = 256
"""Images of the collection that say what patches usually show: 16 MB of a grid of 16 × 16 × 64 numbers."""


def place_vectors(
    examples: Examples,
    grid: Callable[[int], Floats | None],
    sample: Sequence[Floats],
    *,
    basis: Floats | None,
    texts: Floats | None,
    vectors: Floats,
    seed: int,
) -> tuple[Floats, tuple[str, ...]]:
    """(labels, d) what patches are compared with, and the labels whose boxes taught something.

    `grid` gives the patches (gh, gw, c) of an example by its row, `sample` those of some images of the collection;
    `vectors` (labels, d) is what whole images are compared with.
    """
    found, taught = vectors.copy(), list[str]()
    boxed = sorted({label for _, label in examples.boxes})
    if not boxed or not len(sample):
        return found, ()
    chance, mean = np.random.default_rng(seed), np.mean(sample, axis=0)

    def rows(patches: Floats) -> Floats:
        return patches if basis is None else np.asarray(patches @ basis.T, np.float32)

    def some(patches: Floats) -> Floats:
        apart = np.asarray(patches - mean, np.float32).reshape(-1, mean.shape[-1])
        return np.asarray(apart[chance.permutation(len(apart))[:WRONG_PATCHES]], np.float32)

    grids = {row: own for row in range(len(examples.image_ids)) if (own := grid(row)) is not None}
    others = {row: some(own) for row, own in grids.items()}
    usual = Usual.of(rows(np.concatenate([some(own) for own in sample])))
    for label in boxed:
        placed = [
            (row, box)
            for (row, own), boxes in sorted(examples.boxes.items())
            if own == label and row in grids
            for box in boxes
        ]
        if len(placed) > BOXES_MOST:
            placed = [placed[number] for number in sorted(chance.permutation(len(placed))[:BOXES_MOST].tolist())]
        shares = [(row, share_under(mean.shape[:2], None, box)) for row, box in placed]
        wrong = [others[row] for row in others if examples.marks[row, label] == -1]
        if len(shares) < 2 or not wrong:
            continue
        means = [np.einsum("hw,hwc->c", share / share.sum(), grids[row] - mean) for row, share in shares]
        right, not_meant = rows(np.stack(means).astype(np.float32)), rows(np.concatenate(wrong))
        text = None if texts is None else texts[label]
        both = np.concatenate([right, not_meant])
        seen, said = learn_label(both, np.arange(len(both)) < len(right), usual, text=text)
        learnt = seen.plus(said, 0.0 if text is None else told_by(text, right, usual))
        by_whole = standings((right @ vectors[label])[:, None] - not_meant @ vectors[label])
        if float(learnt.standings().mean()) >= float(by_whole.mean()):
            found[label] = unit(vectors[label] + unit(learnt.vector))
            taught.append(examples.labels[label])
    return found, tuple(taught)
