"""The annotation tool, the user study, the map and the reports, over HTTP."""

import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import wherein
from wherein.bench.evaluation import Evaluation
from wherein.bench.subregion.dataset import load
from wherein.server.problems import Problem
from wherein.server.routes.explore import project
from wherein.server.settings import Settings
from wherein.server.study import GROUPS, questions_of, results, sheet

HERE = "/collections/pictures"
Paint = Callable[..., Path]


@pytest.fixture
def http(served: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{served}/api/v1", trust_env=False, verify=False) as client:
        yield client


def region(*box: float) -> dict[str, Any]:
    return {"box": box, "short": "a corner", "long": "the corner of a picture"}


def annotation(image_id: str, *regions: dict[str, Any], set: str = "skippable") -> dict[str, Any]:
    return {"author": "ada", "set": set, "image_id": image_id, "regions": list(regions)}


def test_annotations_come_out_as_the_benchmark_reads_them(http: httpx.Client, tmp_path: Path) -> None:
    first = http.get(f"{HERE}/annotations/next", params={"author": "ada", "set": "skippable"}).json()
    assert (first["may_skip"], first["done"], first["needed"], first["largest"]) == (True, 0, 20, 0.3)
    after = http.post(f"{HERE}/annotations", json=annotation("red.png", region(0, 0, 0.5, 0.5), region(0.5, 0, 1, 0.5)))
    assert (after.status_code, after.json()["done"]) == (201, 2)
    http.post(f"{HERE}/annotations", json=annotation("blue.png"))
    http.post(f"{HERE}/annotations", json=annotation("holiday/half.png", region(0.5, 0.5, 1, 1), set="non-skippable"))
    files = zipfile.ZipFile(io.BytesIO(http.get(f"{HERE}/annotations/export").content))
    files.extractall(tmp_path)
    one, two, three = load(tmp_path).annotations
    assert one.xyxy == pytest.approx((0, 0, 341, 192))
    assert (two.set, three.set) == ("skippable", "non-skippable")
    # Frames count by folder, then file: blue, holiday/half, holiday/third, red.
    assert (one.frame, three.frame) == (3, 1)
    assert files.read("frames.txt").decode().split() == ["blue.png", "holiday/half.png", "holiday/third.png", "red.png"]


def test_an_export_is_scored_on_the_frames_it_names_whatever_their_depth(
    http: httpx.Client, tmp_path: Path, folder: Path, go: Callable[..., Evaluation]
) -> None:
    red = {"box": [0, 0, 0.5, 0.5], "short": "red", "long": "red"}
    assert http.post(f"{HERE}/annotations", json=annotation("red.png", red)).status_code == 201
    root = tmp_path / "exported"
    zipfile.ZipFile(io.BytesIO(http.get(f"{HERE}/annotations/export").content)).extractall(root)
    shutil.copytree(folder, root / "frames", ignore=shutil.ignore_patterns(".wherein"))
    scores = go("subregion", root, tmp_path / "out").scores  # red.png lies in no folder, half.png in one
    assert scores["skippable"]["long"]["R@1"] == 1.0


def test_each_image_is_shown_once_to_an_author(http: httpx.Client) -> None:
    seen = []
    asked = {"author": "ada", "set": "skippable"}
    while image_id := http.get(f"{HERE}/annotations/next", params=asked).json()["image_id"]:
        seen.append(image_id)
        http.post(f"{HERE}/annotations", json=annotation(image_id))
    assert sorted(seen) == ["blue.png", "holiday/half.png", "holiday/third.png", "red.png"]


def test_authors_are_told_how_far_they_are(http: httpx.Client) -> None:
    assert http.get(f"{HERE}/annotations").json() == []
    http.post(f"{HERE}/annotations", json=annotation("red.png", region(0, 0, 0.5, 0.5), region(0.5, 0, 1, 0.5)))
    http.post(f"{HERE}/annotations", json=annotation("blue.png", region(0, 0, 0.5, 0.5), set="non-skippable"))
    (ada,) = http.get(f"{HERE}/annotations").json()
    assert (ada["skippable"], ada["non_skippable"], ada["missing"]) == (2, 1, 17)


REFUSED = [
    ("a region over 30 %", annotation("red.png", region(0, 0, 0.6, 0.51)), 422),
    ("a skip in the second run", annotation("red.png", set="non-skippable"), 422),
    ("an unknown image", annotation("none.png", region(0, 0, 0.1, 0.1)), 404),
    ("no words", annotation("red.png", {"box": [0, 0, 0.1, 0.1], "short": "", "long": ""}), 422),
]


@pytest.mark.parametrize(("sent", "status"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_annotations_that_are_refused(http: httpx.Client, sent: dict[str, Any], status: int) -> None:
    assert http.post(f"{HERE}/annotations", json=sent).status_code == status


def questions(count: int) -> list[dict[str, Any]]:
    names = {f"q{n:02}": [{"image_id": f"{n}/{i}", "box": [0, 0, 1, 1]} for i in range(5)] for n in range(count)}
    return questions_of(names)


def test_sixteen_questions_with_three_true_among_twelve() -> None:
    study = {"questions": questions(17)}
    pages = sheet(study, "ada", 0)
    assert len(pages) == 16
    for number, page in enumerate(pages):
        shown = [item["image_id"] for item in page["candidates"]]
        own = [image_id for image_id in shown if image_id.startswith(f"{number}/")]
        assert (len(shown), len(set(shown)), sorted(own)) == (12, 12, page["true"])
        assert page["query"]["image_id"] not in shown
        assert all(("box" in item) is page["outlines"] for item in page["candidates"])


def test_selections_without_outlines_make_no_question() -> None:
    kept = dict[str, list[dict[str, Any]]]()
    kept |= {f"q{n}": [{"image_id": f"{n}/{i}", "box": [0, 0, 1, 1]} for i in range(5)] for n in range(5)}
    kept["q2"][3] = {"image_id": "2/3", "box": None, "mask": None}
    assert [question["name"] for question in questions_of(kept)] == ["q0", "q1", "q3", "q4"]
    kept["q4"][1] = {"image_id": "4/1"}
    with pytest.raises(Problem, match=r"there are 3\. .*have no outline: q2, q4; keep hits that were outlined"):
        questions_of(kept)
    kept["q4"][0], kept["q4"][1] = {"image_id": "4/0"}, {"image_id": "4/1", "box": [0, 0, 1, 1]}
    assert len(questions_of(kept)) == 4  # the query is shown as it is


def test_outlines_are_counterbalanced() -> None:
    study = {"questions": questions(16)}
    seen = np.array([[page["outlines"] for page in sheet(study, "p", group)] for group in range(len(GROUPS))])
    assert seen.sum(axis=1).tolist() == [8, 8, 8, 8]
    assert seen.sum(axis=0).tolist() == [2] * 16


def test_too_few_selections_are_said(http: httpx.Client) -> None:
    answer = http.post(f"{HERE}/studies/mine")
    assert (answer.status_code, "16 selections" in answer.json()["error"]["message"]) == (422, True)


def test_results_by_hand() -> None:
    def person(with_: float, without: float, helpful: int | None) -> dict[str, Any]:
        sides = [(True, with_), (False, without)]
        answers = [{"outlines": outlines, "seconds": seconds, "right": 3} for outlines, seconds in sides]
        return {"answers": dict(enumerate(answers)), "helpful": helpful}

    people = [person(10, 14, 7), person(20, 22, 6), person(30, 36, 5), person(1, 99, None)]
    found = results({"questions": [0, 0], "participants": dict(enumerate(people))})
    assert (found["participants"], found["begun"]) == (3, 4)
    assert (found["with_outlines"]["mean"], found["without_outlines"]["mean"]) == (20.0, 24.0)
    assert found["helpful"] == {"mean": 6.0, "deviation": 1.0}
    # Differences −4, −2, −6: mean −4, deviation 2, t = −4 / (2 / √3).
    assert found["tests"][0]["statistic"] == pytest.approx(-4 / (2 / np.sqrt(3)))
    assert found["tests"][0]["p"] == pytest.approx(0.0741799, abs=1e-6)


def test_a_map_is_computed_once(http: httpx.Client, folder: Path) -> None:
    found = http.get(f"{HERE}/map").json()
    assert found["image_ids"] == ["blue.png", "holiday/half.png", "holiday/third.png", "red.png"]
    assert all(0 <= value <= 1 for value in found["x"] + found["y"])
    (kept,) = (folder / ".wherein" / "derived").glob("map.*.json")
    changed = json.loads(kept.read_text()) | {"projection": "kept"}
    kept.write_text(json.dumps(changed))
    assert http.get(f"{HERE}/map").json()["projection"] == "kept"


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_projections_of_any_number_stay_inside(count: int) -> None:
    rows = np.random.default_rng(0).standard_normal((count, 8)).astype(np.float32)
    x, y = project(rows)
    assert len(x) == len(y) == count
    assert all(0 <= value <= 1 for value in x + y)


def test_reports_are_listed_and_confined(
    collection: wherein.Collection, folder: Path, serve: Callable[..., str], tmp_path: Path
) -> None:
    reports = tmp_path / "reports"
    (reports / "runs").mkdir(parents=True)
    for name, target in (("gone.html", "nowhere"), ("loop.html", "loop.html")):
        (reports / name).symlink_to(reports / target)
    (reports / "runs" / "a.html").write_text("<title>captions &amp; covers</title><script>1</script>")
    (tmp_path / "secret.html").write_text("<title>secret</title>")
    (reports / "out.html").symlink_to(tmp_path / "secret.html")
    address = serve(folder, settings=Settings(reports=reports))
    with httpx.Client(base_url=f"{address}/api/v1", trust_env=False, verify=False) as client:
        (one,) = client.get("/reports").json()
        assert (one["path"], one["title"]) == ("runs/a.html", "captions & covers")
        shown = client.get("/report", params={"path": one["path"]})
        assert shown.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'")
        for path in ("out.html", "../secret.html", "runs/../../secret.html", "/etc/passwd"):
            assert client.get("/report", params={"path": path}).status_code == 404, path
