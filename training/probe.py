"""Validation on pictures held back from the training set: caption retrieval and naming of things."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

import augment
from towers import ImageTower, TextTower


@torch.no_grad()
def embed_texts(tower: TextTower, tokens: Tensor, *, batch: int = 1024) -> Tensor:
    """Unit embeddings of token rows."""
    parts = tokens.split(batch)
    return torch.cat([F.normalize(tower(part, part != 0).float(), dim=-1) for part in parts])


@torch.no_grad()
def embed_pictures(
    tower: ImageTower, pictures: Tensor, *, side: int, mean_share: float = 0.0, batch: int = 256
) -> tuple[Tensor, Tensor]:
    """Unit embeddings `(n, d)`, with a share of the mean patch, and unit patches `(n, gh * gw, d)`."""
    wholes, patches = [], []
    for part in pictures.split(batch):
        whole, patch, _ = tower(augment.plain(part, side=side))
        patches.append(F.normalize(patch.float().flatten(2).transpose(1, 2), dim=-1))
        mean = F.normalize(patches[-1].mean(1), dim=-1)
        wholes.append(F.normalize(F.normalize(whole.float(), dim=-1) + mean_share * mean, dim=-1))
    return torch.cat(wholes), torch.cat(patches)


def recall(similarity: Tensor, owners: Tensor) -> dict[str, float]:
    """Text→image recall at 1, 5, 10: `similarity (texts, images)`, `owners[t]` is the right image's column."""
    right = similarity.gather(1, owners[:, None])
    rank = (similarity > right).sum(1)
    return {f"R@{k}": round(100 * (rank < k).float().mean().item(), 2) for k in (1, 5, 10)}


def hundred_way(similarity: Tensor, labels: Tensor) -> float:
    """Expected top-1 among the right class and 99 others drawn at random, in percent.

    With r classes scored above the right one among c, the chance that none is drawn has a closed form: far less
    noisy than drawing.
    """
    right = similarity.gather(1, labels[:, None])
    above = (similarity > right).sum(1).cpu().numpy().astype(np.float64)
    return round(100 * float(chance_none(above, similarity.shape[1] - 1, 99).mean()), 2)


def chance_none(above: NDArray[np.float64], others: int, drawn: int) -> NDArray[np.float64]:
    """Chance that `drawn` of `others` classes, taken without replacement, avoid the `above` better ones."""
    steps = np.arange(drawn)
    ratios = np.clip((others - above[:, None] - steps) / (others - steps), 0, 1)
    return np.asarray(ratios.prod(1))
