"""Every encoder through the same public check; the toy's numbers by hand; a tiny real ONNX pair, exported here."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import PIL.Image
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers

import wherein
from wherein.arrays import unit
from wherein.encoders import Encoded, check_encoder, families, load
from wherein.encoders.toy import COLOURS, ToyEncoder
from wherein.errors import SpecError
from wherein.images.image import Image, decode

Picture = Callable[..., PIL.Image.Image]
SIZE, GRID = 8, 2
WORDS = {"[PAD]": 0, "red": 1, "green": 2, "blue": 3, "a": 4, "tree": 5}


# --- a pair small enough to check by hand --------------------------------------------------------------


def _graph(name: str, nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: dict[str, Any]) -> Any:
    weights = [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def export_image(path: Path) -> None:
    """Mean colour of the image and of each quarter, shifted so that black is not zero: d = 3."""
    nodes = [
        helper.make_node("Add", ["pixels", "shift"], ["light"]),
        helper.make_node("GlobalAveragePool", ["light"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["embedding"]),
        helper.make_node(
            "AveragePool", ["light"], ["quarters"], kernel_shape=[SIZE // GRID] * 2, strides=[SIZE // GRID] * 2
        ),
        helper.make_node("Transpose", ["quarters"], ["patches"], perm=[0, 2, 3, 1]),
    ]
    pixels = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["n", 3, SIZE, SIZE])
    embedding = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["n", 3])
    patches = helper.make_tensor_value_info("patches", TensorProto.FLOAT, ["n", GRID, GRID, 3])
    shift = {"shift": np.full((1, 3, 1, 1), 1.01, np.float32)}  # pixels come as (value − 0.5) / 0.5
    onnx.save(_graph("image", nodes, [pixels], [embedding, patches], shift), str(path))


def export_text(path: Path, *, masked: bool) -> None:
    """The sum of one vector a word, and a little of every direction, so that no words at all have one too."""
    table = np.full((len(WORDS), 3), 0.01, np.float32)
    table[0] = 0.0
    table[1:4] += np.eye(3, dtype=np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["words"]),
        helper.make_node("ReduceSum", ["words", "axis"], ["sum"], keepdims=0),
    ]
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", "length"])]
    if masked:
        inputs.append(helper.make_tensor_value_info("mask", TensorProto.INT32, ["n", "length"]))
        nodes = [
            helper.make_node("Gather", ["table", "ids"], ["every"]),
            helper.make_node("Cast", ["mask"], ["kept"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["kept", "last"], ["column"]),
            helper.make_node("Mul", ["every", "column"], ["words"]),
            nodes[1],
        ]
    nodes.append(helper.make_node("Add", ["sum", "little"], ["embedding"]))
    output = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["n", 3])
    little = np.full(3, 0.001, np.float32)
    constants = {"table": table, "axis": np.array([1], np.int64), "little": little} | (
        {"last": np.array([-1], np.int64)} if masked else {}
    )
    onnx.save(_graph("text", nodes, inputs, [output], constants), str(path))


def export(folder: Path, *, text: bool = True, masked: bool = False, **settings: object) -> str:
    """A folder that `onnx:` runs; returns its spec."""
    folder.mkdir()
    export_image(folder / "image.onnx")
    described = {"size": SIZE, "context": 6, "patch_output": "patches"} | settings
    (folder / "encoder.json").write_text(json.dumps(described))
    if text:
        export_text(folder / "text.onnx", masked=masked)
        tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="[PAD]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.save(str(folder / "tokenizer.json"))
    return f"onnx:{folder}"


# --- the contract --------------------------------------------------------------------------------------

SPECS = [
    pytest.param(lambda folder: "mini", id="mini"),
    pytest.param(lambda folder: "toy", id="toy"),
    pytest.param(lambda folder: "toy:16", id="toy with another grid"),
    pytest.param(lambda folder: export(folder / "pair"), id="an exported pair"),
    pytest.param(lambda folder: export(folder / "pair", masked=True), id="an exported pair with an attention mask"),
    pytest.param(lambda folder: export(folder / "pair", text=False), id="an exported image tower alone"),
    pytest.param(lambda folder: export(folder / "pair", patch_output=None), id="an exported pair without patches"),
    pytest.param(lambda folder: export(folder / "pair", crop="centre"), id="an exported pair that crops"),
]


@pytest.mark.parametrize("make", SPECS)
def test_every_encoder_keeps_the_contract(tmp_path: Path, make: Callable[[Path], str]) -> None:
    spec = make(tmp_path)
    encoder = load(spec)
    check_encoder(encoder)
    assert encoder.spec == spec
    assert load(spec).digest == encoder.digest


def test_the_public_check_is_the_one_authors_get() -> None:
    assert wherein.check_encoder is check_encoder


class Broken(ToyEncoder):
    """A toy whose answers can be spoiled."""

    def __init__(self, spoil: Callable[[Encoded], Encoded], **attributes: object) -> None:
        super().__init__()
        self._spoil = spoil
        for name, value in attributes.items():
            setattr(self, name, value)

    def images(self, batch: Any) -> Encoded:
        """Spoiled."""
        return self._spoil(super().images(batch))


@pytest.mark.parametrize(
    ("encoder", "complaint"),
    [
        pytest.param(Broken(lambda e: replace(e, patches=None)), "patches is missing", id="patches that were promised"),
        pytest.param(
            Broken(lambda e: replace(e, global_=unit(e.global_[:, :5]))),
            "has shape",
            id="another dimension than it says",
        ),
        pytest.param(
            Broken(lambda e: replace(e, global_=e.global_.astype(np.float64))),
            "float64",
            id="doubles instead of floats",
        ),
        pytest.param(Broken(lambda e: replace(e, global_=e.global_ * 2)), "unit norm", id="vectors that are too long"),
        pytest.param(
            Broken(lambda e: replace(e, global_=unit(e.global_ + len(e.global_)))),
            "batch changes its global_",
            id="batches that matter",
        ),
        pytest.param(
            Broken(
                lambda e: replace(e, patches=None if e.patches is None else e.patches / np.float32(1 + len(e.patches)))
            ),
            "batch changes its patches",
            id="batches that matter to patches",
        ),
        pytest.param(Broken(lambda e: e, digest="1"), "digest", id="a digest that says nothing"),
        pytest.param(
            Broken(lambda e: e, dense_shape=(2, 2, 5)), "dense is missing", id="a dense grid that was promised"
        ),
        pytest.param(
            Broken(lambda e: e, patch_basis=np.ones((11, 2), np.float32)), "not orthonormal", id="a slanted basis"
        ),
    ],
)
def test_a_broken_promise_is_named(encoder: Broken, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        check_encoder(encoder)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        pytest.param("", "known: hf, ", id="no family at all"),
        pytest.param("clip", "no encoder family is called 'clip'", id="an unknown family"),
        pytest.param("toy:3", "1, 2, 4, 8 or 16", id="a grid the toy does not have"),
        pytest.param("onnx:/nowhere", "no image.onnx", id="a folder without a tower"),
        pytest.param("onnx:", "no image.onnx", id="no folder"),
    ],
)
def test_an_unknown_encoder_is_answered_with_what_there_is(spec: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=re.escape(complaint)):
        load(spec)


def test_built_in_families_are_known_without_loading_them() -> None:
    assert families()["toy"] == "wherein.encoders.toy:ToyEncoder"


def test_unit_scales_to_length_one_and_leaves_zero_alone() -> None:
    np.testing.assert_allclose(unit(np.array([[3.0, 4.0], [0.0, 0.0]], np.float32)), [[0.6, 0.8], [0.0, 0.0]])


# --- the toy, by hand ----------------------------------------------------------------------------------


def score(text: str, image: Image) -> float:
    encoder = ToyEncoder()
    return float((encoder.texts([text]) @ encoder.images(encoder.prepare(image)[None]).global_.T)[0, 0])


@pytest.mark.parametrize(
    ("text", "colours", "expected"),
    [
        pytest.param("red", ("blue",), 0.0, id="another colour is 0"),
        pytest.param("red", ("red",), 1.0, id="the colour is 1"),
        pytest.param("red", ("red", "blue"), 0.5**0.5, id="half of it is the root of a half"),
        pytest.param("RED.", ("red", "blue"), 0.5**0.5, id="case and stops do not matter"),
        pytest.param("a reddish thing", ("red",), (1 / 11) ** 0.5, id="no colour word means every colour"),
        pytest.param("red and blue", ("red", "blue"), 1.0, id="both halves"),
        pytest.param("red or green", ("red", "blue"), 0.5, id="one of two, twice halved"),
        pytest.param("red", ("red", "blue", "green", "white"), 0.5, id="a quarter of it is a half"),
    ],
)
def test_the_toys_scores_can_be_worked_out(
    picture: Picture, text: str, colours: tuple[str, ...], expected: float
) -> None:
    assert score(text, decode(picture(*colours))) == pytest.approx(expected, abs=1e-6)


def test_the_toys_cells_are_where_the_colours_are(picture: Picture) -> None:
    encoder = ToyEncoder()
    patches = encoder.images(encoder.prepare(decode(picture("red", "blue")))[None]).patches
    assert patches is not None
    names = np.array(list(COLOURS))[patches[0].argmax(axis=-1)]
    assert names.tolist() == [["red", "red", "blue", "blue"]] * 4


@pytest.mark.parametrize("colour", COLOURS)
def test_every_colour_word_finds_its_colour(picture: Picture, colour: str) -> None:
    assert score(colour, decode(picture(colour))) == pytest.approx(1.0)


# --- the exported pair, by hand ------------------------------------------------------------------------


def test_an_exported_pair_finds_by_word(tmp_path: Path, picture: Picture) -> None:
    encoder = load(export(tmp_path / "pair"))
    batch = np.stack([encoder.prepare(decode(picture(colour))) for colour in ("red", "blue")])
    scores = encoder.texts(["red", "blue"]) @ encoder.images(batch).global_.T
    assert scores.argmax(axis=1).tolist() == [0, 1]
    assert scores[0, 0] == pytest.approx(1.0, abs=0.01)


def test_the_mask_is_fed_where_the_tower_takes_one(tmp_path: Path) -> None:
    plain, masked = load(export(tmp_path / "a")), load(export(tmp_path / "b", masked=True))
    np.testing.assert_allclose(plain.texts(["a red tree"]), masked.texts(["a red tree"]), atol=1e-6)


def test_a_text_longer_than_the_context_is_cut(tmp_path: Path) -> None:
    encoder = load(export(tmp_path / "pair", context=2))
    np.testing.assert_allclose(encoder.texts(["red red blue blue"]), encoder.texts(["red red"]), atol=1e-6)


def test_a_flat_list_of_patches_becomes_a_grid(tmp_path: Path) -> None:
    spec = export(tmp_path / "pair")
    model = onnx.load(str(tmp_path / "pair" / "image.onnx"))
    model.graph.node.append(helper.make_node("Reshape", ["patches", "shape"], ["flat"]))
    model.graph.initializer.append(numpy_helper.from_array(np.array([-1, GRID * GRID, 3], np.int64), "shape"))
    model.graph.output.append(helper.make_tensor_value_info("flat", TensorProto.FLOAT, ["n", GRID * GRID, 3]))
    onnx.save(model, str(tmp_path / "pair" / "image.onnx"))
    whole = load(spec)
    (tmp_path / "pair" / "encoder.json").write_text(json.dumps({"size": SIZE, "context": 6, "patch_output": "flat"}))
    flat = load(spec)
    assert flat.grid_hw == whole.grid_hw == (GRID, GRID)
    batch = np.random.default_rng(0).integers(0, 256, (2, SIZE, SIZE, 3), np.uint8)
    np.testing.assert_allclose(flat.images(batch).patches, whole.images(batch).patches)  # type: ignore[arg-type]


def test_the_centre_is_what_a_cropping_encoder_sees(tmp_path: Path, picture: Picture) -> None:
    wide = decode(picture("blue", "red", "red", "blue", size_wh=(64, 32)))
    cropped = load(export(tmp_path / "crop", crop="centre")).prepare(wide)
    assert cropped.shape == (SIZE, SIZE, 3)
    assert cropped[..., 2].max() == 0
    assert load(export(tmp_path / "squash")).prepare(wide)[..., 2].max() == 255


def test_an_image_tower_alone_says_it_reads_no_text(tmp_path: Path) -> None:
    encoder = load(export(tmp_path / "pair", text=False))
    assert not encoder.embeds_text
    with pytest.raises(SpecError, match=r"no text\.onnx: give an example image"):
        encoder.texts(["red"])


def test_a_pair_without_a_tokenizer_says_what_is_missing(tmp_path: Path) -> None:
    spec = export(tmp_path / "pair")
    (tmp_path / "pair" / "tokenizer.json").unlink()
    with pytest.raises(SpecError, match=r"needs a tokenizer\.json"):
        load(spec).texts(["red"])


@pytest.mark.parametrize(
    ("described", "complaint"),
    [
        pytest.param("not JSON", "not a valid encoder description", id="no JSON"),
        pytest.param("[1]", "not a valid encoder description", id="a list"),
        pytest.param('{"sise": 224}', "sise", id="a misspelt key"),
        pytest.param('{"crop": "random"}', "known: squash, centre, centre-rounded", id="an unknown crop"),
        pytest.param('{"size": 8, "patch_output": "nope"}', "nope", id="an output the graph does not have"),
        pytest.param('{"size": 9}', "image.onnx", id="a size the graph does not take"),
    ],
)
def test_a_wrong_description_says_what_is_wrong(tmp_path: Path, described: str, complaint: str) -> None:
    spec = export(tmp_path / "pair")
    (tmp_path / "pair" / "encoder.json").write_text(described)
    with pytest.raises(SpecError, match=complaint):
        load(spec)


def test_a_file_that_is_no_graph_says_so(tmp_path: Path) -> None:
    spec = export(tmp_path / "pair")
    (tmp_path / "pair" / "image.onnx").write_bytes(b"no graph")
    with pytest.raises(SpecError, match=r"image\.onnx"):
        load(spec)


def test_the_digest_changes_with_every_file_that_shapes_the_numbers(tmp_path: Path) -> None:
    spec = export(tmp_path / "pair")
    digests = {load(spec).digest}
    for name in ("encoder.json", "text.onnx", "tokenizer.json", "image.onnx"):
        path = tmp_path / "pair" / name
        if name == "encoder.json":
            path.write_text(json.dumps({"size": SIZE, "context": 5}))
        elif name == "tokenizer.json":
            path.write_text(path.read_text() + " ")
        else:
            model = onnx.load(str(path))
            model.doc_string = "retrained"
            onnx.save(model, str(path))
        digests.add(load(spec).digest)
    assert len(digests) == 5


def test_a_collection_works_with_an_exported_pair(tmp_path: Path, folder: Path) -> None:
    with wherein.open(folder, create=True, encoder=export(tmp_path / "pair")) as collection:
        collection.add(folder)
        assert collection.search("blue")[0].image_id == "blue.png"
        assert collection.search(folder / "holiday" / "third.png")[0].image_id == "holiday/third.png"
