"""What is asked: parts, queries, query files and method specs, as they are written and as they print."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from wherein.errors import QueryError, RegionError
from wherein.values.query import Part, Query, parse_image, parse_negative, parse_text, read_query
from wherein.values.region import PLACES, Box, place

Paint = Callable[..., Path]
WRONG: Any = "2"
WRONG_KIND: Any = 5


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        pytest.param(lambda: Part(), "exactly one", id="neither text nor image"),
        pytest.param(lambda: Part(text="red", image=b"x"), "exactly one", id="both"),
        pytest.param(lambda: Part(text=" "), "is empty", id="an empty text"),
        pytest.param(
            lambda: Part(text="red", box=Box(0, 0, 1, 1)), "belongs to an example", id="a box without an image"
        ),
        pytest.param(lambda: Part(text="red", weight=0), "is a negative part", id="no weight"),
        pytest.param(lambda: Part(text="red", weight=-1), "is a negative part", id="a negative weight"),
        pytest.param(lambda: Part(text="red", weight=float("nan")), "no number above", id="no number"),
        pytest.param(lambda: Part(text="red", weight=float("inf")), "no number above", id="all the weight there is"),
        pytest.param(lambda: Part(text="red", weight=WRONG), "weight = '2': is no number", id="a weight in quotes"),
        pytest.param(lambda: Part(text=Path("a.png")), "is no text", id="a path as a text"),  # type: ignore[arg-type]
        pytest.param(lambda: Part(image=WRONG_KIND), "image = 5: an example is a path", id="a number as an image"),
        pytest.param(lambda: Part(image=b"x", box=WRONG), "a box is a Box", id="a box that is none"),
        pytest.param(lambda: Query.of(WRONG_KIND), "cannot search for a int: give a text", id="a number"),
        pytest.param(lambda: Query.of([{"text": "red"}]), "cannot search for a dict: give", id="a document"),
        pytest.param(lambda: Query(()), "the query is empty", id="no parts"),
        pytest.param(lambda: Query.of([]), "the query is empty", id="an empty list"),
        pytest.param(lambda: Query.of(""), "is empty", id="an empty word"),
        pytest.param(lambda: Query((Part(text="red", negative=True),)), "only says what to avoid", id="only negatives"),
    ],
)
def test_a_query_that_cannot_be_asked_says_why(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(QueryError, match=complaint):
        make()


@pytest.mark.parametrize(
    ("text", "words", "weight"),
    [
        pytest.param("red car", "red car", 1.0, id="no weight is one"),
        pytest.param("red car^2", "red car", 2.0, id="a weight"),
        pytest.param("red car^0.25", "red car", 0.25, id="a fraction"),
        pytest.param("x^y", "x^y", 1.0, id="a roof that is no weight"),
        pytest.param("2^", "2^", 1.0, id="a roof at the end"),
        pytest.param("line\nbreak^3", "line\nbreak", 3.0, id="two lines"),
    ],
)
def test_a_text_carries_its_weight(text: str, words: str, weight: float) -> None:
    part = parse_text(text)
    assert (part.text, part.weight, part.where) == (words, weight, None)
    assert str(part) == text


def test_a_weight_may_be_short_and_must_be_positive() -> None:
    assert (parse_text("dog^.5").text, parse_text("dog^.5").weight) == ("dog", 0.5)
    with pytest.raises(QueryError, match=r"weight = -1\.0: is no number above zero\. What is to be avoided"):
        parse_text("dog^-1")


def test_a_text_may_say_where() -> None:
    part = parse_text("a fish in the upper left")
    assert (part.text, part.where, part.said_where) == ("a fish", PLACES["top-left"], "top-left")


@pytest.mark.parametrize(
    ("name", "box", "weight"),
    [
        pytest.param("photo.png", None, 1.0, id="a whole image"),
        pytest.param("photo.png^2", None, 2.0, id="a weighted image"),
        pytest.param("photo.png#0.1,0.2,0.5,0.9", Box(0.1, 0.2, 0.5, 0.9), 1.0, id="a region"),
        pytest.param("photo.png#0.1,0.2,0.5,0.9^0.5", Box(0.1, 0.2, 0.5, 0.9), 0.5, id="a weighted region"),
    ],
)
def test_an_image_carries_its_region_and_weight(tmp_path: Path, name: str, box: Box | None, weight: float) -> None:
    part = parse_image(f"{tmp_path}/{name}")
    assert (part.image, part.box, part.weight) == (tmp_path / "photo.png", box, weight)
    assert str(part) == f"{tmp_path}/{name}"


@pytest.mark.parametrize("name", ["a#0,0,1,1", "b^2", "c#1"])
def test_a_file_of_that_very_name_is_meant(tmp_path: Path, paint: Paint, name: str) -> None:
    paint(tmp_path / "x.png", "red").rename(tmp_path / name)
    part = parse_image(str(tmp_path / name))
    assert (part.image, part.box, part.weight) == (tmp_path / name, None, 1.0)


def test_a_region_that_cannot_exist_says_why() -> None:
    with pytest.raises(RegionError, match="leaves the image"):
        parse_image("photo.jpg#0,0,200,300")


def test_what_to_avoid_is_an_image_where_there_is_one_and_a_text_otherwise(tmp_path: Path, paint: Paint) -> None:
    path = paint(tmp_path / "a.png", "red")
    image, text = parse_negative(f"{path}#0,0,0.5,1"), parse_negative("green grass^2")
    assert (image.image, image.box, image.negative) == (path, Box(0, 0, 0.5, 1), True)
    assert (text.text, text.weight, text.negative) == ("green grass", 2.0, True)
    assert parse_negative("long " * 200).text == "long " * 200  # longer than any file's name


@pytest.mark.parametrize("name", ["typo/0001.jpg", "typo/0001.jpg#0,0,1,1", "0001#0,0,1,1", "photo.PNG^2"])
def test_a_file_to_avoid_that_is_not_there_is_no_text(name: str) -> None:
    with pytest.raises(QueryError, match="there is no such file to avoid"):
        parse_negative(name)


def test_anything_that_is_an_image_or_a_text_is_a_query(tmp_path: Path) -> None:
    array = np.zeros((2, 2, 3), np.uint8)
    picture = PIL.Image.new("RGB", (2, 2))
    query = Query.of(["red^2", tmp_path / "a.png", b"bytes", array, picture, Part(text="blue"), Query.of("green")])
    assert [part.text for part in query.parts] == ["red", None, None, None, None, "blue", "green"]
    assert str(query) == f"red^2 + {tmp_path}/a.png + image + image + image + blue + green"
    assert Query.of(query) is query


def test_a_query_prints_what_it_avoids() -> None:
    query = Query((Part(text="red"), Part(text="car", negative=True, weight=2)))
    assert str(query) == "red + -car^2"


# --- query files ---------------------------------------------------------------------------------------


def test_a_query_file_holds_a_support_set(tmp_path: Path, paint: Paint) -> None:
    paint(tmp_path / "example.png", "red")
    document = {
        "parts": [
            {"text": "a red car", "weight": 2},
            {"image": "example.png", "box": [0, 0, 0.5, 1]},
            {"text": "sky", "negative": True, "where": "top"},
        ]
    }
    (tmp_path / "q.json").write_text(json.dumps(document))
    text, image, avoided = read_query(tmp_path / "q.json").parts
    assert (text.text, text.weight) == ("a red car", 2.0)
    assert (image.image, image.box) == (tmp_path / "example.png", Box(0, 0, 0.5, 1))
    assert (avoided.negative, avoided.where) == (True, PLACES["top"])


def test_images_may_lie_beside_the_folder_of_the_query(tmp_path: Path, paint: Paint) -> None:
    paint(tmp_path / "images" / "x.png", "red")
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "q.json").write_text('{"parts": [{"image": "images/x.png"}]}')
    assert read_query(tmp_path / "queries" / "q.json").parts[0].image == tmp_path / "images" / "x.png"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("", "is not JSON", id="an empty file"),
        pytest.param("[]", 'no "parts" list', id="a list"),
        pytest.param('{"parts": {}}', 'no "parts" list', id="parts that are no list"),
        pytest.param('{"parts": []}', "the query is empty", id="no parts"),
        pytest.param('{"parts": ["red"]}', "part 1 may hold", id="a part that is a word"),
        pytest.param('{"parts": [{"text": "red"}, {"txt": "blue"}]}', "part 2 may hold", id="a misspelt key"),
        pytest.param('{"parts": [{}]}', "part 1: .*exactly one", id="an empty part"),
        pytest.param('{"parts": [{"image": "gone.png"}]}', "gone.png is neither beside", id="a missing image"),
        pytest.param('{"parts": [{"text": "red", "weight": "much"}]}', "part 1: .*much", id="a weight in words"),
        pytest.param('{"parts": [{"text": "red", "box": [0, 0, 1]}]}', "part 1: ", id="a box of three"),
        pytest.param('{"parts": [{"text": "red", "where": "up"}]}', "part 1: .*no place", id="an unknown place"),
        pytest.param('{"parts": [{"text": 5}]}', "part 1: ", id="a number for a text"),
    ],
)
def test_a_bad_query_file_says_which_part_and_why(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "q.json").write_text(text)
    with pytest.raises(QueryError, match=complaint):
        read_query(tmp_path / "q.json")


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        pytest.param({"box": [0, 0, 1]}, r"\[0, 0, 1\] is not a box: write \[x1, y1, x2, y2\]", id="three corners"),
        pytest.param({"box": [0, 0, 1, "x"]}, "is not a box", id="a corner that is no number"),
        pytest.param({"where": 7}, "7 is not a box", id="a place that is a number"),
        pytest.param({"where": [0, 0, 2, 1]}, "leaves the image", id="a place outside"),
        pytest.param({"weight": "x"}, "its weight 'x' is not a number", id="a weight that is a word"),
        pytest.param({"negative": "false"}, "write true or false", id="a sign in quotes"),
    ],
)
def test_what_is_wrong_in_a_part_is_told_in_words(
    tmp_path: Path, paint: Paint, values: dict[str, object], complaint: str
) -> None:
    paint(tmp_path / "a.png", "red")
    (tmp_path / "q.json").write_text(json.dumps({"parts": [{"image": "a.png"} | values]}))
    with pytest.raises(QueryError, match=rf"part 1: .*{complaint}"):
        read_query(tmp_path / "q.json")


@pytest.mark.parametrize("supports", [[], {"vision": {"a.png": [{"bbox": {}}]}}, {"vision": {"a.png": ["x"]}}])
def test_a_support_set_that_is_none_says_so(tmp_path: Path, paint: Paint, supports: object) -> None:
    paint(tmp_path / "a.png", "red")
    (tmp_path / "q.json").write_text(json.dumps({"supportsets": supports}))
    with pytest.raises(QueryError, match="not as SearchAD writes them"):
        read_query(tmp_path / "q.json")


def test_a_missing_query_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="No such file"):
        read_query(tmp_path / "q.json")


def test_a_place_is_a_box_and_a_word_says_how_to_make_one() -> None:
    assert Part(text="boat", where=place("top-left")).where == Box(0, 0, 0.5, 0.5)
    with pytest.raises(QueryError, match=r"wherein\.place\('left'\)"):
        Part(text="boat", where="left")  # type: ignore[arg-type]


@pytest.mark.parametrize("supports", [False, True])
def test_a_query_file_that_is_too_deep_is_refused(tmp_path: Path, supports: bool) -> None:
    deep = "[" * 5000 + "]" * 5000
    (tmp_path / "q.json").write_text(f'{{"supportsets": {{"language": {deep}}}}}' if supports else deep)
    with pytest.raises(QueryError, match=r"q\.json"):
        read_query(tmp_path / "q.json")
