"""Runs end to end with the toy encoder, whose scores a person can check; every official format; resuming."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.bench.compare import compare, gain
from wherein.bench.compare_report import as_json, as_latex, as_markdown, as_text, write_html
from wherein.bench.evaluate import evaluate
from wherein.bench.evaluation import Evaluation
from wherein.bench.journal import Journal
from wherein.bench.run import Plan, load_evaluation, run
from wherein.bench.staging import stage
from wherein.bench.sweep import Sweep, combined, parse_spread, sweep, with_overlap
from wherein.bench.task import Options
from wherein.bench.tasks.searchad_variants import confusion, size_thirds
from wherein.bench.tasks.subregion import target_only
from wherein.errors import DataError, SpecError

COLOURS = ("red", "green", "blue", "yellow", "purple", "orange")


def picture(path: Path, *colours: str, size_wh: tuple[int, int] = (64, 64)) -> Path:
    """An image of vertical stripes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = PIL.Image.new("RGB", size_wh)
    width = size_wh[0] // len(colours)
    for n, colour in enumerate(colours):
        rgb = {"green": (0, 160, 0), "orange": (255, 140, 0)}.get(colour, colour)
        image.paste(PIL.Image.new("RGB", (width, size_wh[1]), rgb), (n * width, 0))
    image.save(path)
    return path


def lines(path: Path, *records: dict[str, Any]) -> None:
    """An ndjson file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def make_captions(root: Path) -> Path:
    """One photo per colour, captioned with its colour, and one caption that is wrong."""
    for colour in COLOURS:
        picture(root / f"images/{colour}.png", colour)
    records = [{"image": f"images/{c}.png", "captions": [f"a {c} wall", f"all {c}"]} for c in COLOURS]
    records[0]["captions"] = ["a red wall", "a blue wall"]
    lines(root / "captions.jsonl", *records)
    return root


def make_covers(root: Path) -> Path:
    """Each query is the cover of its colour with a white edge."""
    for colour in COLOURS:
        picture(root / f"database/{colour}.png", colour, "white")
        picture(root / f"queries/{colour}.png", colour, colour, colour, "white")
    lines(
        root / "qrels.jsonl",
        *({"query": f"queries/{c}.png", "relevant": [f"database/{c}.png"]} for c in COLOURS),
    )
    return root


def go(benchmark: str, data: Path, out: Path, *, method: str = "toy", **options: Any) -> Evaluation:
    """Run a plan."""
    return run(Plan(benchmark=benchmark, data=data, method=method, out=out, options=Options(**options)))


def figures(evaluation: Evaluation) -> dict[str, Any]:
    """The scores without what differs from machine to machine."""
    return {name: value for name, value in evaluation.scores.items() if name not in ("timing", "bytes_per_image")}


# local sets


def test_captions_run(tmp_path: Path) -> None:
    found = go("captions", make_captions(tmp_path / "data"), tmp_path / "out")
    assert figures(found)["text"]["R@1"] == pytest.approx(11 / 12)
    assert figures(found)["text"]["MedR"] == 1.0
    timing = found.scores["timing"]
    assert timing["queries"] == 12
    assert timing["seconds_per_query"] > 0
    assert timing["setup_seconds"] > 0
    assert timing["peak_memory_bytes"] > 10_000_000
    assert found.scores["bytes_per_image"] > 0


def test_covers_run_is_perfect_and_leaves_its_files(tmp_path: Path) -> None:
    data, out = make_covers(tmp_path / "data"), tmp_path / "out"
    found = go("covers", data, out)
    assert figures(found) == {"top1": 1.0, "mAP": 1.0, "mAP@5": 1.0, "t-mAP@5": pytest.approx(1.0)}
    assert json.loads((out / "scores.json").read_text())["mAP"] == 1.0
    assert "data:image/webp" in (out / "report.html").read_text(encoding="utf-8")
    assert load_evaluation(out) == ("toy", found)
    assert not list(data.rglob(".wherein")), "the data folder is left as it was"


def test_distractors_are_searched_too(tmp_path: Path) -> None:
    data = make_covers(tmp_path / "data")
    picture(tmp_path / "more/copy.png", "red", "red", "red", "white")
    plain = go("covers", data, tmp_path / "a")
    harder = go("covers", data, tmp_path / "b", distractors=str(tmp_path / "more"))
    assert figures(plain)["top1"] == 1.0
    assert figures(harder)["top1"] == pytest.approx(5 / 6)


def test_objects_never_find_themselves(tmp_path: Path) -> None:
    for colour in ("red", "blue"):
        for n in range(3):
            picture(tmp_path / f"data/{colour}/{n}.png", colour, *([colour] * n), "white")
    found = go("objects", tmp_path / "data", tmp_path / "out")
    assert figures(found)["mAP"] == 1.0
    assert all(query.query_id not in str(query.detail["ranking"]) for query in found.queries)


def test_classes_are_recognised_from_their_names(tmp_path: Path) -> None:
    for colour in COLOURS:
        picture(tmp_path / f"data/{colour}_thing/0.png", colour, colour, "white")
    found = go("classes", tmp_path / "data", tmp_path / "out")
    assert figures(found) == {"top1": 1.0, "top5": 1.0, "mAP": 1.0}


def test_underwater_points_with_a_method_that_says_where(tmp_path: Path) -> None:
    root = tmp_path / "data"
    picture(root / "images/a.png", "red", "blue")
    picture(root / "images/b.png", "blue", "green")
    lines(
        root / "boxes.jsonl",
        {"image": "images/a.png", "boxes": [{"label": "red", "box": [0, 0, 0.5, 1]}]},
        {"image": "images/b.png", "boxes": [{"label": "green", "box": [0.5, 0, 1, 1]}]},
    )
    found = go("underwater", root, tmp_path / "out", method="toy+patches")
    assert figures(found) == {"R@1": 1.0, "R@10": 1.0, "MNR": 1.0, "pointing": 1.0}
    whole = go("underwater", root, tmp_path / "whole")
    assert figures(whole)["pointing"] == 0.0
    assert any("no region" in warning for warning in whole.warnings)


def save_mask(path: Path, *, left: int, right: int) -> None:
    """A mask whose columns from left to right are set."""
    mask = np.zeros((64, 64), dtype=np.uint8)
    mask[:, left:right] = 255
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(mask).save(path)


def test_masks_run(tmp_path: Path) -> None:
    for name, colour in (("swan", "red"), ("bus", "blue")):
        for n in range(3):
            picture(tmp_path / f"data/images/{name}/{n}.png", colour, "white", "white", "white")
            save_mask(tmp_path / f"data/masks/{name}/{n}.png", left=0, right=16 if n < 2 else 0)
    found = go("masks", tmp_path / "data", tmp_path / "out", method="toy+patches")
    assert figures(found)["mAP"] == 1.0
    # The best patch is one of the four in the object's column: a quarter of it.
    assert figures(found)["mIoU"] == {"D": pytest.approx(0.25), "S": pytest.approx(0.25)}
    assert set(figures(found)["mAP@50:5:95"]) == {"official", "paper-D", "paper-S"}


def test_road_run_with_its_own_prompt(tmp_path: Path) -> None:
    for n in range(3):
        picture(tmp_path / f"data/images/odd_{n}.png", "red", "grey")
        save_mask(tmp_path / f"data/masks/odd_{n}.png", left=0, right=32)
        picture(tmp_path / f"data/images/plain_{n}.png", "grey", "black")
    found = go("road", tmp_path / "data", tmp_path / "out", method="toy+patches", prompt=("something red",))
    assert figures(found) == {"mAP": 1.0, "pointing": 1.0}


def test_methods_can_share_one_index(tmp_path: Path) -> None:
    data, home = make_covers(tmp_path / "data"), tmp_path / "index"
    sizes: list[float] = []
    for method in ("toy", "toy:2", "toy+patches", "toy"):
        out = tmp_path / f"out-{len(sizes)}"
        found = run(Plan("covers", data, method, out, home=home))
        sizes.append(found.scores["bytes_per_image"])
        assert not (out / "collection").exists()
    assert found.scores["timing"]["setup_seconds"] > 0, "what sharing runs have in common is told by each"
    assert sizes[0] == pytest.approx(sizes[3], rel=0.2), "the layers of other methods do not count"
    assert sizes[2] > sizes[0]


def test_images_that_tie_keep_the_order_of_their_ids(tmp_path: Path) -> None:
    data = make_covers(tmp_path / "data")
    for name in ("b.png", "a.png", "c.png"):
        picture(data / f"database/{name}", "red", "white")
    found = go("covers", data, tmp_path / "out")
    ranking = next(q for q in found.queries if q.query_id == "queries/red.png").detail["ranking"]
    assert [entry["image_id"] for entry in ranking[:4]] == ["a.png", "b.png", "c.png", "red.png"]


def test_images_can_be_reduced_first(tmp_path: Path) -> None:
    data = tmp_path / "data"
    picture(data / "database/a.png", "red", "white", size_wh=(400, 200))
    picture(data / "queries/q.png", "red", "white", size_wh=(200, 600))
    lines(data / "qrels.jsonl", {"query": "queries/q.png", "relevant": ["database/a.png"]})
    found = go("covers", data, tmp_path / "out", longest_side=100)
    assert figures(found)["mAP"] == 1.0
    assert wherein.decode(tmp_path / "out/images/a.png").size_wh == (100, 50)
    (copy,) = (tmp_path / "out/queries").iterdir()
    assert wherein.decode(copy).size_wh == (33, 100)


def test_an_image_that_cannot_be_read_is_told_and_never_found(tmp_path: Path) -> None:
    data = make_captions(tmp_path / "data")
    (data / "images/red.png").write_bytes(b"not an image")
    found = go("captions", data, tmp_path / "out")
    assert any("could not be indexed" in warning for warning in found.warnings)
    assert figures(found)["text"]["R@10"] == pytest.approx(10 / 12)


# resuming


def test_a_repeated_run_asks_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_covers(tmp_path / "data")
    first = go("covers", data, tmp_path / "out")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a finished question was asked again")

    monkeypatch.setattr(wherein.Collection, "search", refuse)
    again = go("covers", data, tmp_path / "out")
    assert figures(again) == figures(first)
    assert again.queries == first.queries
    assert again.scores["timing"]["setup_seconds"] == first.scores["timing"]["setup_seconds"]


def test_a_torn_last_line_is_dropped_and_asked_again(tmp_path: Path) -> None:
    data, out = make_covers(tmp_path / "data"), tmp_path / "out"
    first = go("covers", data, out)
    journal = out / "answers.ndjson"
    kept = journal.read_bytes().splitlines(keepends=True)
    answers = [line for line in kept if b'"question"' in line]
    journal.write_bytes(b"".join(answers[:3]) + answers[3][:20])
    again = go("covers", data, out)
    assert figures(again) == figures(first)
    assert again.queries == first.queries
    assert len(Journal(journal)) == len(COLOURS)


def test_a_damaged_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "answers.ndjson"
    path.write_text('{"question": "a", "seconds": 1, "answer": {}}\n[1]\n')
    with pytest.raises(DataError, match="line 2"):
        Journal(path)


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    data = make_covers(tmp_path / "data")
    go("covers", data, tmp_path / "out")
    with pytest.raises(DataError, match="method is 'toy', now 'toy:2'"):
        go("covers", data, tmp_path / "out", method="toy:2")


def test_data_that_changed_under_a_run_is_refused(tmp_path: Path) -> None:
    data = make_covers(tmp_path / "data")
    go("covers", data, tmp_path / "out")
    (data / "database/extra.png").write_bytes((data / "database/red.png").read_bytes())
    go("covers", data, tmp_path / "fresh")
    (data / "database/extra.png").unlink()
    with pytest.raises(DataError, match="changed since the run began"):
        go("covers", data, tmp_path / "fresh")


def test_a_run_inside_its_own_data_is_refused(tmp_path: Path) -> None:
    data = make_covers(tmp_path / "data")
    with pytest.raises(DataError, match="inside the data"):
        go("covers", data, data / "out")
    assert not (data / "out").exists()


def test_methods_are_checked_before_anything_is_made(tmp_path: Path) -> None:
    data = make_covers(tmp_path / "data")
    with pytest.raises(SpecError, match="nothing is called"):
        go("covers", data, tmp_path / "out", method="nothing")
    assert not (tmp_path / "out").exists()


def test_staging_links_and_refuses_missing_files(tmp_path: Path) -> None:
    source = picture(tmp_path / "a.png", "red")
    folder = stage({"x/a.png": source}, tmp_path / "images")
    assert (folder / "x/a.png").read_bytes() == source.read_bytes()
    with pytest.raises(DataError, match="do not exist"):
        stage({"b.png": tmp_path / "b.png"}, tmp_path / "other")


# official formats


def make_searchad(root: Path) -> Path:
    """Three labels whose images are colours; the train split feeds random support sets."""
    labels = {"Animal-Real-Cow": "red", "Object-Ball": "blue", "Sign-Train-Sign": "green"}
    for split in ("train", "val"):
        document: dict[str, Any] = {}
        for label, colour in labels.items():
            for n in range(6):
                name = f"kitti/{split}/{colour}-{n}.png"
                picture(root / name, colour, *(["white"] * (n % 2)))
                side = 8 * (n + 1)
                document[name] = [{"label": label, "bbox": [0, 0, side, side]}]
        (root / f"searchad_annotations_{split}.json").write_text(json.dumps(document))
    for label, colour in labels.items():
        vision = {
            f"kitti/train/{colour}-{n}.png": [{"bbox": {"min_x": 0, "min_y": 0, "max_x": 32, "max_y": 64}}]
            for n in range(2)
        }
        language = {"keywords": [colour, f"{colour} thing"], "descriptions": [f"a {colour} thing on a grey road"]}
        path = root / f"default_queries/{label}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"supportsets": {"vision": vision, "language": language}}))
    mapping = {str(n): f"kitti/val/red-{n}.png" for n in range(6)}
    (root / "searchad_test_mapping_id_to_imagepath.json").write_text(json.dumps(mapping))
    return root


@pytest.mark.parametrize("options", [{}, {"texts": "first-keyword"}, {"texts": "keywords"}, {"modality": "vision"}])
def test_searchad_run_writes_what_evaluate_scores(tmp_path: Path, options: dict[str, Any]) -> None:
    data = make_searchad(tmp_path / "data")
    found = go("searchad", data, tmp_path / "out", **options)
    predictions = tmp_path / "out/predictions/searchad_val.json"
    document = json.loads(predictions.read_text())
    assert {len(ranking) for ranking in document.values()} == {18}
    assert figures(found) == evaluate("searchad", data=data, predictions=predictions).scores
    assert found.scores["overall"]["MAP"] == pytest.approx(1.0)


def test_searchad_variants_need_no_new_answers(tmp_path: Path) -> None:
    data = make_searchad(tmp_path / "data")
    go("searchad", data, tmp_path / "out")
    found = go("searchad", data, tmp_path / "out", size_thirds=True, confusion=True)
    variants = found.scores["variants"]
    assert variants["small third of objects"]["MAP"] == pytest.approx(1.0)
    matrix = np.array(variants["confusion@50"]["matrix"])
    assert matrix == pytest.approx(np.full((3, 3), 6 / 18))  # fewer than 50 images: each label has a third


def test_searchad_test_split_is_ranked_but_not_scored(tmp_path: Path) -> None:
    found = go("searchad", make_searchad(tmp_path / "data"), tmp_path / "out", split="test")
    assert figures(found) == {}
    assert "not public" in found.warnings[-1]


def test_random_support_sets_give_mean_and_spread(tmp_path: Path) -> None:
    data = make_searchad(tmp_path / "data")
    plan = Plan("searchad", data, "toy", tmp_path / "out", Options(modality="vision", seed=1))
    found = sweep(plan, Sweep(draws=3))
    summary = found.scores["random sets"]
    assert len(found.scores["runs"]["random sets"]) == 3
    assert 0 <= summary["std"]["overall"]["MAP"] < 0.5
    assert 0.5 < summary["mean"]["overall"]["MAP"] <= 1
    folders = sorted(path.name for path in (tmp_path / "out/random-sets").iterdir())
    assert folders == ["draw-00", "draw-01", "draw-02"]
    with pytest.raises(SpecError, match="--modality vision"):
        sweep(Plan("searchad", data, "toy", tmp_path / "text"), Sweep(draws=2))


def test_size_thirds_hand_worked() -> None:
    from wherein.bench.task import Answers

    annotations = {f"{n}": [("Object-Ball", (0.0, 0.0, 10.0, 10.0 * (n + 1)))] for n in range(3)}
    answers = Answers(("0", "1", "2", "x"), {"Object-Ball": {"ranking": [2, 3, 1, 0]}})
    found = size_thirds(annotations, answers)
    # Largest first; then x; the middle one leaves the ranking, so the smallest is third of 2, x, 0 without 2: 2nd.
    assert found["large third of objects"]["MAP"] == 1.0
    assert found["small third of objects"]["MAP"] == pytest.approx(1 / 2)


def test_confusion_hand_worked(tmp_path: Path) -> None:
    from wherein.bench.datasets import searchad
    from wherein.bench.task import Answers

    data = make_searchad(tmp_path)
    truth = searchad.load(data, split="val")
    red, blue = ([truth.images[i] for i in truth.positives[name]] for name in ("Animal-Real-Cow", "Object-Ball"))
    ids = tuple(sorted(truth.images))
    order = [ids.index(name) for name in (*red[:1], *blue[:3])]
    found = confusion(truth, Answers(ids, {"Animal-Real-Cow": {"ranking": order}, "Object-Ball": {"ranking": order}}))
    assert found["matrix"][0] == [0.25, 0.75]
    assert found["P@50"]["Animal-Real-Cow"] == 0.25


def make_forb(root: Path) -> Path:
    """Two objects; each has one relevant image per query and shared distractors."""
    names = []
    for name, colours in (("animated_cards", ("red", "blue")), ("logos", ("green", "purple"))):
        records = []
        for n, colour in enumerate(colours, 1):
            picture(root / f"{name}/{colour}.png", colour, "white")
            picture(root / f"queries/{name}-{colour}.png", colour, colour, "white")
            records.append(
                {
                    "query_id": n,
                    "query_image": f"queries/{name}-{colour}.png",
                    "groundtruth_ids": [n],
                    "difficulty": ("easy", "hard")[n - 1],
                }
            )
        picture(root / f"{name}/other.png", "yellow", "black")
        names += [f"{name}/{colour}.png" for colour in (*colours, "other")]
        lines(root / f"metadata/{name}_gt.ndjson", *records)
    (root / "metadata/all_database_images.txt").write_text("\n".join(names) + "\n")
    return root


def test_forb_run_writes_both_result_files_of_each_object(tmp_path: Path) -> None:
    data = make_forb(tmp_path / "data")
    found = go("forb", data, tmp_path / "out")
    assert found.scores["all"]["overall"] == {
        "mAP@1": 1.0,
        "mAP@5": 1.0,
        "t-mAP@1": pytest.approx(1.0),
        "t-mAP@5": pytest.approx(1.0),
    }
    folder = tmp_path / "out/predictions"
    assert sorted(path.name for path in folder.iterdir()) == [
        "animated_cards_all.ndjson",
        "animated_cards_oods.ndjson",
        "logos_all.ndjson",
        "logos_oods.ndjson",
    ]
    first = json.loads((folder / "logos_all.ndjson").read_text().splitlines()[0])
    assert first["candidate_db_ids"][0] == 3
    rejected = json.loads((folder / "logos_oods.ndjson").read_text().splitlines()[0])
    assert sorted(rejected["candidate_db_ids"]) == [2, 5]
    assert evaluate("forb", data=data, predictions=folder).scores == figures(found)


def make_revisited(root: Path, *, labels: bool = False) -> Path:
    """Four database images, two queries cropped to their left half."""
    for name, colours in {
        "red": ("red", "white"),
        "reddish": ("red", "red", "white"),
        "blue": ("blue", "white"),
        "grey": ("grey", "black"),
        "q0": ("red", "yellow"),
        "q1": ("blue", "yellow"),
    }.items():
        picture(root / f"jpg/{name}.jpg", *colours)
    box = [0.0, 0.0, 32.0, 64.0]
    truth = [
        {"easy": np.array([0]), "hard": np.array([1]), "junk": np.array([], dtype=np.int64), "bbx": box},
        {"easy": np.array([2]), "hard": np.array([], dtype=np.int64), "junk": np.array([3]), "bbx": box},
    ]
    document = {"imlist": ["red", "reddish", "blue", "grey"], "qimlist": ["q0", "q1"], "gnd": truth}
    (root / "gnd_roxford5k.pkl").write_bytes(pickle.dumps(document))
    if labels:
        pairs = {}
        for key in ("0_0", "0_1", "1_2"):
            path = root / f"labels/{key}.json"
            path.parent.mkdir(exist_ok=True)
            shape = {"points": [[0, 0], [31, 0], [31, 63], [0, 63]]}
            path.write_text(json.dumps({"shapes": [shape]}))
            pairs[key] = f"labels/{key}.json"
        np.save(root / "oxford_pair2labelpath.npy", np.array(pairs, dtype=object), allow_pickle=True)
    return root


def test_revisited_run_writes_ranks(tmp_path: Path) -> None:
    data = make_revisited(tmp_path / "data")
    found = go("roxford5k", data, tmp_path / "out")
    ranks = np.load(tmp_path / "out/predictions/roxford5k_ranks.npy")
    assert ranks.shape == (4, 2)
    assert sorted(ranks[:2, 0].tolist()) == [0, 1]
    assert ranks[0, 1] == 2
    assert found.scores["medium"]["mAP"] == 1.0


def test_the_paper_protocol_is_a_way_of_scoring_the_same_answers(tmp_path: Path) -> None:
    data = make_forb(tmp_path / "data")
    go("forb", data, tmp_path / "out")
    assert go("forb", data, tmp_path / "out", protocol="paper").protocol == "paper"
    with pytest.raises(SpecError, match="official, paper"):
        go("forb", data, tmp_path / "out", protocol="mine")


def test_revisited_distractors_count_behind_the_list(tmp_path: Path) -> None:
    data = make_revisited(tmp_path / "data")
    picture(tmp_path / "million/x.png", "blue")
    found = go("roxford5k", data, tmp_path / "out", distractors=str(tmp_path / "million"))
    ranks = np.load(tmp_path / "out/predictions/roxford5k_ranks.npy")
    assert ranks[0, 1] == 4
    assert found.scores["easy"]["mAP"] < 1.0


@pytest.mark.parametrize("task", ["database", "pairs"])
def test_pixel_run_locates_with_a_method_that_says_where(tmp_path: Path, task: str) -> None:
    data = make_revisited(tmp_path / "data", labels=True)
    found = go("proxford", data, tmp_path / "out", method="toy:2+patches", task=task)
    assert found.scores["medium"]["mIoU"]["D"] > 0.3
    assert ("mAP@50:5:95" in found.scores["medium"]) == (task == "database")
    matches = np.load(tmp_path / "out/predictions/proxford_matches.npy", allow_pickle=True).item()
    assert set(matches) == {"qimlist_0_imlist_0", "qimlist_0_imlist_1", "qimlist_1_imlist_2"}


def make_subregion(root: Path) -> Path:
    """Six frames of one colour each on the left; an annotation describes a colour."""
    for n, colour in enumerate(COLOURS):
        picture(root / f"frames/video{n // 3}/{n}.png", colour, "white", size_wh=(68, 38))
    for folder, frames in (("skippable", (0, 1, 2, 3)), ("non_skippable", (4, 5))):
        records = [
            {
                "id": frame,
                "frameIdx": frame,
                "desc_short": COLOURS[frame],
                "desc_long": f"something {COLOURS[frame]} in the water",
                "rect": [340, 380, 10, 5],
            }
            for frame in frames
        ]
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "anna.json").write_text(json.dumps(records))
    return root


def test_subregion_run_and_its_box_statistics(tmp_path: Path) -> None:
    data = make_subregion(tmp_path / "data")
    found = go("subregion", data, tmp_path / "out", box_statistics=True)
    assert found.scores["all"]["long"]["R@1"] == 1.0
    assert found.scores["skippable"]["short"]["MNR"] == 1.0
    assert found.scores["variants"]["static-5 skippable"]["mean IoU"] > 0.45
    assert Journal(tmp_path / "out/answers.ndjson")["skippable/anna/0/long"]["rank"] == 1


def test_perturbed_boxes_are_drawn_five_times_and_shared(tmp_path: Path) -> None:
    data = make_subregion(tmp_path / "data")
    plan = Plan("subregion", data, "toy", tmp_path / "out")
    found = sweep(plan, Sweep(perturbations=((0.0, 0.0), (0.25, 0.25)), draws=5))
    runs = found.scores["runs"]
    assert {name: len(folders) for name, folders in runs.items()} == {"shift 0 size 0": 1, "shift 0.25 size 0.25": 5}
    assert found.scores["shift 0.25 size 0.25"]["mean"]["all"]["long"]["R@1"] == 1.0
    assert (tmp_path / "out/collection").is_dir()
    assert not list((tmp_path / "out").glob("shift-*/draw-*/collection")), "one collection serves all draws"


def test_target_only_changes_the_target_alone() -> None:
    hits = [wherein.Hit("a", 0.9), wherein.Hit("b", 0.5), wherein.Hit("c", 0.4)]
    finer = [wherein.Hit("c", 0.9), wherein.Hit("b", 0.8), wherein.Hit("a", 0.1)]
    assert [hit.image_id for hit in target_only(hits, finer, target="c")] == ["a", "c", "b"]


# sweeps


def test_overlaps_go_into_the_grid_of_a_method() -> None:
    assert with_overlap("mini+static-9~best", 0.1) == "mini+static-9@0.1~best"
    assert with_overlap("mini+static-5@0.2", 0.0) == "mini+static-5"
    with pytest.raises(SpecError, match="no grid"):
        with_overlap("mini", 0.1)


@pytest.mark.parametrize(("text", "spread"), [("0,0", (0, 0)), ("0.1,10%", (0.1, 0.1)), ("0.5, 0.25", (0.5, 0.25))])
def test_spreads_are_read(text: str, spread: tuple[float, float]) -> None:
    assert parse_spread(text) == pytest.approx(spread)


@pytest.mark.parametrize("text", ["", "0.1", "a,b", "-1,0", "1,2,3"])
def test_spreads_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="--perturb"):
        parse_spread(text)


def test_figures_are_combined_one_by_one() -> None:
    first = {"a": {"x": 1.0, "y": None}, "timing": {"s": 1}}
    second = {"a": {"x": 3.0, "y": 2.0}, "timing": {"s": 2}}
    assert combined([first, second], max) == {"a": {"x": 3.0}}


# comparing


def test_runs_are_compared_query_by_query(tmp_path: Path) -> None:
    data = make_covers(tmp_path / "data")
    picture(data / "database/near.png", "red", "red", "red", "white")
    go("covers", data, tmp_path / "a", method="toy")
    go("covers", data, tmp_path / "b", method="toy+patches")
    comparison = compare([tmp_path / "a", tmp_path / "b"])
    (ap, *_) = comparison.differences
    assert (ap.run, ap.figure) == ("toy+patches", "AP")
    assert ap.wins + ap.losses + ap.ties == len(COLOURS)
    mean = np.mean([q.metrics["AP"] for q in comparison.runs[1].evaluation.queries]) - np.mean(
        [q.metrics["AP"] for q in comparison.runs[0].evaluation.queries]
    )
    assert ap.mean.mean == pytest.approx(mean)
    document = json.loads(as_json(comparison))
    assert document["base"] == "toy"
    assert document["differences"][0]["randomisation"]["p"] <= 1
    for text in (as_text(comparison), as_markdown(comparison), as_latex(comparison)):
        assert "toy+patches" in text
    write_html(comparison, tmp_path / "page/report.html")
    assert "Queries, worst first" in (tmp_path / "page/report.html").read_text(encoding="utf-8")


def test_known_items_are_compared_by_similarity_and_rank(tmp_path: Path) -> None:
    data = make_subregion(tmp_path / "data")
    go("subregion", data, tmp_path / "a", method="toy")
    go("subregion", data, tmp_path / "b", method="toy+patches")
    (shift,) = compare([tmp_path / "a", tmp_path / "b"]).targets
    assert shift.gain > 0, "a patch shows the colour alone, the whole image does not"
    assert shift.similarity.n == 12


def test_ranks_improve_downwards() -> None:
    assert gain("rank", 10, 4) == 6
    assert gain("medium mAP", 0.5, 0.75) == 0.25


def test_runs_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    go("covers", make_covers(tmp_path / "covers"), tmp_path / "a")
    go("captions", make_captions(tmp_path / "captions"), tmp_path / "b")
    with pytest.raises(DataError, match="different benchmarks"):
        compare([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(DataError, match="no run folder"):
        compare([tmp_path])
    with pytest.raises(DataError, match="twice"):
        compare([tmp_path / "a", tmp_path / "a"])
