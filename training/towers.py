"""The two towers: EfficientNet-Lite2 with three heads for images, MiniLM-L6 with one for texts.

Since the fourth edition the image tower's last stages exist twice, on one trunk: two opinions of a picture cost a sixth
more time than one, not twice as much, because most of the time goes into the early, large maps.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DIM = 512
Stages = tuple[tuple[int, int, int, int, int], ...]
# EfficientNet-Lite2: (expansion, kernel, stride, channels, repeats) of each stage.
STAGES: Stages = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 3),
    (6, 5, 2, 48, 3),
    (6, 3, 2, 88, 4),
    (6, 5, 1, 120, 4),
    (6, 5, 2, 208, 5),
    (6, 3, 1, 352, 1),
)
# EfficientNet-Lite1, which teaches: as deep, and narrower.
NARROW_STAGES: Stages = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 3),
    (6, 5, 2, 40, 3),
    (6, 3, 2, 80, 4),
    (6, 5, 1, 112, 4),
    (6, 5, 2, 192, 5),
    (6, 3, 1, 320, 1),
)
STRIDE_8_BLOCK, STRIDE_16_BLOCK = 6, 14
CHANNELS_8, CHANNELS_16, CHANNELS_32 = 48, 120, 1280


class SameConv(nn.Conv2d):
    """A convolution padded as TensorFlow does at even input sizes: the odd pixel goes right and below."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride, groups=groups, bias=False)
        total = kernel - stride
        self.pads = (total // 2, total - total // 2) * 2
        if stride == 1:
            self.padding = (total // 2, total // 2)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve, padding first when the padding is lopsided."""
        if self.stride != (1, 1):
            x = F.pad(x, self.pads)
        return super().forward(x)


def norm(channels: int) -> nn.BatchNorm2d:
    """Batch norm with the epsilon the weights were trained with."""
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class Block(nn.Module):
    """An inverted bottleneck without squeeze-and-excitation; names follow the published weights."""

    def __init__(self, inputs: int, outputs: int, *, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expand_conv = SameConv(inputs, inner, 1) if expansion > 1 else None
        self.bn0 = norm(inner) if expansion > 1 else None
        self.depthwise_conv = SameConv(inner, inner, kernel, stride=stride, groups=inner)
        self.bn1 = norm(inner)
        self.project_conv = SameConv(inner, outputs, 1)
        self.bn2 = norm(outputs)
        self.skips = stride == 1 and inputs == outputs
        self.drop = 0.0

    def forward(self, x: Tensor) -> Tensor:
        """Expand, filter, project; add the input back, or with probability `drop` return it alone."""
        y = x
        if self.expand_conv is not None and self.bn0 is not None:
            y = F.relu6(self.bn0(self.expand_conv(y)))
        y = F.relu6(self.bn1(self.depthwise_conv(y)))
        y = self.bn2(self.project_conv(y))
        if not self.skips:
            return y
        if self.training and self.drop > 0:
            keep = torch.rand(len(y), 1, 1, 1, device=y.device) >= self.drop
            y = y * keep.to(y.dtype) / (1 - self.drop)
        return x + y


class Maps(NamedTuple):
    """Feature maps of one forward pass, `(n, c, h, w)` at strides 8, 16 and 32."""

    s8: Tensor
    s16: Tensor
    s32: Tensor


class Backbone(nn.Module):
    """EfficientNet-Lite up to its last 1280-channel map, and its ImageNet classifier."""

    def __init__(self, stages: Stages = STAGES) -> None:
        super().__init__()
        self.conv_stem = SameConv(3, 32, 3, stride=2)
        self.bn0 = norm(32)
        blocks, inputs = [], 32
        for expansion, kernel, stride, outputs, repeats in stages:
            for repeat in range(repeats):
                step = stride if repeat == 0 else 1
                blocks.append(Block(inputs, outputs, expansion=expansion, kernel=kernel, stride=step))
                inputs = outputs
        self.blocks = nn.ModuleList(blocks)
        self.conv_head = SameConv(inputs, CHANNELS_32, 1)
        self.bn1 = norm(CHANNELS_32)
        self.fc = nn.Linear(CHANNELS_32, 1000)

    def forward(self, x: Tensor) -> Maps:
        """Maps of a batch scaled to about [-1, 1], `(n, 3, h, w)`."""
        x = F.relu6(self.bn0(self.conv_stem(x)))
        kept = {}
        for number, block in enumerate(self.blocks):
            x = block(x)
            if number in (STRIDE_8_BLOCK, STRIDE_16_BLOCK):
                kept[number] = x
        return Maps(kept[STRIDE_8_BLOCK], kept[STRIDE_16_BLOCK], F.relu6(self.bn1(self.conv_head(x))))

    def set_drop(self, rate: float) -> None:
        """Stochastic depth, rising linearly to `rate` at the last block."""
        for number, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            block.drop = rate * number / len(self.blocks)


def load_backbone(path: Path) -> Backbone:
    """The published ImageNet weights, every tensor accounted for."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    narrow = len(state["_blocks.4._project_conv.weight"]) == NARROW_STAGES[2][3]
    backbone = Backbone(NARROW_STAGES if narrow else STAGES)
    backbone.load_state_dict({name.replace("._", ".").removeprefix("_"): value for name, value in state.items()})
    return backbone


class Second(nn.Module):
    """A second opinion of the whole picture: the stages at stride 32 once more, with a head of their own."""

    def __init__(self, blocks: nn.ModuleList, conv_head: SameConv, bn1: nn.BatchNorm2d, *, hidden: int = 1024) -> None:
        super().__init__()
        self.blocks, self.conv_head, self.bn1 = blocks, conv_head, bn1
        self.whole = nn.Linear(CHANNELS_32, DIM)
        self.inner, self.outer = nn.Linear(CHANNELS_32, hidden), nn.Linear(hidden, DIM)

    def forward(self, s16: Tensor) -> Tensor:
        """Embeddings `(n, 512)` from the trunk's map at stride 16, not yet normalised."""
        x = s16
        for block in self.blocks:
            x = block(x)
        pooled = F.relu6(self.bn1(self.conv_head(x))).mean((2, 3))
        return self.whole(pooled) + self.outer(F.dropout(F.relu(self.inner(pooled)), 0.1, self.training))


def second_of(backbone: Backbone) -> Second:
    """The last stages of a backbone, copied."""
    copied = copy.deepcopy(backbone)
    return Second(copied.blocks[STRIDE_16_BLOCK + 1 :], copied.conv_head, copied.bn1)


class ImageTower(nn.Module):
    """Backbone plus heads: a whole-image embedding and patch embeddings on the stride-16 grid."""

    def __init__(self, backbone: Backbone, *, hidden: int = 512, second: Second | None = None) -> None:
        super().__init__()
        self.backbone, self.second = backbone, second
        self.whole = nn.Linear(CHANNELS_32, DIM)
        self.whole_inner = nn.Linear(CHANNELS_32, hidden)
        self.whole_outer = nn.Linear(hidden, DIM)
        nn.init.zeros_(self.whole_outer.weight)
        self.patch_32 = nn.Conv2d(CHANNELS_32, 256, 1)
        self.patch_16 = nn.Conv2d(CHANNELS_16, 256, 1)
        self.patch_mix = nn.Conv2d(256, 256, 3, padding=1, groups=256)
        self.patch_out = nn.Conv2d(256, DIM, 1)
        self.patch_direct = nn.Parameter(torch.zeros(DIM, 1, 1))

    def project(self, pooled: Tensor) -> Tensor:
        """Pooled features `(n, 1280)` to the shared space, not yet normalised."""
        inner = F.dropout(F.relu(self.whole_inner(pooled)), 0.1, self.training)
        return self.whole(pooled) + self.whole_outer(inner)

    def linear(self, s32: Tensor) -> Tensor:
        """The linear part of the whole-image head at each place, `(n, 512, h/32, w/32)`."""
        return F.conv2d(s32, self.whole.weight[:, :, None, None], self.whole.bias)

    def patches(self, maps: Maps, linear: Tensor) -> Tensor:
        """Patch embeddings `(n, 512, h/16, w/16)`, not yet normalised."""
        mixed = F.relu(twice(self.patch_32(maps.s32)) + self.patch_16(maps.s16))
        mixed = F.relu(mixed + self.patch_mix(mixed))
        return self.patch_out(mixed) + twice(self.patch_direct * linear)

    def embed(self, maps: Maps, own: Tensor) -> Tensor:
        """The whole picture `(n, 512)`, not normalised: `own`, as `project` says, and as much of the second opinion."""
        return own if self.second is None else F.normalize(own, dim=1) + F.normalize(self.second(maps.s16), dim=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(embedding `(n, 512)`, patches `(n, 512, gh, gw)`, pooled features `(n, 1280)`), none normalised."""
        maps = self.backbone(x)
        pooled = maps.s32.mean((2, 3))
        return self.embed(maps, self.project(pooled)), self.patches(maps, self.linear(maps.s32)), pooled


def load_image_tower(state: dict[str, Tensor]) -> ImageTower:
    """The tower whose weights `train.save` wrote, of one opinion or two; its classifier is not among them."""
    tower = ImageTower(Backbone())
    load_image_weights(tower, state)
    return tower


def load_image_weights(tower: ImageTower, state: dict[str, Tensor]) -> None:
    """Give a tower such weights, with a second opinion where they have one; its classifier stays as it is."""
    backbone = tower.backbone
    two = any(name.startswith("second.") for name in state)
    tower.second = second_of(backbone).to(backbone.fc.weight.device) if two else None
    classifier = {f"backbone.fc.{name}": value for name, value in backbone.fc.state_dict().items()}
    widened = {name: value.float() if value.is_floating_point() else value for name, value in state.items()}
    tower.load_state_dict(classifier | widened)


def twice(grid: Tensor) -> Tensor:
    """A map at twice its size."""
    return F.interpolate(grid, scale_factor=2, mode="bilinear", align_corners=False)


class Layer(nn.Module):
    """One post-norm BERT layer of MiniLM."""

    def __init__(self, width: int = 384, heads: int = 12) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm_attention = nn.LayerNorm(width, eps=1e-12)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm_output = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Attend and feed forward; `bias (n, 1, 1, t)` is 0 on tokens and very low on padding."""
        n, t, width = x.shape
        q, k, v = (
            part(x).view(n, t, self.heads, width // self.heads).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        if self.training:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        else:
            # Spelled out: this is what `export.py` traces, and what `wherein` has always computed.
            mixed = ((q @ k.transpose(-1, -2)) * (width // self.heads) ** -0.5 + bias).float().softmax(-1).to(
                v.dtype
            ) @ v
        mixed = mixed.transpose(1, 2).reshape(n, t, width)
        x = self.norm_attention(x + F.dropout(self.out(mixed), 0.1, self.training))
        fed = self.outer(F.gelu(self.inner(x)))
        return self.norm_output(x + F.dropout(fed, 0.1, self.training))


class TextTower(nn.Module):
    """all-MiniLM-L6-v2 with mean pooling and a linear head that starts as an isometry."""

    def __init__(self, *, words: int = 30522, width: int = 384, positions: int = 512, layers: int = 6) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(positions, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.head = nn.Linear(width, DIM)
        nn.init.orthogonal_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def pooled(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """The sentence embedding of MiniLM itself, `(n, 384)`, not normalised."""
        x = self.norm(self.words(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device)))
        weight = mask.to(x.dtype)[:, :, None]
        bias = ((1 - weight) * -1e4).transpose(1, 2)[:, None]
        for layer in self.layers:
            x = layer(x, bias)
        return (x * weight).sum(1) / weight.sum(1)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Embeddings in the shared space `(n, 512)`, not normalised."""
        return self.head(self.pooled(tokens, mask))


RENAMES = (
    ("embeddings.word_embeddings", "words"),
    ("embeddings.position_embeddings", "positions"),
    ("embeddings.LayerNorm", "norm"),
    ("encoder.layer", "layers"),
    ("attention.self.", ""),
    ("attention.output.dense", "out"),
    ("attention.output.LayerNorm", "norm_attention"),
    ("intermediate.dense", "inner"),
    ("output.dense", "outer"),
    ("output.LayerNorm", "norm_output"),
)


def load_text_tower(path: Path) -> TextTower:
    """MiniLM's published weights under this module's names; its token types are folded into the positions."""
    from safetensors.torch import load_file

    state = {name: value.float() for name, value in load_file(path).items()}
    types = state.pop("embeddings.token_type_embeddings.weight")
    renamed = {}
    for name, value in state.items():
        if name.startswith("pooler") or name.endswith("position_ids"):
            continue
        for old, new in RENAMES:
            name = name.replace(old, new)
        renamed[name] = value
    renamed["positions.weight"] = renamed["positions.weight"] + types[0]
    tower = TextTower()
    head = {f"head.{name}": value for name, value in tower.head.state_dict().items()}
    tower.load_state_dict(renamed | head)
    return tower
