"""`mini` as torch trains it: the numbers of onnxruntime, files that change only where they learnt, one command."""

import io
import zipfile
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.encoders import load
from wherein.encoders.mini import WEIGHTS, MiniEncoder
from wherein.encoders.onnx import session
from wherein.errors import InputError, SpecError
from wherein.images.image import decode
from wherein.training.full import FEW, TrainingViews, _split
from wherein.training.graphs import TrainableGraph
from wherein.training.towers import MiniTowers
from wherein.values.records import Progress

RANDOM = np.random.default_rng(0)
STRIPES = {"zebra crossing": 1, "brick wall": 0}


def striped(axis: int, seed: int) -> PIL.Image.Image:
    """A picture of stripes, of any colours."""
    random = np.random.default_rng(seed)
    two = random.integers(0, 256, (2, 3))
    lines = two[(np.arange(96) // random.integers(4, 9)) % 2][:, None].repeat(96, axis=1)
    return PIL.Image.fromarray((lines if axis else lines.swapaxes(0, 1)).astype(np.uint8))


def pixels() -> np.ndarray:
    encoder = load("mini")
    return np.stack([encoder.prepare(decode(striped(n % 2, n))) for n in range(2)])


def test_torch_runs_both_towers_as_onnxruntime_does() -> None:
    encoder = MiniEncoder()
    towers = MiniTowers(encoder)
    batch, texts = pixels(), ["a dog", "two people on a sandy beach in the evening"]
    runs = [session(WEIGHTS / "image.onnx", threads=1).run(["global"], {"pixels": one[None]})[0] for one in batch]
    images = towers.images(batch).detach().numpy()
    assert (images * np.concatenate(runs)).sum(axis=1) == pytest.approx(1.0, abs=2e-3)
    said = towers.texts(texts).detach().numpy()
    levelled_images, levelled = towers.searched(images, said, texts)
    assert (levelled * encoder.texts(texts)).sum(axis=1) == pytest.approx(1.0, abs=5e-4)
    assert (levelled_images * encoder.images(batch).global_).sum(axis=1) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("name", ["image.onnx", "text.onnx"])
def test_a_file_whose_weights_were_not_changed_is_written_as_it_was(tmp_path: Path, name: str) -> None:
    graph = TrainableGraph(WEIGHTS / name, device="cpu")
    graph.write(tmp_path / name)
    fed = {"pixels": pixels()[:1]} if name == "image.onnx" else MiniEncoder().tokenized(["a red tree"])
    one, two = (session(folder / name, threads=1).run(["global"], fed)[0] for folder in (WEIGHTS, tmp_path))
    assert np.array_equal(one, two)


def test_what_was_learnt_is_in_the_file_in_the_integers_that_it_had(tmp_path: Path) -> None:
    import onnx
    import torch

    towers = MiniTowers(MiniEncoder())
    batch = pixels()
    wanted = towers.texts(["a dog"]).detach()
    before = float((towers.images(batch).detach() @ wanted.T).mean())
    learning = torch.optim.SGD(towers.trained, lr=0.05)
    for _ in range(2):
        learning.zero_grad()
        (-(towers.images(batch) @ wanted.T).mean()).backward()
        learning.step()
    towers.save(tmp_path)
    after = float((towers.images(batch).detach() @ wanted.T).mean())
    assert after > before + 0.01
    tuned = session(tmp_path / "image.onnx", threads=1)
    kept = np.concatenate([tuned.run(["global"], {"pixels": one[None]})[0] for one in batch])
    assert float((kept @ wanted.numpy().T).mean()) == pytest.approx(after, abs=5e-3)
    types = [
        [(one.name, one.data_type) for one in onnx.load(folder / "image.onnx").graph.initializer]
        for folder in (WEIGHTS, tmp_path)
    ]
    assert types[0] == types[1]


def test_an_operator_that_is_not_known_is_named(tmp_path: Path) -> None:
    import onnx

    model = onnx.load(WEIGHTS / "text.onnx")
    next(node for node in model.graph.node if node.op_type == "Erf").op_type = "Tanh"
    onnx.save(model, tmp_path / "text.onnx")
    with pytest.raises(SpecError, match="cannot be trained here: Tanh"):
        TrainableGraph(tmp_path / "text.onnx", device="cpu")


@pytest.mark.parametrize(("right", "held_out"), [(FEW - 1, 0), (FEW, 4)])
def test_some_images_are_held_out_where_every_label_has_enough(right: int, held_out: int) -> None:
    marks = np.full((20, 2), -1, np.int8)
    marks[:right, 0] = marks[20 - right :, 1] = 1
    shown = TrainingViews(lambda _: RANDOM.integers(0, 1, (0, 1, 1, 3)).astype(np.uint8), marks, 20, range(20), ())
    taught, held = _split(shown, 0)
    assert (len(held), len(taught)) == (held_out, 20 - held_out)


def lead_of_its_own(collection: wherein.Collection, name: str) -> float:
    """Return how much higher the drawings of a name score on average than the others."""
    hits = collection.search(name, k=8, min_confidence=0)
    own = [hit.score for hit in hits if hit.image_id.startswith(name[:5])]
    others = [hit.score for hit in hits if not hit.image_id.startswith(name[:5])]
    return float(np.mean(own) - np.mean(others))


def test_mini_is_fine_tuned_stopped_gone_on_with_and_searched(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for name, axis in STRIPES.items():
        for number in range(4):
            striped(axis, number).save(photos / f"{name[:5]}{number}.png")

    class Stop(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.done == progress.total - 1:
            raise Stop

    with wherein.open(photos, create=True, encoder="mini") as collection:
        collection.add(photos, layers=["global"])
        for name in STRIPES:
            collection.tag(name, [f"{name[:5]}{number}.png" for number in range(3)])
        with pytest.raises(Stop):
            collection.train("stripes", kind="full", on_progress=stop)
        assert collection.trained() == []
        seen = list[Progress]()
        card = collection.train("stripes", kind="full", on_progress=seen.append)
        assert (card.spec, card.kind) == ("mini:stripes", "full")
        assert {one.done for one in seen} == {0, 3, 4}  # it went on after the rounds that were whole
        assert "Usual texts keep a cosine of " in " ".join(card.notes)
        with pytest.raises(wherein.WhereinError, match="wherein index --encoder mini:stripes"):
            collection.search("zebra crossing", method="mini:stripes")
        before = lead_of_its_own(collection, "zebra crossing")
        collection.add(encoder="mini:stripes", layers=["global"])
        # Four rounds on six drawings, and processors round differently: the lead is sure, the order of eight is not.
        assert before < 0.02 < lead_of_its_own(collection, "zebra crossing")
        archive = collection.export_trained("stripes")
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            opened.extractall(tmp_path / "exported")
        model = tmp_path / "exported" / "model"
        assert load(f"mini:{model}").digest != load("mini").digest
        with pytest.raises(InputError, match="mini:FOLDER/model as the encoder"):
            collection.import_trained(archive, name="other")
        head = collection.train("names", encoder="mini:stripes")
        assert head.spec == "mini:stripes:names"
        best = collection.search("label:zebra crossing", method=head.spec, k=3)
        assert {hit.image_id[:5] for hit in best} == {"zebra"}


def test_a_folder_without_the_files_of_mini_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="holds no fine-tuned mini"):
        load(f"mini:{tmp_path}")
    with pytest.raises(SpecError, match="mini has no variant 'tiny'"):
        load("mini:tiny")
