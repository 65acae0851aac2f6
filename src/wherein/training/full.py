"""Fine-tuning of a model of torch: the recipe of SearchAD's baseline (section 5.5), for encoders of two towers.

Image-text contrast and image-text matching: a label's texts should score its images above others and the other way
round, and each pair of a text and an image is right or wrong by itself. Where boxes are known, what is in them is an
image too, which the paper left for later. A label's support set are its texts. Training ends when held-out images have
not got better for PATIENCE rounds, and the best round is kept. After each round everything is on disk, without pickles,
so that a training that was stopped goes on and gives the same numbers.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from wherein.encoders import Encoder
from wherein.encoders.hf.runtime import library, require_libraries, torch_for
from wherein.errors import InputError
from wherein.images.image import Pixels
from wherein.search.head import Marks, average_precision

PARTS_HELD_OUT: Final = 5
"""One image in so many is held out, where each label keeps two; else the number of rounds is fixed."""
FEW: Final = 8
"""Right examples of the rarest label below which nothing is held out."""
_STATE: Final = "state.{}.safetensors"
"""Named by its round, and by the history, which is written after it: both are of one moment."""
_HISTORY: Final = "history.json"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a model is fine-tuned. The paper names its losses and no numbers; these are CLIP's usual ones."""

    rate: float = 1e-5
    """Of AdamW. Larger ones forget what the model knew within a round."""
    rounds: int = 8
    """Times that every image is seen, at most."""
    fixed_rounds: int = 3
    """The same where too few examples are there to hold some out."""
    patience: int = 2
    """Rounds without a gain after which training ends."""
    batch: int = 32
    matching: float = 0.5
    """What matching counts beside the contrast."""
    decay: float = 0.01


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

    @property
    def after(self) -> float:
        """The standing of what is kept."""
        return self.standings[self.best - 1] if self.best else self.before


def require_trainable(encoder: Encoder) -> None:
    """Refuse an encoder that torch cannot train, with the way out."""
    way_out = "train the kind head or the kind adapter on it, or name a model of transformers, as hf:NAME"
    if not encoder.spec.startswith("hf:"):
        require_libraries("training of the kind full")
        raise InputError(f"{encoder.spec}: is no model that torch can train; {way_out}.")
    if not encoder.embeds_text or encoder.vectors > 1:
        raise InputError(f"{encoder.spec}: has not one tower for images and one for texts; {way_out}.")


def fine_tune(
    encoder: Encoder,
    shown: TrainingViews,
    folder: Path,
    *,
    seed: int = 0,
    recipe: Recipe | None = None,
    on_round: Callable[[int, int], None] = lambda *_: None,
) -> tuple[Path, History]:
    """Fine-tune the model of an encoder, which it changes, in `folder`, from where it stopped.

    Returns the folder of the best model and the history.
    """
    how, model = recipe or Recipe(), _Trainee(encoder, recipe or Recipe())
    taught, held_out = _split(shown, seed)
    rounds = how.rounds if len(held_out) else how.fixed_rounds
    history = _resumed(model, folder)
    if history is None:
        history = History(before=model.standing(shown, held_out))
        model.save(folder / "best")
    while len(history.standings) < rounds and len(history.standings) - history.best < how.patience:
        on_round(len(history.standings), rounds)
        number = len(history.standings) + 1
        model.learn(shown, taught, seed=seed, number=number)
        history.standings.append(model.standing(shown, held_out))
        if not len(held_out) or history.standings[-1] > history.after:
            history.best = number
            model.save(folder / "best")
        _keep(model, history, folder)
    on_round(rounds, rounds)
    return folder / "best", history


def _split(shown: TrainingViews, seed: int) -> tuple[list[int], list[int]]:
    """The images and crops to learn from, and the whole images that are held out; none where examples are few."""
    right = (shown.marks[: shown.whole] == 1).sum(axis=0)
    every = range(len(shown.marks))
    if int(right.min(initial=0)) < FEW:
        return list(every), []
    order = np.random.default_rng(seed).permutation(shown.whole)
    held_out = sorted(order[::PARTS_HELD_OUT].tolist())
    return [number for number in every if shown.owners[number] not in set(held_out)], held_out


class _Trainee:
    """A model of transformers that is being trained, in full precision on its encoder's device."""

    def __init__(self, encoder: Any, recipe: Recipe) -> None:
        self._encoder, self._recipe, self._torch = encoder, recipe, torch_for(encoder.spec)
        torch = self._torch
        self.network = encoder.load_network(torch.float32).to(encoder.device)
        encoder._network, encoder.dtype = self.network, torch.float32
        self._scale = torch.nn.Parameter(torch.tensor(np.log(20.0), device=encoder.device, dtype=torch.float32))
        self._bias = torch.nn.Parameter(torch.tensor(-5.0, device=encoder.device))
        self._trained = [*self.network.parameters(), self._scale, self._bias]
        self.optimizer = torch.optim.AdamW(self._trained, lr=recipe.rate, weight_decay=recipe.decay)

    def learn(self, shown: TrainingViews, numbers: Sequence[int], *, seed: int, number: int) -> None:
        """See every image once; the same seed and number of the round give the same order."""
        chance = np.random.default_rng((seed, number))
        self._torch.manual_seed(1000 * seed + number)
        order = chance.permutation(np.asarray(numbers, np.int64))
        self.network.train()
        for start in range(0, len(order), self._recipe.batch):
            batch = order[start : start + self._recipe.batch].tolist()
            texts = [str(chance.choice(np.array(own))) for own in shown.texts]
            loss = self._loss(self._images(shown.images(batch)), self._texts(texts), shown.marks[batch])
            self.optimizer.zero_grad()
            loss.backward()
            self._torch.nn.utils.clip_grad_norm_(self._trained, 1.0)
            self.optimizer.step()
        self.network.eval()

    def standing(self, shown: TrainingViews, numbers: Sequence[int]) -> float:
        """The mean average precision of labels' texts over whole images; 0 where none are held out."""
        if not len(numbers):
            return 0.0
        with self._torch.no_grad():
            parts = [numbers[at : at + self._recipe.batch] for at in range(0, len(numbers), self._recipe.batch)]
            images = np.concatenate([self._images(shown.images(part)).cpu().numpy() for part in parts])
            texts = np.concatenate(
                [self._texts(list(own)).mean(dim=0, keepdim=True).cpu().numpy() for own in shown.texts]
            )
        marks = shown.marks[list(numbers)].T
        found = [
            average_precision(scores[said != 0], said[said != 0] > 0)
            for scores, said in zip(np.asarray(texts @ images.T, np.float32), marks, strict=True)
            if (said == 1).any() and (said == -1).any()
        ]
        return float(np.mean(found)) if found else 0.0

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

    def _images(self, prepared: Pixels) -> Any:
        pixels = self._torch.from_numpy(np.ascontiguousarray(prepared)).to(self._encoder.device)
        whole, _ = self._encoder.embed_images(self._encoder.normalised(pixels))
        return self._torch.nn.functional.normalize(whole.reshape(len(prepared), -1), dim=-1)

    def _texts(self, texts: Sequence[str]) -> Any:
        tokens = {name: ids.to(self._encoder.device) for name, ids in self._encoder.tokenize(texts).items()}
        return self._torch.nn.functional.normalize(self._encoder.embed_texts(tokens), dim=-1)

    def save(self, folder: Path) -> None:
        """Write the model as `save_pretrained` does, with its tokenizer and preprocessing."""
        aside = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        for path in self._encoder.model.folder.iterdir():
            if path.suffix in (".json", ".txt", ".model") and not path.name.endswith(".index.json"):
                shutil.copyfile(path, aside / path.name)
        self.network.save_pretrained(aside)
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
    told = {"before": history.before, "standings": history.standings, "best": history.best}
    (folder / f"{_HISTORY}.new").write_text(json.dumps(told), "utf-8")
    (folder / f"{_HISTORY}.new").replace(folder / _HISTORY)
    for old in folder.glob(_STATE.format("*")):
        if old.name != name:
            old.unlink()


def _resumed(model: _Trainee, folder: Path) -> History | None:
    """How far a training is that was stopped, with the model as it was then; None where nothing is there."""
    try:
        told = json.loads((folder / _HISTORY).read_text("utf-8"))
        history = History(float(told["before"]), [float(one) for one in told["standings"]], int(told["best"]))
        name = _STATE.format(len(history.standings))
        model.take(library("safetensors.torch", "training of the kind full").load_file(folder / name))
        return history
    except (OSError, ValueError, KeyError):
        return None
