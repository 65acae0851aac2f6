"""What an edition and its teachers know together, put into one tower of the shipped size.

    python teachers.py --data DATA --out OUT --start OUT/third --towers lite2.pth=185 lite1.pth=145
    python distil.py --data DATA --out OUT --start OUT/third --towers lite2.pth lite1.pth --name sixth --seconds 600

Every training picture is cut out and recoloured a few times, once for all; start and teachers say where each of these
views lies. The student begins as the start and learns their mean, beside the terms of `train.py`.
"""

from __future__ import annotations

import argparse
import copy
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import augment
import boxes as boxed
import losses
from config import Config
from soup import merit
from tables import draw_texts, hear, mask_words, text_targets, unit
from teachers import SIDE, School, See, classify, half, load_teacher, open_school, say, start_sees, teacher_sees
from towers import DIM
from train import (
    Model,
    batches,
    build_optimizer,
    invent,
    masked_softmax,
    mix,
    region_loss,
    save,
    schedule,
    update_average,
    validate,
)

# The smallest crop of each view, as a share of the picture's area; the first is whole.
SMALLEST = (1.0, 0.5, 0.4)
# How much all teachers together count beside the start: between the two best of `teachers.LEANS`.
LEAN = 1.5
# The inverse temperature of what start and teachers find fitting.
SHARPNESS = 33.0
MIMIC = 4.0
# Shares of the start that are tried in what is saved.
SHARES = (0.0, 0.2, 0.4, 0.6)


class Views(NamedTuple):
    """`uint8 (v, n, h, w, 3)` views of all pictures, where they lie `(v, n, d)`, and their classes `(v, n, 1000)`."""

    pictures: Tensor
    places: Tensor
    classes: Tensor


@torch.no_grad()
def look(school: School, seers: list[See]) -> Views:
    """Every picture seen a few times, by the start (first) and its teachers."""
    tables, device, shares = school.tables, school.device, [1.0] + [LEAN / (len(seers) - 1)] * (len(seers) - 1)
    count = len(tables.pictures)
    views = Views(
        torch.empty(len(SMALLEST), count, SIDE, SIDE, 3, dtype=torch.uint8, device=device),
        torch.empty(len(SMALLEST), count, DIM, dtype=torch.half, device=device),
        torch.empty(len(SMALLEST), count, 1000, dtype=torch.half, device=device),
    )
    for number, smallest in enumerate(SMALLEST):
        for at in range(0, count, 1024):
            part = slice(at, at + 1024)
            x = augment.augment(tables.pictures[part], side=SIDE, smallest=smallest)
            x = x.to(memory_format=torch.channels_last)
            views.pictures[number, part] = (x * 128 + 127).round().clamp(0, 255).byte().permute(0, 2, 3, 1)
            with half(device):
                seen = sum(share * see(x) for share, see in zip(shares, seers, strict=True))
            views.places[number, part] = unit(seen).half()
            views.classes[number, part] = classify(school.classifier, x)
    return views


def show(views: Views, index: Tensor, *, side: int) -> tuple[Tensor, Tensor, Tensor]:
    """One view of each picture, half of them mirrored; where they lie, and their classes."""
    which = torch.randint(len(views.pictures), (len(index),), device=index.device)
    x = augment.scale(views.pictures[which, index].permute(0, 3, 1, 2).float())
    x = F.interpolate(x, (side, side), mode="bilinear", antialias=True, align_corners=False)
    mirrored = torch.rand(len(x), 1, 1, 1, device=x.device) < 0.5
    x = torch.where(mirrored, x.flip(-1), x)
    return x, views.places[which, index].float(), views.classes[which, index].float()


def fitting(school: School, index: Tensor, chosen: Tensor, wanted: Tensor) -> Tensor:
    """Which of the chosen texts fit the pictures: by their captions, and by what start and teachers find."""
    truth = text_targets(school.tables, index, chosen, share=school.config.soft_share)
    answer = (SHARPNESS * wanted @ school.spoken[chosen].T).softmax(-1)
    share = school.config.teach_share
    return (1 - share) * truth + share * answer


def step_losses(model: Model, school: School, views: Views, index: Tensor, places: boxed.Boxes) -> dict[str, Tensor]:
    """All terms of the loss, weighted, for the pictures numbered `index`; the last `mosaics` become mosaics."""
    config, tables = school.config, school.tables
    x, wanted, told = show(views, index, side=config.side)
    size, plain, again = len(x), len(x) - config.mosaics, config.again
    mosaic, inset, order = augment.inset(x[plain:])
    second_look = augment.augment(tables.pictures[index[:again]], side=config.side, smallest=0.2)
    shown, *drawn = boxed.draw(places, tables.pictures, count=config.boxed, side=config.side)
    x = torch.cat([x[:plain], mosaic, second_look, shown]).to(memory_format=torch.channels_last)
    whole, patch, pooled = model.image(x)
    patches = unit(patch.flatten(2).transpose(1, 2))
    placed = unit(unit(whole) + config.mean_share * unit(patches.mean(1)))
    own, looked, wanted, told = placed[:plain], placed[size : size + again], wanted[:plain], told[:plain]
    chosen = [draw_texts(tables, index, share=share) for share in (config.extra_share, config.patch_extra_share)]
    cut, nouns = int(torch.randint(len(tables.cut_tokens), ())), torch.multinomial(tables.noun_weight, config.nouns)
    heard = mask_words(hear(tables, torch.cat(chosen), slips=config.slip_share), config.mask_share)
    spelled = places.names[int(torch.randint(len(places.names), ()))]
    said = (heard, tables.cut_tokens[cut], tables.noun_tokens[nouns], spelled)
    captions, names, spoken, called = (unit(model.text(tokens, tokens != 0)) for tokens in said)
    caption, phrase = captions.chunk(2)
    targets = [fitting(school, index[:plain], texts[:plain], wanted) for texts in chosen]
    scales, fc = model.scales(), model.image.backbone.fc
    invented = invent(pooled[:size].detach().float(), fc.weight)
    naming = {"names": names, "scale": scales[2], "shared": tables.cut_shared[cut]}
    found = unit(model.image.project(invented))
    return {
        "mimic": MIMIC * (1 - (own * wanted).sum(-1)).mean(),
        "boxes": config.box_weight * boxed.loss(patches[size + again :], *drawn, called, scale=scales[1]),
        "again": config.again_weight * losses.recognise(looked, own, scale=scales[0]),
        "alike": config.alike_weight * losses.keep_likeness(own, wanted @ wanted.T),
        "whole": losses.contrast(own, caption[:plain], scale=scales[0], target=targets[0]) / 2
        + losses.contrast(own, phrase[:plain], scale=scales[0], target=targets[1]) / 2,
        "patch": config.patch_weight
        * losses.contrast_patches(patches[:plain], phrase[:plain], scale=scales[1], target=targets[1]),
        "region": config.region_weight
        * region_loss(patches[plain:size], inset, caption[plain:], order, scale=scales[1]),
        "class": config.class_weight * losses.name_classes(own, **naming, target=told),
        "keep": config.keep_weight * losses.keep_classes(fc(pooled[:plain]), told),
        "invent": config.invent_weight
        * losses.name_classes(found, **naming, target=masked_softmax(fc(invented), tables.seen_class)),
        "geometry": config.geometry_weight
        * losses.keep_geometry(spoken, tables.noun_reference[nouns], temperature=0.07),
    }


def learn(school: School, views: Views, *, seconds: float) -> Model:
    """The student, as the running average of its weights."""
    config, device = school.config, school.device
    torch.manual_seed(config.seed)
    model = copy.deepcopy(school.start).requires_grad_(True)
    model.image.backbone.fc.requires_grad_(False)
    average = copy.deepcopy(model)
    folder = Path(config.data)
    places = boxed.read_boxes(folder / "regions.jsonl", school.pairs.rows, folder / "tokenizer.json", device=device)
    optimizer = build_optimizer(model, config)
    rng, queue, step, started = np.random.default_rng(config.seed), list[Tensor](), 0, time.time()
    model.train()
    while (progress := (time.time() - started) / seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * schedule(progress)
        if not queue:
            queue = list(batches(school.parts.train, school.repeats, batch=config.batch, rng=rng).to(device))
        with half(device):
            terms = step_losses(model, school, views, queue.pop(), places)
            loss = torch.stack(list(terms.values())).sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        step += 1
        update_average(average, model, min(config.average, step / (step + 20)))
        if step % 50 == 1:
            say(step=step, **{name: round(value.item(), 4) for name, value in terms.items()})
        if step % config.validate_every == 0:
            say(step=step, average=measure(school, average))
    return average


def measure(school: School, model: Model) -> dict[str, float]:
    """What `train.py` measures."""
    return validate(model, school.pairs, school.parts, school.classes, school.config, school.vocabulary, school.device)


def parse() -> tuple[Config, argparse.Namespace]:
    """The settings of the student's run, and the options that they do not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--start", required=True, help="an edition's towers, without -image.safetensors")
    parser.add_argument("--towers", nargs="+", required=True, help="teachers that teachers.py saved")
    parser.add_argument("--name", default="distilled")
    parser.add_argument("--seconds", type=float, default=600)
    args = parser.parse_args()
    config = Config(
        data=args.data, out=args.out, start=args.start, name=args.name, teach_share=0.6, image_lr=2.5e-4, text_lr=3e-5,
        head_lr=5e-4, alike_weight=0.3, again_weight=0.2, decay=0.1, drop=0.1, soft_share=0.3, slip_share=0.1,
        mean_share=0.3, region_weight=1.0, box_weight=0.3, mask_share=0.1, focus=True, whole=True, seed=8,
        average=0.997, validate_every=300,
    )  # fmt: skip
    return config, args


def main() -> None:
    """The whole run; of the student's end and mixes with its start, the best on held-back pictures is saved."""
    config, args = parse()
    torch.backends.cuda.matmul.allow_tf32 = True
    school = open_school(config)
    out, device = Path(config.out), school.device
    teachers = [load_teacher(Path(config.data), out, tower, device) for tower in args.towers]
    views = look(school, [start_sees(school), *map(teacher_sees, teachers)])
    average = learn(school, views, seconds=args.seconds)
    found = {}
    for share in SHARES:
        found[share] = measure(school, mix(average, school.start, share))
        say(share_of_start=share, merit=merit(found[share]), found=found[share])
    best = max(SHARES, key=lambda share: merit(found[share]))
    save(mix(average, school.start, best), out, config.name)
    say(saved=best)


if __name__ == "__main__":
    main()
