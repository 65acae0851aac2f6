"""COCO, Flickr30k and Crossmodal-3600: tiny folders in their published formats, ranks against a slow reference."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherein.bench.captioned.dataset import LANGUAGES, load_crossmodal, load_karpathy
from wherein.bench.captioned.task import _both_ways, score_captioned
from wherein.bench.evaluation import Evaluation
from wherein.bench.run import Plan
from wherein.bench.sweep import Sweep, sweep
from wherein.bench.task import Answers
from wherein.errors import DataError, SpecError

Go = Callable[..., Evaluation]
COLOURS = ("red", "blue", "green", "yellow")


@pytest.fixture
def coco(tmp_path: Path, paint_square: Any) -> Path:
    """Four test images and one to train, as Karpathy's file lists them."""
    root = tmp_path / "coco"
    records = []
    for number, colour in enumerate((*COLOURS, "black")):
        name = f"COCO_val2014_{number:012}.jpg"
        paint_square(root / "val2014" / name, colour)
        texts = [colour, f"a {colour} thing", f"all {colour}", f"{colour} again", f"so {colour}", "one too many"]
        records.append(
            {
                "filepath": "val2014",
                "filename": name,
                "imgid": number,
                "split": "restval" if colour == "black" else "test",
                "cocoid": number,
                "sentids": list(range(6)),
                "sentences": [{"tokens": text.split(), "raw": text, "imgid": number, "sentid": 0} for text in texts],
            }
        )
    (root / "dataset_coco.json").write_text(json.dumps({"images": records, "dataset": "coco"}))
    return root


@pytest.fixture
def crossmodal(tmp_path: Path, paint_square: Any) -> Path:
    """Four images with captions in two languages and in one under its older code."""
    root = tmp_path / "xm3600"
    lines = []
    for number, colour in enumerate(COLOURS):
        key = f"{number:016x}"
        paint_square(root / "images" / f"{key}.jpg", colour)
        record: dict[str, Any] = {"image/key": key, "image/locale": "en"}
        for language in ("en", "de", "iw"):
            texts = [colour, f"a {colour} thing"] if language == "en" else [f"{language} {colour}"]
            record[language] = {"caption": texts, "caption/tokenized": texts}
        lines.append(json.dumps(record))
    (root / "captions.jsonl").write_text("\n".join(lines) + "\n")
    return root


def test_karpathys_file_gives_a_split_with_five_captions_an_image(coco: Path) -> None:
    test = load_karpathy(coco, name="coco", split="test")
    assert list(test.images) == [f"val2014/COCO_val2014_{number:012}.jpg" for number in range(4)]
    assert len(test.captions) == 20
    assert ("val2014/COCO_val2014_000000000000.jpg", "a red thing") in test.captions
    assert len(load_karpathy(coco, name="coco", split="train").images) == 1  # restval is trained on
    with pytest.raises(DataError, match="has no image of the val split"):
        load_karpathy(coco, name="coco", split="val")
    with pytest.raises(SpecError, match="--split dev is none of test, val, train"):
        load_karpathy(coco, name="coco", split="dev")
    with pytest.raises(DataError, match="Karpathy's split of flickr30k"):
        load_karpathy(coco, name="flickr30k", split="test")


def test_flickr30k_has_no_folder_in_its_names(coco: Path, tmp_path: Path) -> None:
    document = json.loads((coco / "dataset_coco.json").read_text())
    for record in document["images"]:
        del record["filepath"]
    root = tmp_path / "flickr"
    root.mkdir()
    (root / "dataset_flickr30k.json").write_text(json.dumps(document))
    (coco / "val2014").rename(root / "flickr30k-images")
    found = load_karpathy(root, name="flickr30k", split="test")
    assert all(path.is_file() for path in found.images.values())


def test_crossmodal_has_thirty_six_languages(crossmodal: Path) -> None:
    assert len(set(LANGUAGES)) == 36
    assert len(load_crossmodal(crossmodal, language="en").captions) == 8
    assert [text for _, text in load_crossmodal(crossmodal, language="en", only_first=True).captions] == list(COLOURS)
    assert load_crossmodal(crossmodal, language="de").captions[0] == ("0000000000000000.jpg", "de red")
    assert load_crossmodal(crossmodal, language="he").captions[0][1] == "iw red"
    with pytest.raises(SpecError, match="--language klingon is none of ar, bn"):
        load_crossmodal(crossmodal, language="klingon")
    with pytest.raises(DataError, match=r'line 1: .*"fr"'):
        load_crossmodal(crossmodal, language="fr")


def test_a_run_finds_colours_both_ways(coco: Path, tmp_path: Path, go: Go) -> None:
    made = go("coco", coco, tmp_path / "run", method="toy+whole~any-style")
    assert made.scores["text-to-image"]["R@1"] == 1
    assert made.scores["image-to-text"]["R@1"] == 1
    assert made.scores["sum of recalls"]["RSUM"] == 6
    again = go("coco", coco, tmp_path / "run", method="toy+whole~any-style")
    assert again.scores["image-to-text"] == made.scores["image-to-text"]


def test_missing_images_are_named(coco: Path, tmp_path: Path, go: Go) -> None:
    (coco / "val2014" / "COCO_val2014_000000000002.jpg").unlink()
    with pytest.raises(DataError, match="000000000002"):
        go("coco", coco, tmp_path / "run")


def test_languages_are_swept_and_averaged(crossmodal: Path, tmp_path: Path) -> None:
    plan = Plan(benchmark="xm3600", data=crossmodal, method="toy+whole~any-style", out=tmp_path / "all")
    made = sweep(plan, Sweep(languages=("en", "de")))
    mean = made.scores["mean of 2 languages"]["text-to-image"]["R@1"]
    each = [made.scores[f"language: {word}"]["mean"]["text-to-image"]["R@1"] for word in ("en", "de")]
    assert mean == pytest.approx(sum(each) / 2)


def test_a_run_stands_beside_what_others_measured_alike(crossmodal: Path, coco: Path, tmp_path: Path, go: Go) -> None:
    made = go("coco", coco, tmp_path / "beside", method="toy+whole~any-style")
    rows = {method: figures for table in made.reference for method, figures in table.rows}
    assert rows["CLIP ViT-L/14@336px"]["text-to-image/R@1"] == pytest.approx(0.378)
    assert rows["ViT-B-32 openai"]["image-to-text/R@1"] == pytest.approx(0.5012, abs=0.01)
    shown = (tmp_path / "beside" / "report.html").read_text()
    assert "<tr><th>ViT-B-32 openai</th>" in shown  # so many methods are rows, not columns
    every = go("xm3600", crossmodal, tmp_path / "every", method="toy+whole~any-style")
    assert every.reference == ()  # others ask the first caption of an image only
    first = go("xm3600", crossmodal, tmp_path / "first", method="toy+whole~any-style", captions="first")
    assert [table.label for table in first.reference] == [
        "OpenCLIP, docs/openclip_multilingual_retrieval_results.csv (89fb801) (en, first caption of an image)"
    ]
    assert len(first.queries) == 4
    assert len(every.queries) == 8


@given(
    st.integers(1, 5),
    st.lists(st.integers(0, 4), min_size=1, max_size=12),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
def test_ranks_are_those_of_a_full_sort(images: int, owners: list[int], size: int, random: Any) -> None:
    own = np.array([one % images for one in owners])
    scores = np.array([[random.choice([0.0, 0.5, 1.0]) for _ in range(images)] for _ in own], dtype=np.float32)
    folds = np.arange(images) // size
    made = _both_ways(lambda: iter(scores), own, folds=folds)
    for number, image in enumerate(own):
        mine = [one for one in range(images) if folds[one] == folds[image]]
        order = sorted(mine, key=lambda one: (-scores[number, one], one))
        assert made.texts[number] == order.index(image) + 1
    ranks = []
    for image in sorted(set(own.tolist())):
        mine = [number for number in range(len(own)) if folds[own[number]] == folds[image]]
        order = sorted(mine, key=lambda number: (-scores[number, image], number))
        best = next(number for number in order if own[number] == image)
        ranks.append(1 + sum(own[number] != image for number in order[: order.index(best)]))
    assert made.images.tolist() == ranks


def test_scores_that_do_not_compare_between_texts_give_no_image_to_text() -> None:
    def packed(*values: float) -> dict[str, Any]:
        data = base64.b64encode(np.array(values, dtype=np.float32).tobytes()).decode("ascii")
        return {"scores": data, "first": [0], "kind": "evidence"}

    answers = Answers(image_ids=("a", "b"), kept={"a#1": packed(0.9, 0.1), "b#1": packed(0.8, 0.2)})
    made = score_captioned("coco", {"a#1": ("a", "one"), "b#1": ("b", "two")}, answers)
    assert "image-to-text" not in made.scores
    assert "whole~any-style" in made.warnings[0]
    assert made.scores["text-to-image"]["R@1"] == 0.5
