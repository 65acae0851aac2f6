"""What an edition and its teachers know together, put into one tower with a second opinion (`towers.Second`).

    python teachers.py --data DATA --out OUT --start OUT/third --towers lite2.pth=185 lite1.pth=145
    python distil.py --data DATA --out OUT --start OUT/third --towers lite2.pth lite1.pth --name sixth --seconds 800 \\
        --unlabelled MORE/*.zip
    python join.py --data DATA --out OUT --editions OUT/fifth OUT/sixth       # then, with its OUT/joined as the start:
    python distil.py … --start OUT/joined --student OUT/joined --joined OUT/fifth OUT/sixth

Every training picture is cut out and recoloured a few times, once for all; start and teachers say where each of these
views lies. The student begins as the start, its second opinion as the last stages of the first teacher, and learns
their mean, beside the terms of `train.py`; with `--student` it begins where an earlier student ended. Texts stay as
they are, so they are embedded once. With `--joined` two editions that `join.py` joined stand where the start would.
Pictures without texts (`--unlabelled`) teach too, and more honestly: neither the start nor its teachers have learnt
them by heart. An archive named twice is seen in two views.
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
from data import load_unlabelled
from join import load_joint
from soup import merit
from tables import draw_texts, text_targets, unit
from teachers import (
    SIDE,
    School,
    See,
    Teacher,
    answer,
    classify,
    half,
    load_teacher,
    open_school,
    say,
    speak,
    start_sees,
    teacher_sees,
)
from towers import DIM, second_of
from train import (
    Model,
    batches,
    build_optimizer,
    invent,
    masked_softmax,
    region_loss,
    resume,
    save,
    schedule,
    update_average,
    validate,
)

# The smallest crop of each view, as a share of the picture's area; the first is whole. Of pictures without texts there
# are so many that one view of each is enough.
SMALLEST = (1.0, 0.5)
SMALLEST_UNLABELLED = (0.5,)
# Pictures without texts in a step, beside `Config.batch` with texts: with 512 and 768, 140 GB of memory were too few.
UNLABELLED = 320
# Texts drawn from all that are known, beside those of the step, for which pictures must fit as their teachers find.
MORE_TEXTS = 4096
# How much nearness to start and teachers counts: 6 until the fifth edition, and nothing else was tried.
MIMIC = 10.0


class Views(NamedTuple):
    """`uint8 (v, n, h, w, 3)` views of all pictures, where they lie `(v, n, d)`, and their classes `(v, n, 1000)`."""

    pictures: Tensor
    places: Tensor
    classes: Tensor


class Lessons(NamedTuple):
    """Views of pictures with texts and of those without, boxes with names, and these names' embeddings `(w, c, d)`."""

    views: Views
    unlabelled: Views | None
    places: boxed.Boxes
    called: Tensor


@torch.no_grad()
def look(
    school: School, seers: list[See], pictures: list[Tensor], smallest: tuple[float, ...], *, lean: float
) -> Views:
    """Every picture of some arrays seen once for each of `smallest`, by the start (first) and its teachers.

    All teachers together count `lean` times as much as the start.
    """
    device, side = school.device, school.config.side
    shares = [1.0] + [lean / (len(seers) - 1)] * (len(seers) - 1)
    count = sum(map(len, pictures))
    views = Views(
        torch.empty(len(smallest), count, side, side, 3, dtype=torch.uint8, device=device),
        torch.empty(len(smallest), count, DIM, dtype=torch.half, device=device),
        torch.empty(len(smallest), count, 1000, dtype=torch.half, device=device),
    )
    for number, area in enumerate(smallest):
        at = 0
        for part in (part for array in pictures for part in array.split(1024)):
            x = augment.augment(part.to(device), side=SIDE, smallest=area).to(memory_format=torch.channels_last)
            rows = slice(at, at := at + len(part))
            small = F.interpolate(x, (side, side), mode="bilinear", antialias=True, align_corners=False)
            views.pictures[number, rows] = (small * 128 + 127).round().clamp(0, 255).byte().permute(0, 2, 3, 1)
            with half(device):
                seen = sum(share * see(x) for share, see in zip(shares, seers, strict=True))
            views.places[number, rows] = unit(seen).half()
            views.classes[number, rows] = classify(school.classifier, x)
    return views


def show(views: Views, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One view of each picture, half of them mirrored; where they lie, and their classes."""
    which = torch.randint(len(views.pictures), (len(index),), device=index.device)
    x = augment.scale(views.pictures[which, index].permute(0, 3, 1, 2).float())
    mirrored = torch.rand(len(x), 1, 1, 1, device=x.device) < 0.5
    x = torch.where(mirrored, x.flip(-1), x)
    return x, views.places[which, index].float(), views.classes[which, index].float()


def fitting(school: School, index: Tensor, chosen: Tensor, wanted: Tensor) -> Tensor:
    """Which of the chosen texts fit the pictures: by their captions, and by what start and teachers find."""
    truth = text_targets(school.tables, index, chosen, share=school.config.soft_share)
    share = school.config.teach_share
    return (1 - share) * truth + share * answer(wanted, school.spoken[chosen])


def step_losses(model: Model, forward: nn.Module, school: School, lessons: Lessons, index: Tensor) -> dict[str, Tensor]:
    """All terms of the loss, weighted, for the pictures numbered `index`; the last `mosaics` become mosaics."""
    config, tables, side = school.config, school.tables, school.config.side
    x, wanted, told = show(lessons.views, index)
    plain, again = len(x) - config.mosaics, config.again
    mosaic, inset, order = augment.inset(x[plain:])
    x, wanted, told = x[:plain], wanted[:plain], told[:plain]
    if lessons.unlabelled is not None:
        chosen_rows = torch.randint(lessons.unlabelled.pictures.shape[1], (UNLABELLED,), device=x.device)
        more = show(lessons.unlabelled, chosen_rows)
        x, wanted, told = (torch.cat(pair) for pair in zip((x, wanted, told), more, strict=True))
    second_look = augment.augment(tables.pictures[index[:again]], side=side, smallest=0.2)
    shown, *drawn = boxed.draw(lessons.places, tables.pictures, count=config.boxed, side=side)
    parts = [len(x), len(mosaic), len(second_look), len(shown)]
    seen = augment.sharpen(torch.cat([x, mosaic, second_look, shown]))
    whole, patch, pooled = forward(seen.to(memory_format=torch.channels_last))
    patches = unit(patch.flatten(2).transpose(1, 2))
    own, _, looked, _ = unit(unit(whole) + config.mean_share * unit(patches.mean(1))).split(parts)
    own_patches, tiled, _, boxed_patches = patches.split(parts)
    own_pooled = pooled[: len(x)]
    chosen = [draw_texts(tables, index, share=share) for share in (config.extra_share, config.patch_extra_share)]
    caption, phrase = (school.spoken[texts] for texts in chosen)
    targets = [fitting(school, index[:plain], texts[:plain], wanted[:plain]) for texts in chosen]
    scales, fc = model.scales(), model.image.backbone.fc
    invented = invent(own_pooled.detach().float(), fc.weight)
    cut = int(torch.randint(len(school.cuts), ()))
    naming = {"names": school.cuts[cut], "scale": scales[2], "shared": tables.cut_shared[cut]}
    found = unit(model.image.project(invented))
    called = lessons.called[int(torch.randint(len(lessons.called), ()))]
    heard = torch.cat([caption, school.spoken[torch.randint(len(school.spoken), (MORE_TEXTS,), device=x.device)]])
    return {
        "mimic": MIMIC * (1 - (own * wanted).sum(-1)).mean(),
        "alike": config.alike_weight * losses.keep_likeness(own, wanted @ wanted.T),
        "answers": losses.soft_cross_entropy(scales[0] * own @ heard.T, answer(wanted, heard)),
        "whole": losses.contrast(own[:plain], caption[:plain], scale=scales[0], target=targets[0]) / 4
        + losses.contrast(own[:plain], phrase[:plain], scale=scales[0], target=targets[1]) / 4,
        "again": config.again_weight * losses.recognise(looked, own, scale=scales[0]),
        "patch": config.patch_weight
        * losses.contrast_patches(own_patches[:plain], phrase[:plain], scale=scales[1], target=targets[1]),
        "region": config.region_weight * region_loss(tiled, inset, caption[plain:], order, scale=scales[1]),
        "boxes": config.box_weight * boxed.loss(boxed_patches, *drawn, called, scale=scales[1]),
        "class": config.class_weight * losses.name_classes(own, **naming, target=told),
        "keep": config.keep_weight * losses.keep_classes(fc(own_pooled), told),
        "invent": config.invent_weight
        * losses.name_classes(found, **naming, target=masked_softmax(fc(invented), tables.seen_class)),
    }


def begin_student(school: School, teacher: Teacher, student: str) -> Model:
    """An earlier student; or the start with a second opinion, the teacher's last stages and head on its own trunk."""
    model = copy.deepcopy(school.start)
    if student:
        resume(model, student)
        model.to(memory_format=torch.channels_last)
    else:
        second = second_of(teacher.backbone)
        for own, other in ((second.whole, teacher.whole), (second.inner, teacher.inner), (second.outer, teacher.outer)):
            own.load_state_dict(other.state_dict())
        model.image.second = second.to(school.device, memory_format=torch.channels_last)
    model.requires_grad_(True)
    model.text.requires_grad_(False)
    model.image.backbone.fc.requires_grad_(False)
    return model


def learn(school: School, lessons: Lessons, model: Model, *, seconds: float) -> Model:
    """The student, as the running average of its weights."""
    config, device = school.config, school.device
    torch.manual_seed(config.seed)
    average = copy.deepcopy(model)
    optimizer = build_optimizer(model, config)
    forward = torch.compile(model.image) if config.compiled else model.image
    rng, queue, step, started = np.random.default_rng(config.seed), list[Tensor](), 0, time.time()
    model.train()
    while (progress := (time.time() - started) / seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * schedule(progress)
        if not queue:
            queue = list(batches(school.parts.train, school.repeats, batch=config.batch, rng=rng).to(device))
        with half(device):
            terms = step_losses(model, forward, school, lessons, queue.pop())
            loss = torch.stack(list(terms.values())).sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        step += 1
        update_average(average, model, min(config.average, step / (step + 20)))
        if step % 100 == 1:
            say(step=step, **{name: round(value.item(), 4) for name, value in terms.items()})
        if step % config.validate_every == 0:
            say(step=step, average=measure(school, average))
            save(average, Path(config.out), config.name)
    say(steps=step)
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
    parser.add_argument("--joined", nargs=2, default=[], help="two editions that join.py joined in OUT")
    parser.add_argument("--lean", type=float, default=1.5, help="how much all teachers count beside the start")
    parser.add_argument("--student", default="", help="towers of an earlier student, which learns on")
    parser.add_argument("--name", default="distilled")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--compiled", action="store_true", help="fuse the operators; the first step is slow")
    parser.add_argument("--unlabelled", type=Path, nargs="*", default=[], help="archives of pictures without texts")
    args = parser.parse_args()
    config = Config(
        data=args.data, out=args.out, start=args.start, name=args.name, batch=512, mosaics=64, again=48,
        boxed=48, teach_share=0.8, image_lr=3e-4, head_lr=8e-4, alike_weight=0.3, again_weight=0.2, decay=0.05,
        drop=0.05, class_weight=0.3, keep_weight=0.3, invent_weight=0.15, soft_share=0.3, mean_share=0.3,
        region_weight=1.0, box_weight=0.3, focus=True, whole=True, seed=8, average=0.998, validate_every=2000,
        compiled=args.compiled,
    )  # fmt: skip
    return config, args


def main() -> None:
    """The whole run."""
    config, args = parse()
    torch.backends.cuda.matmul.allow_tf32 = True
    school = open_school(config)
    out, data, device = Path(config.out), Path(config.data), school.device
    teachers = [load_teacher(data, out, tower, device) for tower in args.towers]
    first = load_joint(school, args.joined).see if args.joined else start_sees(school)
    seers = [first, *map(teacher_sees, teachers)]
    more = [torch.from_numpy(array) for array in load_unlabelled(args.unlabelled)]
    places = boxed.read_boxes(data / "regions.jsonl", school.pairs.rows, data / "tokenizer.json", device=device)
    lessons = Lessons(
        look(school, seers, [school.tables.pictures], SMALLEST, lean=args.lean),
        look(school, seers, more, SMALLEST_UNLABELLED, lean=args.lean) if more else None,
        places,
        torch.stack([speak(school.start.text, names) for names in places.names]),
    )
    say(views=len(school.pairs.rows) * len(SMALLEST), unlabelled=sum(map(len, more)))
    student = learn(school, lessons, begin_student(school, teachers[0], args.student), seconds=args.seconds)
    found = measure(school, student)
    say(merit=merit(found), found=found)
    save(student, out, config.name)


if __name__ == "__main__":
    main()
