"""The options of benchmarks: declared by their tasks, offered by the command, turned into what a task is asked with."""

import json
from dataclasses import fields
from pathlib import Path

import PIL.Image
import pytest
import typer
import typer.testing

from wherein.bench.boxes import PERTURBATIONS, SEEDS
from wherein.bench.captioned.dataset import LANGUAGES
from wherein.bench.registry import TASKS, declared_options, every_option
from wherein.bench.sweep import WORDINGS, Sweep, read_variant
from wherein.bench.task import Kind, Variant
from wherein.cli import app
from wherein.errors import SpecError


def test_an_option_is_written_the_same_way_for_every_benchmark() -> None:
    for name, meanings in every_option().items():
        assert len({(one.kind, one.least, one.varies) for one in meanings.values()}) == 1, name


def test_a_declared_option_decides_what_a_task_is_asked_with() -> None:
    known = {field.name for field in fields(Variant)}
    decided = {
        name
        for benchmark in TASKS
        for option in declared_options(benchmark)
        if option.name != "overlaps"  # these change the method
        for name in option.decides or (option.name,)
    }
    assert decided == known


def test_a_default_is_one_of_the_choices() -> None:
    for name, meanings in every_option().items():
        for benchmark, option in meanings.items():
            assert option.default in (*option.choices, None) or not option.choices, (benchmark, name)
            assert option.kind is Kind.TEXT or not option.choices, (benchmark, name)


def test_the_help_names_every_benchmark_and_option() -> None:
    told = typer.testing.CliRunner().invoke(app, ["bench", "run", "--help"], env={"COLUMNS": "200"}).output
    for benchmark in TASKS:
        assert benchmark in told.partition("Variant:")[0]
    for meanings in every_option().values():
        option = next(iter(meanings.values()))
        assert f"  {option.flag} " in told
    assert "searchad: what is searched: val (default), train or test" in " ".join(told.split())


def test_what_was_given_becomes_options_and_runs(tmp_path: Path) -> None:
    assert read_variant("captions", {}) == (Variant(), None)
    assert read_variant("road", {"distractors": str(tmp_path)}) == (Variant(distractors=str(tmp_path)), None)
    asked = {"modality": "vision", "seed": 0, "random_sets": 20}
    assert read_variant("searchad", asked) == (Variant(modality="vision", seed=0), Sweep(draws=20))
    assert read_variant("searchad", {"prompts": True, "split": "val"}) == (Variant(split="val"), Sweep(texts=WORDINGS))
    assert read_variant("xm3600", {"language": "de"}) == (Variant(language="de"), None)
    assert read_variant("xm3600", {"language": "all"}) == (Variant(), Sweep(languages=LANGUAGES))
    levels = Sweep(overlaps=(0.0, 0.1), perturbations=PERTURBATIONS, draws=SEEDS)
    assert read_variant("subregion", {"overlaps": "0,0.1", "perturb": ("paper",)}) == (Variant(), levels)


def kept(*words: str | Path) -> dict[str, object]:
    """The options in run.json after a run by the command."""
    done = typer.testing.CliRunner().invoke(app, ["bench", "run", *map(str, words), "--method", "toy", "--out", "out"])
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(Path("out/run.json").read_text())["options"]
    return found


def test_words_numbers_and_flags_reach_a_run(
    tmp_path: Path, searchad_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = kept(
        "searchad", "--data", searchad_data, "--modality=vision", "--seed=0", "--longest-side=16", "--confusion"
    )
    assert found == {"modality": "vision", "seed": 0, "longest_side": 16}
    assert "confusion@50" in json.loads(Path("out/scores.json").read_text())["variants"]


def test_a_folder_reaches_a_run_in_full(tmp_path: Path, captions_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("others").mkdir()
    PIL.Image.new("RGB", (8, 8)).save("others/grey.png")
    found = kept("captions", "--data", captions_data, "--distractors", "others")
    assert found == {"distractors": str(tmp_path / "others")}


def test_every_repeated_text_reaches_a_task(tmp_path: Path) -> None:
    words = ["bench", "run", "classes", "--method=toy", "--prompt=a {}", "--prompt=a thing", "--data", str(tmp_path)]
    done = typer.testing.CliRunner().invoke(app, words)
    assert isinstance(done.exception, SpecError)
    assert "--prompt 'a thing' has no {}" in str(done.exception)


@pytest.mark.parametrize(
    ("benchmark", "given", "why"),
    [
        ("coco", {"language": "de"}, "coco has no option --language; it has --split, --longest-side, --overlaps"),
        ("xm3600", {"split": "val"}, "xm3600 has no option --split; it has --language"),
        ("searchad", {"prompts": True, "random_sets": 2}, "--prompts varies the texts alone"),
        ("searchad", {"random_sets": 0}, "draw at least one"),
        ("subregion", {"overlaps": "much"}, "not a list of fractions"),
        ("cover", {}, "no benchmark is called 'cover'"),
    ],
)
def test_what_a_benchmark_cannot_do_is_refused(benchmark: str, given: dict[str, object], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        read_variant(benchmark, given)
