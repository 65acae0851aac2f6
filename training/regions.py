"""The third run: what a place shows. Patches learn to say together what the picture of their place says alone.

    python regions.py --data DATA --start OUT/final --out OUT --name regions --seconds 380

Only the patch head is trained: the backbone, the whole-image head and the texts stay those of the second run, which
also teaches. The teacher sees a picture whole; the student sees it small among others in a mosaic, or sees only the
photograph that it was cut from.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import augment
import boxes as boxed
import losses
import vocabulary as words
from config import Config
from data import Pairs, load_pairs
from export import load_towers
from tables import Tables, build_tables, draw_texts, text_targets, unit
from towers import Backbone, ImageTower, Maps, load_backbone
from train import (
    FOCUS,
    Model,
    batches,
    build_optimizer,
    class_rows,
    hold_back,
    masked_softmax,
    mix,
    save,
    schedule,
    update_average,
    validate,
)

MEAN_SHARE = 0.5
# The inverse temperature at the second run's end; texts are fixed, so it is too.
SCALE = 30.0


@dataclass(frozen=True)
class Weights:
    """How much each term counts."""

    stay: float = 2.0
    tiles: float = 1.0
    texts: float = 0.25
    names: float = 0.4
    point: float = 0.2
    crops: float = 1.0
    boxes: float = 0.3


@dataclass(frozen=True)
class Spoken:
    """Frozen unit embeddings: every text `(t, d)`, every cut through the classes' names `(cuts, 1000, d)`, the names of
    boxes in several wordings `(w, c, d)`."""

    texts: Tensor
    cuts: Tensor
    boxed: Tensor


@torch.no_grad()
def speak(model: Model, tables: Tables, places: boxed.Boxes) -> Spoken:
    """Embed all texts once."""

    def embed(tokens: Tensor) -> Tensor:
        return torch.cat([unit(model.text(part, part != 0)) for part in tokens.split(8192)])

    cuts, names = (torch.stack([embed(tokens) for tokens in said]) for said in (tables.cut_tokens, places.names))
    return Spoken(embed(tables.tokens), cuts, names)


def heads(tower: ImageTower, maps: Maps) -> tuple[Tensor, Tensor]:
    """(embeddings as exported `(n, d)`, patches `(n, p, d)` of their own lengths)."""
    patches = tower.patches(maps, tower.linear(maps.s32)).float().flatten(2).transpose(1, 2)
    whole = tower.embed(maps, tower.project(maps.s32.mean((2, 3))))
    return unit(unit(whole) + MEAN_SHARE * unit(unit(patches).mean(1))), patches


def agree(found: Tensor, wanted: Tensor, anchors: Tensor) -> Tensor:
    """Rows should lie where the teacher's lie, and tell the anchors' texts apart as it does."""
    target = (SCALE * wanted @ anchors.T).softmax(-1)
    return (1 - (found * wanted).sum(-1)).mean() + losses.soft_cross_entropy(SCALE * found @ anchors.T, target) / 4


def point_inside(patches: Tensor, inside: Tensor, texts: Tensor) -> Tensor:
    """The warmest of patches `(m, p, d)` for a tile's text `(m, t, d)` should lie in it: −log of the warmth inside."""
    rms = patches.square().sum(-1).mean(-1).sqrt()[:, None, None]
    heat = torch.einsum("mpd,mtd->mtp", patches / rms, texts)
    share = inside / inside.amax(-1, keepdim=True)
    return -((20 * heat).softmax(-1) * share).sum(-1).clamp(min=1e-4).log().mean()


def step_losses(
    student: ImageTower,
    teachers: tuple[ImageTower, Backbone],
    tables: Tables,
    spoken: Spoken,
    index: Tensor,
    *,
    mosaics: int,
    weights: Weights,
    places: boxed.Boxes,
) -> dict[str, Tensor]:
    """All terms of the loss, weighted, for the pictures numbered `index`."""
    teacher, classifier = teachers
    with torch.no_grad():
        x = augment.sharpen(augment.augment(tables.pictures[index], side=256, smallest=0.6))
        mosaic = augment.mosaic(x, count=mosaics)
        crops, boxes = augment.crops(x, side=192)
        shown, *drawn = boxed.draw(places, tables.pictures, count=len(x) // 4, side=256)
        both = torch.cat([x, mosaic.pictures, shown]).to(memory_format=torch.channels_last)
        maps, crop_maps = teacher.backbone(both), teacher.backbone(crops)
        known, _ = heads(teacher, Maps(*(part[: len(x)] for part in maps)))
        known_crops, _ = heads(teacher, crop_maps)
        classes, crop_classes = (
            masked_softmax(classifier.fc(classifier(part).s32.mean((2, 3))), torch.ones_like(tables.seen_class))
            for part in (x, crops)
        )
    found, patches = heads(student, maps)
    own, among, boxed_patches = patches.split([len(x), mosaics, len(shown)])
    chosen = [draw_texts(tables, index, share=share) for share in (0.05, 0.3)]
    anchors, phrases = (spoken.texts[texts] for texts in chosen)
    fitting = text_targets(tables, index, chosen[1], share=0.3)
    cut = int(torch.randint(len(spoken.cuts), ()))
    scale = torch.tensor(SCALE, device=x.device)
    naming = {"names": spoken.cuts[cut], "scale": scale, "shared": tables.cut_shared[cut]}
    tile = mosaic.tile.flatten()
    tiles = unit(torch.einsum("mpd,tp->mtd", among, mosaic.inside)).flatten(0, 1)
    cut_out = unit(torch.einsum("npd,np->nd", own, augment.box_coverage(boxes, grid=16)))
    called = spoken.boxed[int(torch.randint(len(spoken.boxed), ()))]
    return {
        "boxes": weights.boxes * boxed.loss(boxed_patches, *drawn, called, scale=scale),
        "stay": weights.stay * agree(found[: len(x)], known, anchors),
        "tiles": weights.tiles * agree(tiles, known[tile], anchors),
        "tile_texts": weights.texts * losses.soft_cross_entropy(scale * tiles @ phrases.T, fitting[tile]),
        "tile_names": weights.names * losses.name_classes(tiles, **naming, target=classes[tile]),
        "point": weights.point * point_inside(among, mosaic.inside, phrases[mosaic.tile]),
        "crops": weights.crops * agree(cut_out, known_crops, anchors),
        "crop_names": weights.names * losses.name_classes(cut_out, **naming, target=crop_classes),
    }


@torch.no_grad()
def probe_mosaics(tower: ImageTower, pictures: Tensor, said: Tensor, *, tiles: int) -> dict[str, float]:
    """Held-back pictures in mosaics: does a tile find its caption among all, and a caption its tile?"""
    mosaic = augment.mosaic(augment.plain(pictures, side=256), count=128, tiles=tiles)
    _, patches = heads(tower, tower.backbone(mosaic.pictures))
    found = unit(torch.einsum("mpd,tp->mtd", patches, mosaic.inside))
    ranks = (found @ said.T > (found * said[mosaic.tile]).sum(-1, keepdim=True)).sum(-1)
    heat = torch.einsum("mpd,mtd->mtp", patches, said[mosaic.tile])
    share = mosaic.inside / mosaic.inside.amax(-1, keepdim=True)
    inside = share.expand(len(heat), -1, -1).gather(-1, heat.argmax(-1, keepdim=True)) > 0.5
    return {
        f"tile_R@10_{tiles}": round(100 * (ranks < 10).float().mean().item(), 1),
        f"tile_point_{tiles}": round(100 * inside.float().mean().item(), 1),
    }


@dataclass(frozen=True)
class School:
    """Who learns from what: the student, the average of its past, its teachers, and everything they are shown."""

    model: Model
    average: Model
    begun: Model
    classifier: Backbone
    tables: Tables
    spoken: Spoken
    places: boxed.Boxes


def open_school(args: argparse.Namespace, pairs: Pairs, vocabulary: words.Vocabulary, config: Config) -> School:
    """Load the towers, free the patch head, embed every text."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    classifier = load_backbone(Path(args.data) / "lite2.pth").eval().requires_grad_(False)
    model = Model(*load_towers(Path(args.start))).to(device, memory_format=torch.channels_last).requires_grad_(False)
    tables = build_tables(pairs, vocabulary, model.text, config=config, unseen=[], device=device)
    begun = copy.deepcopy(model)
    for name, parameter in model.image.named_parameters():
        parameter.requires_grad_(name.startswith("patch"))
    classifier = classifier.to(device, memory_format=torch.channels_last)
    folder = Path(args.data)
    places = boxed.read_boxes(folder / "regions.jsonl", pairs.rows, folder / "tokenizer.json", device=device)
    return School(model, copy.deepcopy(model), begun, classifier, tables, speak(model, tables, places), places)


def learn(
    school: School, rows: NDArray[np.int64], repeats: NDArray[np.int64], config: Config, args: argparse.Namespace
) -> Iterator[tuple[int, dict[str, Tensor]]]:
    """Train until the time is up; gives each step's number and terms."""
    model, device = school.model, school.tables.pictures.device
    optimizer = build_optimizer(model, config)
    rng = np.random.default_rng(args.seed)
    queue: list[Tensor] = []
    started, step = time.time(), 0
    while (progress := (time.time() - started) / args.seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * schedule(progress)
        if not queue:
            queue = list(batches(rows, repeats, batch=args.batch, rng=rng).to(device))
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
            terms = step_losses(model.image, (school.begun.image, school.classifier), school.tables, school.spoken,
                                queue.pop(), mosaics=args.mosaics, weights=Weights(), places=school.places)  # fmt: skip
            loss = torch.stack(list(terms.values())).sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 5.0)
        optimizer.step()
        step += 1
        update_average(school.average, model, min(0.998, step / (step + 20)))
        yield step, terms


def parse() -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--start", required=True, help="towers of the second run, without -image.safetensors")
    parser.add_argument("--out", required=True)
    parser.add_argument("--name", default="regions")
    parser.add_argument("--seconds", type=float, default=380)
    parser.add_argument("--batch", type=int, default=768)
    parser.add_argument("--mosaics", type=int, default=384)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--kept", type=float, default=0.4, help="share of the start's patch head in the saved one")
    parser.add_argument("--seed", type=int, default=2)
    return parser.parse_args()


def main() -> None:
    """The whole run."""
    args = parse()
    torch.manual_seed(args.seed)
    torch.backends.cuda.matmul.allow_tf32 = True
    begin = time.time()
    log = (Path(args.out) / f"{args.name}.log").open("w")

    def say(**values: object) -> None:
        line = json.dumps({"t": round(time.time() - begin, 1), **values})
        print(args.name, line, flush=True)
        log.write(line + "\n")
        log.flush()

    config = Config(data=args.data, out=args.out, whole=True, mean_share=MEAN_SHARE, head_lr=args.lr, seed=args.seed)
    vocabulary = words.read(Path(args.data) / "vocabulary.json")
    pairs = load_pairs(Path(args.data))
    classes = class_rows(pairs, vocabulary)
    parts, _ = hold_back(pairs, classes, vocabulary, config)
    school = open_school(args, pairs, vocabulary, config)
    device = school.tables.pictures.device
    held = torch.from_numpy(parts.captions).to(device)
    held_pictures = torch.from_numpy(pairs.pictures[parts.captions]).to(device)

    def measure(of: Model) -> dict[str, float]:
        found = validate(of, pairs, parts, classes, config, vocabulary, device)
        of.eval()
        torch.manual_seed(args.seed)
        said = school.spoken.texts[school.tables.main[held, 0]]
        for tiles in (2, 3, 4):
            found |= probe_mosaics(of.image, held_pictures, said, tiles=tiles)
        shown = torch.from_numpy(pairs.pictures[school.places.rows[school.places.held].cpu().numpy()]).to(device)
        with torch.no_grad():
            _, patches = heads(of.image, of.image.backbone(augment.plain(shown, side=256)))
        found |= boxed.measure(patches, school.places, school.spoken.boxed[0])
        return found

    say(arguments=vars(args), rows=len(pairs.rows), train=len(parts.train), start=measure(school.begun))
    repeats = np.array([FOCUS.get(pairs.rows[row]["source"], 1) for row in parts.train])
    for step, terms in learn(school, parts.train, repeats, config, args):
        if step % 50 == 1:
            say(step=step, **{name: round(value.item(), 4) for name, value in terms.items()})
        if step % 500 == 0:
            say(step=step, average=measure(school.average))
    say(average=measure(school.average))
    saved = mix(school.average, school.begun, args.kept)
    say(kept=args.kept, average=measure(saved))
    save(saved, Path(args.out), args.name)


if __name__ == "__main__":
    main()
