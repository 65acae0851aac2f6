"""A new search word, step or index is one file and one line of registration, as another package would add it."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from wherein import plugins
from wherein.errors import SpecError

COMMAND = "from wherein.cli import main; main()"
"""What the installed command runs."""
MOST_FILES = 6
"""From a door to the numbers a reader follows no more files than this."""
WORD = """
from wherein.search.words.whole import Whole

class Mirrored(Whole):
    name = "backwards"
    summary = "whole images, the text read backwards"

    def wording(self, part):
        return (part.text or "")[::-1]

BACKWARDS = Mirrored()
"""
STEP = """
from dataclasses import replace
from wherein.search.steps import SearchStep

class Turned(SearchStep):
    name = "turned"
    summary = "the ranking upside down"

    def __call__(self, context, ranked):
        return replace(ranked, candidates=ranked.candidates[::-1])

TURNED = Turned()
"""
INDEX = """
import json
import os
import sys
from pathlib import Path

import wherein
from wherein.index.exact import ExactRows

HOME = str(Path(wherein.__file__).parent)

class Watched(ExactRows):
    '''Exact, and writes down which of wherein's files were on the stack when it was asked.'''

    def top(self, queries, *, k, allowed=None):
        frame, files = sys._getframe(1), set()
        while frame is not None:
            if frame.f_code.co_filename.startswith(HOME):
                files.add(os.path.relpath(frame.f_code.co_filename, HOME))
            frame = frame.f_back
        with open(os.environ["STACK"], "a") as told:
            told.write(json.dumps(sorted(files)) + "\\n")
        return super().top(queries, k=k, allowed=allowed)
"""

REGIONS = """
from wherein.layers.proposals import ProposedRegions
from wherein.search.words.proposals import Proposals
from wherein.values.region import Box

class LearnedRegions(ProposedRegions):
    word = "rpn"
    summary = "regions that a network proposes, each encoded as an image of its own"

    def boxes(self, image):
        return Box(0.0, 0.0, 1.0, 1.0), Box(0.5, 0.0, 1.0, 1.0)

class Rpn(Proposals):
    name = "rpn"
    summary = "the best of the regions that a network proposes, beside the whole image"
    layer = "rpn"

RPN = Rpn()
"""

LAYER = """
from wherein.layers import BytesKind
from wherein.store.manifest import Layer

class Palette(BytesKind):
    word = "palette"
    summary = "the mean colour of the image"

    def layer(self, encoder):
        return Layer("palette", "palette", "palette", "1")

    def make(self, image):
        return bytes(image.pixels.reshape(-1, 3).mean(axis=0).astype("uint8"))
"""
EXPORT = """
def write_names(ranking, path, *, thumb_of, file_of):
    path.write_text("".join(f"{hit.image_id}\\n" for hit in ranking))
"""


SERVED = """
import sys
from pathlib import Path
import wherein
from fastapi.testclient import TestClient
from wherein.server.app import create_app
from wherein.server.settings import Settings
with wherein.open(sys.argv[1], create=True, encoder="toy") as c:
    c.add(sys.argv[1])
app = create_app([Path(sys.argv[1])], Settings())
with TestClient(app, base_url="http://127.0.0.1:8080") as http:
    (name,) = [one["name"] for one in http.get("/api/v1/collections").json()]
    asked = {"parts": [{"text": "red"}], "index": "watched"}
    answer = http.post(f"/api/v1/collections/{name}/search", json=asked)
    assert answer.status_code == 200, answer.text
"""

CODE = {
    "toy_word": WORD,
    "toy_step": STEP,
    "toy_index": INDEX,
    "toy_layer": LAYER,
    "toy_export": EXPORT,
    "toy_regions": REGIONS,
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder that is a package with entry points, as pip would leave it."""
    home = tmp_path / "site"
    (home / "toys-1.0.dist-info").mkdir(parents=True)
    (home / "toys-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    points = {"words": "backwards = toy_word:BACKWARDS\nrpn = toy_regions:RPN", "steps": "turned = toy_step:TURNED"}
    points |= {"indexes": "watched = toy_index:Watched", "exports": "names = toy_export:write_names"}
    points["layers"] = "rpn = toy_regions:LearnedRegions\npalette = toy_layer:Palette"
    told = "".join(f"[wherein.{kind}]\n{line}\n" for kind, line in points.items())
    (home / "toys-1.0.dist-info" / "entry_points.txt").write_text(told)
    for name, code in CODE.items():
        (home / f"{name}.py").write_text(code)
    return home


def run(package: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command with the package installed."""
    source = str(Path(plugins.__file__).parents[1])
    known = {"PYTHONPATH": f"{source}:{package}", "PATH": "/usr/bin:/bin", **environment}
    return subprocess.run([sys.executable, "-c", COMMAND, *words], env=known, capture_output=True, text=True)


def hits(answer: subprocess.CompletedProcess[str]) -> list[str]:
    assert answer.returncode == 0, answer.stderr
    return [hit["image_id"] for hit in json.loads(answer.stdout)["hits"]]


def test_a_word_a_step_and_an_index_of_another_package_are_used_as_any_other(
    package: Path, tmp_path: Path, folder: Path
) -> None:
    told = tmp_path / "stack.txt"
    assert run(package, "index", str(folder), "--encoder", "toy").returncode == 0
    asked = ("search", "--collection", str(folder), "--json", "-k", "3")
    forwards = hits(run(package, *asked, "red"))
    assert forwards[0] == "red.png"
    assert hits(run(package, *asked, "der", "--method", "backwards")) == forwards
    assert hits(run(package, *asked, "red", "--method", "whole+turned")) == forwards[::-1]
    assert hits(run(package, *asked, "red", "--index", "watched", STACK=str(told))) == forwards
    assert len(json.loads(told.read_text().splitlines()[0])) <= MOST_FILES
    assert "backwards" in run(package, *asked, "red", "--method", "nothing").stderr


def test_regions_of_another_package_are_indexed_and_measured(
    package: Path, tmp_path: Path, subregion_data: Path
) -> None:
    # The frames are coloured on their left: the right half, which this network proposes, is white in all of them.
    asked = ("bench", "run", "subregion", "--data", str(subregion_data), "--json")
    plain = run(package, *asked, "--method", "toy", "--out", str(tmp_path / "plain"))
    learned = run(package, *asked, "--method", "toy+rpn~alone", "--out", str(tmp_path / "rpn"))
    assert learned.returncode == 0, learned.stderr
    before, after = (json.loads(one.stdout)["all"]["long"]["R@1"] for one in (plain, learned))
    assert before == after == 1.0
    kept = json.loads((tmp_path / "rpn" / "run.json").read_text())
    assert kept["method"] == "toy+rpn~alone"
    assert (tmp_path / "rpn" / "collection").is_dir()


def test_a_layer_and_an_export_of_another_package_are_used_as_any_other(
    package: Path, tmp_path: Path, folder: Path
) -> None:
    assert run(package, "index", str(folder), "--encoder", "toy", "--layers", "palette").returncode == 0
    told = json.loads(run(package, "info", "--collection", str(folder), "--json").stdout)
    assert {layer["kind"]: layer["images"] for layer in told["layers"]}["palette"] == told["images"]
    written = tmp_path / "names.txt"
    asked = ("search", "--collection", str(folder), "--json", "-k", "2", "red", "--export", f"names:{written}")
    assert hits(run(package, *asked)) == written.read_text().split()
    without = run(tmp_path, "index", str(folder), "--json")
    assert "layer palette was not filled" in without.stderr + without.stdout


def test_http_reaches_an_index_through_few_files(package: Path, tmp_path: Path, folder: Path) -> None:
    told, code = tmp_path / "stack.txt", SERVED
    source = str(Path(plugins.__file__).parents[1])
    known = {"PYTHONPATH": f"{source}:{package}", "PATH": "/usr/bin:/bin", "STACK": str(told)}
    done = subprocess.run([sys.executable, "-c", code, str(folder)], env=known, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (files,) = (json.loads(line) for line in told.read_text().splitlines())
    assert len(files) <= MOST_FILES, files


def test_python_reaches_an_index_through_few_files(package: Path, tmp_path: Path, folder: Path) -> None:
    told = tmp_path / "stack.txt"
    code = (
        "import sys, wherein; c = wherein.open(sys.argv[1], create=True, encoder='toy'); c.add(sys.argv[1]);"
        "c.search('red', index='watched')"
    )
    source = str(Path(plugins.__file__).parents[1])
    known = {"PYTHONPATH": f"{source}:{package}", "PATH": "/usr/bin:/bin", "STACK": str(told)}
    subprocess.run([sys.executable, "-c", code, str(folder)], env=known, check=True)
    files = json.loads(told.read_text())
    assert len(files) <= MOST_FILES, files


def test_what_needs_an_extra_says_whether_it_is_there_and_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plugins.is_available("encoders", "mini")
    assert plugins.how_to_install("encoders", "mini") == ""
    assert not plugins.is_available("encoders", "no such")
    monkeypatch.setattr("wherein.plugins.find_spec", lambda name: None if name == "torch" else object())
    assert not plugins.is_available("encoders", "hf")
    assert plugins.how_to_install("encoders", "hf") == "pip install 'wherein[hf]'"
    declared = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert {extra for extra, _ in plugins.EXTRAS.values()} <= set(declared["optional-dependencies"])
    assert all(name in plugins.BUILT_IN[kind] for kind, name in plugins.EXTRAS)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SpecError, match=r"none of the indexes is called 'exakt'; known: .*exact"):
        plugins.load("indexes", "exakt")
