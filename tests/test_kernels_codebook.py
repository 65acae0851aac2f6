"""Visual words: nearest centroids, trained once, kept with a digest."""

from pathlib import Path

import numpy as np
import pytest

from wherein.arrays import unit
from wherein.errors import CollectionCorrupt, InputError
from wherein.kernels.codebook import Codebook, default_words


def sample(n: int, d: int = 16) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(3).normal(size=(n, d)).astype(np.float32)


def test_the_nearest_centroid_is_the_word() -> None:
    codebook = Codebook(np.eye(3, dtype=np.float32))
    rows = np.array([[0.9, 0.1, 0], [0, 0.2, 0.8]], np.float32)
    assert codebook.words(rows).tolist() == [[0], [2]]
    assert codebook.words(rows, nearest=2).tolist() == [[0, 1], [2, 1]]
    assert codebook.words(rows[:0]).shape == (0, 1)


def test_few_descriptors_are_their_own_words() -> None:
    assert len(Codebook.train(sample(10), words=100)) == 10


@pytest.mark.parametrize("words", [16, 2048], ids=["one level", "two levels"])
def test_training_gives_the_words_asked_for_and_the_same_again(words: int) -> None:
    rows = sample(6000)
    one, two = Codebook.train(rows, words=words), Codebook.train(rows, words=words)
    assert len(one) == words
    assert one.digest == two.digest
    assert Codebook.train(rows, words=words, seed=5).digest != one.digest


def test_words_explain_more_than_one_centroid_does() -> None:
    rows = sample(3000)
    codebook = Codebook.train(rows, words=2048)
    left = ((rows - codebook.centroids[codebook.words(rows)[:, 0]]) ** 2).sum()
    assert left < 0.4 * ((rows - rows.mean(axis=0)) ** 2).sum()


def test_a_large_codebook_is_searched_by_parts_and_rarely_errs(tmp_path: Path) -> None:
    rows = sample(6000)
    codebook = Codebook(rows[:5000])
    exact = ((rows[5000:5200, None] - rows[None, :5000]) ** 2).sum(axis=2).argmin(axis=1)
    found = codebook.words(rows[5000:5200], nearest=3)
    assert (found[:, 0] == exact).mean() > 0.9
    apart = ((rows[5000:5200, None] - codebook.centroids[found]) ** 2).sum(axis=2)
    assert (np.diff(apart, axis=1) >= -1e-3).all()
    codebook.save(tmp_path / "codebook.npy")
    assert (tmp_path / "codebook.parts.npy").exists()
    assert (Codebook.load(tmp_path / "codebook.npy").words(rows[5000:5200], nearest=3) == found).all()


@pytest.mark.parametrize("words", [8, 5000], ids=["a small codebook", "one that is searched by parts"])
def test_nothing_has_no_words(words: int) -> None:
    codebook = Codebook(np.random.default_rng(0).random((words, 4), np.float32))
    assert codebook.words(np.zeros((0, 4), np.float32), nearest=3).shape == (0, 3)


def test_of_centroids_that_are_equally_far_the_lower_number_is_the_word() -> None:
    rows = unit(sample(5000))
    assert Codebook(np.repeat(rows[:8], 3, axis=0)).words(rows[:8])[:, 0].tolist() == list(range(0, 24, 3))
    twice = Codebook(np.concatenate([rows, rows]))
    found = twice.words(rows[:50], nearest=2)
    assert (found[:, 0] < 5000).all()
    assert (found[:, 1] == found[:, 0] + 5000).all()


def test_words_and_training_are_exact_in_any_order_of_their_sums() -> None:
    """Summed the other way round, and in double precision, everything is the same to the last bit."""
    rows = unit(sample(4000, d=128))
    codebook = Codebook.train(rows, words=64)
    back = Codebook.train(rows[::-1, ::1], words=64)
    assert codebook.digest == back.digest
    steps = np.rint(rows.astype(np.float64) * 1024).astype(np.int64)
    centroids = (codebook.centroids.astype(np.float64) * 1024).astype(np.int64)
    assert (centroids / 1024 == codebook.centroids).all()
    slowly = np.array([((row - centroids) ** 2).sum(axis=1).argmin() for row in steps])
    assert (codebook.words(rows)[:, 0] == slowly).all()


def test_a_sample_that_changes_a_little_keeps_most_of_its_words() -> None:
    rows = unit(sample(4000, d=128))
    other = rows.copy()
    other[::100] = unit(other[::100] + 0.004 * sample(40, d=128))
    changed = Codebook.train(other, words=1000)
    assert np.isin(changed.centroids, Codebook.train(rows, words=1000).centroids).all(axis=1).mean() > 0.5


def test_centroids_of_an_earlier_version_are_read_and_rounded(tmp_path: Path) -> None:
    rows = unit(sample(5000))
    np.save(tmp_path / "codebook.npy", rows)
    (tmp_path / "codebook.graph.npy").write_bytes(b"a graph of faiss, which nobody reads any more")
    read = Codebook.load(tmp_path / "codebook.npy")
    assert np.abs(read.centroids - rows).max() <= 0.5 / 1024
    assert (read.words(rows[:100])[:, 0] == np.arange(100)).mean() > 0.9


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    codebook = Codebook.train(sample(100), words=8)
    codebook.save(tmp_path / "codebook.npy")
    assert Codebook.load(tmp_path / "codebook.npy").digest == codebook.digest
    (tmp_path / "codebook.npy").write_bytes(b"nonsense")
    with pytest.raises(CollectionCorrupt, match="is made again"):
        Codebook.load(tmp_path / "codebook.npy")


@pytest.mark.parametrize("words", [0, 1_000_001])
def test_impossible_sizes_are_refused(words: int) -> None:
    with pytest.raises(InputError, match="choose 1 to 1,000,000"):
        Codebook.train(sample(10), words=words)


@pytest.mark.parametrize(("features", "words"), [(0, 256), (2048, 256), (160_000, 16384), (10**9, 65536)])
def test_the_size_follows_the_collection(features: int, words: int) -> None:
    assert default_words(features) == words
