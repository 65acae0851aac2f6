"""Two editions with texts of their own, joined into one space, which one text tower learns.

    python join.py --data DATA --out OUT --editions OUT/fifth OUT/sixth --seconds 80

Side by side the embeddings of two editions give the sum of their scores, in 1,024 dimensions. The 512 directions in
which texts and pictures vary most hold nearly all of it; they are turned to lie as near as can be to the first
edition's own. A text tower that begins as the first edition's learns where texts lie there, from what both say and
from which pictures they find fitting; the heads of the first edition's image tower are turned by the linear map that
brings its pictures there. Saves OUT/joined-image.safetensors, OUT/joined-text.safetensors and the directions,
OUT/joined.pt, with which `distil.py --joined` asks both editions.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import augment
import losses
from config import Config
from tables import Tables, hear, mask_words, unit
from teachers import MEAN_SHARE, SHARPNESS, SIDE, School, answer, half, open_school, say, speak
from towers import DIM, ImageTower, TextTower
from train import Model, earlier_view, frozen_copy, save, schedule, update_average

# Pictures and texts that choose the directions, and pictures among which a text must find what both editions find.
PICTURES, TEXTS, ANCHORS = 24_000, 60_000, 8192
# Texts in a step, and the share of them that are WordNet's nouns, which no picture showed.
BATCH, NOUN_SHARE = 3072, 0.15
# Shares of misspelled texts and of hidden words, as in the runs of `train.py`; how much nearness counts was not varied.
SLIPS, MASKED, MIMIC = 0.1, 0.1, 6.0


@dataclass(frozen=True)
class Joint:
    """Two editions, and the `(1024, 512)` directions of the space that both share."""

    editions: list[Model]
    directions: Tensor

    def see(self, x: Tensor) -> Tensor:
        """Where both put scaled pictures."""
        return unit(both_see(self.editions, x) @ self.directions)

    def speak(self, tokens: Tensor) -> Tensor:
        """Where both put texts."""
        said = [unit(edition.text(tokens, tokens != 0)) for edition in self.editions]
        return unit(torch.cat(said, 1) @ self.directions)


def choose_directions(pictures: Tensor, texts: Tensor) -> Tensor:
    """The 512 directions in which pictures and texts `(n, 1024)` vary most, turned towards the first edition's own."""
    moments = [(rows.T.double() @ rows.double()) / len(rows) for rows in (pictures, texts)]
    widest = torch.linalg.eigh(sum(moments))[1][:, -DIM:].float()
    left, _, right = torch.linalg.svd((texts @ widest).T @ texts[:, :DIM])
    return widest @ left @ right


def both_see(editions: list[Model], x: Tensor) -> Tensor:
    """`(n, 1024)`: where each edition puts scaled pictures."""
    return torch.cat([earlier_view(edition, x, mean_share=MEAN_SHARE) for edition in editions], 1)


def both_saw(editions: list[Model], school: School, rows: np.ndarray) -> Tensor:
    """`(n, 1024)`: where each edition puts training pictures."""
    found = []
    for part in torch.from_numpy(rows).to(school.device).split(512):
        x = augment.plain(school.tables.pictures[part], side=SIDE).to(memory_format=torch.channels_last)
        with half(school.device):
            found.append(both_see(editions, x))
    return torch.cat(found).float()


def turn_heads(image: ImageTower, turn: Tensor) -> ImageTower:
    """An image tower whose embeddings and patches are multiplied by `turn (512, 512)` from the right.

    What `patch_direct` weights is nearly the same in all dimensions (a mean of .40, give or take .04), so it stays.
    """
    turned = copy.deepcopy(image)
    second = [] if turned.second is None else [turned.second.whole, turned.second.outer]
    with torch.no_grad():
        for head in (turned.whole, turned.whole_outer, turned.patch_out, *second):
            head.weight.copy_((turn.T @ head.weight.flatten(1)).view_as(head.weight))
            head.bias.copy_(turn.T @ head.bias)
    return turned


def least_squares(given: Tensor, wanted: Tensor) -> Tensor:
    """The matrix that brings rows of `given` nearest to those of `wanted`, held back a little where little is known."""
    known = given.T @ given + 1e-4 * len(given) / given.shape[1] * torch.eye(given.shape[1], device=given.device)
    return torch.linalg.solve(known, given.T @ wanted)


def draw_tokens(tables: Tables) -> Iterator[Tensor]:
    """Texts of pictures, some misspelled or with words hidden, and nouns; as wide as the longest of them."""
    device = tables.tokens.device
    width = max(tables.tokens.shape[1], tables.noun_tokens.shape[1])

    def wide(tokens: Tensor) -> Tensor:
        return nn.functional.pad(tokens, (0, width - tokens.shape[1]))

    while True:
        nouns = torch.multinomial(tables.noun_weight, int(NOUN_SHARE * BATCH), replacement=True)
        texts = torch.randint(len(tables.tokens), (BATCH - len(nouns),), device=device)
        heard = mask_words(hear(tables, texts, slips=SLIPS), MASKED)
        drawn = torch.cat([wide(heard), wide(tables.noun_tokens[nouns])])
        yield drawn[:, : int((drawn != 0).sum(1).max())]


def learn_texts(joint: Joint, tables: Tables, anchors: Tensor, *, seconds: float) -> TextTower:
    """The first edition's text tower, which has learnt where both put texts; the average of its last weights."""
    device = anchors.device
    text = copy.deepcopy(joint.editions[0].text).requires_grad_(True)
    parts: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in text.named_parameters():
        parts[name.startswith("head")].append(parameter)
    groups = [{"params": parts[False], "peak": 2e-4}, {"params": parts[True], "peak": 1e-3}]
    optimizer = torch.optim.AdamW(groups, lr=0.0, weight_decay=0.0, betas=(0.9, 0.98), fused=device.type == "cuda")
    average, step, started, drawn = copy.deepcopy(text), 0, time.time(), draw_tokens(tables)
    while (progress := (time.time() - started) / seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * schedule(progress)
        tokens = next(drawn)
        with half(device):
            with torch.no_grad():
                wanted = joint.speak(tokens)
                fitting = answer(wanted, anchors)
            found = unit(text(tokens, tokens != 0))
            near = (1 - (found * wanted).sum(-1)).mean()
            loss = MIMIC * near + losses.soft_cross_entropy(SHARPNESS * found @ anchors.T, fitting)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(text.parameters(), 5.0)
        optimizer.step()
        step += 1
        update_average(average, text, min(0.99, step / (step + 20)))
        if step % 50 == 1:
            say(step=step, cosine=round(1 - near.item(), 4), loss=round(loss.item(), 3))
    say(text_steps=step)
    return average.eval().requires_grad_(False)


def join(school: School, editions: list[Model], *, seconds: float, seed: int = 30) -> tuple[Joint, Model]:
    """Both editions in one space, and the first edition brought there with the text tower of both."""
    torch.manual_seed(seed)
    device, rng = school.device, np.random.default_rng(seed)
    rows = rng.permutation(school.parts.train)[:PICTURES]
    pictures = both_saw(editions, school, rows)
    chosen = torch.randperm(len(school.tables.tokens), device=device)[:TEXTS]
    texts = torch.cat([speak(edition.text, school.tables.tokens[chosen]) for edition in editions], 1)
    joint = Joint(editions, choose_directions(pictures, texts))
    places = unit(pictures @ joint.directions)
    text = learn_texts(joint, school.tables, places[:ANCHORS], seconds=seconds)
    image = turn_heads(editions[0].image, least_squares(pictures[:, :DIM], places))
    return joint, Model(image, text).to(device, memory_format=torch.channels_last).eval().requires_grad_(False)


def load_joint(school: School, paths: list[str]) -> Joint:
    """What this script saved."""
    saved = torch.load(Path(school.config.out) / "joined.pt", map_location=school.device, weights_only=True)
    return Joint([frozen_copy(school.start, path) for path in paths], saved)


def main() -> None:
    """Join two editions and save what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--editions", nargs=2, required=True, help="towers, without -image.safetensors")
    parser.add_argument("--seconds", type=float, default=80)
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    school = open_school(Config(data=args.data, out=args.out, start=args.editions[0], whole=True))
    editions = [frozen_copy(school.start, path) for path in args.editions]
    joint, model = join(school, editions, seconds=args.seconds)
    torch.save(joint.directions.cpu(), Path(args.out) / "joined.pt")
    save(model, Path(args.out), "joined")


if __name__ == "__main__":
    main()
