"""Does fine-tuning the whole model help? A small model of two towers, trained by the recipe of `--kind full`.

    python benchmarks/fine_tuning.py TRAIN_FOLDER [--out out/fine-tuning]

No model of the hub is needed: a CLIP of 1 million weights starts from random ones, so its figures say that the recipe
works (contrast and matching, boxes as images, texts of a label as its support set), not how good a model becomes.
Photographs of clothes (no boxes) and of COCO's animals and vehicles (with boxes, and the same without them) are halved;
one half is learnt from, the names are searched among the other. Each training is stopped after two rounds, as Ctrl-C
does, and goes on. For docs/results/learning.md.
"""

from __future__ import annotations

import argparse
import io
import json
import time
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import PIL.Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from wherein.encoders import load
from wherein.encoders.hf.runtime import torch_for, transformers_for
from wherein.images.image import decode
from wherein.search.head import average_precision
from wherein.training.examples import Examples
from wherein.training.full import Recipe, fine_tune
from wherein.training.tuning import shown_of
from wherein.values.region import Box

SIDE = 64
"""Pixels of the model's input, and a third less than what photographs are kept at here."""
RECIPE = Recipe(rate=1e-3, rounds=16, fixed_rounds=16, patience=16, batch=8)
"""A model that knows nothing learns faster and longer than one that is fine-tuned."""
PER_KIND = 30
BOXED = ("cat", "elephant", "train", "pizza")


@dataclass(frozen=True)
class Pictures:
    """Photographs by name, what each shows, and where."""

    name: str
    pictures: dict[str, np.ndarray]
    shows: dict[str, dict[str, tuple[Box, ...]]]


def main() -> None:
    """Train on each set and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("train", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/fine-tuning"))
    asked = parser.parse_args()
    print("| set | images learnt from | boxes | names before | names after | rounds | seconds |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    animals = boxed(asked.train)
    bare = {name: dict.fromkeys(shown, ()) for name, shown in animals.shows.items()}
    for one in (clothes(asked.train), replace(animals, name="animals, no boxes", shows=bare), animals):
        print(trained(one, asked.out / one.name.replace(", ", "-").replace(" ", "-")), flush=True)


def clothes(train: Path) -> Pictures:
    """PER_KIND photographs of six kinds."""
    rows = [json.loads(line) for line in (train / "captions.jsonl").open()]
    kinds = dict[str, list[dict[str, str]]]()
    for row in rows:
        if row["source"] == "clothing":
            kinds.setdefault(row.get("label") or row["texts"][0].removeprefix("a photo of a "), []).append(row)
    chosen = {row["file"]: (row, label) for label in sorted(kinds)[:6] for row in kinds[label][:PER_KIND]}
    pictures = read(train, [row for row, _ in chosen.values()])
    return Pictures("clothes", pictures, {file: {label: ()} for file, (_, label) in chosen.items()})


def boxed(train: Path) -> Pictures:
    """COCO's photographs of BOXED, with their boxes."""
    rows = [json.loads(line) for line in (train / "regions.jsonl").open()]
    rows = [row for row in rows if any(box["text"] in BOXED for box in row["boxes"])]
    shows = dict[str, dict[str, tuple[Box, ...]]]()
    for row in rows:
        for box in row["boxes"]:
            x1, y1, x2, y2 = (min(max(float(side), 0.0), 1.0) for side in box["box"])
            if box["text"] in BOXED and x1 < x2 and y1 < y2:
                own = shows.setdefault(row["file"], {})
                own[box["text"]] = (*own.get(box["text"], ()), Box(x1, y1, x2, y2))
    return Pictures("animals", read(train, [row for row in rows if row["file"] in shows]), shows)


def read(train: Path, rows: list[dict[str, str]]) -> dict[str, np.ndarray]:
    """Small copies of photographs, so that reading them takes no time."""
    found = {}
    for shard in sorted({row["shard"] for row in rows}):
        with zipfile.ZipFile(train / shard) as archive:
            for row in rows:
                if row["shard"] == shard:
                    picture = PIL.Image.open(io.BytesIO(archive.read(row["file"]))).convert("RGB")
                    picture.thumbnail((2 * SIDE, 2 * SIDE))
                    found[row["file"]] = np.asarray(picture)
    return found


def model(folder: Path, words: list[str]) -> Path:
    """A CLIP of random weights that reads these words."""
    torch, transformers = torch_for("hf:small"), transformers_for("hf:small")
    known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted(set(words))]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(known)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    width = {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4}
    text = {**width, "num_hidden_layers": 2, "vocab_size": len(known), "max_position_embeddings": 16}
    config = transformers.CLIPConfig(
        text_config={**text, "eos_token_id": 3, "bos_token_id": 2, "pad_token_id": 0},
        vision_config={**width, "num_hidden_layers": 4, "image_size": SIDE, "patch_size": 8},
        projection_dim=64,
    )
    torch.manual_seed(0)
    transformers.CLIPModel(config).save_pretrained(folder)
    transformers.CLIPImageProcessorPil(
        size={"height": SIDE, "width": SIDE}, do_center_crop=False, crop_size={"height": SIDE, "width": SIDE}
    ).save_pretrained(folder)
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    return folder


def trained(one: Pictures, out: Path) -> str:
    """A row of the table: a model is trained on one half and asked by names on the other."""
    labels = tuple(sorted({label for shown in one.shows.values() for label in shown}))
    names = np.random.default_rng(0).permutation(sorted(one.shows)).tolist()
    half, others = names[::2], names[1::2]
    marks = np.array([[1 if label in one.shows[name] else -1 for label in labels] for name in half], np.int8)
    boxes = {
        (row, labels.index(label)): where
        for row, name in enumerate(half)
        for label, where in one.shows[name].items()
        if where
    }
    examples = Examples(labels, tuple(half), marks, boxes)
    start = model(out / "start", [word for label in labels for word in f"a photo of {label}".split()])
    before, clock = standing(start, one, labels, others), time.perf_counter()

    def stop(done: int, _: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    encoder = load(f"hf:{start}")
    try:
        fine_tune(
            encoder, shown_of(examples, encoder, one.pictures.__getitem__), out / "work", recipe=RECIPE, on_round=stop
        )
    except KeyboardInterrupt:
        encoder = load(f"hf:{start}")
    views = shown_of(examples, encoder, one.pictures.__getitem__)
    best, history = fine_tune(encoder, views, out / "work", recipe=RECIPE)
    after = standing(best, one, labels, others)
    seconds, crops = time.perf_counter() - clock, len(views.owners) - views.whole
    rounds = f"{history.best} of {len(history.standings)}"
    return f"| {one.name} | {len(half)} | {crops} | {before:.1f} | {after:.1f} | {rounds} | {seconds:.0f} |"


def standing(folder: Path, one: Pictures, labels: tuple[str, ...], names: list[str]) -> float:
    """The mean average precision of labels' names over photographs, in percent."""
    encoder = load(f"hf:{folder}")
    prepared = np.stack([encoder.prepare(decode(one.pictures[name])) for name in names])
    rows = np.concatenate([encoder.images(prepared[at : at + 64]).global_ for at in range(0, len(names), 64)])
    texts = encoder.texts([f"a photo of {label}" for label in labels])
    shows = np.array([[label in one.shows[name] for label in labels] for name in names])
    each = [100 * average_precision(rows @ text, shows[:, n]) for n, text in enumerate(texts) if shows[:, n].any()]
    return float(np.mean(each))


if __name__ == "__main__":
    main()
