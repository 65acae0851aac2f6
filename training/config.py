"""The settings of one run; every field is a command-line option of `train.py`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Config:
    """One run; every field is a command-line option."""

    data: str
    out: str
    name: str = "run"
    steps: int = 1500
    batch: int = 1024
    side: int = 224
    growing: bool = False
    smallest: float = 0.45
    image_lr: float = 4e-4
    text_lr: float = 1e-4
    head_lr: float = 1e-3
    decay: float = 0.05
    drop: float = 0.1
    average: float = 0.998
    patch_weight: float = 0.5
    class_weight: float = 0.6
    region_weight: float = 0.0
    mosaics: int = 256
    keep_weight: float = 0.6
    invent_weight: float = 0.3
    geometry_weight: float = 0.6
    extra_share: float = 0.05
    patch_extra_share: float = 0.3
    nouns: int = 640
    cuts: int = 200
    soft_share: float = 0.0
    mask_share: float = 0.0
    mean_share: float = 0.0
    slip_share: float = 0.0
    box_weight: float = 0.0
    boxed: int = 64
    focus: bool = False
    start: str = ""
    teacher: str = ""
    teach_share: float = 0.5
    alike_weight: float = 0.0
    again_weight: float = 0.0
    again: int = 192
    seed: int = 0
    whole: bool = False
    compiled: bool = False
    seconds: float = 1e9
    validate_every: int = 500


def parse() -> Config:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description="Train both towers.")
    for field in fields(Config):
        option = f"--{field.name.replace('_', '-')}"
        if field.type == "bool":
            parser.add_argument(option, action="store_true")
        else:
            kind = {"int": int, "float": float, "str": str}[str(field.type)]
            required = field.name in ("data", "out")
            parser.add_argument(option, type=kind, required=required, default=None if required else field.default)
    return Config(**vars(parser.parse_args()))
