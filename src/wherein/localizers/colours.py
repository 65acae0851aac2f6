"""What the colours of examples say: how much likelier each is in what is meant than beside it.

Features of a network are coarse, and colours are not: they move a heatmap where the example's thing and its
surroundings differ in colour, and a graph cut then follows the colours of the image itself. The constants were chosen
on five clips of `masks` (breakdance, cows, drift-straight, libby, scooter-black), the five others being in sight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np
import numpy.typing as npt

from wherein.arrays import Floats, Mask
from wherein.images.image import Pixels

BINS: Final = 8
"""Steps of each channel of CIE L*a*b*; sixteen were worse by a hundredth, half of which was noise of few pixels."""
WEIGHT: Final = 0.3
"""How much colours count beside the heat, both as logits. On the five clips 0 gave a mask IoU of .676, 0.15 .688,
0.3 .693, 0.5 .701; on the others .743, .747, .748, .745."""
MOST: Final = 3.0
"""The largest logit that a colour is believed, before it is weighed: twenty times likelier. Chosen by hand."""
_RARE: Final = 1e-4
"""A share of the pixels so small that it says nothing."""
_SURE: Final = 0.02
"""No heat is nearer to 0 or 1, so that colours can still move it."""
CUT_SIDE: Final = 160
"""The longer side at which the graph is cut: 8 ms, where the whole thumbnail takes 19 and gains .003."""
CUT_SHARE: Final = 0.2
"""How much the cut counts beside the heat, at 128 pixels: on the five clips 0.2 gave .707, 0.3 .696, 0.4 .690; on the
others .755, .754, .752."""
INSIDE: Final = 0.65
"""Heat, of the peak, from which a pixel is taken for the thing by the cut."""
OUTSIDE: Final = 0.2
"""Heat up to which it is taken for what surrounds it. On the five clips .1 and .75 gave .697, .15 and .7 .707, .2 and
.65 .706; on the others .757, .758, .760."""
_LIKELY: Final = 0.4
"""Heat from which the cut begins with a pixel as the thing: the threshold of outlines."""


@dataclass(frozen=True, slots=True, eq=False)
class Colours:
    """What the colours of some examples say."""

    logits: Floats
    """(BINS³,) of each colour: how much likelier it is in what is meant, as a logarithm"""

    @classmethod
    def of(cls, examples: Sequence[tuple[Pixels, Mask]]) -> Colours | None:
        """From pictures and what is meant in each; None where they show nothing else."""
        inside, outside = np.zeros(BINS**3, np.float64), np.zeros(BINS**3, np.float64)
        for picture, meant in examples:
            size_wh = (picture.shape[1], picture.shape[0])
            share = cv2.resize(meant.astype(np.float32), size_wh, interpolation=cv2.INTER_AREA).ravel()
            numbers = _numbers(picture).ravel()
            inside += np.bincount(numbers, weights=share, minlength=BINS**3)
            outside += np.bincount(numbers, weights=1.0 - share, minlength=BINS**3)
        if not inside.any() or not outside.any():
            return None
        logits = np.log((_spread(inside) + _RARE) / (_spread(outside) + _RARE))
        return cls(np.clip(logits, -MOST, MOST).astype(np.float32))

    def moved(self, heat: Floats, picture: Pixels) -> Floats:
        """A heatmap of a picture's own size, higher where its colours are those of what is meant."""
        held = np.clip(heat, _SURE, 1.0 - _SURE)
        logits = np.log(held / (1.0 - held)) + WEIGHT * self.logits[_numbers(picture)]
        return np.asarray(1.0 / (1.0 + np.exp(-logits)), np.float32)


def cut(heat: Floats, picture: Pixels) -> Floats:
    """The heatmap, moved towards what a graph cut by the picture's own colours says."""
    height, width = heat.shape
    scale = min(1.0, CUT_SIDE / max(width, height))
    size_wh = (max(1, round(width * scale)), max(1, round(height * scale)))
    small, warm = (cv2.resize(one, size_wh, interpolation=cv2.INTER_AREA) for one in (picture, heat))
    marks = np.where(warm >= _LIKELY, cv2.GC_PR_FGD, cv2.GC_PR_BGD).astype(np.uint8)
    marks[warm >= INSIDE * max(float(warm.max()), 0.5)] = cv2.GC_FGD
    marks[warm <= OUTSIDE] = cv2.GC_BGD
    if not (marks == cv2.GC_FGD).any() or not (marks == cv2.GC_BGD).any():
        return heat
    behind, before = np.zeros((1, 65)), np.zeros((1, 65))  # what OpenCV keeps of the two sets of colours
    cv2.setRNGSeed(0)  # it begins with clusters by chance, and the same picture must give the same outline
    cv2.grabCut(np.ascontiguousarray(small), marks, (0, 0, 1, 1), behind, before, 1, cv2.GC_INIT_WITH_MASK)
    kept = ((marks == cv2.GC_FGD) | (marks == cv2.GC_PR_FGD)).astype(np.float32)
    large = cv2.resize(kept, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray((1.0 - CUT_SHARE) * heat + CUT_SHARE * large, np.float32)


def _numbers(picture: Pixels) -> npt.NDArray[np.int64]:
    """(h, w) the number of each pixel's colour."""
    steps = cv2.cvtColor(picture, cv2.COLOR_RGB2LAB).astype(np.int64) // (256 // BINS)
    return np.asarray((steps[..., 0] * BINS + steps[..., 1]) * BINS + steps[..., 2])


def _spread(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Shares (BINS³,), each colour lending a quarter to either of its two neighbours in every channel."""
    table = np.asarray(counts).reshape(BINS, BINS, BINS)
    for axis in range(3):
        padded = np.pad(table, [(1, 1) if other == axis else (0, 0) for other in range(3)], mode="edge")
        before, after = (np.take(padded, range(start, start + BINS), axis=axis) for start in (0, 2))
        table = 0.25 * before + 0.5 * table + 0.25 * after
    return np.asarray(table.ravel() / table.sum())
