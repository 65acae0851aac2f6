"""The same thing again, through the facade: covers found in photos of them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from typer.testing import CliRunner

import wherein
from wherein.cli import app
from wherein.errors import InputError, QueryError, SpecError
from wherein.search.engine import Candidate
from wherein.search.steps.hypergraph import communities, entropy, joined
from wherein.values.masks import read_mask
from wherein.values.method import Method, Words

Cover = Callable[..., Any]
LAYERS = ("global", "thumbs", "local")


@pytest.fixture
def shelf(tmp_path: Path, cover: Cover) -> Path:
    """Eight covers, and a plain one."""
    root = tmp_path / "shelf"
    root.mkdir()
    for seed in range(8):
        PIL.Image.fromarray(cover(seed)).save(root / f"cover{seed}.png")
    PIL.Image.new("RGB", (240, 320), "grey").save(root / "plain.png")
    return root


@pytest.fixture
def covers(shelf: Path) -> wherein.Collection:
    collection = wherein.open(shelf, create=True, encoder="toy")
    collection.add(shelf, layers=LAYERS)
    return collection


def photo(pixels: Any) -> Any:
    """A cover, smaller, on a table."""
    table = np.full((400, 600, 3), 120, np.uint8)
    table[40:360, 300:540] = pixels
    return table


@pytest.mark.parametrize(
    "method",
    [
        "bow",
        "asmk",
        "vlad",
        "bow+sp",
        "toy+bow",
        "toy+sp",
        "toy+bow+sp",
        "bow@300",
        "bow+sp~affine",
        "bow+sp+propagate",
        "bow+sp+hypergraph",
        "mean",
        "toy+dba+bow+sp",
        "vlad+qe",
        "vlad+dba",
        "vlad+diffusion",
    ],
)
def test_a_photo_finds_its_cover(covers: wherein.Collection, cover: Cover, method: str) -> None:
    hits = covers.search(photo(cover(3)), method=method, k=9)
    assert hits[0].image_id == "cover3.png"
    everything = any(word in method for word in ("toy", "qe", "diffusion"))
    assert len(hits) == (9 if everything else 8)  # the plain one shares nothing with it
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits.method == method


def test_verified_hits_say_how_many_matches_agree_and_where(covers: wherein.Collection, cover: Cover) -> None:
    # Asked with a cover, among photos: the cover's outline is where it lies.
    covers.add(("photo", photo(cover(2))), layers=LAYERS)
    hits = covers.search(cover(2), method="bow+sp", k=10)
    assert {hits[0].image_id, hits[1].image_id} == {"cover2.png", "photo"}
    found = next(hit for hit in hits if hit.image_id == "photo")
    assert found.inliers is not None
    assert found.inliers >= 40
    assert found.score == found.inliers
    assert found.box is not None
    assert np.allclose(found.box.xyxy, (0.5, 0.1, 0.9, 0.9), atol=0.02)
    assert found.mask is not None
    assert found.mask.mean() == pytest.approx(0.4 * 0.8, abs=0.02)
    assert hits.score_kind == "inliers"
    assert all(hit.inliers == 0 and hit.score < 1 for hit in hits[2:])


@pytest.mark.parametrize(("method", "within"), [("toy+bow", 2), ("toy+bow+sp", 1)])
def test_what_stands_on_the_same_ground_is_not_the_same_thing(
    covers: wherein.Collection, cover: Cover, method: str, within: int
) -> None:
    """Without verification the ground and the thing are close: which comes first is the luck of the codebook's seed."""

    def standing(thing: int) -> Any:
        ground = cover(40, size_wh=(640, 480)).copy()
        ground[120:360, 230:410] = cover(thing)[:240, 30:210]
        return ground

    covers.add(("other", standing(20)), layers=LAYERS)
    asked = standing(3)
    alone = covers.search(asked, method="bow+sp", k=10)
    assert alone[0].image_id == "other"  # by local features alone the ground wins
    hits = covers.search(asked, method=method, k=10)
    assert "cover3.png" in [hit.image_id for hit in hits[:within]]


def test_a_query_that_shows_nothing_known_verifies_nothing(covers: wherein.Collection, cover: Cover) -> None:
    for pixels in (cover(99), cover(3)[:, ::-1]):
        hits = covers.search(np.ascontiguousarray(pixels), method="bow+sp", k=9)
        assert [hit.inliers for hit in hits] == [0] * 8
        assert any("none of the first 8 shows what the example does" in note for note in hits.notes)


@pytest.mark.parametrize("size_hw", [(1, 1), (7, 300), (300, 300)], ids=str)
def test_a_query_without_texture_says_so(covers: wherein.Collection, size_hw: tuple[int, int]) -> None:
    plain = np.full((*size_hw, 3), 127, np.uint8)
    for method in ("bow", "asmk", "vlad", "toy+bow+sp"):
        assert "0 local features are too few" in covers.search(plain, method=method).notes[0]


def test_an_upside_down_query_is_found(covers: wherein.Collection, cover: Cover) -> None:
    hits = covers.search(np.ascontiguousarray(cover(5)[::-1, ::-1]), method="bow+sp")
    assert hits[0].image_id == "cover5.png"
    assert (hits[0].inliers or 0) >= 40


def test_a_region_of_the_example_is_enough(covers: wherein.Collection, cover: Cover) -> None:
    both = np.concatenate([cover(1), cover(6)], axis=1)
    part = wherein.Part(image=both, box=wherein.Box(0.5, 0.0, 1.0, 1.0))
    assert covers.search(part, method="bow+sp")[0].image_id == "cover6.png"
    assert {hit.image_id for hit in covers.search(both, method="bow+sp", k=2)} == {"cover1.png", "cover6.png"}


@pytest.mark.parametrize("kernel", ["bow", "vlad", "asmk", "mean"])
def test_regions_of_images_say_where(covers: wherein.Collection, cover: Cover, kernel: str) -> None:
    scene = np.full((640, 480, 3), 120, np.uint8)
    scene[320:, 240:] = cover(40)
    scene[:320, :240] = cover(41)
    covers.add(("scene", scene), layers=(*LAYERS, "proposals"))
    hits = covers.search(cover(40), method=f"{kernel}+static-5")
    assert hits[0].image_id == "scene"
    assert hits[0].box == wherein.Box(0.5, 0.5, 1.0, 1.0)
    # Another grid of as many cells is described anew.
    wider = covers.search(cover(40), method=f"{kernel}+static-5@0.2")[0]
    assert wider.box is not None
    assert wider.box.x1 < 0.5
    found = covers.search(cover(40), method=f"{kernel}+proposals")
    assert found[0].image_id == "scene"
    # A cover fills its image: the whole image is the best region, and a box as any other.
    whole = covers.search(cover(1), method=f"{kernel}+proposals")
    assert (whole[0].image_id, whole[0].box) == ("cover1.png", wherein.Box(0.0, 0.0, 1.0, 1.0))
    assert all(hit.box is not None for hit in whole)
    placed = wherein.Part(image=cover(40), where=wherein.Box(0.0, 0.0, 0.4, 0.4))
    assert covers.search(placed, method=f"{kernel}+static-5")[0].score < hits[0].score


def test_what_is_avoided_only_ever_subtracts(covers: wherein.Collection, cover: Cover) -> None:
    both = np.concatenate([cover(1), cover(6)], axis=1)
    avoided = wherein.Part(image=cover(6), negative=True)
    hits = covers.search([wherein.Part(image=both), avoided], method="bow", k=9)
    assert hits[0].image_id == "cover1.png"
    assert hits.score_kind == "standardised"
    plain = covers.search(both, method="bow", k=9)
    scores = [*(hit.score for hit in plain), 0.0]  # the plain image shares nothing with it
    mean, spread = np.mean(scores), np.std(scores)
    known = {hit.image_id: (hit.score - mean) / spread for hit in plain}
    assert all(hit.score <= known[hit.image_id] + 1e-4 for hit in hits)
    assert next(hit.score for hit in hits if hit.image_id == "cover1.png") == pytest.approx(
        known["cover1.png"], abs=0.3
    )
    verified = covers.search([wherein.Part(image=both), avoided], method="bow+sp", k=9)
    assert all(hit.score < 1 for hit in verified if not hit.inliers)


def test_verification_is_passed_on_to_what_a_hit_shows_too(covers: wherein.Collection, cover: Cover) -> None:
    """A query of the left half of a cover verifies the whole cover, not the picture of its right half."""
    left, right = cover(60)[:, :150], cover(60)[:, 110:]
    covers.add(("whole", cover(60)), ("right", np.ascontiguousarray(right)), layers=LAYERS)
    query = np.ascontiguousarray(left[:, :100])
    for method in ("bow+sp", "toy+bow+sp"):
        before = {hit.image_id: hit for hit in covers.search(query, method=method, k=11)}
        after = {hit.image_id: hit for hit in covers.search(query, method=f"{method}+propagate", k=11)}
        assert before["whole"].inliers == after["whole"].inliers
        assert before["right"].inliers == after["right"].inliers == 0
        assert all(after[name].inliers == 0 for name in after if name.startswith("cover"))
    covers.add(("twin", photo(cover(60))), layers=LAYERS)
    found = covers.search(query, method="bow+sp+propagate", k=3)
    assert {hit.image_id for hit in found[:2]} == {"whole", "twin"}


def test_a_hit_that_only_a_hit_shows_inherits(covers: wherein.Collection, cover: Cover) -> None:
    # The chain: a query too small for the blurred twin, which the sharp cover recognises.
    import cv2

    sharp = cover(70, size_wh=(480, 480))
    blurred = cv2.GaussianBlur(sharp, (0, 0), 2.5)
    covers.add(("sharp", sharp), ("blurred", np.asarray(blurred, np.uint8)), layers=LAYERS)
    corner = wherein.Part(image=sharp, box=wherein.Box(0.0, 0.0, 0.3, 0.3))
    plain = {hit.image_id: hit.inliers or 0 for hit in covers.search(corner, method="bow+sp", k=11)}
    passed = covers.search(corner, method="bow+sp+propagate", k=11)
    assert passed[0].image_id == "sharp"
    assert {hit.image_id: hit.inliers or 0 for hit in passed}["blurred"] >= plain["blurred"]


def test_verification_travels_over_several_hops_along_regions(covers: wherein.Collection, cover: Cover) -> None:
    """Blurred copies inherit from sharper ones; what stands beside the thing in one of them does not."""
    a = cover(80, size_wh=(300, 300))
    import cv2

    soft = np.asarray(cv2.GaussianBlur(a, (0, 0), 1.6), np.uint8)
    softer = np.asarray(cv2.GaussianBlur(a, (0, 0), 2.8), np.uint8)
    other = cover(81, size_wh=(300, 300))
    covers.add(
        ("soft", soft), ("softer", softer), ("pair", np.concatenate([soft, other], axis=1)), ("other", other),
        layers=LAYERS,
    )  # fmt: skip
    part = wherein.Part(image=a, box=wherein.Box(0.0, 0.0, 0.6, 0.6))
    plain = {hit.image_id: hit.inliers or 0 for hit in covers.search(part, method="bow+sp", k=13)}
    once = {hit.image_id: hit.inliers or 0 for hit in covers.search(part, method="bow+sp+propagate", k=13)}
    far = {hit.image_id: hit.inliers or 0 for hit in covers.search(part, method="bow+sp+hypergraph", k=13)}
    assert all(far[name] >= plain[name] for name in plain)
    assert far["softer"] >= once["softer"]
    assert far["pair"] > 0
    # What stands beside it in the pair is not the example: its own picture inherits nothing.
    assert far["other"] == 0
    assert all(far[name] == 0 for name in far if name.startswith("cover"))


def test_communities_and_their_entropy() -> None:
    near = {(1, 2), (2, 3), (5, 6)}
    groups = communities([1, 3, 2, 4, 5, 6], lambda a, b: (min(a, b), max(a, b)) in near)
    assert sorted(map(sorted, groups)) == [[1, 2, 3], [4], [5, 6]]
    assert communities([], lambda a, b: True) == []
    assert entropy([4]) == 0
    assert entropy([1, 1, 1]) == pytest.approx(np.log(3))
    assert entropy([]) == 0


def test_an_heir_of_two_hits_spans_both_regions() -> None:
    one = Candidate(1, 0.5, box=wherein.Box(0.0, 0.0, 0.5, 0.5), inliers=20)
    two = Candidate(1, 0.5, box=wherein.Box(0.4, 0.4, 0.9, 0.8), inliers=30)
    assert joined(None, one) is one
    both = joined(one, two)
    assert (both.inliers, both.box) == (30, wherein.Box(0.0, 0.0, 0.9, 0.8))


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("bow+propagate", "put it after sp"),
        ("bow+hypergraph", "put it after sp"),
        ("bow+dba", "use vlad or an encoder"),
        ("toy+theoretical+dba", "leave out theoretical"),
        ("bow+diffusion", "after an encoder or vlad, as mini\\+diffusion"),
        ("propagate", "put it after sp"),
        ("toy+sp", "give an example image"),
    ],
)
def test_steps_that_cannot_be_done_say_why(covers: wherein.Collection, cover: Cover, method: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        covers.search("red" if method == "toy+sp" else cover(3), method=method)


def test_what_shares_nothing_is_no_hit(covers: wherein.Collection) -> None:
    plain = np.full((200, 200, 3), 128, np.uint8)
    for method in ("bow", "asmk", "vlad", "bow+sp"):
        found = covers.search(plain, method=method)
        assert len(found) == 0
        assert any("too few to recognise" in note for note in found.notes)


def test_a_place_in_a_grid_of_words_is_looked_at(covers: wherein.Collection, cover: Cover) -> None:
    two = np.full((640, 960, 3), 120, np.uint8)
    two[:320, :240], two[320:, 720:] = cover(40), cover(41)
    turned = np.ascontiguousarray(two[::-1, ::-1])
    turned[:320, :240], turned[320:, 720:] = cover(41), cover(40)
    covers.add(("first", two), ("second", turned), layers=LAYERS)
    for name, corner in (("first", (0.0, 0.0, 0.3, 0.3)), ("second", (0.8, 0.8, 1.0, 1.0))):
        part = wherein.Part(image=cover(40), where=wherein.Box(*corner))
        hits = covers.search(part, method="bow+static-9", k=2)
        assert [hit.image_id for hit in hits][:1] == [name]
        assert hits[0].box is not None


@pytest.mark.parametrize("method", ["bow+sp", "toy+bow+sp"])
def test_what_was_verified_is_not_located_again(covers: wherein.Collection, cover: Cover, method: str) -> None:
    layers = (*LAYERS, "patches")
    covers.add(("photo", photo(cover(2))), layers=layers)
    covers.add(covers.folder.parent, layers=layers)
    plain, located = (covers.search(cover(2), method=method, k=4, locate=also) for also in (False, True))
    for one, two in zip(plain[:2], located[:2], strict=True):
        assert one.mask is not None
        assert (one.image_id, one.box) == (two.image_id, two.box)
        assert two.mask is not None
        assert (one.mask == two.mask).all()
    assert (located[3].mask is None) == (method == "bow+sp")  # where an encoder was asked too, it says what is alike


@pytest.mark.parametrize(("method", "kind"), [("bow+sp", "inliers"), ("toy+bow+sp", "evidence")])
def test_scores_of_certain_hits_are_not_cut_off(
    covers: wherein.Collection, cover: Cover, method: str, kind: str
) -> None:
    covers.add(("photo", photo(cover(2))), layers=LAYERS)
    hits = covers.search(cover(2), method=method, k=10)
    assert hits.score_kind == kind
    assert [hit.image_id for hit in hits[:2]] == ["cover2.png", "photo"]
    assert hits[0].score > hits[1].score > 20 > 1 > hits[-1].score  # 50 inliers or ln(10,000) nats were the most


def test_verifying_keeps_what_expansion_found(covers: wherein.Collection, cover: Cover) -> None:
    expanded = covers.search(cover(99), method="toy+qe", k=9)
    verified = covers.search(cover(99), method="toy+qe+sp", k=9)
    assert [hit.image_id for hit in verified] == [hit.image_id for hit in expanded]


def test_words_that_no_keypoints_confirm_leave_the_encoders_order(covers: wherein.Collection, cover: Cover) -> None:
    own = cover(3)[:, :, ::-1]  # other colours, and squares of it in another order: its words, no view of it
    squares = [own[y : y + 40, x : x + 40] for y in range(0, 200, 40) for x in range(0, 120, 40)]
    asked = np.ascontiguousarray(np.hstack([np.vstack(squares[first::3][::-1]) for first in (2, 0, 1)]))
    plain, words, verified = (covers.search(asked, method=method, k=9) for method in ("toy", "toy+bow", "toy+bow+sp"))
    assert not any(hit.inliers for hit in verified)
    assert [hit.image_id for hit in words] != [hit.image_id for hit in plain]
    assert [hit.image_id for hit in verified] == [hit.image_id for hit in plain]


def test_texts_are_refused_or_left_to_the_encoder(covers: wherein.Collection, cover: Cover) -> None:
    with pytest.raises(QueryError, match="understands no text: give an example image"):
        covers.search("red", method="bow")
    assert len(covers.search("red", method="toy+bow", k=3)) == 3
    mixed = covers.search(["red", wherein.Part(image=photo(cover(4)))], method="toy+bow+sp", k=3)
    assert mixed[0].image_id == "cover4.png"


def test_a_collection_without_the_layer_says_how_to_add_it(shelf: Path, cover: Cover) -> None:
    with wherein.open(shelf, create=True, encoder="toy") as plain:
        plain.add(shelf)
        for method in ("bow", "toy+sp"):
            with pytest.raises(InputError, match=r"has no local layer of rootsift.*--layers local"):
                plain.search(cover(1), method=method)
        plain.add(layers=LAYERS)
        assert plain.search(cover(1), method="bow")[0].image_id == "cover1.png"


def test_new_images_are_described_with_the_old_codebook(covers: wherein.Collection, shelf: Path, cover: Cover) -> None:
    covers.search(cover(1), method="bow")
    [codebook] = (covers.folder / "derived").rglob("codebook@auto.npy")
    before = codebook.read_bytes()
    PIL.Image.fromarray(cover(50)).save(shelf / "new.png")
    covers.add(layers=LAYERS)
    assert covers.search(photo(cover(50)), method="bow")[0].image_id == "new.png"
    assert codebook.read_bytes() == before
    covers.remove("cover1.png")
    covers.compact()
    assert covers.search(photo(cover(50)), method="bow+sp")[0].image_id == "new.png"
    assert "cover1.png" not in {hit.image_id for hit in covers.search(cover(1), method="bow")}


def test_what_is_derived_can_be_deleted(covers: wherein.Collection, shelf: Path, cover: Cover) -> None:
    before = covers.search(photo(cover(1)), method="bow")
    shutil.rmtree(covers.folder / "derived")
    with wherein.open(shelf) as again:
        assert [hit.score for hit in again.search(photo(cover(1)), method="bow")] == [hit.score for hit in before]


def test_the_layer_states_its_bytes(covers: wherein.Collection) -> None:
    [layer] = [layer for layer in covers.info().layers if layer.kind == "local"]
    assert layer.encoder == "rootsift"
    assert layer.images == 9
    assert 0 < layer.bytes_per_image < 134 * 1000 + 100


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("toy+qe", "cosine"),
        ("toy+qe~average", "cosine"),
        ("toy+dba", "cosine"),
        ("toy+dba~ranked+qe~ranked", "cosine"),
        ("toy+diffusion", "diffusion"),
    ],
)
def test_whole_ranking_steps_rank_every_image_once(
    covers: wherein.Collection, cover: Cover, method: str, kind: str
) -> None:
    hits = covers.search(cover(3), method=method, k=9)
    assert len({hit.image_id for hit in hits}) == 9
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits.score_kind == kind


def test_expansion_needs_cosines(covers: wherein.Collection, cover: Cover) -> None:
    with pytest.raises(QueryError, match="as mini\\+qe"):
        covers.search(cover(3), method="bow+qe")


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("bow", Words("bow")),
        ("asmk:rootsift:upright", Words("asmk", "rootsift:upright")),
        ("vlad@32", Words("vlad", "", 32)),
        ("bow:rootsift:dense@65536", Words("bow", "rootsift:dense", 65536)),
    ],
)
def test_kernel_words_parse_and_name_their_layer(word: str, words: Words) -> None:
    method = Method.parse(f"{word}+sp")
    assert method.words == words
    assert str(method) == f"{word}+sp"
    assert method.layers == ("global", f"local:{words.features}" if words.features else "local")


@pytest.mark.parametrize(
    ("method", "said"), [("bow@many", "is no number of words"), ("bag", "Local: bow, vlad, asmk, mean")]
)
def test_wrong_words_are_answered(method: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        Method.parse(method)


@pytest.mark.parametrize(
    "method", ["bow+sp+propagate", "toy+dba", "toy+bow+sp~affine", "toy+qe~average", "asmk+static-5"]
)
def test_every_door_gives_the_same_answer(
    covers: wherein.Collection, shelf: Path, cover: Cover, serve: Callable[..., str], tmp_path: Path, method: str
) -> None:
    PIL.Image.fromarray(photo(cover(3))).save(tmp_path / "photo.png")
    expected = [(hit.image_id, hit.inliers) for hit in covers.search(tmp_path / "photo.png", method=method, k=9)]
    remote = wherein.connect(serve(shelf)).search(tmp_path / "photo.png", method=method, k=9)
    assert [(hit.image_id, hit.inliers) for hit in remote] == expected
    words = [
        "search",
        "--image",
        str(tmp_path / "photo.png"),
        "--method",
        method,
        "-k",
        "9",
        "--json",
        "-c",
        str(shelf),
    ]
    run = CliRunner().invoke(app, words)
    assert [(hit["image_id"], hit["inliers"]) for hit in json.loads(run.stdout)["hits"]] == expected


@pytest.mark.parametrize("method", ["bow", "vlad", "asmk", "toy+bow", "bow+static-5", "vlad+dba", "bow+sp"])
def test_a_copy_is_found_beside_its_original(
    covers: wherein.Collection, shelf: Path, cover: Cover, method: str
) -> None:
    before = covers.search(cover(3), method=method, k=9)
    shutil.copyfile(shelf / "cover3.png", shelf / "again.png")
    covers.add(shelf)
    hits = covers.search(cover(3), method=method, k=10)
    assert [hit.image_id for hit in hits[:2]] == ["again.png", "cover3.png"]
    assert hits[0].score == hits[1].score
    assert {hit.image_id for hit in hits} == {"again.png", *(hit.image_id for hit in before)}


def test_the_mask_of_an_example_is_not_read_for_every_candidate(
    covers: wherein.Collection, cover: Cover, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outline = np.zeros((320, 240), np.uint8)
    outline[20:300, 20:220] = 255
    PIL.Image.fromarray(outline).save(tmp_path / "mask.png")
    part, reads = wherein.Part(image=cover(3), mask=tmp_path / "mask.png"), list[str]()

    def noted(source: Any) -> Any:
        reads.append(str(source))
        return read_mask(source)

    monkeypatch.setattr("wherein.values.query.read_mask", noted)
    assert covers.search(part, method="toy+sp", k=8)[0].image_id == "cover3.png"
    few = len(reads)
    covers.add(*[(f"more{seed}", cover(seed)) for seed in range(20, 40)])
    reads.clear()
    assert covers.search(part, method="toy+sp", k=28)[0].image_id == "cover3.png"
    assert len(reads) == few
