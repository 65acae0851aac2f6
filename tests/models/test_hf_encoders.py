"""Every family of `hf:` with a tiny model of its architecture: the contract, and the numbers of its own code."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import wherein
from wherein.arrays import Floats, unit
from wherein.cli import app
from wherein.encoders import check_encoder, load
from wherein.encoders.hf import ARCHITECTURES
from wherein.encoders.hf.base import TorchEncoder
from wherein.encoders.hf.runtime import choose_device, torch_for, transformers_for
from wherein.errors import MissingExtra, SpecError
from wherein.images.image import Image, decode

Toy = Callable[[str], Path]
FAMILIES = ["clip", "metaclip2", "siglip", "siglip2", "blip", "blip2", "dino", "dinov2", "dinov2_registers", "dinov3"]
WITH_TEXT = FAMILIES[:6]
TEXTS = ["a red tree", "a photo of a dog .", "GREEN"]


def torch_encoder(spec: str) -> TorchEncoder:
    made = load(spec)
    assert isinstance(made, TorchEncoder)
    return made


def pictures(*shapes: tuple[int, int]) -> list[Image]:
    random = np.random.default_rng(1)
    return [decode(random.integers(0, 256, (*shape, 3), dtype=np.uint8)) for shape in shapes]


def processed(folder: Path, images: list[Image]) -> dict[str, Any]:
    """What the model's own image processor makes of images."""
    auto = transformers_for("test").AutoImageProcessor.from_pretrained(folder, backend="pil")
    arrays = [image.pixels.copy() for image in images]
    return dict(auto(images=arrays, input_data_format="channels_last", return_tensors="pt"))


def own(folder: Path, class_name: str) -> Any:
    return getattr(transformers_for("test"), class_name).from_pretrained(folder).eval()


def rows(tensor: Any) -> Floats:
    return unit(tensor.detach().float().numpy())


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_keeps_the_contract(toy: Toy, family: str) -> None:
    spec = f"hf:{toy(family)}"
    encoder = load(spec)
    check_encoder(encoder)
    assert encoder.spec == spec
    assert load(spec).digest == encoder.digest
    assert encoder.embeds_text == (family in WITH_TEXT)
    assert encoder.device == choose_device("auto", spec)


def test_every_architecture_has_a_toy(toy: Toy) -> None:
    kinds = {json.loads((toy(family) / "config.json").read_text())["model_type"] for family in FAMILIES}
    assert kinds == set(ARCHITECTURES) - {"radio"}, "radio has its own tests"


@pytest.mark.parametrize("family", [one for one in FAMILIES if one != "siglip2"])
def test_preprocessing_is_the_processors_own(toy: Toy, family: str) -> None:
    encoder = torch_encoder(f"hf:{toy(family)}")
    images = pictures((40, 60), (90, 33), (32, 32), (200, 180))
    batch = torch_for("test").from_numpy(np.stack([encoder.prepare(image) for image in images]))
    expected = processed(toy(family), images)["pixel_values"]
    np.testing.assert_allclose(encoder.normalised(batch).numpy(), expected.numpy(), atol=1e-3)


def test_patches_of_any_aspect_are_the_processors_own(toy: Toy) -> None:
    encoder = torch_encoder(f"hf:{toy('siglip2')}")
    images = pictures((40, 60), (90, 33), (8, 300))
    found = encoder.normalised(torch_for("test").from_numpy(np.stack([encoder.prepare(image) for image in images])))
    expected = processed(toy("siglip2"), images)
    assert found["shapes"].tolist() == expected["spatial_shapes"].tolist()
    used = expected["pixel_attention_mask"].bool().numpy()
    np.testing.assert_allclose(found["patches"].numpy()[used], expected["pixel_values"].numpy()[used], atol=1e-3)


@pytest.mark.parametrize(
    ("family", "class_name"),
    [
        ("clip", "CLIPModel"),
        ("metaclip2", "MetaClip2Model"),
        ("siglip", "SiglipModel"),
        ("siglip2", "Siglip2Model"),
    ],
)
def test_embeddings_are_the_models_own_features(toy: Toy, family: str, class_name: str) -> None:
    folder, network = toy(family), own(toy(family), class_name)
    encoder, images = load(f"hf:{folder}"), pictures((40, 60), (90, 33))
    found = encoder.images(np.stack([encoder.prepare(image) for image in images])).global_
    seen = network.get_image_features(**processed(folder, images))
    np.testing.assert_allclose(found, rows(seen.pooler_output), atol=1e-4)
    tokenizer = transformers_for("test").AutoTokenizer.from_pretrained(folder)
    if class_name.startswith("Sig"):
        texts = [text.lower() for text in TEXTS]
        ids = {"input_ids": tokenizer(texts, padding="max_length", max_length=16, return_tensors="pt")["input_ids"]}
    else:
        ids = dict(tokenizer(TEXTS, padding=True, return_tensors="pt"))
    np.testing.assert_allclose(encoder.texts(TEXTS), rows(network.get_text_features(**ids).pooler_output), atol=1e-4)


def test_the_cosine_of_blip_is_its_own_contrastive_score(toy: Toy) -> None:
    folder, network = toy("blip"), own(toy("blip"), "BlipForImageTextRetrieval")
    encoder, images = load(f"hf:{folder}"), pictures((40, 60), (90, 33), (32, 32))
    tokenizer = transformers_for("test").AutoTokenizer.from_pretrained(folder)
    ids = dict(tokenizer(TEXTS, padding=True, return_tensors="pt"))
    pixels = processed(folder, images)["pixel_values"]
    expected = network(
        pixel_values=pixels, input_ids=ids["input_ids"], attention_mask=ids["attention_mask"], use_itm_head=False
    ).itm_score
    found = encoder.images(np.stack([encoder.prepare(image) for image in images])).global_ @ encoder.texts(TEXTS).T
    np.testing.assert_allclose(found, expected.detach().numpy(), atol=1e-4)


def test_the_best_of_32_vectors_is_blip_2s_own_contrastive_score(toy: Toy) -> None:
    folder, network = toy("blip2"), own(toy("blip2"), "Blip2ForImageTextRetrieval")
    encoder, images = load(f"hf:{folder}"), pictures((40, 60), (90, 33), (32, 32))
    network.config.image_token_index = None
    tokenizer = transformers_for("test").AutoTokenizer.from_pretrained(folder)
    ids = dict(tokenizer(TEXTS, padding=True, return_tensors="pt"))
    pixels = processed(folder, images)["pixel_values"]
    asked = {name: ids[name] for name in ("input_ids", "attention_mask")}
    expected = network(pixel_values=pixels, **asked).logits_per_image
    several = encoder.images(np.stack([encoder.prepare(image) for image in images])).several
    assert several is not None
    assert several.shape == (3, 32, 24)
    found = (several @ encoder.texts(TEXTS).T).max(axis=1)
    np.testing.assert_allclose(found, expected.detach().numpy(), atol=1e-4)


@pytest.mark.parametrize(
    ("family", "class_name", "before"),
    [
        ("dino", "ViTModel", 1),
        ("dinov2", "Dinov2Model", 1),
        ("dinov2_registers", "Dinov2WithRegistersModel", 5),
        ("dinov3", "DINOv3ViTModel", 5),
    ],
)
def test_image_models_give_their_class_token_and_patches(toy: Toy, family: str, class_name: str, before: int) -> None:
    encoder, images = load(f"hf:{toy(family)}"), pictures((40, 60), (90, 33))
    found = encoder.images(np.stack([encoder.prepare(image) for image in images]))
    states = own(toy(family), class_name)(**processed(toy(family), images)).last_hidden_state
    np.testing.assert_allclose(found.global_, rows(states[:, 0]), atol=1e-3)
    assert found.patches is not None
    np.testing.assert_allclose(found.patches.reshape(2, 16, -1), rows(states[:, before:]), atol=1e-3)
    with pytest.raises(SpecError, match="reads no text"):
        encoder.texts(["red"])


@pytest.mark.parametrize("family", ["clip", "siglip", "blip"])
def test_patches_lie_where_the_image_has_them(toy: Toy, family: str) -> None:
    encoder = load(f"hf:{toy(family)}")
    pixels = np.zeros((32, 32, 3), np.uint8)
    pixels[8:16, 16:24] = 255
    plain, marked = (encoder.prepare(decode(one)) for one in (np.zeros_like(pixels), pixels))
    grids = encoder.images(np.stack([plain, marked])).patches
    assert grids is not None
    moved = np.linalg.norm(grids[1] - grids[0], axis=-1)
    assert np.unravel_index(moved.argmax(), moved.shape) == (1, 2)


@pytest.mark.parametrize("family", FAMILIES)
def test_another_input_size_is_taken_by_interpolated_positions(toy: Toy, family: str) -> None:
    encoder, usual = load(f"hf:{toy(family)}@64"), load(f"hf:{toy(family)}")
    assert encoder.input_hw == (64, 64)
    assert encoder.digest != usual.digest
    assert encoder.grid_hw == {"siglip2": (16, 16), "blip2": None}.get(family, (8, 8))
    check_encoder(encoder)


def test_squash_keeps_the_sides_that_a_crop_cuts_off(toy: Toy) -> None:
    wide = np.zeros((32, 96, 3), np.uint8)
    wide[:, :16] = 255
    assert load(f"hf:{toy('clip')}").prepare(decode(wide)).max() == 0
    assert load(f"hf:{toy('clip')}@squash").prepare(decode(wide)).max() == 255


@pytest.mark.parametrize("family", ["clip", "blip2", "dinov3"])
def test_half_precision_changes_little(toy: Toy, family: str) -> None:
    from wherein.encoders.hf import HfEncoder

    full, half = (HfEncoder(str(toy(family)), precision=name) for name in ("full", "half"))
    batch = np.stack([full.prepare(image) for image in pictures((40, 60), (90, 33))])
    cosines = (full.images(batch).global_ * half.images(batch).global_).sum(axis=1)
    assert cosines.min() > 0.999
    assert not np.array_equal(full.images(batch).global_, half.images(batch).global_)


def test_the_digest_knows_other_weights_and_not_another_place(toy: Toy, tmp_path: Path) -> None:
    usual = load(f"hf:{toy('clip')}").digest
    copied = shutil.copytree(toy("clip"), tmp_path / "copy")
    os.utime(copied / "model.safetensors", (1, 1))
    assert load(f"hf:{copied}").digest == usual
    weights = bytearray((copied / "model.safetensors").read_bytes())
    middle = 8 + int.from_bytes(weights[:8], "little") + 40  # within the first tensor's sampled bytes
    weights[middle] ^= 1
    (copied / "model.safetensors").write_bytes(bytes(weights))
    assert load(f"hf:{copied}").digest != usual


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        pytest.param(lambda f: (f / "config.json").write_text("no"), "config.json cannot be read", id="no config"),
        pytest.param(
            lambda f: (f / "config.json").write_text('{"model_type": "bert"}'), "a 'bert' model", id="another kind"
        ),
        pytest.param(lambda f: (f / "model.safetensors").unlink(), "cannot be loaded", id="no weights"),
        pytest.param(
            lambda f: (f / "model.safetensors").write_bytes(b"no"), "cannot be loaded", id="weights that are none"
        ),
        pytest.param(
            lambda f: (f / "preprocessor_config.json").unlink(), "no usable preprocessor_config", id="no preprocessing"
        ),
        pytest.param(lambda f: (f / "tokenizer.json").unlink(), "no usable tokenizer", id="no tokenizer"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said(
    toy: Toy, tmp_path: Path, spoil: Callable[[Path], object], complaint: str
) -> None:
    folder = shutil.copytree(toy("clip"), tmp_path / "spoilt")
    spoil(folder)
    with pytest.raises(SpecError, match=complaint):
        load(f"hf:{folder}").texts(["red"])


def test_a_weight_that_is_missing_is_refused_rather_than_drawn_at_random(toy: Toy, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(toy("clip"), tmp_path / "spoilt")
    weights = load_file(folder / "model.safetensors")
    del weights["visual_projection.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(SpecError, match=r"lack 1 tensors \(visual_projection.weight"):
        load(f"hf:{folder}").texts(["red"])


def test_a_model_that_is_nowhere_says_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError) as told:
        load("hf:somebody/a-model-that-is-not-here")
    for words in ("is not in the cache", "models--somebody--a-model-that-is-not-here", "hf download", "mini"):
        assert words in str(told.value)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("hf:", "names no model"),
        ("hf:/nowhere/at/all", "is no folder"),
        ("hf:a/b@1@2", "one size"),
        ("hf:a/b@", "one size"),
    ],
)
def test_a_name_that_cannot_be_is_refused(spec: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        load(spec)


def test_a_device_that_is_not_there_is_refused(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match="device 'abacus' is unknown"):
        load(f"hf:{toy('clip')}", device="abacus")
    if not torch_for("test").backends.mps.is_available():
        with pytest.raises(SpecError, match="is not on this machine"):
            load(f"hf:{toy('clip')}", device="mps")
    with pytest.raises(SpecError, match="runs on the CPU only"):
        load("toy", device="cuda")
    monkeypatch.setenv("WHEREIN_DEVICE", "abacus")
    with pytest.raises(SpecError, match="abacus"):
        load(f"hf:{toy('clip')}")
    assert load("toy").device == "cpu"


def test_a_missing_library_names_the_one_command(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"pip install 'wherein\[hf\]'"):
        load(f"hf:{toy('clip')}")
    with pytest.raises(MissingExtra, match=r"pip install 'wherein\[hf\]'"):  # said before a download is
        load("hf:somebody/a-model-that-is-not-here")


def test_a_collection_finds_with_a_model_and_keeps_the_old_one_until_the_new_is_complete(
    toy: Toy, folder: Path
) -> None:
    spec = f"hf:{toy('clip')}"
    with wherein.open(folder, create=True, encoder="toy") as collection:
        collection.add(folder)
        before = [hit.image_id for hit in collection.search(folder / "red.png")]
        collection.add(folder, encoder=spec)
        assert collection.encoder == spec
        assert collection.search(folder / "red.png")[0].image_id == "red.png"
        collection.add(folder, encoder="toy")  # going back reads nothing again
        assert collection.encoder == "toy"
        assert [hit.image_id for hit in collection.search(folder / "red.png")] == before


def test_an_image_of_several_vectors_is_found_by_its_best(toy: Toy, folder: Path) -> None:
    spec = f"hf:{toy('blip2')}"
    with wherein.open(folder, create=True, encoder=spec) as collection:
        collection.add(folder, layers=["global", "thumbs"])
        found = {hit.image_id: hit.score for hit in collection.search("a red tree", method="whole~any-style")}
    encoder = load(spec)
    for image_id, score in found.items():
        several = encoder.images(encoder.prepare(decode(folder / image_id))[None]).several
        assert several is not None
        expected = float((several[0] @ encoder.texts(["a red tree"])[0]).max())
        assert score == pytest.approx(expected, abs=1e-3), "kept in half precision"


def test_the_command_says_where_models_run(toy: Toy, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHEREIN_DEVICE", "auto")
    spec, run = f"hf:{toy('clip')}", CliRunner().invoke
    refused = run(app, ["index", str(folder), "--encoder", spec, "--device", "abacus"])
    assert isinstance(refused.exception, SpecError)
    assert "device 'abacus' is unknown" in str(refused.exception)
    assert run(app, ["index", str(folder), "--encoder", spec, "--device", "cpu"]).exit_code == 0
    assert os.environ["WHEREIN_DEVICE"] == "cpu"
    told = run(app, ["search", "red", "--device", "cpu", "-c", str(folder), "--json"])
    assert json.loads(told.stdout)["encoder"] == spec
