"""Grounded detectors and Segment Anything with tiny models: their own answers, as step, as localizer, in a method."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import wherein
from wherein.cli import app
from wherein.detectors import Detection, check_detector, load_detector, suppress
from wherein.encoders import load
from wherein.encoders.hf.runtime import torch_for, transformers_for
from wherein.errors import InputError, QueryError, SpecError
from wherein.images.image import Image, decode
from wherein.localizers import load_localizer
from wherein.localizers.hf_segment import HubSegmenter
from wherein.search.contract import check_step, check_word
from wherein.server.models import check_method
from wherein.server.problems import Problem
from wherein.values.method import Method
from wherein.values.region import Box

Toy = Callable[[str], Path]
DETECTORS = ["grounding_dino", "owlvit", "owlv2"]
NAMES = ["red", "a tree"]


def picture(*shape: int) -> Image:
    return decode(np.random.default_rng(1).integers(0, 256, (*shape, 3), dtype=np.uint8))


def told(folder: Path, class_name: str, image: Image, **asked: Any) -> tuple[Any, dict[str, Any]]:
    """The network's raw answer, through the image processor and the tokenizer of transformers."""
    transformers = transformers_for("test")
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    pixels = processor(images=image.pixels.copy(), input_data_format="channels_last", return_tensors="pt")
    network = getattr(transformers, class_name).from_pretrained(folder).eval()
    with torch_for("test").no_grad():
        return processor, dict(network(pixel_values=pixels["pixel_values"], **asked))


@pytest.mark.parametrize("family", DETECTORS)
def test_every_detector_keeps_the_contract(toy: Toy, family: str) -> None:
    detector = load_detector(f"hf:{toy(family)}")
    check_detector(detector)
    assert detector.find(picture(48, 64), NAMES), "a random network is sure of something"


@pytest.mark.parametrize(("family", "class_name"), [("owlvit", "OwlViT"), ("owlv2", "Owlv2")])
def test_owl_finds_what_its_own_processor_reads_from_its_answer(toy: Toy, family: str, class_name: str) -> None:
    image, tokenizer = picture(48, 64), transformers_for("test").AutoTokenizer.from_pretrained(toy(family))
    tokens = dict(tokenizer(NAMES, padding="max_length", max_length=16, return_tensors="pt"))
    asked = {name: tokens[name] for name in ("input_ids", "attention_mask")}
    processor, raw = told(toy(family), f"{class_name}ForObjectDetection", image, **asked)
    answer = type("Answer", (), {"logits": raw["logits"], "pred_boxes": raw["pred_boxes"]})()
    (expected,) = processor.post_process_object_detection(answer, threshold=0.1, target_sizes=[(48, 64)])
    surest = int(expected["scores"].argmax())
    found = load_detector(f"hf:{toy(family)}").find(image, NAMES)[0]
    assert found.score == pytest.approx(float(expected["scores"][surest]), abs=1e-4)
    assert found.name == NAMES[int(expected["labels"][surest])]
    pixels = np.clip(expected["boxes"][surest].numpy() / [64, 48, 64, 48], 0, 1)
    np.testing.assert_allclose(found.box.xyxy, pixels, atol=1e-4)


def test_grounding_dino_scores_a_name_by_its_best_word(toy: Toy) -> None:
    image, tokenizer = picture(48, 64), transformers_for("test").AutoTokenizer.from_pretrained(toy("grounding_dino"))
    tokens = dict(tokenizer("red. a tree.", return_tensors="pt"))
    asked = {name: tokens[name] for name in ("input_ids", "attention_mask")}
    _, raw = told(toy("grounding_dino"), "GroundingDinoForObjectDetection", image, **asked)
    words = raw["logits"][0].sigmoid().numpy()  # [CLS] red . a tree . [SEP]
    found = load_detector(f"hf:{toy('grounding_dino')}").find(image, ["Red.", "a tree"])
    best = {name: max((one.score for one in found if one.name == name), default=None) for name in ("Red.", "a tree")}
    for name, columns in (("Red.", [1]), ("a tree", [3, 4])):
        expected = float(words[:, columns].max())
        assert best[name] == (pytest.approx(expected, abs=1e-4) if expected >= 0.25 else None)


def test_boxes_that_overlap_a_surer_one_of_the_same_name_are_left_out() -> None:
    low, high = Box(0.0, 0.0, 0.5, 0.5), Box(0.0, 0.05, 0.5, 0.5)
    found = suppress([Detection(low, 0.3, "a"), Detection(high, 0.9, "a"), Detection(low, 0.2, "b")])
    assert [(one.score, one.name) for one in found] == [(0.9, "a"), (0.2, "b")]


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [("yolo:x", "no detector family is called 'yolo'"), ("hf:/nowhere/x", "is no folder")],
)
def test_a_detector_that_is_not_there_is_refused(spec: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        load_detector(spec)


def test_an_encoder_is_no_detector_and_names_alone_are_no_example(toy: Toy) -> None:
    with pytest.raises(SpecError, match="'clip' model, which is no detector"):
        load_detector(f"hf:{toy('clip')}")
    with pytest.raises(SpecError, match="finds by names alone"):
        load_detector(f"hf:{toy('grounding_dino')}").find_like(picture(48, 64), picture(48, 64))


# --- in a search ---------------------------------------------------------------------------------------


def test_ground_re_ranks_the_first_hits_and_gives_their_boxes(toy: Toy, folder: Path) -> None:
    spec = f"hf:{toy('owlvit')}"
    detector = load_detector(spec)
    with wherein.open(folder, create=True, encoder="toy") as collection:
        collection.add(folder)
        plain = {hit.image_id: hit.score for hit in collection.search("red")}
        ranking = collection.search("red", method=f"whole+ground:{spec}")
    seen = {image_id: detector.find(decode(folder / image_id), ["red"]) for image_id in plain}
    for hit in ranking:
        assert seen[hit.image_id]
        assert hit.box == seen[hit.image_id][0].box
    ours, theirs = (np.array(list(values)) for values in (plain.values(), (one[0].score for one in seen.values())))
    totals = (ours - ours.mean()) / ours.std() + (theirs - theirs.mean()) / theirs.std()
    expected = [list(plain)[number] for number in np.argsort(-totals, kind="stable")]
    assert [hit.image_id for hit in ranking] == expected


def test_ground_by_example_needs_a_detector_that_can(toy: Toy, folder: Path) -> None:
    with wherein.open(folder, create=True, encoder="toy") as collection:
        collection.add(folder)
        found = collection.search(folder / "red.png", method=f"whole+ground:hf:{toy('owlv2')}")
        assert all(hit.box is not None for hit in found)
        with pytest.raises(QueryError, match="finds by names alone"):
            collection.search(folder / "red.png", method=f"whole+ground:hf:{toy('grounding_dino')}")


def test_ground_keeps_the_contract_of_steps(toy: Toy, folder: Path) -> None:
    with wherein.open(folder, create=True, encoder="toy") as collection:
        collection.add(folder)
        check_step(f"whole+ground:hf:{toy('owlv2')}", collection, folder / "red.png")


def test_a_file_that_is_gone_keeps_its_place(toy: Toy, folder: Path) -> None:
    with wherein.open(folder, create=True, encoder="toy") as collection:
        collection.add(folder)
        (folder / "blue.png").unlink()
        found = {hit.image_id: hit.box for hit in collection.search("red", method=f"ground:hf:{toy('owlvit')}")}
    assert found["blue.png"] is None
    assert found["red.png"] is not None


def test_a_located_hit_has_the_box_that_the_detector_is_surest_of(toy: Toy, folder: Path) -> None:
    spec = f"hf:{toy('owlvit')}"
    surest = load_detector(spec).find(decode(folder / "red.png"), ["red"])[0].box
    found = wherein.locate("red", folder / "red.png", encoder="toy", localizer=f"ground:{spec}", refine=False)
    assert found.box is not None
    x1, y1, x2, y2 = surest.pixels((64, 48))
    assert found.heatmap[y1:y2, x1:x2].min() == 1.0, "what is surest is hottest"
    with wherein.open(folder, create=True, encoder="toy") as collection:
        collection.add(folder)
        hits = collection.search("red", method=f"whole+locate~ground:{spec}~coarse")
        assert all(hit.mask is not None for hit in hits)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [("whole+ground", "write ground:hf:MODEL"), ("whole+zoom:hf:x", "write zoom alone")],
)
def test_a_step_names_its_model_and_only_that_one_does(spec: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        Method.parse(spec)


def test_a_method_with_a_model_prints_as_it_is_written() -> None:
    spec = "mini+whole+ground:hf:google/owlv2-base-patch16-ensemble+locate~hf:facebook/sam-vit-base"
    method = Method.parse(spec)
    assert str(method) == spec
    assert method.steps == ("ground:hf:google/owlv2-base-patch16-ensemble", "locate")
    assert method.choice("locate", "localizer") == "hf:facebook/sam-vit-base"


# --- Segment Anything ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "class_name"), [("sam", "SamModel"), ("sam2", "Sam2Model")])
def test_a_segmenter_draws_what_its_own_processor_would(toy: Toy, family: str, class_name: str) -> None:
    transformers, torch, image = transformers_for("test"), torch_for("test"), picture(48, 64)
    logits, sure = HubSegmenter(str(toy(family))).masks(image.pixels, Box(0.125, 0.25, 0.5, 0.75), (20.0, 24.0))
    assert logits.shape == (3, 48, 64)
    backend = {"backend": "pil"} if family == "sam" else {}
    made = transformers.SamProcessor if family == "sam" else transformers.Sam2Processor
    processor = made(transformers.AutoImageProcessor.from_pretrained(toy(family), **backend))
    if family == "sam":
        asked = processor(
            image.pixels.copy(),
            input_points=[[[[20.0, 24.0]]]],
            input_labels=[[[1]]],
            input_boxes=[[[8.0, 12.0, 32.0, 36.0]]],
            return_tensors="pt",
        )
    else:
        asked = processor(
            images=image.pixels.copy(),
            input_points=[[[[20.0, 24.0]]]],
            input_labels=[[[1]]],
            input_boxes=[[[8.0, 12.0, 32.0, 36.0]]],
            return_tensors="pt",
        )
    network = getattr(transformers, class_name).from_pretrained(toy(family)).eval()
    fed = {key: value for key, value in asked.items() if "sizes" not in key}
    with torch.no_grad():
        found = network(**fed, multimask_output=True)
    np.testing.assert_allclose(sure, np.ravel(found.iou_scores.numpy()), atol=1e-3)
    sizes = {key: value for key, value in asked.items() if "sizes" in key}
    (expected,) = processor.image_processor.post_process_masks([found.pred_masks[0]], **sizes, binarize=False)
    np.testing.assert_allclose(logits, expected[0].numpy(), atol=1e-2)


def test_a_segmenter_of_transformers_locates(toy: Toy, folder: Path) -> None:
    found = wherein.locate("red", folder / "holiday" / "half.png", encoder="toy", localizer=f"hf:{toy('sam')}")
    assert found.heatmap.shape == (48, 64)
    with pytest.raises(SpecError, match="'clip' model, which is no segmenter"):
        load_localizer(f"hf:{toy('clip')}")


@pytest.mark.parametrize(
    "method", ["whole+ground:hf:some/model", "locate~hf:some/model", "locate~ground:hf:some/model", "hf:some/model"]
)
def test_a_request_cannot_name_a_model(method: str) -> None:
    with pytest.raises(Problem, match="cannot name"):
        check_method(method, {"mini"})


# --- a layer of detected boxes -------------------------------------------------------------------------


def test_the_command_says_how_long_it_takes_and_keeps_what_was_detected(toy: Toy, folder: Path) -> None:
    spec = f"hf:{toy('owlvit')}"
    asked = ["index", str(folder), "--encoder", "toy", "--detect", "red,a tree", "--detector", spec]
    told = CliRunner().invoke(app, asked)
    assert told.exit_code == 0, told.output
    assert "looking for 2 names in 4 images takes about" in told.stderr
    detector, encoder = load_detector(spec), load("toy")
    with wherein.open(folder) as collection:
        hits = collection.search("red", method="detected~alone")
        check_word("detected", collection, folder / "red.png")
        assert {layer.kind for layer in collection.info().layers} >= {f"detected:red|a tree@{spec}"}
    for hit in hits:
        image = decode(folder / hit.image_id)
        crops = [image, *(image.crop(one.box) for one in detector.find(image, ["red", "a tree"]))]
        rows = encoder.images(np.stack([encoder.prepare(crop) for crop in crops])).global_
        assert hit.score == pytest.approx(float((rows @ encoder.texts(["red"])[0]).max()), abs=1e-3)


def test_a_collection_without_detected_boxes_says_how_to_get_them(folder: Path) -> None:
    with wherein.open(folder, create=True, encoder="toy") as collection:
        collection.add(folder)
        with pytest.raises(InputError, match=r"wherein index --detect"):
            collection.search("red", method="detected")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(["--detect", "red"], "give both", id="no detector"),
        pytest.param(["--detector", "hf:/nowhere/x"], "give both", id="no names"),
        pytest.param(["--detect", "red", "--detector", "hf:/nowhere/x"], "is no folder", id="no such detector"),
    ],
)
def test_half_a_wish_to_detect_is_refused_before_anything_is_touched(
    folder: Path, words: list[str], complaint: str
) -> None:
    told = CliRunner().invoke(app, ["index", str(folder), "--encoder", "toy", *words])
    assert complaint in str(told.exception)
    assert not (folder / ".wherein").exists()


@pytest.mark.parametrize("kind", ["detected:", "detected:red", "detected:@hf:x", "detected: | @hf:x"])
def test_a_layer_of_detected_boxes_names_both(folder: Path, kind: str) -> None:
    with (
        wherein.open(folder, create=True, encoder="toy") as collection,
        pytest.raises(InputError, match="detected:pylon"),
    ):
        collection.add(folder, layers=["global", kind])
