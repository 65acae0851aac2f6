"""`bench statistics`: counts against a slow count, charts that are whole SVG files, refusals."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from wherein import Box
from wherein.bench.charts import Chart, bars, boxes, decline, heat
from wherein.bench.contents import contents, write
from wherein.bench.subregion.contents import density
from wherein.cli import app
from wherein.errors import DataError, SpecError


def test_no_values_still_make_a_chart() -> None:
    for svg in (
        bars({}, label="none"),
        boxes({"a": []}, label="none", unit="px"),
        decline({"a": []}, label="none", unit="n"),
        heat({}, label="none"),
    ):
        ElementTree.fromstring(Chart("x", "nothing & none", svg).alone())


def test_searchad_counts_labels_sizes_and_sources(searchad_data: Path, tmp_path: Path) -> None:
    made = contents("searchad", searchad_data)
    tables = {table.title.split(" ")[0]: dict(table.rows) for table in made.tables}
    # six images of each label in each split; every box has at least 64 px²
    assert tables["labels,"]["Object-Ball"] == pytest.approx({"images n": 12, "boxes n": 12, "share": 12 / 36})
    assert tables["labels,"]["Animal-Real-Cat"]["images n"] == 0
    areas = [(8 * (n + 1)) ** 2 for n in range(6)] * 2
    assert tables["area"]["Object"]["median px"] == pytest.approx(np.median(areas))
    assert tables["area"]["Object"]["p90 px"] == pytest.approx(np.percentile(areas, 90))
    assert tables["labels"]["kitti"] == pytest.approx(
        {"images n": 36, "labels n": 3, "boxes n": 36}
        | {"paper: images n": 14999, "paper: labels n": 47, "paper: boxes n": 9840}
    )
    assert tables["beside"]["CODA 2022"] == {"images n": 9768, "classes n": 43}
    files = {path.name for path in write(made, tmp_path / "out")}
    assert files == {"statistics.html", "statistics.json", "rarest.svg", "frequencies.svg", "sizes.svg"}
    for path in (tmp_path / "out").glob("*.svg"):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    page = (tmp_path / "out" / "statistics.html").read_text(encoding="utf-8")
    assert page.count("<figure") == 3
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_what_a_split_lacks_is_said(searchad_data: Path) -> None:
    (searchad_data / "searchad_annotations_train.json").unlink()
    assert contents("searchad", searchad_data).notes == (
        "the train split is not on disk and not counted",
        "87 of 90 labels occur in no image",
    )
    (searchad_data / "searchad_annotations_val.json").unlink()
    with pytest.raises(DataError, match="has no searchad_annotations_train"):
        contents("searchad", searchad_data)


def test_the_study_of_regions_has_lengths_and_places(subregion_data: Path) -> None:
    made = contents("subregion", subregion_data)
    lengths = dict(made.tables[0].rows)
    annotations = json.loads((subregion_data / "skippable" / "anna.json").read_text())
    shorts = [len(one["desc_short"]) for one in annotations]
    assert lengths["skippable"]["n"] == 4
    assert lengths["skippable"]["short characters_mean"] == pytest.approx(np.mean(shorts))
    assert lengths["all"]["n"] == 6
    assert "places" in {chart.name for chart in made.charts}


def test_density_counts_every_box_by_its_area() -> None:
    drawn = [Box(0.0, 0.0, 0.5, 1.0), Box(0.25, 0.25, 0.3, 0.31)]
    found = density(drawn)
    assert found.sum() / found.size == pytest.approx(sum(box.area for box in drawn))
    assert found[0, 0] == pytest.approx(1)
    assert found[0, -1] == 0


def test_the_command_writes_and_prints(searchad_data: Path, tmp_path: Path) -> None:
    asked = ["bench", "statistics", "searchad", "--data", str(searchad_data), "--out", str(tmp_path / "o"), "--json"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["tables"]
    assert (tmp_path / "o" / "rarest.svg").is_file()


def test_unknown_benchmarks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="choose one of searchad, subregion, forb"):
        contents("imagenet", tmp_path)
