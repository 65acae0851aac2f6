"""Loaders of the official formats, and the SearchAD tools beside scoring."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wherein.bench.forb import dataset as forb
from wherein.bench.pixel import dataset as pixel
from wherein.bench.revisited import dataset as revisited
from wherein.bench.searchad import dataset as searchad
from wherein.bench.searchad import tools as searchad_tools
from wherein.bench.subregion import dataset as subregion
from wherein.errors import DataError

CAT = "Animal-Real-Cat"


def dump(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def dump_lines(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


# --- SearchAD -------------------------------------------------------------------------------------------


def test_the_ninety_labels_and_nine_categories() -> None:
    assert len(searchad.LABELS) == len(set(searchad.LABELS)) == 90
    counts = {
        name: sum(searchad.category_of(label) == name for label in searchad.LABELS) for name in searchad.CATEGORIES
    }
    assert counts == {
        "Animal": 13, "Human": 7, "Marking": 5, "Object": 15, "Rideable": 11, "Scene": 8, "Sign": 5, "Trailer": 7,
        "Vehicle": 19,
    }  # fmt: skip
    assert searchad.category_of("Sign-Animal-Sign") == "Sign"
    assert {"Human-With-Sticks-or-Crutches", "Vehicle-Special-Bicycle-On-Roof"} <= set(searchad.LABELS)


def write_searchad(root: Path) -> Path:
    annotations = {
        "acdc/a.png": [{"label": CAT, "bbox": [0, 0, 10, 10]}, {"label": CAT, "bbox": [0, 0, 20, 20]}],
        "acdc/b.png": [{"label": CAT, "bbox": [0, 0, 7, 7]}],
        "kitti/c.png": [{"label": "Animal-Real-Other", "bbox": [0, 0, 50, 50]}],
        "kitti/d.png": [],
    }
    dump(root / "searchad_annotations_train.json", annotations)
    dump(root / "searchad_annotations_val.json", {"acdc/e.png": [{"label": CAT, "bbox": [0, 0, 10, 5]}]})
    dump(root / searchad.TEST_MAPPING, {"0": "acdc/t0.png", "1": "acdc/t1.png", "7": "ECP/t7.png"})
    return root


def test_searchad_truth_keeps_the_50_px_rule(tmp_path: Path) -> None:
    data = searchad.load(write_searchad(tmp_path), split="train")
    assert data.images == ("acdc/a.png", "acdc/b.png", "kitti/c.png", "kitti/d.png")
    assert data.positives[CAT].tolist() == [0]
    assert data.ignored[CAT].tolist() == [1]  # 49 px²
    assert data.boxes == {CAT: 3, "Animal-Real-Other": 1}
    assert "Animal-Real-Other" not in data.positives


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "an object of image paths"),
        ({"a.png": {}}, "a list of annotations"),
        ({"a.png": [{"label": CAT}]}, "an annotation is"),
        ({"a.png": [{"label": CAT, "bbox": [1, 2, 3]}]}, "an annotation is"),
        ({"a.png": [{"label": CAT, "bbox": [1, 2, 3, "4"]}]}, "not a finite number"),
        ({"a.png": [{"label": CAT, "bbox": [1, 2, 3, 10**400]}]}, "the box of .*1000.*… is not a finite number"),
    ],
)
def test_searchad_annotations_that_are_not_say_where(tmp_path: Path, document: Any, message: str) -> None:
    dump(tmp_path / "searchad_annotations_val.json", document)
    with pytest.raises(DataError, match=message):
        searchad.load(tmp_path)


def test_searchad_queries_are_read_tolerantly_and_say_what_was_not_understood() -> None:
    vision = {"acdc/a.png": [{"bbox": {"min_x": 1, "min_y": 2, "max_x": 30, "max_y": 40}}]}
    plain = {"keywords": ["cat", "a cat"], "descriptions": ["a cat that crosses the road"]}
    query = searchad.parse_query({"supportsets": {"vision": vision, "language": plain}}, label=CAT, where="x")
    assert query.keywords == ("cat", "a cat")
    assert query.descriptions == ("a cat that crosses the road",)
    assert query.examples == (("acdc/a.png", (1.0, 2.0, 30.0, 40.0)),)
    assert query.unread == ()
    nested = {"v1": {"Keyword_1": "cat", "long_descriptions": {"0": "a small cat"}}, "count": 2, "note": "cat"}
    query = searchad.parse_query({"supportsets": {"language": nested, "audio": []}}, label=CAT, where="x")
    assert query.keywords == ("cat", "cat")
    assert query.descriptions == ("a small cat",)
    assert query.unread == (
        "supportsets.audio",
        "language.count: int",
        "language.note: taken as keywords by its length",
    )


def test_searchad_query_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="default_queries"):
        searchad.load_queries(tmp_path)
    dump(tmp_path / "default_queries" / f"{CAT}.json", {"supportsets": {"vision": {"a.png": [{"bbox": None}]}}})
    with pytest.raises(DataError, match=r"a\.png.*min_x"):
        searchad.load_queries(tmp_path)


def test_searchad_check_names_what_is_missing(tmp_path: Path) -> None:
    write_searchad(tmp_path)
    (tmp_path / "acdc").mkdir()
    (tmp_path / "acdc" / "a.png").touch()
    dump(tmp_path / "default_queries" / f"{CAT}.json", {})
    found = {finding.what: finding for finding in searchad_tools.check(tmp_path)}
    assert found["acdc/"].found == "1 of 5 images on disk"
    assert not found["acdc/"].ok
    assert found["ECP/"].found == "folder missing (1 images are named in it)"
    assert found["default_queries/"].found.startswith("1 of 90 labels; without Animal-Real-Cow")
    assert found["searchad_annotations_train.json"].found.startswith("4 images, 1 of 90 labels")
    assert found[searchad.TEST_MAPPING].ok
    assert {f"{source}/" for source in searchad.SOURCES} <= found.keys()
    (tmp_path / searchad.TEST_MAPPING).unlink()
    assert any(f.what == searchad.TEST_MAPPING and not f.ok for f in searchad_tools.check(tmp_path, images=False))


def test_searchad_statistics_at_three_levels_and_by_source(tmp_path: Path) -> None:
    write_searchad(tmp_path)

    def cats(**asked: Any) -> tuple[int, ...]:
        return dict(searchad_tools.statistics(tmp_path, **asked).rows)[CAT]

    assert cats() == (3, 1, 4)  # boxes in train, val, both
    assert cats(level="image") == (2, 1, 3)
    assert cats(level="truth") == (1, 1, 2)  # the 49 px² cat does not count
    made = searchad_tools.statistics(tmp_path, by_source=True)
    assert made.columns == ("acdc", "kitti", "total")
    assert made.images == (3, 2, 5)
    assert made.rows[-1][0] == CAT  # rarest first
    assert len(made.rows) == 90
    with pytest.raises(DataError, match="none of object"):
        searchad_tools.statistics(tmp_path, level="pixel")


def test_searchad_truth_files_have_the_devkits_names(tmp_path: Path) -> None:
    truth, ignored = searchad_tools.write_truth(write_searchad(tmp_path), split="train", out=tmp_path / "out")
    assert truth.name == "searchad_train_image_level_annotations_min_box_50.json"
    assert ignored.name == "searchad_train_image_level_ignore_images_min_box_50.json"
    assert json.loads(truth.read_text()) == {CAT: ["acdc/a.png"]}
    assert json.loads(ignored.read_text()) == {CAT: ["acdc/b.png"]}


def metadata(**changes: Any) -> searchad_tools.Metadata:
    given = {
        "team": "t",
        "model": "m",
        "affiliation": "a",
        "mode": "Language",
        "trained": False,
        "default_queries": True,
    }
    return searchad_tools.Metadata(**{**given, **changes})


def test_searchad_submission_round_trips(tmp_path: Path) -> None:
    write_searchad(tmp_path)
    rankings = {label: ["ECP/t7.png", "acdc/t0.png", "acdc/t1.png"] for label in searchad.LABELS}
    predictions, out = dump(tmp_path / "p.json", rankings), tmp_path / "new" / "submission.json"
    warnings = searchad_tools.write_submission(tmp_path, predictions=predictions, out=out, metadata=metadata())
    assert warnings == ()
    document = json.loads(out.read_text())
    assert document["predictions"][CAT] == [7, 0, 1]
    assert document["metadata"] == {
        "Team Name": "t", "Model Name": "m", "Paper/Code/Affiliation": "a", "Search Mode": "Language",
        "SearchAD Train": "No", "Default Queries": "Yes",
    }  # fmt: skip
    read = searchad_tools.read_submission(out, root=tmp_path)
    assert read.rankings == rankings
    assert read.metadata["Team Name"] == "t"


def test_searchad_submission_warns_and_refuses(tmp_path: Path) -> None:
    write_searchad(tmp_path)

    def write(rankings: Any) -> tuple[str, ...]:
        path = dump(tmp_path / "p.json", rankings)
        return searchad_tools.write_submission(tmp_path, predictions=path, out=tmp_path / "s.json", metadata=metadata())

    warnings = write({CAT: ["acdc/t0.png"], "Animal-Real-Other": ["acdc/t0.png", "acdc/t1.png", "ECP/t7.png"]})
    assert [word in " ".join(warnings) for word in ("1 of 3 test images", "not among the 90", "without a ranking")] == [
        True
    ] * 3
    with pytest.raises(DataError, match="not an image of the test split"):
        write({CAT: ["acdc/a.png"]})
    with pytest.raises(DataError, match="ranked twice"):
        write({CAT: ["acdc/t0.png", "acdc/t0.png"]})
    with pytest.raises(DataError, match="team is empty"):
        metadata(team=" ")
    with pytest.raises(DataError, match="none of Language"):
        metadata(mode="language")
    dump(tmp_path / "s.json", {"metadata": {}, "predictions": {CAT: [5]}})
    with pytest.raises(DataError, match="5 is not an id"):
        searchad_tools.read_submission(tmp_path / "s.json", root=tmp_path)


# --- FORB -----------------------------------------------------------------------------------------------


def test_forb_official_offsets() -> None:
    assert list(forb.OFFICIAL_OFFSETS.values()) == [0, 12529, 13534, 24743, 25788, 27371, 28080, 30938]
    assert forb.OFFICIAL_TOTAL == 54435


def truth_line(**changes: Any) -> dict[str, Any]:
    return {"query_id": 1, "query_image": "q.jpg", "groundtruth_ids": [1], "difficulty": "easy", **changes}


def test_forb_objects_missing_on_disk_are_warned_about(tmp_path: Path) -> None:
    dump_lines(tmp_path / "metadata" / "logos_gt.ndjson", truth_line())
    data = forb.load(tmp_path)
    assert data.objects == ("logos",)
    assert data.queries[0] == forb.ForbQuery("logos", "1", "q.jpg", (1,), "easy")
    assert data.offsets["logos"] == 27371  # without a database list the full benchmark is meant
    assert "only 1 of 8 objects" in data.warnings[0]
    assert "no usable all_database_images.txt" in data.warnings[1]


@pytest.mark.parametrize("prefix", ["", "images/", "/data/forb/"])
def test_forb_objects_are_found_anywhere_in_a_path(tmp_path: Path, prefix: str) -> None:
    dump_lines(tmp_path / "logos_gt.ndjson", truth_line())
    names = [f"{prefix}{name}/{n}.jpg" for name in ("paintings", "logos") for n in range(3)]
    (tmp_path / "all_database_images.txt").write_text("\n".join(names) + "\n")
    data = forb.load(tmp_path)
    assert data.offsets["logos"] == 3
    assert not any("offsets" in warning for warning in data.warnings)


@pytest.mark.parametrize(
    "names",
    [["logos/0.jpg", "elsewhere/1.jpg"], ["logos/0.jpg", "paintings/0.jpg"]],
    ids=["an image of no object", "objects in another order"],
)
def test_forb_a_list_that_gives_no_offsets_is_told(tmp_path: Path, names: list[str]) -> None:
    dump_lines(tmp_path / "logos_gt.ndjson", truth_line())
    (tmp_path / "all_database_images.txt").write_text("\n".join(names) + "\n")
    data = forb.load(tmp_path)
    assert data.offsets == forb.OFFICIAL_OFFSETS
    assert "no usable all_database_images.txt" in data.warnings[-1]


def test_forb_a_list_that_is_not_text_is_refused(tmp_path: Path) -> None:
    dump_lines(tmp_path / "logos_gt.ndjson", truth_line())
    (tmp_path / "all_database_images.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"all_database_images\.txt cannot be read"):
        forb.load(tmp_path)


def test_forb_offsets_from_the_database_files(tmp_path: Path) -> None:
    for number, name in enumerate(forb.OBJECTS):
        dump_lines(tmp_path / f"{name}_gt.ndjson", truth_line())
        dump_lines(tmp_path / f"{name}_database.ndjson", *({"image": f"{name}/{n}.jpg"} for n in range(number + 1)))
    data = forb.load(tmp_path)
    assert list(data.offsets.values()) == [0, 1, 3, 6, 10, 15, 21, 28]
    assert len(data.database) == 36


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (truth_line(difficulty="odd"), "difficulty 'odd'"),
        (truth_line(groundtruth_ids=[0]), "counts from 1"),
        (truth_line(groundtruth_ids="x"), "'groundtruth_ids' holds a string"),
        (truth_line(groundtruth_ids=[True]), "counts from 1"),
        ({"query_id": 1}, "'groundtruth_ids' is missing"),
    ],
)
def test_forb_truth_that_is_not_names_the_line(tmp_path: Path, line: Any, message: str) -> None:
    dump_lines(tmp_path / "logos_gt.ndjson", truth_line(query_id=0), line)
    with pytest.raises(DataError, match=f"line 2.*{message}"):
        forb.load(tmp_path)


# --- revisited and pixel --------------------------------------------------------------------------------


def write_truth(root: Path, **changes: Any) -> None:
    entry = {"easy": [0], "hard": np.array([1]), "junk": [], "bbx": [30, 2, 1, 40], **changes}
    document = {"imlist": ["a", "b"], "qimlist": ["q"], "gnd": [entry]}
    root.mkdir(parents=True, exist_ok=True)
    (root / "gnd_roxford5k.pkl").write_bytes(pickle.dumps(document, protocol=2))


@pytest.mark.parametrize("place", [".", "roxford5k", "revisitop/data/roxford5k"])
def test_revisited_truth_is_found_where_the_official_code_keeps_it(tmp_path: Path, place: str) -> None:
    write_truth(tmp_path / place)
    data = revisited.load(tmp_path, name="roxford5k")
    assert data.queries[0].xyxy == (1.0, 2.0, 30.0, 40.0)  # swapped corners are put in order
    assert "queries 0 had swapped corners" in data.warnings[0]
    easy, junk = data.queries[0].under("easy")
    assert (easy.tolist(), junk.tolist()) == ([0], [1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"easy": [2]}, "rows of the 2 images"),
        ({"easy": [[0], [0, 1]]}, "rows of the 2 images"),
        ({"hard": [0.5]}, "rows of the 2"),
        ({"bbx": [1, 2]}, "bbx"),
        ({"bbx": ["a"] * 4}, "bbx"),
    ],
)
def test_revisited_truth_that_is_not_names_the_query(tmp_path: Path, change: Any, message: str) -> None:
    write_truth(tmp_path, **change)
    with pytest.raises(DataError, match=f"query 0.*{message}"):
        revisited.load(tmp_path, name="roxford5k")


def test_revisited_other_pickles_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gnd_roxford5k\.pkl is not in"):
        revisited.load(tmp_path, name="roxford5k")
    (tmp_path / "gnd_roxford5k.pkl").write_bytes(pickle.dumps({"imlist": []}))
    with pytest.raises(DataError, match="imlist, qimlist and gnd"):
        revisited.load(tmp_path, name="roxford5k")
    (tmp_path / "gnd_roxford5k.pkl").write_bytes(pickle.dumps({"imlist": 5, "qimlist": [], "gnd": []}))
    with pytest.raises(DataError, match="imlist is not a list"):
        revisited.load(tmp_path, name="roxford5k")


def test_pixel_labels_stay_inside_the_folder(tmp_path: Path) -> None:
    write_truth(tmp_path)
    for label, message in (("../x.json", "outside"), ("/etc/passwd", "outside")):
        np.save(tmp_path / "oxford_pair2labelpath.npy", {"0_1": label}, allow_pickle=True)  # type: ignore[arg-type]
        with pytest.raises(DataError, match=message):
            pixel.load(tmp_path, name="proxford")
    np.save(tmp_path / "oxford_pair2labelpath.npy", {"zero": "x.json"}, allow_pickle=True)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="'zero' is not"):
        pixel.load(tmp_path, name="proxford")


# --- sub-region -----------------------------------------------------------------------------------------


def test_subregion_annotations_and_frames(tmp_path: Path) -> None:
    row = {"id": 4, "frameIdx": 2, "desc_short": "s", "desc_long": "l", "rect": [100, 5, 20, 50]}
    dump(tmp_path / "skippable" / "ann.json", [row])
    data = subregion.load(tmp_path)
    assert data.annotations[0] == subregion.Annotation("skippable", "ann", "4", 2, "s", "l", (20, 5, 100, 50))
    assert len(data.warnings) == 2  # no non_skippable folder; one swapped box
    for name in ("b/2.jpg", "b/10.jpg", "a/1.png", "a/notes.txt"):
        (tmp_path / "frames" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "frames" / name).touch()
    assert subregion.frames_of(tmp_path / "frames") == ("a/1.png", "b/10.jpg", "b/2.jpg")
    (tmp_path / "frames" / "0.jpg").touch()
    with pytest.raises(DataError, match=r"0\.jpg does not lie in the folder of a video.*frames\.txt"):
        subregion.frames_of(tmp_path / "frames")
    (tmp_path / "frames.txt").write_text("0.jpg\nb/2.jpg\na/1.png\n")
    assert subregion.frames_of(tmp_path / "frames") == ("0.jpg", "b/2.jpg", "a/1.png")
    for lines, message in (
        ("0.jpg\n0.jpg\n", "lists 0.jpg twice"),
        ("0.jpg\nc/1.jpg\n", "1 of 2 frames are not below"),
    ):
        (tmp_path / "frames.txt").write_text(lines)
        with pytest.raises(DataError, match=message):
            subregion.frames_of(tmp_path / "frames")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rect": [1, 2, 3]}, "rect"),
        ({"rect": [1, 2, 3, 10**400]}, "rect.*not a finite number"),
        ({"frameIdx": "x"}, "frameIdx"),
        ({"desc_long": None}, "desc_long"),
    ],
)
def test_subregion_annotations_that_are_not_say_where(tmp_path: Path, change: Any, message: str) -> None:
    row = {"id": 4, "frameIdx": 2, "desc_short": "s", "desc_long": "l", "rect": [1, 5, 20, 50], **change}
    dump(tmp_path / "skippable" / "ann.json", [row])
    with pytest.raises(DataError, match=rf"ann\.json, annotation 0.*{message}"):
        subregion.load(tmp_path)
