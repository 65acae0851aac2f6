"""Labels of pairs in three stages, their agreement and export; votes on difficulty; descriptions from memory."""

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wherein
from wherein.bench.pixel.dataset import load as load_pixel
from wherein.bench.pixel.dataset import read_polygons
from wherein.bench.subregion.dataset import load as load_regions
from wherein.server.labelling import agreement, next_pair
from wherein.server.routes.reviews import sample_of
from wherein.server.routes.votes import majority
from wherein.values.masks import to_rle


def left_half(part: float = 0.5, *, side: int = 64) -> dict[str, Any]:
    """A mask whose left part is set, as the page sends it."""
    mask = np.zeros((side, side), dtype=bool)
    mask[:, : round(side * part)] = True
    return dict(to_rle(mask, compressed=False))


@pytest.fixture
def api(served: str) -> Iterator[httpx.Client]:
    """The served collection."""
    name = httpx.get(f"{served}/api/v1/collections").json()[0]["name"]
    with httpx.Client(base_url=f"{served}/api/v1/collections/{name}", timeout=60) as client:
        yield client


@pytest.fixture
def pair(api: httpx.Client, folder_ids: list[str]) -> tuple[str, str]:
    """A selection of a query and one image to label."""
    query, image = folder_ids[:2]
    items = [{"image_id": query, "box": [0.0, 0.0, 0.5, 1.0], "mask": left_half()}, {"image_id": image}]
    assert api.put("/selections/door", json={"items": items}).status_code < 300
    return query, image


def send(api: httpx.Client, author: str, image: str, part: float) -> httpx.Response:
    """A mask for the pair."""
    return api.post("/labels", json={"author": author, "selection": "door", "image_id": image, "mask": left_half(part)})


def test_three_people_work_on_a_pair_one_after_another(api: httpx.Client, pair: tuple[str, str]) -> None:
    _, image = pair
    first = api.get("/labels/next", params={"author": "anna"}).json()
    assert (first["selection"], first["image_id"], first["stage"], first["mask"]) == ("door", image, 0, None)
    assert send(api, "anna", image, 0.5).json()["image_id"] is None
    again = send(api, "anna", image, 0.6)
    assert again.status_code == 409
    second = api.get("/labels/next", params={"author": "ben"}).json()
    assert (second["stage"], second["mask"]["size"]) == (1, [64, 64])
    send(api, "ben", image, 0.25)
    send(api, "cleo", image, 0.25)
    assert send(api, "dora", image, 0.5).status_code == 409
    found = api.get("/labels/agreement").json()
    assert found["pairs"][0]["authors"] == ["anna", "ben", "cleo"]
    assert found["pairs"][0]["ious"] == pytest.approx([0.5, 1.0])
    assert found["mean"] == pytest.approx(0.75)


def test_what_cannot_be_a_label_is_refused_and_leaves_no_trace(api: httpx.Client, pair: tuple[str, str]) -> None:
    query, image = pair
    assert send(api, "anna", query, 0.5).status_code == 422
    wrong = {"author": "anna", "selection": "door", "image_id": image, "mask": {"size": [4, 4], "counts": [3]}}
    assert api.post("/labels", json=wrong).status_code == 422
    huge = wrong | {"mask": {"size": [20_000, 20_000], "counts": [400_000_000]}}
    assert api.post("/labels", json=huge).status_code == 413
    assert api.get("/labels/agreement").json() == {"mean": None, "pairs": []}


def test_the_export_is_a_benchmark_of_its_own(api: httpx.Client, pair: tuple[str, str], tmp_path: Path) -> None:
    query, image = pair
    send(api, "anna", image, 0.5)
    with zipfile.ZipFile(io.BytesIO(api.get("/labels/export").content)) as archive:
        archive.extractall(tmp_path)
    data = load_pixel(tmp_path, name="proxford")
    assert data.truth.images == (image,)
    assert data.truth.queries[0].image == query
    assert data.truth.queries[0].easy.tolist() == [0]
    width = json.loads(next(tmp_path.glob("labels/*.json")).read_text())["imageWidth"]
    (polygon,) = read_polygons(data.labels[0, 0])
    assert polygon[:, 0].max() == pytest.approx(width / 2, abs=1)
    assert list(data.query_masks) == [0]


def test_edges_are_snapped_within_a_band(api: httpx.Client, pair: tuple[str, str]) -> None:
    _, image = pair
    made = api.post("/labels/snap", json={"image_id": image, "mask": left_half()})
    assert made.status_code == 200
    assert made.json()["size"] == [64, 64]
    picture = np.zeros((128, 128, 3), np.uint8)
    picture[:, 66:] = 255
    rough = np.zeros((128, 128), dtype=bool)
    rough[:, :64] = True
    firm = wherein.snap(rough, picture)
    assert firm[64, 65] and not firm[64, 68]  # noqa: PT018 — one edge, from both sides
    assert firm[:, :60].all()
    asked = {"image_id": image, "mask": left_half(), "by": "segmenter"}
    refused = api.post("/labels/snap", json=asked)
    assert refused.status_code == 422
    assert "--segmenter onnx:FOLDER" in refused.text
    assert api.get("/labels/next", params={"author": "anna"}).json()["segmenter"] is False


@given(st.lists(st.sampled_from("abc"), max_size=6))
def test_nobody_gets_a_pair_twice(order: list[str]) -> None:
    groups = {"door": [{"image_id": "q"}, {"image_id": "x"}, {"image_id": "y"}]}
    labels: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for author in order:
        found = next_pair(groups, labels, author)
        if found is not None:
            name, image_id, stage = found
            entries = labels.setdefault(name, {}).setdefault(image_id, [])
            assert stage == len(entries) < 3
            entries.append({"author": author, "mask": left_half()})
    for images in labels.values():
        for entries in images.values():
            assert len({entry["author"] for entry in entries}) == len(entries)
    assert all(row["ious"] == [1.0] * (len(row["authors"]) - 1) for row in agreement(labels))


@pytest.mark.parametrize(
    ("cast", "decided"),
    [
        ({}, None),
        ({"a": "easy"}, "easy"),
        ({"a": "easy", "b": "hard"}, None),
        ({"a": "easy", "b": "hard", "c": "hard"}, "hard"),
    ],
    ids=["nobody voted", "one vote", "a tie", "two of three"],
)
def test_most_votes_decide(cast: dict[str, str], decided: str | None) -> None:
    assert majority(cast) == decided


def test_three_people_vote_on_the_same_images(api: httpx.Client, folder_ids: list[str]) -> None:
    voted = list[str]()
    for author in ("anna", "ben", "cleo"):
        for _ in range(2):
            image = api.get("/votes/next", params={"author": author}).json()["image_id"]
            api.post("/votes", json={"author": author, "image_id": image, "difficulty": "easy"}).raise_for_status()
            voted.append(image)
    assert set(voted[:2]) == set(voted[2:4]) == set(voted[4:])
    assert api.get("/votes/next", params={"author": "dora"}).json()["image_id"] in set(folder_ids) - set(voted)


def test_votes_are_cast_changed_and_exported(api: httpx.Client, folder_ids: list[str]) -> None:
    first = api.get("/votes/next", params={"author": "anna"}).json()
    assert first["left"] == len(folder_ids)
    image = first["image_id"]
    for author, level in (("anna", "easy"), ("ben", "hard"), ("anna", "hard")):
        after = api.post("/votes", json={"author": author, "image_id": image, "difficulty": level})
        assert after.status_code == 201
        assert after.json()["image_id"] != image
    assert api.get("/votes").json() == [
        {"image_id": image, "votes": {"anna": "hard", "ben": "hard"}, "difficulty": "hard"}
    ]
    assert json.loads(api.get("/votes/export").text)["difficulty"] == "hard"
    bad = api.post("/votes", json={"author": "anna", "image_id": image, "difficulty": "awful"})
    assert bad.status_code == 422


def test_what_was_described_from_memory_is_data_of_its_own(
    api: httpx.Client, folder_ids: list[str], tmp_path: Path
) -> None:
    region = {"box": [0.1, 0.1, 0.4, 0.4], "short": "red", "long": "something red"}
    for image, extra in ((folder_ids[0], {}), (folder_ids[1], {"memory_seconds": 8.0})):
        body = {"author": "anna", "set": "skippable", "image_id": image, "regions": [region], **extra}
        assert api.post("/annotations", json=body).status_code == 201
    with zipfile.ZipFile(io.BytesIO(api.get("/annotations/export").content)) as archive:
        archive.extractall(tmp_path)
    frames = (tmp_path / "frames.txt").read_text().splitlines()
    seen, remembered = load_regions(tmp_path), load_regions(tmp_path / "memory")
    assert [frames[one.frame] for one in seen.annotations] == [folder_ids[0]]
    assert [frames[one.frame] for one in remembered.annotations] == [folder_ids[1]]
    assert json.loads((tmp_path / "memory/skippable/anna.json").read_text())[0]["memory_seconds"] == 8.0


def test_labels_are_reviewed_twice_and_a_sample_by_a_third(api: httpx.Client, folder_ids: list[str]) -> None:
    items = [{"image_id": one, "box": [0.0, 0.0, 0.5, 1.0], "label": "cone"} for one in folder_ids[:3]]
    api.put("/selections/cones", json={"items": items}).raise_for_status()
    drawn = sample_of("cones", folder_ids[:3])
    assert len(drawn) == 1
    for author, verdicts in (("anna", ("right", "right", "wrong")), ("ben", ("right",) * 3)):
        for image, verdict in zip(folder_ids[:3], verdicts, strict=True):
            body = {"author": author, "selection": "cones", "image_id": image, "verdict": verdict}
            assert api.post("/reviews", json=body).status_code == 201
            assert api.post("/reviews", json=body).status_code == 409
    (batch,) = api.get("/reviews").json()
    assert (batch["boxes"], batch["reviewed"], batch["accepted"]) == (3, 3, 2)
    assert (batch["sample"], batch["accuracy"], batch["passes"]) == (1, None, None)
    third = api.get("/reviews/next", params={"author": "cleo"}).json()
    assert (third["item"]["image_id"], third["stage"], third["left"]) == (*drawn, 2, 1)
    done = {"author": "cleo", "selection": "cones", "image_id": third["item"]["image_id"], "verdict": "right"}
    assert api.post("/reviews", json=done).json()["item"] is None
    assert api.get("/reviews").json()[0]["passes"] is True
    assert api.get("/reviews/next", params={"author": "dora"}).json()["left"] == 0
    stranger = done | {"author": "dora", "image_id": folder_ids[-1]}
    assert api.post("/reviews", json=stranger).status_code == 422


@given(st.lists(st.text(min_size=1), unique=True, min_size=1, max_size=40))
def test_a_sample_is_a_tenth_whatever_the_order(names: list[str]) -> None:
    drawn = sample_of("batch", names)
    assert drawn <= set(names)
    assert len(drawn) == max(1, -(-len(names) // 10))
    assert sample_of("batch", names[::-1]) == drawn
