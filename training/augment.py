"""Random crops, stretches, flips, turns and colours of a batch, on the device that holds it."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


def uniform(n: int, low: float, high: float, device: torch.device) -> Tensor:
    """`(n,)` uniform draws."""
    return torch.rand(n, device=device) * (high - low) + low


def crop_matrices(n: int, device: torch.device, *, smallest: float) -> Tensor:
    """Affine maps `(n, 2, 3)`: a crop of `smallest` to all of the area, stretched by up to 1.5, turned a little."""
    area = uniform(n, smallest, 1.0, device)
    stretch = torch.exp(uniform(n, -0.4, 0.4, device))
    w, h = ((area * ratio).sqrt().clamp(max=1) for ratio in (stretch, 1 / stretch))
    flip = torch.where(torch.rand(n, device=device) < 0.5, -1.0, 1.0)
    angle = uniform(n, -0.12, 0.12, device)
    x, y = uniform(n, -1, 1, device) * (1 - w), uniform(n, -1, 1, device) * (1 - h)
    cos, sin = angle.cos(), angle.sin()
    top = torch.stack([w * cos * flip, -h * sin, x], 1)
    bottom = torch.stack([w * sin * flip, h * cos, y], 1)
    return torch.stack([top, bottom], 1)


def recolour(x: Tensor) -> Tensor:
    """Brightness, contrast and saturation of pictures in [0, 255]; one in twenty turns grey."""
    n = len(x)
    brightness, contrast, saturation = (uniform(n, 0.7, 1.3, x.device)[:, None, None, None] for _ in range(3))
    saturation = torch.where(torch.rand(n, 1, 1, 1, device=x.device) < 0.05, torch.zeros_like(saturation), saturation)
    grey = x.mean(1, keepdim=True)
    x = grey + (x - grey) * saturation
    middle = x.mean((1, 2, 3), keepdim=True)
    return ((middle + (x - middle) * contrast) * brightness).clamp(0, 255)


def scale(x: Tensor) -> Tensor:
    """Pixels in [0, 255] to what EfficientNet-Lite was trained on."""
    return (x - 127) / 128


def augment(pictures: Tensor, *, side: int, smallest: float) -> Tensor:
    """A `uint8 (n, h, w, 3)` batch to scaled, augmented `(n, 3, side, side)`."""
    x = pictures.permute(0, 3, 1, 2).float()
    matrices = crop_matrices(len(x), x.device, smallest=smallest)
    grid = F.affine_grid(matrices, [len(x), 3, side, side], align_corners=False)
    x = F.grid_sample(x, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
    return scale(recolour(x))


def sharpen(x: Tensor) -> Tensor:
    """Scaled pictures blurred or sharpened a little: training pictures are small, and those of users are not."""
    amount = uniform(len(x), -0.5, 1.5, x.device)[:, None, None, None]
    blurred = F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    return (x + amount * (x - blurred)).clamp(-1, 1)


def plain(pictures: Tensor, *, side: int) -> Tensor:
    """The same without chance, as at inference."""
    x = pictures.permute(0, 3, 1, 2).float()
    if x.shape[-1] != side:
        x = F.interpolate(x, (side, side), mode="bilinear", antialias=True, align_corners=False)
    return scale(x)


def inset(x: Tensor, *, stride: int = 16) -> tuple[Tensor, Tensor, Tensor]:
    """Mosaics: each picture with another of the batch pasted in small, at a random place on the patch grid.

    Gives the mosaics, a mask `(n, patches)` of the pasted part, and which picture was pasted.
    """
    n, _, side, _ = x.shape
    cells = side // stride
    order = torch.arange(n, device=x.device).roll(1)
    if n == 0:
        return x, torch.zeros(0, cells * cells, dtype=torch.bool, device=x.device), order
    size = int(torch.randint(max(2, cells // 4), cells // 2 + 2, ()))
    small = F.interpolate(x[order], (size * stride,) * 2, mode="bilinear", antialias=True, align_corners=False)
    top, left = (int(torch.randint(0, cells - size + 1, ())) for _ in range(2))
    mask = torch.zeros(cells, cells, dtype=torch.bool, device=x.device)
    mask[top : top + size, left : left + size] = True
    mosaic = x.clone()
    mosaic[:, :, top * stride : (top + size) * stride, left * stride : (left + size) * stride] = small
    return mosaic, mask.flatten().expand(n, -1), order


class Mosaic(NamedTuple):
    """Mosaics `(m, 3, side, side)` of one layout: which picture each visible tile is, `(m, t)`, and its share of each
    patch, `(t, p)`, summing to one."""

    pictures: Tensor
    tile: Tensor
    inside: Tensor


def mosaic(x: Tensor, *, count: int, tiles: int | None = None, stride: int = 16) -> Mosaic:
    """Pictures of the batch, made small, side by side: two to four along a side, cut off anywhere at the borders."""
    side, device = x.shape[-1], x.device
    along = tiles or int(torch.randint(2, 5, ()))
    size, span = -(-side // along), along + 1
    chosen = torch.randint(len(x), (count, span * span), device=device)
    small = F.interpolate(x, (size, size), mode="bilinear", antialias=True, align_corners=False)
    canvas = small[chosen].reshape(count, span, span, 3, size, size).permute(0, 3, 1, 4, 2, 5)
    canvas = canvas.reshape(count, 3, span * size, span * size)
    top, left = (int(torch.randint(0, span * size - side + 1, ())) for _ in range(2))
    number = torch.arange(span * span, device=device)
    corner = torch.stack([number % span * size - left, number // span * size - top], 1)
    boxes = torch.cat([corner, corner + size], 1).float().clamp(0, side) / side
    seen = (boxes[:, 2:] - boxes[:, :2]).prod(1) > 0.6 * (size / side) ** 2
    cut = canvas[:, :, top : top + side, left : left + side]
    return Mosaic(cut, chosen[:, seen], box_coverage(boxes[seen], grid=side // stride))


def crops(x: Tensor, *, side: int) -> tuple[Tensor, Tensor]:
    """One crop of each picture, a quarter to two thirds of its sides, at `side`; and the boxes `(n, 4)` in [0, 1]."""
    n = len(x)
    sizes = torch.stack([uniform(n, 0.25, 0.67, x.device) for _ in range(2)], 1)
    low = torch.rand(n, 2, device=x.device) * (1 - sizes)
    middle = 2 * (low + sizes / 2) - 1
    matrices = torch.zeros(n, 2, 3, device=x.device)
    matrices[:, 0, 0], matrices[:, 1, 1], matrices[:, :, 2] = sizes[:, 0], sizes[:, 1], middle
    grid = F.affine_grid(matrices, [n, 3, side, side], align_corners=False)
    cut = F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)
    return cut, torch.cat([low, low + sizes], 1)


def box_coverage(boxes: Tensor, *, grid: int) -> Tensor:
    """`(n, grid * grid)`: the share of each patch in each box `(n, 4)`, as weights that sum to one."""
    edges = torch.linspace(0, 1, grid + 1, device=boxes.device)

    def spans(low: Tensor, high: Tensor) -> Tensor:
        return (torch.minimum(high[:, None], edges[1:]) - torch.maximum(low[:, None], edges[:-1])).clamp(min=0)

    across, down = spans(boxes[:, 0], boxes[:, 2]), spans(boxes[:, 1], boxes[:, 3])
    weights = (down[:, :, None] * across[:, None, :]).flatten(1)
    return weights / weights.sum(1, keepdim=True)
