"""Which images of a list look nearly the same as an earlier one of it: what the page stacks when it groups."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from wherein.arrays import Floats
from wherein.collection import Collection

SAME: Final = 0.96
"""The cosine of two embeddings from which on their images count as nearly the same, whatever encoder made them. With
less, more are stacked. No page of docs/results measures it."""


class LookAlikes:
    """Look-alikes of one list at a time. A list that is asked for page by page grows, and no page is compared twice."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._begin(None)

    def _begin(self, key: Hashable) -> None:
        self._key, self._seen = key, 0
        self._leaders, self._likes = list[str](), dict[str, str]()
        self._kept: Floats = np.zeros((0, 0), np.float32)

    def of(self, collection: Collection, image_ids: Sequence[str], *, key: Hashable) -> dict[str, str]:
        """image_id → the earlier one that it looks nearly the same as. Lists of one `key` begin alike."""
        known, rows = collection.embeddings()
        at = {image_id: row for row, image_id in enumerate(known)}
        with self._turn:
            if key != self._key:
                self._begin(key)
            for image_id in image_ids[self._seen :]:
                if image_id in at:
                    self._place(image_id, rows[at[image_id]])
            self._seen = max(self._seen, len(image_ids))
            return dict(self._likes)

    def _place(self, image_id: str, vector: Floats) -> None:
        count = len(self._leaders)
        scores = self._kept[:count] @ vector if count else np.zeros(0, np.float32)
        if count and scores.max() >= SAME:
            self._likes[image_id] = self._leaders[int(scores.argmax())]
            return
        if count == len(self._kept):
            room = np.zeros((max(256, count), len(vector)), np.float32)
            self._kept = np.concatenate([self._kept, room]) if count else room
        self._kept[count] = vector
        self._leaders.append(image_id)
