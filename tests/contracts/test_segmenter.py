"""A segmenter of two ONNX graphs as they are usually exported: it keeps the contract, or says what is wrong."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from fastapi.testclient import TestClient
from onnx import TensorProto, helper, numpy_helper

import wherein
from wherein.errors import SpecError
from wherein.localizers import check_localizer, load_localizer
from wherein.server.app import create_app
from wherein.server.settings import Settings
from wherein.values.masks import from_rle, to_rle

SIDE = 64
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def graph(
    path: Path, nodes: Sequence[onnx.NodeProto], inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[str]
) -> None:
    """Save a small graph, with the constants it needs."""
    constants = {
        "zero": np.zeros(1, np.float32),
        "batch": np.array([0]),
        "start": np.array([0, 0]),
        "hw": np.array([2, 3]),
    }
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    used = {name for node in nodes for name in node.input}
    made = helper.make_graph(
        nodes,
        path.stem,
        inputs,
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [tensor for tensor in tensors if tensor.name in used],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))


def value(name: str, shape: Sequence[int | str], kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def export_encoder(path: Path, *, layout: str) -> None:
    """The embedding is how red a pixel is, beside how blue: (1, 1, h, w)."""
    shapes = {"sam": (1, 3, SIDE, SIDE), "pixels": ("h", "w", 3), "efficient": (1, 3, "h", "w")}
    name = {"sam": "images", "pixels": "input_image", "efficient": "batched_images"}[layout]
    nodes = []
    planes = name
    if layout == "pixels":
        nodes += [
            helper.make_node("Transpose", [name], ["chw"], perm=[2, 0, 1]),
            helper.make_node("Unsqueeze", ["chw", "batch"], ["planes"]),
        ]
        planes = "planes"
    nodes += [
        helper.make_node("Split", [planes], ["red", "green", "blue"], axis=1),
        helper.make_node("Sub", ["red", "blue"], ["image_embeddings"]),
    ]
    graph(path, nodes, [value(name, shapes[layout])], ["image_embeddings"])


def export_decoder(path: Path, *, batched: bool, more: Sequence[str] = (), less: Sequence[str] = ()) -> None:
    """Two masks at the size asked for: what is redder than blue, and what is not; the first is thought to be better."""
    word = "batched_" if batched else ""
    lead: tuple[int, ...] = (1, 1) if batched else (1,)
    inputs = [
        value("image_embeddings", (1, 1, "h", "w")),
        value(f"{word}point_coords", (*lead, "n", 2)),
        value(f"{word}point_labels", (*lead, "n")),
        value("orig_im_size", (2,), INT64 if batched else FLOAT),
    ]
    if not batched:
        inputs += [value("mask_input", (1, 1, "a", "b")), value("has_mask_input", (1,))]
    inputs = [put for put in inputs if put.name not in less] + [value(name, (1,)) for name in more]
    nodes = [
        helper.make_node("Cast", ["orig_im_size"], ["size"], to=INT64),
        helper.make_node("Slice", ["image_embeddings", "start", "size", "hw"], ["seen"]),
        helper.make_node("Neg", ["seen"], ["rest"]),
        helper.make_node("Concat", ["seen", "rest"], ["pair"], axis=1),
        helper.make_node("ReduceMean", ["pair"], ["quality"], axes=[2, 3], keepdims=0),
        helper.make_node("Mul", ["quality", "zero"], ["iou"]),
    ]
    if batched:
        nodes += [
            helper.make_node("Unsqueeze", ["pair", "batch"], ["output_masks"]),
            helper.make_node("Unsqueeze", ["iou", "batch"], ["iou_predictions"]),
        ]
    else:
        nodes += [
            helper.make_node("Identity", ["pair"], ["masks"]),
            helper.make_node("Identity", ["iou"], ["iou_predictions"]),
        ]
    graph(path, nodes, inputs, ["output_masks" if batched else "masks", "iou_predictions"])


@pytest.fixture(params=["sam", "pixels", "efficient"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A pair in one of the three usual shapes."""
    home = tmp_path / "segmenter"
    home.mkdir()
    export_encoder(home / "encoder.onnx", layout=request.param)
    export_decoder(home / "decoder.onnx", batched=request.param == "efficient")
    return home


def photo(size_wh: tuple[int, int]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Blue, with a red L: a shape that no box has."""
    pixels = np.zeros((size_wh[1], size_wh[0], 3), np.uint8)
    pixels[..., 2] = 255
    for rows, columns in ((slice(16, 48), slice(16, 28)), (slice(36, 48), slice(16, 60))):
        pixels[rows, columns] = (255, 0, 0)
    return pixels


def test_every_usual_pair_keeps_the_contract(folder: Path) -> None:
    check_localizer(load_localizer(f"onnx:{folder}"))


def test_the_segmenter_draws_the_pixels_that_were_found_roughly(folder: Path) -> None:
    pixels = photo((96, 64))
    found = wherein.locate("red", pixels, encoder="toy", localizer=f"onnx:{folder}", refine=False)
    red = pixels[..., 0] > 0
    assert found.mask is not None
    assert (found.mask & red).sum() / (found.mask | red).sum() > 0.85


def test_a_method_may_name_it(folder: Path, tmp_path: Path) -> None:
    with wherein.open(tmp_path / "c", create=True, encoder="toy") as collection:
        collection.add(("red.png", photo((96, 64))))
        hit = collection.search("red", method=f"toy+locate~onnx:{folder}")[0]
    assert hit.mask is not None
    assert hit.box is not None


def iou(one: Any, other: Any) -> float:
    return float((one & other).sum() / (one | other).sum())


def test_a_mask_that_was_drawn_roughly_is_snapped_to_the_thing(folder: Path) -> None:
    pixels = photo((96, 64))
    red = pixels[..., 0] > 0
    rough = np.zeros((32, 48), bool)
    rough[9:23, 9:14] = rough[19:23, 9:25] = True  # at half the size, and a part is missing
    large = np.repeat(np.repeat(rough, 2, axis=0), 2, axis=1)
    found = wherein.snap(rough, pixels, segmenter=f"onnx:{folder}")
    assert found.shape == rough.shape
    assert iou(found, red[::2, ::2]) > 0.95 > iou(large, red)
    assert not wherein.snap(np.zeros((32, 48), bool), pixels, segmenter=f"onnx:{folder}").any()
    with pytest.raises(SpecError, match="is no segmenter"):
        wherein.snap(rough, pixels, segmenter="support")


def test_the_label_view_snaps_by_the_segmenter_of_the_server(folder: Path, tmp_path: Path) -> None:
    pixels = photo((96, 64))
    with wherein.open(tmp_path / "c", create=True, encoder="toy") as collection:
        collection.add(("red.png", pixels), layers=("global", "thumbs"))
        home = collection.folder
    with pytest.raises(SpecError, match=r"no encoder.onnx"):
        create_app([home], Settings(segmenter=f"onnx:{tmp_path}"))
    rough = np.zeros((64, 96), bool)
    rough[18:46, 18:26] = rough[38:46, 18:50] = True
    with TestClient(create_app([home], Settings(segmenter=f"onnx:{folder}")), base_url="http://127.0.0.1") as http:
        at = f"/api/v1/collections/{http.get('/api/v1/collections').json()[0]['name']}/labels"
        assert http.get(f"{at}/next", params={"author": "anna"}).json()["segmenter"] is True
        asked = {"image_id": "red.png", "mask": to_rle(rough, compressed=False), "by": "segmenter"}
        found = from_rle(http.post(f"{at}/snap", json=asked).json())
    assert iou(found, pixels[..., 0] > 0) > 0.9


@pytest.mark.parametrize(
    ("less", "more", "complaint"),
    [
        pytest.param((), ("prompt_style",), "also wants prompt_style", id="an input nobody knows"),
        pytest.param(("point_labels",), (), "has no point_labels", id="no way to point"),
    ],
)
def test_a_decoder_that_is_asked_otherwise_is_refused(
    tmp_path: Path, less: Sequence[str], more: Sequence[str], complaint: str
) -> None:
    export_encoder(tmp_path / "encoder.onnx", layout="sam")
    export_decoder(tmp_path / "decoder.onnx", batched=False, less=less, more=more)
    with pytest.raises(SpecError, match=complaint):
        load_localizer(f"onnx:{tmp_path}")


def test_a_folder_without_both_halves_says_which_is_missing(tmp_path: Path) -> None:
    export_encoder(tmp_path / "encoder.onnx", layout="sam")
    with pytest.raises(SpecError, match=r"no decoder\.onnx"):
        load_localizer(f"onnx:{tmp_path}")


def test_an_encoder_of_something_else_is_refused(tmp_path: Path) -> None:
    identity = [helper.make_node("Identity", ["ids"], ["out"])]
    graph(tmp_path / "encoder.onnx", identity, [value("ids", (1, 4))], ["out"])
    export_decoder(tmp_path / "decoder.onnx", batched=False)
    with pytest.raises(SpecError, match="not one picture"):
        load_localizer(f"onnx:{tmp_path}")


def test_a_decoder_that_gives_no_masks_is_told(tmp_path: Path) -> None:
    export_encoder(tmp_path / "encoder.onnx", layout="sam")
    names = ("image_embeddings", "point_coords", "point_labels")
    shapes = ((1, 1, "h", "w"), (1, "n", 2), (1, "n"))
    nodes = [helper.make_node("Identity", ["point_labels"], ["masks"])]
    graph(tmp_path / "decoder.onnx", nodes, [value(n, s) for n, s in zip(names, shapes, strict=True)], ["masks"])
    with pytest.raises(SpecError, match="not masks"):
        wherein.locate("red", photo((96, 64)), encoder="toy", localizer=f"onnx:{tmp_path}")
