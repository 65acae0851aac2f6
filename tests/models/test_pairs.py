"""Local features, matchers and one-shot segmenters as models: of transformers, and exported by hand to tiny graphs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import wherein
from wherein.encoders.hf.runtime import torch_for, transformers_for
from wherein.errors import SpecError
from wherein.features import check_features, load_features
from wherein.images.image import Image, decode
from wherein.localizers import load_localizer
from wherein.localizers.pairs import HubMatcher, agreed_hull

Toy = Callable[[str], Path]


def textured(seed: int = 0) -> Image:
    coarse = np.random.default_rng(seed).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    return decode(np.kron(coarse, np.ones((8, 8, 1), np.uint8)))


def graph(path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()]
    made = helper.make_graph(nodes, path.stem, inputs, outputs, weights)
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


def picture(name: str, channels: int = 3) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, channels, f"{name}_h", f"{name}_w"])


def numbers(name: str, *shape: int | str) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


# --- features ------------------------------------------------------------------------------------------


def test_superpoint_keeps_the_contract_and_finds_its_own_keypoints(toy: Toy) -> None:
    family = load_features(f"hf:{toy('superpoint')}")
    check_features(family)
    image = textured()
    found = family.features(image, side=320)
    network = transformers_for("test").SuperPointForKeypointDetection.from_pretrained(toy("superpoint")).eval()
    pixels = torch_for("test").from_numpy(image.pixels.copy()).permute(2, 0, 1)[None].float() / 255
    with torch_for("test").no_grad():
        expected = network(pixels)
    strongest = int(expected.scores[0].argmax())
    place = expected.keypoints[0, strongest].numpy() * np.array([320, 240])
    np.testing.assert_allclose(found.keypoints[0, :2] * [320, 240] - 0.5, place, atol=1e-2)
    np.testing.assert_allclose(found.descriptors[0], expected.descriptors[0, strongest].numpy(), atol=1e-4)
    with pytest.raises(SpecError, match="'clip' model, which gives no local features"):
        load_features(f"hf:{toy('clip')}")


def export_features(folder: Path, *, name: str = "keypoints") -> Path:
    """Four fixed keypoints, described by the mean colour of the image and a number each."""
    places = np.array([[8, 8], [24, 8], [8, 24], [24, 24]], np.float32)
    constants = {"places": places, "own": np.eye(4, dtype=np.float32)}
    nodes = [
        helper.make_node("Identity", ["places"], [name]),
        helper.make_node("ReduceMean", ["image"], ["mean"], axes=[2, 3], keepdims=0),
        helper.make_node("Concat", ["mean", "mean", "mean", "mean"], ["means"], axis=0),
        helper.make_node("Concat", ["means", "own"], ["descriptors"], axis=1),
    ]
    graph(
        folder / "features.onnx",
        nodes,
        [picture("image")],
        [numbers(name, 4, 2), numbers("descriptors", 4, 7)],
        constants,
    )
    return folder


def test_features_of_an_exported_network_keep_the_contract(tmp_path: Path) -> None:
    family = load_features(f"onnx:{export_features(tmp_path)}")
    check_features(family)
    found = family.features(decode(np.full((32, 64, 3), 255, np.uint8)), side=480)
    np.testing.assert_allclose(found.keypoints[1, :2], [24 / 64, 8 / 32])
    np.testing.assert_allclose(found.descriptors[1], np.array([1, 1, 1, 0, 1, 0, 0]) / 2, atol=1e-5)


def test_exported_features_serve_a_search(tmp_path: Path, folder: Path) -> None:
    spec = f"onnx:{export_features(tmp_path / 'net')}"
    with wherein.open(folder, create=True, encoder="toy") as collection:
        collection.add(folder, layers=["global", "thumbs", f"local:{spec}"])
        assert collection.search(folder / "red.png", method=f"bow:{spec}")[0].image_id == "red.png"


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        pytest.param(lambda folder: folder, "no features.onnx", id="nothing there"),
        pytest.param(lambda folder: export_features(folder, name="points"), "Name them so", id="other names"),
        pytest.param(
            lambda folder: (export_features(folder) / "features.json").write_text('{"sise": 1}'),
            "does not know sise",
            id="a misspelt setting",
        ),
    ],
)
def test_a_network_of_another_form_says_what_is_wrong(
    tmp_path: Path, make: Callable[[Path], object], complaint: str
) -> None:
    make(tmp_path)
    with pytest.raises(SpecError, match=complaint):
        load_features(f"onnx:{tmp_path}")


# --- pairs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["lightglue", "efficientloftr"])
def test_a_matcher_of_transformers_gives_its_own_matches(toy: Toy, family: str) -> None:
    found = HubMatcher(str(toy(family)))(textured(), textured())
    assert found.shape[1] == 4
    assert len(found) > 0, "a random network that keeps everything matches something"
    assert found.min() >= -0.05
    assert found.max() <= 1.05
    with pytest.raises(SpecError, match="'clip' model, which matches nothing"):
        HubMatcher(str(toy("clip")))


def test_what_one_homography_explains_is_drawn() -> None:
    random = np.random.default_rng(0)
    ours = random.random((40, 2)).astype(np.float32)
    matches = np.concatenate([ours, 0.25 + 0.5 * ours], axis=1)
    matches[30:, 2:] = random.random((10, 2))
    hull = agreed_hull(matches, aspect=(640, 480))
    assert hull is not None
    assert hull.min() >= 0.24
    assert hull.max() <= 0.76
    assert agreed_hull(matches[:4], aspect=(640, 480)) is None
    assert agreed_hull(random.random((40, 4)).astype(np.float32), aspect=(640, 480)) is None


def export_matcher(folder: Path) -> Path:
    """The whole example lies in the upper left quarter of a picture of 64 × 48."""
    ours = np.stack(np.meshgrid(np.arange(0, 64, 8), np.arange(0, 48, 8)), axis=-1).reshape(-1, 2).astype(np.float32)
    nodes = [
        helper.make_node("ReduceMean", ["example"], ["a"], keepdims=0),
        helper.make_node("ReduceMean", ["image"], ["b"], keepdims=0),
        helper.make_node("Add", ["a", "b"], ["sum"]),
        helper.make_node("Mul", ["sum", "zero"], ["nothing"]),
        helper.make_node("Add", ["fixed", "nothing"], ["matches"]),
    ]
    constants = {"fixed": np.concatenate([ours, ours / 2], axis=1), "zero": np.float32(0)}
    graph(folder / "match.onnx", nodes, [picture("example"), picture("image")], [numbers("matches", 48, 4)], constants)
    return folder


def export_shot(folder: Path) -> Path:
    """What is as bright as the example's mean is the thing."""
    nodes = [
        helper.make_node("Mul", ["example", "mask"], ["meant"]),
        helper.make_node("ReduceMean", ["meant"], ["level"], axes=[1, 2, 3], keepdims=1),
        helper.make_node("ReduceMean", ["image"], ["grey"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["grey", "level"], ["apart"]),
        helper.make_node("Abs", ["apart"], ["far"]),
        helper.make_node("Sub", ["one", "far"], ["found"]),
    ]
    inputs = [picture("image"), picture("example"), picture("mask", 1)]
    graph(folder / "segment.onnx", nodes, inputs, [numbers("found", 1, 1, "h", "w")], {"one": np.float32(1)})
    return folder


def test_an_exported_matcher_outlines_where_the_example_lies(tmp_path: Path, folder: Path) -> None:
    word = f"onnx-match:{export_matcher(tmp_path / 'net')}"
    found = wherein.locate(folder / "red.png", folder / "blue.png", encoder="toy", localizer=word, refine=False)
    assert found.box is not None
    np.testing.assert_allclose(found.box.xyxy, [0, 0, 0.45, 0.45], atol=0.05)
    with wherein.open(folder, create=True, encoder="toy") as collection:
        collection.add(folder)
        hits = collection.search(folder / "red.png", method=f"whole+locate~{word}~coarse")
        assert all(hit.mask is not None for hit in hits)


def test_an_exported_one_shot_segmenter_outlines_what_is_alike(tmp_path: Path, paint: Callable[..., Path]) -> None:
    word = f"onnx-shot:{export_shot(tmp_path / 'net')}"
    example, image = paint(tmp_path / "white.png", "white"), paint(tmp_path / "half.png", "black", "white")
    found = wherein.locate(example, image, encoder="toy", localizer=word, refine=False)
    assert found.box is not None
    np.testing.assert_allclose(found.box.xyxy, [0.5, 0, 1, 1], atol=0.02)


@pytest.mark.parametrize("word", ["onnx-match:/nowhere", "onnx-shot:/nowhere"])
def test_a_folder_without_a_network_says_so(word: str) -> None:
    with pytest.raises(SpecError, match="in that folder; export the network there"):
        load_localizer(word)
