"""Heatmaps and masks on pictures painted in the toy encoder's colours, where every answer is known."""

import io
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import wherein
from wherein.arrays import Mask
from wherein.demo import PHOTOS
from wherein.encoders.toy import COLOURS
from wherein.errors import InputError, QueryError, RegionError
from wherein.images.guided import guided
from wherein.images.image import Pixels
from wherein.localizers import Scene
from wherein.localizers.colours import Colours, cut
from wherein.localizers.edges import enlarged, outlined
from wherein.localizers.support import supported
from wherein.values.masks import box_mask, mask_box
from wherein.values.query import Part, parse_image, read_query
from wherein.values.region import Box, iou

TOY = "toy:16"


def scene(*spots: tuple[str, Box], ground: str = "grey", size_wh: tuple[int, int] = (128, 96)) -> Pixels:
    """Coloured boxes on a plain ground."""
    pixels = np.full((size_wh[1], size_wh[0], 3), COLOURS[ground], np.uint8)
    for colour, box in spots:
        x1, y1, x2, y2 = box.pixels(size_wh)
        pixels[y1:y2, x1:x2] = COLOURS[colour]
    return pixels


def overlapping(a: Mask, b: Mask) -> float:
    return float((a & b).sum() / (a | b).sum())


SPOT = Box(0.25, 0.25, 0.5, 0.5)
AWAY = Box(0.5, 0.5, 0.875, 0.875)


def test_a_text_lights_up_its_colour() -> None:
    found = wherein.locate("red", scene(("red", SPOT), ("blue", AWAY)), encoder=TOY)
    assert found.box is not None
    assert iou(found.box, SPOT) > 0.8
    assert found.score == pytest.approx(1.0, abs=0.05)


def test_a_place_decides_between_two_of_a_kind() -> None:
    both = scene(("red", SPOT), ("red", AWAY))
    found = wherein.locate(Part(text="red", where=Box(0.5, 0.5, 1.0, 1.0)), both, encoder=TOY)
    assert found.box is not None
    assert iou(found.box, AWAY) > 0.8


def test_a_region_of_an_example_is_found_elsewhere() -> None:
    example = scene(("red", SPOT), ("blue", Box(0.75, 0.0, 1.0, 0.25)))
    found = wherein.locate(Part(image=example, box=SPOT), scene(("red", AWAY), ("blue", SPOT)), encoder=TOY)
    assert found.box is not None
    assert iou(found.box, AWAY) > 0.8


def test_a_mask_says_the_same_as_its_box_where_it_is_one() -> None:
    example, target = scene(("red", SPOT)), scene(("red", AWAY))
    mask = box_mask(SPOT, size_wh=(128, 96))
    by_box = wherein.locate(Part(image=example, box=SPOT), target, encoder=TOY)
    by_mask = wherein.locate(Part(image=example, mask=mask), target, encoder=TOY)
    assert by_box.mask is not None
    assert by_mask.mask is not None
    assert overlapping(by_box.mask, by_mask.mask) > 0.9


def test_what_is_to_be_avoided_is_left_out() -> None:
    both = scene(("red", SPOT), ("orange", AWAY))
    wanted = [Part(text="red orange"), Part(text="orange", negative=True)]
    found = wherein.locate(wanted, both, encoder=TOY)
    assert found.box is not None
    assert iou(found.box, SPOT) > 0.7


def test_what_is_not_there_is_not_found() -> None:
    example = scene(("red", SPOT))
    found = wherein.locate(Part(image=example, box=SPOT), scene(), encoder=TOY)
    assert found.mask is None
    assert found.box is None


@pytest.mark.parametrize("refine", [True, False], ids=["refined", "coarse"])
@pytest.mark.parametrize("box", [SPOT, AWAY, Box(0.0, 0.0, 0.5, 0.25), Box(0.125, 0.5, 0.375, 1.0)], ids=str)
def test_a_box_on_the_image_itself_comes_back(box: Box, refine: bool) -> None:
    image = scene(("red", box), ("green", Box(0.875, 0.0, 1.0, 0.125)))
    found = wherein.locate(Part(image=image, box=box), image, encoder=TOY, refine=refine)
    assert found.box is not None
    assert iou(found.box, box) > 0.8


@pytest.mark.parametrize("query", ["red", Part(image=scene(("red", SPOT)), box=SPOT)], ids=["a text", "a region"])
def test_mirroring_an_image_mirrors_its_mask(query: str | Part) -> None:
    image = scene(("red", Box(0.0625, 0.25, 0.375, 0.75)), ("blue", AWAY))
    ours = wherein.locate(query, image, encoder=TOY).mask
    theirs = wherein.locate(query, np.ascontiguousarray(image[:, ::-1]), encoder=TOY).mask
    assert ours is not None
    assert theirs is not None
    assert overlapping(ours, theirs[:, ::-1]) > 0.97


@pytest.mark.parametrize("size_wh", [(1, 1), (3, 2), (1, 40), (15, 15)], ids=str)
def test_an_image_smaller_than_a_cell_works(size_wh: tuple[int, int]) -> None:
    found = wherein.locate("red", scene(ground="red", size_wh=size_wh), encoder=TOY)
    assert found.mask is not None
    assert found.mask.all()
    assert found.mask.shape == size_wh[::-1]


def test_a_mask_of_another_shape_is_refused() -> None:
    with pytest.raises(RegionError, match="shape"):
        wherein.locate(Part(image=scene(), mask=np.ones((9, 200), np.bool_)), scene(), encoder=TOY)


@pytest.mark.parametrize(
    "corners",
    [
        (0.2, 0.2, 1.2, 0.5),
        (-0.1, 0.0, 0.5, 0.5),
        (0.6, 0.2, 0.4, 0.5),
        (0.2, 0.5, 0.4, 0.5),
        (0.0, 0.0, 1.0, float("nan")),
    ],
    ids=["beyond 1", "below 0", "inverted", "of no area", "not a number"],
)
def test_a_box_that_cannot_be_is_refused(corners: tuple[float, float, float, float]) -> None:
    with pytest.raises(RegionError):
        Box(*corners)


# masks in queries


def test_the_spelling_of_a_masked_example(tmp_path: Path) -> None:
    mask = tmp_path / "spot.png"
    PIL.Image.fromarray(box_mask(SPOT, size_wh=(128, 96))).save(mask)
    part = parse_image(f"photo.jpg#mask={mask}^2")
    assert (part.image, part.mask, part.weight) == (Path("photo.jpg"), mask, 2.0)
    assert str(part) == f"photo.jpg#mask={mask}^2"
    assert part.region == mask_box(box_mask(SPOT, size_wh=(128, 96)))


def test_a_query_file_may_hold_a_mask(tmp_path: Path) -> None:
    PIL.Image.fromarray(scene(("red", SPOT))).save(tmp_path / "photo.png")
    PIL.Image.fromarray(box_mask(SPOT, size_wh=(128, 96))).save(tmp_path / "spot.png")
    (tmp_path / "query.json").write_text('{"parts": [{"image": "photo.png", "mask": "spot.png"}]}')
    (part,) = read_query(tmp_path / "query.json").parts
    assert part.mask == tmp_path / "spot.png"


def test_a_mask_without_an_image_or_beside_a_box_is_refused() -> None:
    with pytest.raises(QueryError, match="mask"):
        Part(text="red", mask=np.ones((2, 2), np.bool_))
    with pytest.raises(QueryError, match="mask"):
        Part(image=scene(), box=SPOT, mask=np.ones((2, 2), np.bool_))


# from heat to pixels


def test_the_guided_filter_lets_heat_fall_at_the_edge_of_the_picture() -> None:
    picture = scene(("white", Box(0.5, 0.0, 1.0, 1.0)), ground="black", size_wh=(64, 48))
    rough = enlarged(np.array([[0.0, 0.0, 1.0, 1.0]], np.float32), size_wh=(64, 48))
    assert np.abs(np.diff(rough[24])).max() < 0.07
    sharp = guided(rough, picture, radius=8)
    assert int(np.diff(sharp[24]).argmax()) == 31
    assert np.diff(sharp[24]).max() > 0.3


def test_a_plain_picture_leaves_smooth_heat_as_it_was() -> None:
    ramp = np.tile(np.linspace(0.0, 1.0, 64, dtype=np.float32), (48, 1))
    filtered = guided(ramp, scene(size_wh=(64, 48)), radius=3)
    assert np.allclose(filtered[8:-8, 8:-8], ramp[8:-8, 8:-8], atol=0.01)


def test_specks_and_pinholes_are_cleaned() -> None:
    heat = np.zeros((48, 64), np.float32)
    heat[10:40, 10:40] = 1.0
    heat[20, 20] = 0.0
    heat[2, 60] = 1.0
    mask = outlined(heat, Scene((64, 48)), refine=False).mask
    assert mask is not None
    assert mask[20, 20]
    assert not mask[2, 60]


def test_self_support_spreads_to_what_looks_alike() -> None:
    grid = np.zeros((1, 6, 2), np.float32)
    grid[0, :3, 0] = 1.0
    grid[0, 3:, 1] = 1.0
    heat = supported(np.array([[0.9, 0.9, 0.35, 0.35, 0.1, 0.1]], np.float32), grid)
    assert heat[0, 2] > 0.6 > 0.3 > heat[0, 3]


# in a collection


@pytest.fixture
def searched(tmp_path: Path) -> wherein.Collection:
    """Three scenes with a red spot at another place each, indexed."""
    for name, pixels in {
        "spot": scene(("red", SPOT)),
        "away": scene(("red", AWAY)),
        "none": scene(("blue", SPOT)),
    }.items():
        PIL.Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    opened = wherein.open(tmp_path, create=True, encoder=TOY)
    opened.add(tmp_path)
    return opened


def test_hits_are_located_without_their_files(searched: wherein.Collection, tmp_path: Path) -> None:
    for name in ("spot", "away", "none"):
        (tmp_path / f"{name}.png").unlink()
    hits = {hit.image_id: hit for hit in searched.search("red", locate=True)}
    for name, box in (("spot.png", SPOT), ("away.png", AWAY)):
        found = hits[name]
        assert found.box is not None
        assert iou(found.box, box) > 0.8
        assert found.mask is not None
        assert found.mask.shape == (96, 128)


def test_locating_changes_no_ranking(searched: wherein.Collection) -> None:
    plain, located = searched.search("red"), searched.search("red", locate=True)
    assert [(hit.image_id, hit.score) for hit in plain] == [(hit.image_id, hit.score) for hit in located]
    assert located.method == "whole+locate"


def test_segrank_ranks_by_the_region(searched: wherein.Collection, tmp_path: Path) -> None:
    ranking = searched.search("red", method="segrank")
    assert ranking.score_kind == "standardised"
    assert ranking[-1].image_id == "none.png"
    assert all(a.score >= b.score for a, b in pairwise(ranking))


def test_a_collection_without_patches_says_how_to_add_them(
    tmp_path: Path, picture: Callable[..., PIL.Image.Image]
) -> None:
    with wherein.open(tmp_path, create=True, encoder=TOY) as opened:
        opened.add(("a", picture("red")), layers=["global", "thumbs"])
        with pytest.raises(InputError, match="--layers"):
            opened.search("red", locate=True)


# outlines of examples, with the encoder that is shipped


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wherein.Collection]:
    folder = tmp_path_factory.mktemp("photographs")
    for name in ("cat", "coffee", "astronaut", "rocket"):
        (folder / f"{name}.jpg").write_bytes((PHOTOS / f"{name}.jpg").read_bytes())
    with wherein.open(folder, create=True) as collection:
        collection.add(folder)
        yield collection


@pytest.mark.parametrize("name", ["cat", "coffee", "rocket"])
@pytest.mark.parametrize("quality", [100, 30], ids=["the file itself", "a copy that lost much"])
def test_the_identical_image_is_outlined_whole(photographs: wherein.Collection, name: str, quality: int) -> None:
    copy = io.BytesIO()
    PIL.Image.open(PHOTOS / f"{name}.jpg").convert("RGB").save(copy, "JPEG", quality=quality)
    found = photographs.search(copy.getvalue(), locate=True)
    assert found[0].image_id == f"{name}.jpg"
    assert found[0].mask is not None
    assert found[0].mask.mean() > 0.95


@pytest.mark.parametrize(
    ("name", "box"), [("cat", Box(0.2, 0.05, 0.9, 0.95)), ("coffee", Box(0.3, 0.2, 0.8, 0.8))], ids=["a face", "a cup"]
)
def test_a_region_is_outlined_in_its_own_image_and_not_where_it_is_not(
    photographs: wherein.Collection, name: str, box: Box
) -> None:
    found = photographs.search(Part(image=PHOTOS / f"{name}.jpg", box=box), locate=True)
    masks = {hit.image_id: hit.mask for hit in found}
    own = masks.pop(f"{name}.jpg")
    assert own is not None
    assert overlapping(own, box_mask(box, size_wh=(own.shape[1], own.shape[0]))) > 0.7
    assert sum(mask is not None and mask.mean() > 0.3 for mask in masks.values()) <= 1


def test_words_are_found_only_where_they_are_shown() -> None:
    """The demonstration's photographs, by the encoder that is shipped."""
    from wherein.encoders import load

    mini = load("mini")
    for photo, words in (("cat", "a cat"), ("coffee", "a cup of coffee"), ("cameraman", "a man with a camera")):
        assert wherein.locate(words, PHOTOS / f"{photo}.jpg", encoder=mini).box is not None, photo
        for other in ("a submarine", "a red car"):
            assert wherein.locate(other, PHOTOS / f"{photo}.jpg", encoder=mini).box is None, (photo, other)
    assert wherein.locate("a man with a camera", PHOTOS / "gravel.jpg", encoder=mini).box is None


def test_colours_of_an_example_draw_the_line_that_features_leave_open() -> None:
    """Heat that knows only roughly where: the colours of the example decide up to its edge."""
    spot = Box(0.25, 0.25, 0.6, 0.7)
    example, image = scene(("red", Box(0.5, 0.5, 1.0, 1.0))), scene(("red", spot))
    meant = box_mask(Box(0.5, 0.5, 1.0, 1.0), size_wh=(128, 96))
    colours = Colours.of([(example, meant)])
    assert colours is not None
    rough = np.full((6, 8), 0.1, np.float32)
    rough[1:5, 2:6] = 0.55
    shown = Scene((128, 96), thumb=image)
    found = [outlined(rough, shown, refine=True, colours=given).mask for given in (None, colours)]
    truth = box_mask(spot, size_wh=(128, 96))
    without, with_them = (overlapping(mask, truth) for mask in found if mask is not None)
    assert with_them > max(without, 0.95)
    heat = colours.moved(enlarged(rough, size_wh=(128, 96)), image)
    np.testing.assert_array_equal(cut(heat, image), cut(heat, image))


def test_an_example_that_shows_nothing_else_says_nothing_by_its_colours() -> None:
    assert Colours.of([(scene(("red", Box(0, 0, 0.5, 1))), np.ones((4, 4), np.bool_))]) is None
    plain = np.full((20, 30), 0.9, np.float32)
    assert cut(plain, scene()[:20, :30]) is plain
