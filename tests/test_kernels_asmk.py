"""ASMK* and VLAD: by hand, and against slow, obvious versions."""

import numpy as np
import pytest

from wherein import plugins
from wherein.kernels import load_kernel
from wherein.kernels.asmk import POWER, Asmk, Signs
from wherein.kernels.bow import inverse_frequency
from wherein.kernels.codebook import Codebook
from wherein.kernels.mean import mean
from wherein.kernels.vlad import vlad

Rows = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def unit_rows(seed: int, n: int, d: int = 16) -> Rows:
    rows = np.random.default_rng(seed).normal(size=(n, d))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def naive(query: Rows, documents: list[Rows], codebook: Codebook, *, nearest: int) -> list[float]:
    """Tolias et al., word by word in loops."""

    def aggregate(rows: Rows, count: int) -> dict[int, Rows]:
        sums = dict[int, Rows]()
        for row, own in zip(rows, codebook.words(rows, nearest=count), strict=True):
            for word in own.tolist():
                sums[word] = sums.get(word, np.zeros_like(row)) + row - codebook.centroids[word]
        return {word: np.where(total > 0, 1.0, -1.0).astype(np.float32) for word, total in sums.items()}

    signs = [aggregate(rows, 1) for rows in documents]
    present = np.array([sum(word in own for own in signs) for word in range(len(codebook))])
    idf = inverse_frequency(present, documents=len(documents))
    asked = aggregate(query, nearest)
    scores = []
    for own in signs:
        cosines = {word: float(asked[word] @ own[word]) / len(own[word]) for word in asked.keys() & own.keys()}
        total = sum(idf[word] * max(cosine, 0.0) ** POWER for word, cosine in cosines.items())
        length = sum(idf[word] for word in own) * sum(idf[word] for word in asked)
        scores.append(total / np.sqrt(length) if length else 0.0)
    return scores


def test_it_equals_the_naive_kernel() -> None:
    codebook = Codebook(unit_rows(0, 12))
    documents = [unit_rows(seed, 5 + 3 * seed) for seed in range(1, 7)] + [unit_rows(9, 0)]
    kernel = Asmk(codebook)
    kernel.build([kernel.describe(rows) for rows in documents])
    query = np.concatenate([documents[2][:6], unit_rows(8, 4)])
    assert kernel.scores(query).tolist() == pytest.approx(naive(query, documents, codebook, nearest=3), abs=1e-5)


def test_signs_by_hand() -> None:
    codebook = Codebook(np.array([[1, 0], [0, 1]], np.float32))
    signs = Signs.of(np.array([[0.9, 0.3], [0.9, -0.1]], np.float32), codebook)
    # Both fall into word 0; their differences sum to (−0.2, 0.2): signs 0 1, packed from the left.
    assert signs.words.tolist() == [0]
    assert signs.bits.tolist() == [[0b01000000]]


@pytest.mark.parametrize("word", sorted(plugins.table("kernels")))
def test_every_kernel_finds_the_document_itself_and_nothing_in_nothing(word: str) -> None:
    codebook = Codebook(unit_rows(0, 200))
    documents = [unit_rows(seed, 30) for seed in range(1, 6)]
    kernel = load_kernel(word, codebook)
    kernel.build([kernel.describe(rows) for rows in [*documents, documents[0][:0]]])
    for number, rows in enumerate(documents):
        scores = kernel.scores(rows)
        assert int(scores.argmax()) == number
        assert abs(scores[-1]) < 1e-6
    assert np.abs(kernel.scores(documents[0][:0])).max() < 1e-6
    empty = load_kernel(word, codebook)
    empty.build([])
    assert len(empty.scores(documents[0])) == 0


def test_vlad_by_hand() -> None:
    codebook = Codebook(np.array([[1, 0], [0, 1]], np.float32))
    # One descriptor near word 0, off by (−0.4, 0.3); that part has length ½ and becomes (−0.8, 0.6), then roots.
    found = vlad(np.array([[0.6, 0.3]], np.float32), codebook)
    roots = np.array([-np.sqrt(0.8), np.sqrt(0.6), 0, 0])
    assert found.tolist() == pytest.approx((roots / np.linalg.norm(roots)).tolist(), abs=1e-6)


def test_vlad_of_nothing_is_like_nothing() -> None:
    assert vlad(np.zeros((0, 2), np.float32), Codebook(np.eye(2, dtype=np.float32))).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("word", sorted(plugins.table("kernels")))
def test_features_that_are_worth_nothing_are_as_if_they_were_not_there(word: str) -> None:
    codebook = Codebook(unit_rows(0, 12))
    documents = [unit_rows(seed, 20) for seed in range(1, 5)]
    kernel = load_kernel(word, codebook)
    kernel.build([kernel.describe(rows) for rows in documents])
    query = np.concatenate([documents[1], documents[3]])
    half = np.r_[np.ones(20, np.float32), np.zeros(20, np.float32)]
    assert kernel.scores(query, half).tolist() == pytest.approx(kernel.scores(documents[1]).tolist(), abs=1e-5)
    assert kernel.scores(query, np.ones(40, np.float32)).tolist() == pytest.approx(
        kernel.scores(query).tolist(), abs=1e-5
    )


def test_mean_by_hand() -> None:
    centre = np.array([0.5, 0.0], np.float32)
    found = mean(np.array([[0.5, 1.0], [1.5, 0.0]], np.float32), centre)
    assert found.tolist() == pytest.approx([np.sqrt(0.5), np.sqrt(0.5)])  # (0, 1) + (1, 0)
    assert mean(np.zeros((0, 2), np.float32), centre).tolist() == [0, 0]
    weighed = mean(np.array([[0.5, 1.0], [1.5, 0.0]], np.float32), centre, np.array([1.0, 0.0], np.float32))
    assert weighed.tolist() == pytest.approx([0, 1])
