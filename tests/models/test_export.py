"""`wherein export`: every family that can be exported answers as torch does, from a folder that needs no torch."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from wherein.cli import app
from wherein.encoders import check_encoder, load
from wherein.encoders.export import LEAST, export_encoder
from wherein.encoders.hf.runtime import library
from wherein.encoders.tokenizer import bpe_tokenizer
from wherein.errors import InputError, SpecError
from wherein.images.image import decode

Toy = Callable[[str], Path]


@pytest.mark.parametrize("family", ["clip", "siglip", "blip", "dino", "dinov2", "openclip", "naclip"])
def test_an_exported_encoder_answers_as_torch_does(toy: Toy, tmp_path: Path, family: str) -> None:
    kind = family if family in ("openclip", "naclip") else "hf"
    spec = f"{kind}:{toy('clip' if family == 'naclip' else family)}"
    made = export_encoder(spec, tmp_path / "pair")
    assert made.image_cosine >= LEAST
    ours, exported = load(spec), load(f"onnx:{tmp_path / 'pair'}")
    check_encoder(exported)
    assert (exported.dim, exported.grid_hw, exported.embeds_text) == (ours.dim, ours.grid_hw, ours.embeds_text)
    image = decode(np.random.default_rng(3).integers(0, 256, (50, 70, 3), dtype=np.uint8))
    ours_seen, theirs = (one.images(one.prepare(image)[None]) for one in (ours, exported))
    np.testing.assert_allclose(theirs.global_, ours_seen.global_, atol=1e-3)
    assert ours_seen.patches is not None
    assert theirs.patches is not None
    np.testing.assert_allclose(theirs.patches, ours_seen.patches, atol=1e-3)
    if ours.embeds_text:
        texts = ["a red tree", "RED", "", "a photo of a dog . " * 30]
        np.testing.assert_allclose(exported.texts(texts), ours.texts(texts), atol=1e-3)


@pytest.mark.parametrize("family", ["clip", "siglip", "dinov3"])
def test_eight_bits_are_smaller_and_nearly_the_same(toy: Toy, tmp_path: Path, family: str) -> None:
    whole = export_encoder(f"hf:{toy(family)}", tmp_path / "whole")
    small = export_encoder(f"hf:{toy(family)}", tmp_path / "small", int8=True)
    sizes = [(tmp_path / name / "image.onnx").stat().st_size for name in ("whole", "small")]
    assert sizes[1] < sizes[0]
    assert 0.99 <= small.image_cosine < whole.image_cosine
    check_encoder(load(f"onnx:{tmp_path / 'small'}"))


@pytest.mark.parametrize(
    ("family", "complaint"),
    [("blip2", "32 vectors"), ("siglip2", "any aspect"), ("mini", "only models of torch"), ("radio", "cannot be")],
)
def test_what_cannot_be_exported_says_why_and_leaves_nothing(
    toy: Toy, tmp_path: Path, family: str, complaint: str
) -> None:
    spec = family if family == "mini" else f"hf:{toy(family)}"
    with pytest.raises(SpecError, match=complaint):
        export_encoder(spec, tmp_path / "pair")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_not_written_to(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="is there already"):
        export_encoder(f"hf:{toy('clip')}", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_word_pieces_of_open_clip_are_its_own() -> None:
    own = library("open_clip", "test").SimpleTokenizer(context_length=32)
    made = bpe_tokenizer(own)
    made.enable_truncation(32)
    made.enable_padding(length=32, pad_id=0)
    texts = [
        "a red tree",
        "",
        "It's  TWO\nDogs, running!",
        "naïve café №5 — “quoted”",
        "x1y22 #tag",
        "木 🙂",
        "word " * 60,
    ]
    np.testing.assert_array_equal([row.ids for row in made.encode_batch(texts)], own(texts).numpy())


def test_the_command_exports_and_says_how_near_it_is(toy: Toy, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["export", f"hf:{toy('clip')}", str(tmp_path / "pair"), "--json"])
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert found["text_cosine"] >= LEAST
    assert {path.name for path in (tmp_path / "pair").iterdir()} == {
        "encoder.json",
        "image.onnx",
        "text.onnx",
        "tokenizer.json",
    }
