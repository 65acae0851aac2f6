"""Fine-tuning of a model of torch: the recipe of SearchAD's baseline (section 5.5), for encoders of two towers.

Image-text contrast and image-text matching: a label's texts should score its images above others and the other way
round, and each pair of a text and an image is right or wrong by itself. Where boxes are known, what is in them is an
image too, which the paper left for later. A label's support set are its texts. Training ends when held-out images have
not got better for `Recipe.patience` rounds, and the best round is kept. After each round everything is on disk, without
pickles, so that a training that was stopped goes on and gives the same numbers.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein.encoders import Encoder
from wherein.encoders.hf.runtime import library
from wherein.images.image import Pixels
from wherein.search.bank import BATCH as TEXTS_AT_ONCE
from wherein.search.bank import texts as bank_texts
from wherein.search.head import Marks, average_precision
from wherein.training.towers import Towers, towers_of

PARTS_HELD_OUT: Final = 5
"""One whole image in so many is held out, by chance; none where a label has fewer than FEW right examples."""
FEW: Final = 8
"""Right examples of the rarest label below which nothing is held out, and the number of rounds is fixed: with four,
a held-out fifth chose worse rounds than that (docs/results/fine-tuning.md)."""
OnStep = Callable[[int, int], None]
SHARPNESS: Final = 20.0
"""Factor of cosines with usual texts in the loss that keeps what the model knew; the contrast starts with the same."""
_STATE: Final = "state.{}.safetensors"
"""The file of the weights and the optimizer after a round, by its number. The history, written after it, names the
round, so that both are of one moment."""
_HISTORY: Final = "history.json"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a model is fine-tuned. The paper names its losses and no numbers: `fixed_rounds` and `keep` were chosen with
    `mini` on underwater photographs (docs/results/fine-tuning.md), the others are usual ones."""

    rate: float | None = None
    """The learning rate of AdamW; None takes that of the kind of model (`Towers.rate`)."""
    rounds: int = 8
    """Times that every image is seen, at most."""
    fixed_rounds: int = 4
    """Times that every image is seen where too few examples are there to hold some out."""
    patience: int = 2
    """Rounds without a gain after which training ends."""
    batch: int = 16
    matching: float = 0.5
    """What matching counts beside the contrast."""
    decay: float = 0.01
    keep: float = 2.0
    """What it costs to move images and texts among usual ones (`wherein.search.bank`), beside the contrast. With 0,
    and steps four times as long, R@1 of captions fell from 47.9 to 21; with 20, as little was learnt as forgotten."""
    usual: int = 256
    """Usual texts by which it is seen whether an image has moved: at least so many, evenly from the bank."""
    kept_texts: int = 16
    """Usual texts that are embedded anew in each step, drawn by chance, to see whether they have moved."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingViews:
    """What is trained on: prepared images and crops, and which texts are right (1) and wrong (−1) for each."""

    images: Callable[[Sequence[int]], Pixels]
    """Prepared images by number: the whole images first, then crops."""
    marks: Marks
    """(images and crops, labels)"""
    whole: int
    """How many of them are whole images."""
    owners: Sequence[int]
    """The whole image that each is, or is a crop of."""
    texts: tuple[tuple[str, ...], ...]
    """The texts of each label."""


@dataclass(slots=True)
class History:
    """How far a training is: the standing of held-out images before it and after each round, and the best round."""

    before: float = 0.0
    standings: list[float] = field(default_factory=list)
    best: int = 0
    kept: float = 1.0
    """The mean cosine of usual texts with what they were before, in the best round."""

    @property
    def after(self) -> float:
        """The standing of what is kept."""
        return self.standings[self.best - 1] if self.best else self.before


def fine_tune(
    encoder: Encoder,
    shown: TrainingViews,
    folder: Path,
    *,
    seed: int = 0,
    recipe: Recipe | None = None,
    on_step: OnStep = lambda *_: None,
) -> tuple[Path, History]:
    """Fine-tune the model of an encoder, which it changes, in `folder`, from where it stopped.

    Returns the folder of the best model and the history.
    """
    how = recipe or Recipe()
    taught, held_out = _split(shown, seed)
    rounds, steps = (how.rounds if len(held_out) else how.fixed_rounds), -(-len(taught) // how.batch)

    def step(number: int, done: int = 0) -> None:
        on_step((number - 1) * steps + done, rounds * steps)

    step(1)
    model = _Trainee(towers_of(encoder), how)
    model.remember(shown, taught, on_step=lambda: step(1))
    history = _resumed(model, folder)
    if history is None:
        history = History(before=model.standing(shown, held_out))
        model.save(folder / "best")
    while len(history.standings) < rounds and len(history.standings) - history.best < how.patience:
        number = len(history.standings) + 1
        model.learn(shown, taught, seed=seed, number=number, on_step=partial(step, number))
        history.standings.append(model.standing(shown, held_out))
        if not len(held_out) or history.standings[-1] > history.after:
            history.best, history.kept = number, model.kept()
            model.save(folder / "best")
        _keep(model, history, folder)
    step(rounds + 1)
    return folder / "best", history


def _split(shown: TrainingViews, seed: int) -> tuple[list[int], list[int]]:
    """The images and crops to learn from, and the whole images that are held out; none where examples are few."""
    right = (shown.marks[: shown.whole] == 1).sum(axis=0)
    every = range(len(shown.marks))
    if not len(right) or int(right.min()) < FEW:
        return list(every), []
    order = np.random.default_rng(seed).permutation(shown.whole)
    held_out = sorted(order[::PARTS_HELD_OUT].tolist())
    return [number for number in every if shown.owners[number] not in set(held_out)], held_out


class _Trainee:
    """Towers that are being trained, with the optimizer, and what they knew before."""

    def __init__(self, towers: Towers, recipe: Recipe) -> None:
        self._towers, self._recipe, self._torch = towers, recipe, library("torch", "training of the kind full")
        torch = self._torch
        self._scale = torch.nn.Parameter(torch.tensor(np.log(20.0), device=towers.device, dtype=torch.float32))
        self._bias = torch.nn.Parameter(torch.tensor(-5.0, device=towers.device))
        self._trained = [*towers.trained, self._scale, self._bias]
        rate = towers.rate if recipe.rate is None else recipe.rate
        self.optimizer = torch.optim.AdamW(self._trained, lr=rate, weight_decay=recipe.decay)
        every = bank_texts()
        self._usual = every[:: max(1, len(every) // recipe.usual)]
        self._knew_texts = self._embedded_texts(self._usual)
        self._knew_images = dict[int, Any]()

    def learn(
        self, shown: TrainingViews, numbers: Sequence[int], *, seed: int, number: int, on_step: Callable[[int], None]
    ) -> None:
        """See every image once; the same seed and number of the round give the same order."""
        chance = np.random.default_rng((seed, number))
        self._torch.manual_seed(1000 * seed + number)
        order = chance.permutation(np.asarray(numbers, np.int64))
        self._towers.train(True)
        for start in range(0, len(order), self._recipe.batch):
            on_step(start // self._recipe.batch)
            batch = order[start : start + self._recipe.batch].tolist()
            said = [str(chance.choice(np.array(own))) for own in shown.texts]
            pixels = shown.images(batch)
            images = self._towers.images(pixels)
            usual = chance.permutation(len(self._usual))[: self._recipe.kept_texts].tolist()
            texts = self._towers.texts([*said, *(self._usual[one] for one in usual)])
            loss = self._loss(images, texts[: len(said)], shown.marks[batch])
            knew = self._torch.stack([self._knew_images[one] for one in batch])
            loss = loss + self._recipe.keep * self._lost(images, knew, texts[len(said) :], usual)
            self.optimizer.zero_grad()
            loss.backward()
            self._torch.nn.utils.clip_grad_norm_(self._trained, 1.0)
            self.optimizer.step()
        self._towers.train(False)

    def remember(self, shown: TrainingViews, numbers: Sequence[int], *, on_step: Callable[[], None]) -> None:
        """Keep how the images to learn from were embedded before anything was learnt."""
        with self._torch.no_grad():
            for part in self._parts(numbers):
                on_step()
                self._knew_images |= dict(zip(part, self._towers.images(shown.images(part)), strict=True))

    def standing(self, shown: TrainingViews, numbers: Sequence[int]) -> float:
        """The mean average precision of labels' texts over whole images; 0 where none are held out."""
        if not len(numbers):
            return 0.0
        said = [text for own in shown.texts for text in own]
        with self._torch.no_grad():
            images = np.concatenate(
                [self._towers.images(shown.images(part)).cpu().numpy() for part in self._parts(numbers)]
            )
        every = self._embedded_texts(said).cpu().numpy()
        images, every = self._towers.searched(images, every, said)
        ends = np.cumsum([len(own) for own in shown.texts])[:-1]
        texts = np.stack([own.mean(axis=0) for own in np.split(every, ends)])
        marks = shown.marks[list(numbers)].T
        found = [
            average_precision(scores[said != 0], said[said != 0] > 0)
            for scores, said in zip(np.asarray(texts @ images.T, np.float32), marks, strict=True)
            if (said == 1).any() and (said == -1).any()
        ]
        return float(np.mean(found)) if found else 0.0

    def kept(self) -> float:
        """The mean cosine of usual texts with what they were."""
        return float((self._embedded_texts(self._usual) * self._knew_texts).sum(dim=1).mean())

    def _parts(self, numbers: Sequence[int]) -> list[Sequence[int]]:
        return [numbers[at : at + self._recipe.batch] for at in range(0, len(numbers), self._recipe.batch)]

    def _embedded_texts(self, said: Sequence[str]) -> Any:
        with self._torch.no_grad():
            parts = [self._towers.texts(said[at : at + TEXTS_AT_ONCE]) for at in range(0, len(said), TEXTS_AT_ONCE)]
            return self._torch.cat(parts)

    def _loss(self, images: Any, texts: Any, marks: Marks) -> Any:
        """Contrast, both ways, of what is right among what is right or wrong; and matching, pair by pair."""
        torch = self._torch
        said = torch.from_numpy(marks != 0).to(images.device)
        right = torch.from_numpy(marks == 1).to(images.device)
        scores = self._scale.exp() * images @ texts.T
        total = scores.new_zeros(())
        for axis in (0, 1):
            asked = right.any(dim=axis)
            if not bool(asked.any()):
                continue
            likely = scores.masked_fill(~said, -1e4).log_softmax(dim=axis)
            each = -(likely * right).sum(dim=axis) / right.sum(dim=axis).clamp_min(1)
            total = total + each[asked].mean() / 2
        if bool(said.any()):
            pairs = (scores + self._bias)[said]
            total = total + self._recipe.matching * torch.nn.functional.binary_cross_entropy_with_logits(
                pairs, right[said].float()
            )
        return total

    def _lost(self, images: Any, knew: Any, texts: Any, usual: Sequence[int]) -> Any:
        """How far images have moved among usual texts, and usual texts from where they were."""
        torch = self._torch
        before, after = (SHARPNESS * own @ self._knew_texts.T for own in (knew, images))
        moved = torch.nn.functional.kl_div(
            after.log_softmax(dim=1), before.log_softmax(dim=1), reduction="batchmean", log_target=True
        )
        return moved + SHARPNESS * (1.0 - (texts * self._knew_texts[usual]).sum(dim=1)).mean()

    def save(self, folder: Path) -> None:
        """Write the model to a folder, whole or not at all."""
        aside = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        self._towers.save(aside)
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)

    def tensors(self) -> dict[str, Any]:
        """Everything that training changes, by name."""
        found = {f"weight.{n}": one.detach().clone().cpu() for n, one in enumerate(self._trained)}
        for n, one in enumerate(self._trained):
            for name, value in self.optimizer.state.get(one, {}).items():
                found[f"{name}.{n}"] = value.detach().clone().cpu()
        return found

    def take(self, tensors: Mapping[str, Any]) -> None:
        """Go on from what `tensors` gave."""
        with self._torch.no_grad():
            for n, one in enumerate(self._trained):
                one.copy_(tensors[f"weight.{n}"])
                state = {name.rpartition(".")[0]: value for name, value in tensors.items() if name.endswith(f".{n}")}
                state.pop("weight")
                if state:
                    moments = {name: value.to(one.device) for name, value in state.items() if name != "step"}
                    self.optimizer.state[one] = {"step": state["step"], **moments}


def _keep(model: _Trainee, history: History, folder: Path) -> None:
    """Write how far the training is; the history last."""
    name = _STATE.format(len(history.standings))
    library("safetensors.torch", "training of the kind full").save_file(model.tensors(), folder / name)
    told = {"before": history.before, "standings": history.standings, "best": history.best, "kept": history.kept}
    (folder / f"{_HISTORY}.new").write_text(json.dumps(told), "utf-8")
    (folder / f"{_HISTORY}.new").replace(folder / _HISTORY)
    for old in folder.glob(_STATE.format("*")):
        if old.name != name:
            old.unlink()


def _resumed(model: _Trainee, folder: Path) -> History | None:
    """How far a training is that was stopped, with the model as it was then; None where nothing is there."""
    try:
        told = json.loads((folder / _HISTORY).read_text("utf-8"))
        standings = [float(one) for one in told["standings"]]
        history = History(float(told["before"]), standings, int(told["best"]), float(told["kept"]))
        name = _STATE.format(len(history.standings))
        model.take(library("safetensors.torch", "training of the kind full").load_file(folder / name))
        return history
    except (OSError, ValueError, KeyError):
        return None
