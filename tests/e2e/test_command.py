"""The command as people use it: real processes, real files, equal answers to Python's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import PIL.Image
import pytest

import wherein
from wherein.layers import kind_names

COLOURS = {"red": (255, 0, 0), "green": (0, 160, 0), "blue": (0, 0, 255), "yellow": (255, 255, 0)}


def run(*words: str | Path, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wherein", *map(str, words)]
    return subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, text=True, timeout=60, check=False)


def answers(*words: str | Path, cwd: Path) -> list[str]:
    done = run("search", *words, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return [hit["image_id"] for hit in json.loads(done.stdout)["hits"]]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four plain colours, a half-and-half, and two files that are no pictures; indexed with the toy encoder."""
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "plain").mkdir()
    for name, colour in COLOURS.items():
        PIL.Image.new("RGB", (64, 48), colour).save(folder / "plain" / f"{name}.png")
    half = PIL.Image.new("RGB", (64, 64), COLOURS["red"])
    half.paste(COLOURS["blue"], (0, 0, 32, 64))
    half.save(folder / "half.png")
    (folder / "empty.jpg").touch()
    (folder / "words.png").write_text("not a picture")
    done = run("index", folder, "--encoder", "toy", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["added"], len(report["skipped"])) == (5, 2)
    assert "empty.jpg: is empty" in done.stderr
    return folder


def test_the_command_and_python_give_the_same_hits(pictures: Path) -> None:
    done = run("search", "red", "--json", cwd=pictures)
    with wherein.open(pictures) as collection:
        ranking = collection.search("red")
    assert [(hit["image_id"], hit["score"]) for hit in json.loads(done.stdout)["hits"]] == [
        (hit.image_id, hit.score) for hit in ranking
    ]


def test_the_nearest_collection_is_found_from_a_folder_below(pictures: Path) -> None:
    assert answers("green", "-k", "1", cwd=pictures / "plain") == ["plain/green.png"]


@pytest.mark.parametrize(
    ("words", "first"),
    [
        pytest.param(["blue"], "plain/blue.png", id="a text"),
        pytest.param(["--image", "plain/yellow.png"], "plain/yellow.png", id="an example image"),
        pytest.param(["--image", "half.png#0,0,0.5,1"], "plain/blue.png", id="a region of an example"),
        pytest.param(["red and blue"], "half.png", id="two colours in one text"),
        pytest.param(["red", "blue^5"], "plain/blue.png", id="a weight"),
        pytest.param(["red and blue", "--not", "plain/red.png"], "plain/blue.png", id="an example to avoid"),
        pytest.param(["red", "--where", "left", "--method", "static-9"], "plain/red.png", id="a place"),
        pytest.param(["blue", "--in", "plain"], "plain/blue.png", id="a folder"),
    ],
)
def test_what_is_asked_comes_first(pictures: Path, words: list[str], first: str) -> None:
    assert answers(*words, cwd=pictures)[0] == first


def test_a_query_file_is_a_support_set(pictures: Path) -> None:
    parts = [{"text": "green"}, {"image": "plain/green.png", "weight": 2}, {"text": "red", "negative": True}]
    (pictures / "set.json").write_text(json.dumps({"parts": parts}))
    assert answers("--query", "set.json", cwd=pictures)[0] == "plain/green.png"


def test_filters_apply_before_ranking_so_k_is_kept(pictures: Path) -> None:
    assert len(answers("red", "--in", "plain", "-k", "4", cwd=pictures)) == 4


def test_tags_come_from_a_pipe_and_filter_searches(pictures: Path) -> None:
    paths = run("search", "red", "-k", "2", "--paths", cwd=pictures).stdout
    assert [Path(line).name for line in paths.splitlines()] == ["red.png", "half.png"]
    assert run("tag", "warm", "-", cwd=pictures, stdin=paths).stdout == "warm: 2 images tagged\n"
    assert answers("blue", "--tag", "warm", cwd=pictures) == ["half.png", "plain/red.png"]
    run("tag", "warm", "plain/red.png", "--remove", cwd=pictures)
    assert answers("blue", "--tag", "warm", cwd=pictures) == ["half.png"]


def test_a_place_said_in_the_text_is_told(pictures: Path) -> None:
    done = run("search", "red in the upper left", "--json", cwd=pictures)
    assert "read “top-left” as a place: 0,0,0.5,0.5" in done.stderr
    assert json.loads(done.stdout)["method"] == "static-36"


def test_a_page_holds_every_thumbnail(pictures: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("search", "red", "--html", page, cwd=pictures).returncode == 0
    written = page.read_text()
    assert written.count("data:image/jpeg;base64,") == 5
    assert "http://" not in written
    assert "https://" not in written


def test_no_image_passing_is_exit_code_1(pictures: Path) -> None:
    done = run("search", "red", "--tag", "nobody", cwd=pictures)
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(["search"], "the query is empty", id="nothing asked"),
        pytest.param(["search", "red", "--method", "rainbow"], "nothing is called 'rainbow'", id="an unknown method"),
        pytest.param(["search", "--image", "gone.jpg"], "cannot be read", id="an example that is not there"),
        pytest.param(["search", "--image", "half.png#0.5,0,0.1,1"], "needs x1 < x2", id="an inverted box"),
        pytest.param(["search", "red", "--after", "soon"], "is not a date", id="a date that is none"),
        pytest.param(["index", "nowhere"], "does not exist", id="a folder that is not there"),
        pytest.param(["index", "--layers", "global,soup"], "choose from", id="an unknown layer"),
        pytest.param(["tag", "x", "gone.png"], "no image of that id or path", id="tagging what is not there"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(pictures: Path, words: list[str], told: str) -> None:
    done = run(*words, cwd=pictures)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (pictures / "nowhere").exists()


def test_without_a_collection_the_way_out_is_told(tmp_path: Path) -> None:
    done = run("search", "red", cwd=tmp_path)
    assert done.returncode == 2
    assert "wherein index FOLDER" in done.stderr


def test_check_names_and_mends_a_broken_shard(tmp_path: Path) -> None:
    PIL.Image.new("RGB", (64, 48), "red").save(tmp_path / "a.png")
    run("index", tmp_path, "--encoder", "toy", cwd=tmp_path)
    assert run("check", cwd=tmp_path).stdout == "4 shards, all intact\n"
    shard = next((tmp_path / ".wherein" / "shards").glob("global*/*.npy"))
    shard.unlink()
    mended = run("check", cwd=tmp_path)
    assert shard.name in mended.stderr
    assert mended.stdout == "1 images read again\n1 files were damaged; 4 shards\n"
    assert answers("red", cwd=tmp_path) == ["a.png"]


def test_info_and_compact_say_what_removed_images_cost(tmp_path: Path) -> None:
    for name in COLOURS:
        PIL.Image.new("RGB", (64, 48), name).save(tmp_path / f"{name}.png")
    run("index", tmp_path, "--encoder", "toy", cwd=tmp_path)
    run("remove", "red.png", cwd=tmp_path)
    info = json.loads(run("info", "--json", cwd=tmp_path).stdout)
    assert (info["images"], info["tombstones"]) == (3, 1)
    assert run("compact", cwd=tmp_path).stdout.endswith("bytes freed\n")
    assert json.loads(run("info", "--json", cwd=tmp_path).stdout)["tombstones"] == 0
    assert set(answers("red", cwd=tmp_path)) == {"green.png", "blue.png", "yellow.png"}


def test_ctrl_c_keeps_what_was_indexed_and_the_next_run_goes_on(tmp_path: Path) -> None:
    PIL.Image.effect_noise((640, 480), 90).convert("RGB").save(tmp_path / "0000.jpg")
    picture = (tmp_path / "0000.jpg").read_bytes()
    for number in range(1, 3000):  # so many that no machine is through with them when it is stopped
        (tmp_path / f"{number:04}.jpg").write_bytes(picture + number.to_bytes(2, "big"))
    command = [sys.executable, "-m", "wherein", "index", str(tmp_path), "--encoder", "toy"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until(lambda: (tmp_path / ".wherein" / "writer.json").exists())
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "run the same command to go on" in told
    run("index", tmp_path, cwd=tmp_path)
    assert len(answers("red", "-k", "9999", cwd=tmp_path)) == 3000


def test_watch_takes_up_new_and_deleted_files(tmp_path: Path) -> None:
    PIL.Image.new("RGB", (64, 48), "red").save(tmp_path / "red.png")
    command = [sys.executable, "-m", "wherein", "index", str(tmp_path), "--encoder", "toy", "--watch"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr is not None
        assert "watching" in process.stderr.readline()
        time.sleep(0.5)  # the watcher is told of changes only once it watches
        PIL.Image.new("RGB", (64, 48), "blue").save(tmp_path / "blue.png")
        (tmp_path / "red.png").unlink()
        until(lambda: answers("blue", cwd=tmp_path) == ["blue.png"])
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130


def test_the_demonstration_says_which_encoder_it_used(tmp_path: Path) -> None:
    done = run("demo", "--encoder", "toy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "photographs indexed" in done.stdout
    assert "with toy" in done.stdout
    assert len(list((tmp_path / "wherein-demo").glob("search-*.html"))) == done.stdout.count("file://")
    assert "cat.jpg 0." not in done.stdout, "raw scores mean nothing to a newcomer"
    again = run("demo", "--encoder", "toy", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    (tmp_path / "wherein-demo" / "diary.txt").write_text("mine")
    refused = run("demo", "--encoder", "toy", cwd=tmp_path)
    assert refused.returncode == 2
    assert "holds diary.txt, which is no part of a demonstration. Name an empty or a new folder." in refused.stderr


def until(condition: object, *, seconds: float = 30.0) -> None:
    """Wait for `condition` to hold."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


def test_the_help_of_index_names_every_layer(tmp_path: Path) -> None:
    said = run("index", "--help", cwd=tmp_path).stdout
    plain = "".join(character for character in said if character.isalnum() or character == ",")
    assert ",".join(kind_names()[0]) in plain
