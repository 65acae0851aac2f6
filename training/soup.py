"""The mean of several runs' weights, where it is better than each: candidates are measured on held-back pictures.

    python soup.py --data DATA --towers OUT/a OUT/b --out OUT/soup

Without `--shares`, every run alone and the even mean are tried. Shares may be negative: a run that was saved as a mix
with its start holds some of it. The statistics of batch norms are averaged like all else: measured anew on augmented
pictures they cost captions a point and a half of R@1. The best by `merit` is saved.
"""

from __future__ import annotations

import argparse
import copy
import json
from pathlib import Path

import torch

import vocabulary as words
from config import Config
from data import load_pairs
from export import load_towers
from train import Model, class_rows, hold_back, save, validate

MERITS = ("R@1", "R@10", "web_R@1", "web_R@10", "word_R@1", "word_R@10", "classes_bare", "classes_photo")


def merit(found: dict[str, float]) -> float:
    """One figure: the mean of captions, web captions, single words and untaught classes."""
    return round(sum(found[name] for name in MERITS) / len(MERITS), 2)


@torch.no_grad()
def mean_of(models: list[Model], shares: list[float]) -> Model:
    """The first model, every float weight being the mean of those that have it: not all have a second opinion."""
    mixed = copy.deepcopy(models[0])
    states = [model.state_dict() for model in models]
    for name, value in mixed.state_dict().items():
        if value.is_floating_point():
            held = [(share, state[name]) for share, state in zip(shares, states, strict=True) if name in state]
            if total := sum(share for share, _ in held):
                value.copy_(sum(share / total * weight for share, weight in held))
    return mixed


def main() -> None:
    """Measure all candidates, save the best."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--towers", type=Path, nargs="+", required=True)
    parser.add_argument("--shares", nargs="*", default=[], help="shares of the runs, e.g. =0.5,0.5 =0.67,0.67,-0.34")
    parser.add_argument("--mean-share", type=float, default=0.3)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    vocabulary, pairs = words.read(args.data / "vocabulary.json"), load_pairs(args.data)
    classes = class_rows(pairs, vocabulary)
    config = Config(data=str(args.data), out=str(args.out.parent), mean_share=args.mean_share, whole=True)
    parts, _ = hold_back(pairs, classes, vocabulary, config)
    models = [Model(*load_towers(path)).to(device, memory_format=torch.channels_last) for path in args.towers]
    count = len(models)
    alone = [[float(a == b) for a in range(count)] for b in range(count)]
    shares = [[float(part) for part in given.removeprefix("=").split(",")] for given in args.shares] or [
        *alone,
        [1 / count] * count,
    ]
    best: tuple[float, Model] | None = None
    for share in shares:
        assert len(share) == count, share
        model = mean_of(models, share).to(device, memory_format=torch.channels_last)
        found = validate(model, pairs, parts, classes, config, vocabulary, device)
        print(json.dumps({"towers": [path.name for path in args.towers], "shares": share, "merit": merit(found),
                          **found}), flush=True)  # fmt: skip
        if best is None or merit(found) > best[0]:
            best = (merit(found), model)
    assert best is not None
    save(best[1].eval(), args.out.parent, args.out.name)


if __name__ == "__main__":
    main()
