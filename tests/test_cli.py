"""The command, called as its script calls it: what it prints, what it leaves behind, how it exits."""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import wherein
from wherein.cli import main
from wherein.layers import DEFAULT_KINDS

Paint = Callable[..., Path]
Film = Callable[..., Path]


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    told: str


Command = Callable[..., Done]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`command("search", "red", stdin="…")` runs `wherein search red`."""

    def run(*words: object, stdin: str = "") -> Done:
        monkeypatch.setattr(sys, "argv", ["wherein", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as stopped:
            main()
        code = stopped.value.code
        written = capsys.readouterr()
        return Done(code if isinstance(code, int) else int(code is not None), written.out, written.err)

    return run


@pytest.fixture
def filled(collection: wherein.Collection, folder: Path, monkeypatch: pytest.MonkeyPatch) -> wherein.Collection:
    """The four pictures, indexed, and their folder the one we are in."""
    collection.add(folder)
    monkeypatch.chdir(folder)
    return collection


def refused(done: Done, *words: str) -> None:
    """Bad input is one line on stderr that says these words."""
    assert (done.code, done.out, done.told.count("\n")) == (2, "", 1), done
    for word in words:
        assert word in done.told


# --- index ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(["--layers", "foo"], "choose from global", id="an unknown layer"),
        pytest.param(["--layers", "patchs"], "Did you mean 'patches'?", id="a layer misspelled"),
        pytest.param(["--layers", "global,static-7"], "no grid has 7 cells", id="an unknown grid"),
        pytest.param(["--layers", "global,local:soup"], "soup", id="unknown features"),
        pytest.param(["--encoder", "onnx:/nope"], "/nope", id="a folder of models that is not there"),
        pytest.param(["--encoder", "mini:foo"], "foo", id="an unknown variant"),
    ],
)
def test_a_slip_leaves_no_empty_collection_behind(command: Command, folder: Path, words: list[str], told: str) -> None:
    refused(command("index", folder, *words), told)
    assert not (folder / ".wherein").exists()


def test_a_single_file_that_is_no_image_is_refused(command: Command, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("a letter")
    refused(command("index", tmp_path / "letter.txt", "--encoder", "toy"), "is not an image")
    assert not (tmp_path / ".wherein").exists()


def test_a_folder_that_cannot_be_written_to_is_told_in_one_line(command: Command, folder: Path) -> None:
    (folder / ".wherein").write_text("in the way")
    refused(command("index", folder, "--encoder", "toy"), "cannot be written to", "--collection")


def test_a_file_that_may_be_read_now_is_read_though_it_did_not_change(filled: wherein.Collection, paint: Paint) -> None:
    new = paint(Path("new.png"), "yellow")
    new.chmod(0)
    obeying = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    words = [*obeying, sys.executable, "-m", "wherein", "index", "--json"]
    told = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    assert ["Permission denied" in skip["reason"] for skip in told["skipped"]] == [True]
    assert filled.info().skipped == 1
    new.chmod(0o644)
    told = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    assert (told["added"], told["skipped"]) == (1, [])
    assert filled.info().skipped == 0


def test_a_folder_in_a_collection_is_indexed_into_it(
    command: Command, filled: wherein.Collection, folder: Path, paint: Paint
) -> None:
    paint(folder / "holiday" / "new.png", "yellow")
    paint(folder / "other.png", "white")
    done = command("index", "holiday")
    assert f"5 images can be searched in {filled.folder}" in done.out
    assert not (folder / "holiday" / ".wherein").exists()
    assert "other.png" not in filled.image_ids()


def test_a_collection_above_that_does_not_hold_the_folder_is_left_alone(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    with wherein.open(tmp_path, create=True, encoder="toy") as above:
        above.add(folder / "holiday")
    assert f"4 images can be searched in {folder / '.wherein'}" in command("index", folder, "--encoder", "toy").out


def test_the_summary_counts_what_can_be_searched(command: Command, filled: wherein.Collection, paint: Paint) -> None:
    paint(Path("holiday/new.png"), "yellow")
    done = command("index", "--encoder", "toy:8", "holiday")
    assert "4 images can be searched" in done.out
    assert "1 more are not described by it: run `wherein index`" in done.out
    assert "5 images can be searched" in command("index").out


def test_the_help_names_the_default_layers_first(command: Command) -> None:
    assert ",".join(DEFAULT_KINDS) in "".join(command("index", "--help").out.split())


def test_watching_waits_for_another_writer_and_does_without_a_root_that_is_gone(
    filled: wherein.Collection, folder: Path, paint: Paint, tmp_path: Path
) -> None:
    filled.add(paint(tmp_path / "stick" / "x.png", "green").parent)
    (tmp_path / "stick").rename(tmp_path / "unplugged")
    words = [sys.executable, "-m", "wherein", "index", str(folder), "--watch"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr is not None
        assert "watching" in process.stderr.readline()
        time.sleep(0.5)  # the watcher is told of changes only once it watches
        with filled._store.writing():
            paint(folder / "new.png", "yellow")
            assert process.stderr.readline().startswith("waiting: ")
        deadline = time.monotonic() + 30
        while "new.png" not in filled.image_ids():
            assert process.poll() is None
            assert time.monotonic() < deadline, "it was never taken up"
            time.sleep(0.05)
    finally:
        process.terminate()
        process.communicate(timeout=30)


# --- search --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "place"),
    [
        pytest.param(["--html", "."], ".", id="a page that is this folder"),
        pytest.param(["--html", "holiday"], "holiday", id="a page that is a folder"),
        pytest.param(["--html", "red.png/page.html"], "red.png/page.html", id="a page below a file"),
        pytest.param(["--export", "coco:."], ".", id="labels that are this folder"),
        pytest.param(["--export", "overlays:red.png/x"], "red.png/x", id="pictures below a file"),
        pytest.param(["--export", "fiftyone:red.png"], "red.png", id="a data set that is a file"),
    ],
)
def test_what_cannot_be_written_is_told_in_one_line(
    command: Command, filled: wherein.Collection, words: list[str], place: str
) -> None:
    before = sorted(Path.cwd().iterdir())
    refused(command("search", "red", *words), f"wherein: {place}: cannot be written (", "Choose another place")
    assert sorted(Path.cwd().iterdir()) == before


def test_a_folder_in_place_of_a_file_is_called_one(command: Command, filled: wherein.Collection) -> None:
    refused(command("search", "red", "--html", "."), ".: cannot be written (Is a directory)")


def test_a_place_on_the_command_line_holds_for_a_query_file(command: Command, filled: wherein.Collection) -> None:
    parts = [{"text": "red"}, {"text": "blue", "where": "right"}]
    Path("set.json").write_text(json.dumps({"parts": parts}))
    done = command("search", "--query", "set.json", "--where", "top", "--json")
    assert json.loads(done.out)["query"] == "red @ 0,0,1,0.5 + blue @ 0.5,0,1,1"


def test_no_hits_asked_for_is_one_line(command: Command, filled: wherein.Collection) -> None:
    refused(command("search", "red", "-k", "0"), "k = 0: give at least 1.")
    refused(command("search", "red", "--min-confidence", "2"), "between 0 and 1")


def test_an_empty_collection_says_that_it_is(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nothing").mkdir()
    monkeypatch.chdir(tmp_path / "nothing")
    command("index", ".", "--encoder", "toy")
    assert command("search", "red") == Done(
        1, "", "no match: the collection is empty. Run `wherein index FOLDER` to fill it.\n"
    )


def test_filters_that_let_nothing_through_are_named(command: Command, filled: wherein.Collection) -> None:
    assert command("search", "red", "--in", "nowhere").told == (
        "note: no image is below a folder 'nowhere'.\nno match: no image passes the filters.\n"
    )


# --- pipes, tags, removal ------------------------------------------------------------------------------


def test_films_go_through_the_pipe(command: Command, filled: wherein.Collection, film: Film) -> None:
    film(Path("clip.mp4"), ["red", "green"])
    filled.add()
    paths = command("search", "red", "--paths", "-k", "60").out
    assert sorted(Path(line).name for line in paths.splitlines()) == [
        "blue.png",
        "clip.mp4",
        "half.png",
        "red.png",
        "third.png",
    ]
    assert command("tag", "seen", "-", stdin=paths).out == "seen: 6 images tagged\n"
    assert command("tag", "film", "clip.mp4").out == "film: 2 images tagged\n"
    assert (
        command("remove", "clip.mp4").out == "1 files forgotten; they stay out until `wherein index --unignore PATH`\n"
    )


def test_names_with_new_lines_go_through_the_pipe(command: Command, filled: wherein.Collection, paint: Paint) -> None:
    paint(Path("new\nline.png"), "yellow")
    filled.add()
    paths = command("search", "yellow", "--paths", "-0", "-k", "2").out
    assert paths.split("\0")[0] == str(Path.cwd() / "new\nline.png")
    assert command("tag", "odd", "-", "--null", stdin=paths).out == "odd: 2 images tagged\n"
    assert "new\nline.png" in filled.image_ids(tags="odd")


@pytest.mark.parametrize("words", [["tag", "x"], ["remove"]])
def test_no_image_named_is_refused(command: Command, filled: wherein.Collection, words: list[str]) -> None:
    refused(command(*words), "no image is named")
    refused(command(*words, "--in", "nowhere"), "--in nowhere: no image is below a folder 'nowhere'.")
    assert command(*words, "-", stdin="").code == 0


def test_a_root_that_is_gone_is_forgotten_by_its_name(
    command: Command, filled: wherein.Collection, tmp_path: Path, paint: Paint
) -> None:
    stick = paint(tmp_path / "stick" / "x.png", "yellow").parent
    command("index", stick, "-c", ".")
    stick.rename(tmp_path / "unplugged")
    told = command("index").told
    assert f"forget it with `wherein remove {stick}`" in told
    assert command("remove", stick).out == "1 files forgotten\n"
    assert command("index").told == ""
    assert "stick/x.png" not in filled.image_ids()
    assert str(stick) not in command("info").out


def test_info_counts_the_skipped_files_that_indexing_told_of(
    command: Command, filled: wherein.Collection, folder: Path
) -> None:
    Path("bad.jpg").write_bytes(b"no image")
    Path("dangling.jpg").symlink_to("nothing-there")
    Path("itself.jpg").symlink_to("itself.jpg")
    assert "3 skipped" in command("index").out
    assert "skipped    3 files" in command("info").out
    for name in ("dangling.jpg", "itself.jpg"):
        Path(name).unlink()
    assert "1 skipped" in command("index").out
    assert "skipped    1 files" in command("info").out


def test_check_mends_the_layers_the_collection_keeps_and_adds_none(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    command("index", ".", "--encoder", "toy", "--layers", "global,thumbs,local")
    next(Path(".wherein/shards").glob("local*/*.npy")).unlink()
    assert "4 images read again" in command("check").out
    layers = json.loads(command("info", "--json").out)["layers"]
    assert sorted((layer["kind"], layer["images"]) for layer in layers) == [("global", 4), ("local", 4), ("thumbs", 4)]


# --- finding one's way ---------------------------------------------------------------------------------


def test_a_new_collection_may_name_one_layer_and_global_joins_it(command: Command, folder: Path) -> None:
    assert command("index", folder, "--encoder", "toy", "--layers", "local").code == 0
    with wherein.open(folder) as opened:
        assert {layer.kind for layer in opened.info().layers} == {"global", "local"}
    assert command("index", folder, "--layers", "thumbs", "--layers", "cells,patches").code == 0
    with wherein.open(folder) as opened:
        assert {layer.kind for layer in opened.info().layers} == {"global", "local", "thumbs", "cells", "patches"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(["--method", "pathces"], "Did you mean 'patches'?", id="a search word"),
        pytest.param(["--method", "static9"], "Did you mean 'static-9'?", id="a grid"),
        pytest.param(["--method", "patches~maxx"], "Did you mean 'max'?", id="an option of a method"),
        pytest.param(["--method", "mni"], "Did you mean 'mini'?", id="an encoder"),
    ],
)
def test_a_slip_in_a_method_is_answered_with_what_is_meant(
    command: Command, filled: wherein.Collection, words: list[str], told: str
) -> None:
    refused(command("search", "red", *words), told)


def test_a_slip_in_a_folder_or_tag_finds_nothing_and_says_what_may_be_meant(
    command: Command, filled: wherein.Collection
) -> None:
    filled.tag("favourite", ["red.png"])
    done = command("search", "red", "--in", "holidy", "--tag", "favorite")
    assert (done.code, done.out) == (1, "")
    assert "no image is below a folder 'holidy'. Did you mean 'holiday'?" in done.told
    assert "no image has the tag 'favorite'. Did you mean 'favourite'?" in done.told
    refused(command("tag", "x", "--in", "holidy"), "Did you mean 'holiday'?")


def test_a_tag_that_no_image_has_is_not_said_to_be_taken_off(command: Command, filled: wherein.Collection) -> None:
    filled.tag("favourite", ["red.png"])
    done = command("tag", "favorite", "--remove", "red.png")
    assert done.out == "favorite: 0 images untagged\n"
    assert "no image had the tag 'favorite'. Did you mean 'favourite'?" in done.told
    assert command("tag", "favourite", "--remove", "red.png", "blue.png").out == "favourite: 1 images untagged\n"
    assert "favourite" not in filled.info().tags


def test_all_images_are_below_a_folder_above_the_collection(filled: wherein.Collection, folder: Path) -> None:
    assert filled.image_ids(folder=folder.parent) == filled.image_ids()
    assert filled.image_ids(folder=folder.parent / "elsewhere") == []


def test_a_folder_is_itself_first_and_a_glob_only_where_none_is_called_so(
    command: Command, filled: wherein.Collection, folder: Path, paint: Paint
) -> None:
    paint(folder / "trip [2019]" / "a.png", "red")
    paint(folder / "trip 2" / "b.png", "red")
    filled.add(folder)
    assert filled.image_ids(folder="trip [2019]") == ["trip [2019]/a.png"]
    assert filled.image_ids(folder=folder / "trip [2019]") == ["trip [2019]/a.png"]
    assert filled.image_ids(folder="trip [0-9]") == ["trip 2/b.png"]
    assert filled.image_ids(folder="trip*") == ["trip 2/b.png", "trip [2019]/a.png"]
    assert command("search", "red", "--in", "trip [2019]", "--paths").out == f"{folder}/trip [2019]/a.png\n"


def test_a_year_is_a_date(command: Command, filled: wherein.Collection) -> None:
    assert command("search", "red", "--after", "2000", "--before", "3000-01").code == 0
    assert command("search", "red", "--before", "2000").code == 1


@pytest.mark.parametrize("words", [["-h"], ["help"], ["--help"]])
def test_help_lists_the_commands(command: Command, words: list[str]) -> None:
    done = command(*words)
    assert done.code == 0
    assert "search" in done.out


@pytest.mark.parametrize("words", [["search", "-h"], ["help", "search"], ["search", "--help"]])
def test_help_explains_a_command(command: Command, words: list[str]) -> None:
    done = command(*words)
    assert done.code == 0
    assert done.out.startswith("Usage: wherein search")
    assert "--min-confidence" in done.out


def test_help_explains_a_command_of_a_group(command: Command) -> None:
    assert command("help", "bench", "run").out == command("bench", "run", "-h").out
    refused(command("help", "serach"), "Did you mean 'search'?")
    refused(command("help", "search", "more"), "no command 'more'")


def test_a_demonstration_cannot_replace_a_file(command: Command, folder: Path) -> None:
    refused(command("demo", folder / "red.png"), "red.png: is a file", "Name another folder")
    assert (folder / "red.png").is_file()


def test_a_place_that_zoom_looks_at_is_not_called_unused(command: Command, filled: wherein.Collection) -> None:
    done = command("search", "red", "--where", "left", "--method", "zoom")
    assert done.code == 0
    assert "not used" not in done.told
    assert "not used" in command("search", "red", "--where", "left", "--method", "whole").told


@pytest.mark.parametrize("how", ["--paths", "--json", ""], ids=["paths", "JSON", "a table"])
def test_a_pipe_that_closes_early_is_no_failure(filled: wherein.Collection, folder: Path, how: str) -> None:
    command = f'"{sys.executable}" -m wherein search red {how}; echo "code $?" >&2'
    reader = f'{{ {command}; }} | "{sys.executable}" -c "import sys; sys.stdin.close()"'
    done = subprocess.run(["bash", "-c", reader], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == "code 0\n"


def test_what_is_done_is_told_when_it_is_asked_for(
    command: Command, filled: wherein.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("search", "red").told == ""
    assert "INFO wherein.search: red by whole" in command("search", "red", "--verbose").told
    assert "INFO wherein.search: red by whole" in command("--verbose", "search", "red").told
    monkeypatch.setenv("WHEREIN_LOG", "info")
    assert "INFO wherein.search" in command("search", "red").told
    monkeypatch.setenv("WHEREIN_LOG", "loud")
    refused(command("search", "red"), "WHEREIN_LOG=loud: choose from debug, info, warning, error.")
    monkeypatch.delenv("WHEREIN_LOG")
    assert command("search", "red").told == ""


# --- examples by their ids -----------------------------------------------------------------------------


def test_a_hit_is_searched_with_by_its_own_id(
    command: Command, filled: wherein.Collection, folder: Path, film: Film, monkeypatch: pytest.MonkeyPatch
) -> None:
    film(folder / "clip.mp4", ["yellow", "green"])
    filled.add()

    def first(*words: str) -> tuple[str, str]:
        found = json.loads(command("search", *words, "-k", "1", "--json").out)
        return found["query"], found["hits"][0]["image_id"]

    assert first("--image", "clip.mp4#t=2") == ("clip.mp4#t=2", "clip.mp4#t=2")
    assert first("--image", "clip.mp4#t=0#0,0,0.5,1") == ("clip.mp4#t=0#0,0,0.5,1", "clip.mp4#t=0")
    assert first("--image", "clip.mp4#t=1.2") == ("clip.mp4#t=1.2", "clip.mp4#t=0")  # a frame that is no keyframe
    monkeypatch.chdir(folder / "holiday")
    assert first("--image", "clip.mp4#t=2") == ("clip.mp4#t=2", "clip.mp4#t=2")
    assert first("--image", "red.png") == ("red.png", "red.png")
    assert first("--image", "red.png", "--not", "../clip.mp4#t=2")[1] == "red.png"
    refused(command("search", "--image", "clip.mp4#t=7"), "clip.mp4#t=7")
    refused(command("search", "--image", "../clip.mp4#t=99"), "clip.mp4: lasts 4 s and has no frame at 99 s")
    refused(command("search", "--image", "../clip.mp4"), "is a video. Say which second of it is meant, as")
    refused(command("search", "--image", "../clip.mp4#t=soon"), "is a video. Say which second of it is meant, as")
    assert filled.search(folder / "clip.mp4#t=2")[0].image_id == "clip.mp4#t=2"
