"""Named boxes in photographs, as direct teaching for patches: the mean patch under a box must name what it shows.

An area without a box says nothing: only some classes were boxed. So boxes are told from the names of other classes,
never from other places.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

import augment
import texts as wording
import vocabulary as words
from data import Row

MOST = 8
HELD_BACK = 140
WORDINGS = 12


@dataclass(frozen=True)
class Boxes:
    """Photographs by row `(n,)`; their boxes `(n, 8, 4)`, classes `(n, 8)`, −1 where there is none; tokens of the
    classes' names in several wordings `(w, c, t)`; `held` numbers the photographs kept for measuring."""

    rows: Tensor
    boxes: Tensor
    labels: Tensor
    names: Tensor
    train: Tensor
    held: Tensor


def read_boxes(path: Path, rows: list[Row], tokenizer: Path, *, device: torch.device) -> Boxes:
    """`regions.jsonl`; the larger boxes of a photograph are kept."""
    where = {(row["shard"], row["file"]): number for number, row in enumerate(rows)}
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    entries = [entry for entry in entries if (entry["shard"], entry["file"]) in where and entry["boxes"]]
    names = sorted({box["text"] for entry in entries for box in entry["boxes"]})
    boxes, labels = torch.zeros(len(entries), MOST, 4), torch.full((len(entries), MOST), -1)
    for number, entry in enumerate(entries):
        largest = sorted(entry["boxes"], key=lambda box: -area(box["box"]))[:MOST]
        for place, box in enumerate(largest):
            boxes[number, place], labels[number, place] = torch.tensor(box["box"]), names.index(box["text"])
    rng = random.Random(0)
    spoken = [[rng.choice(words.TEMPLATES).format(name) for name in names] for _ in range(WORDINGS)]
    spoken[0] = names
    short = wording.load_tokenizer(tokenizer, length=12)
    tokens = torch.stack([torch.from_numpy(wording.encode(said, short)) for said in spoken])
    order = torch.tensor(rng.sample(range(len(entries)), len(entries)))
    numbers = torch.tensor([where[entry["shard"], entry["file"]] for entry in entries])
    parts = (numbers, boxes, labels, tokens, order[HELD_BACK:], order[:HELD_BACK])
    return Boxes(*(part.to(device) for part in parts))


def area(box: list[float]) -> float:
    """The share of the picture that a box covers."""
    return (box[2] - box[0]) * (box[3] - box[1])


def draw(boxes: Boxes, pictures: Tensor, *, count: int, side: int) -> tuple[Tensor, Tensor, Tensor]:
    """Some photographs, half of them mirrored and all recoloured; the share of patches in each box; their classes."""
    chosen = boxes.train[torch.randint(len(boxes.train), (count,), device=pictures.device)]
    x = pictures[boxes.rows[chosen]].permute(0, 3, 1, 2).float()
    x = F.interpolate(x, (side, side), mode="bilinear", antialias=True, align_corners=False)
    found = boxes.boxes[chosen]
    mirrored = torch.rand(count, device=x.device) < 0.5
    x = torch.where(mirrored[:, None, None, None], x.flip(-1), x)
    turned = torch.stack([1 - found[..., 2], found[..., 1], 1 - found[..., 0], found[..., 3]], -1)
    found = torch.where(mirrored[:, None, None], turned, found)
    return augment.sharpen(augment.scale(augment.recolour(x))), found, boxes.labels[chosen]


def loss(patches: Tensor, found: Tensor, labels: Tensor, names: Tensor, *, scale: Tensor) -> Tensor:
    """Patches `(n, p, d)` of drawn photographs: cross entropy of each box's mean patch against the classes' names."""
    n, p, _ = patches.shape
    real = labels.flatten() >= 0
    owner = torch.arange(n, device=labels.device).repeat_interleave(labels.shape[1])[real]
    inside = augment.box_coverage(found.reshape(-1, 4)[real], grid=round(p**0.5))
    places = F.normalize(torch.einsum("bpd,bp->bd", patches[owner].float(), inside), dim=-1)
    return F.cross_entropy(scale * places @ names.T, labels.flatten()[real])


@torch.no_grad()
def measure(patches: Tensor, boxes: Boxes, names: Tensor) -> dict[str, float]:
    """On the photographs held back, patches `(n, p, d)` of their own lengths: how many boxes are named right by their
    mean patch, and for how many classes of a photograph the warmest patch lies in one of its boxes."""
    found, labels = boxes.boxes[boxes.held], boxes.labels[boxes.held]
    grid = round(patches.shape[1] ** 0.5)
    named, pointed = [], []
    for patch, box, label in zip(patches.float(), found, labels, strict=True):
        real = label >= 0
        inside = augment.box_coverage(box[real], grid=grid)
        named.append((F.normalize(inside @ patch, dim=-1) @ names.T).argmax(-1) == label[real])
        for number in label[real].unique():
            covered = (inside[label[real] == number] > 0).any(0)
            pointed.append(covered[(patch @ names[number]).argmax()])
    return {"boxes_named": round(100 * torch.cat(named).float().mean().item(), 1),
            "boxes_pointed": round(100 * torch.stack(pointed).float().mean().item(), 1)}  # fmt: skip
