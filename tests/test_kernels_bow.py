"""Bags of words: by hand, and against a dense product."""

import numpy as np
import pytest

from wherein.kernels.bow import BagOfWords, Bags, inverse_frequency, spans
from wherein.kernels.codebook import Codebook


def words(*numbers: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    return np.array(numbers, np.int32)


def test_no_documents_no_scores() -> None:
    assert Bags.build([], words=4).scores(words(1, 2)).tolist() == []


def test_by_hand() -> None:
    # Word 0 is in both documents, word 1 in the first only: idf is ln(2.5/2) and ln(2.5/1).
    bags = Bags.build([words(0, 1), words(0)], words=3)
    common, rare = np.log(2.5 / 2), np.log(2.5)
    assert bags.idf.tolist() == pytest.approx([common, rare, 0.0])
    expected = [common / np.hypot(common, rare), 1.0]
    assert bags.scores(words(0)).tolist() == pytest.approx(expected, abs=1e-6)


def test_repeats_count_as_roots() -> None:
    bags = Bags.build([words(1, 1, 1, 1, 2), words(3)], words=4)
    # √4 · idf against 1 · idf: the query of word 1 alone has cosine 2/√5.
    assert bags.scores(words(1))[0] == pytest.approx(2 / np.sqrt(5), abs=1e-6)


def test_a_document_finds_itself_with_score_one_and_the_wordless_nothing() -> None:
    bags = Bags.build([words(0, 1, 1), words(), words(2)], words=3)
    assert bags.scores(words(1, 0, 1)).tolist() == pytest.approx([1.0, 0.0, 0.0], abs=1e-6)
    assert bags.scores(words()).tolist() == [0.0, 0.0, 0.0]


def test_the_inverted_file_equals_a_dense_product() -> None:
    random = np.random.default_rng(4)
    documents = [random.zipf(1.3, int(random.integers(0, 200))).astype(np.int64) % 500 for _ in range(60)]
    bags = Bags.build([own.astype(np.int32) for own in documents], words=500)
    counts = np.stack([np.bincount(own, minlength=500) for own in documents])
    idf = inverse_frequency((counts > 0).sum(axis=0), documents=60)
    dense = np.sqrt(counts) * idf
    dense /= np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-12)
    query = documents[7]
    row = np.sqrt(np.bincount(query, minlength=500)) * idf
    assert np.allclose(bags.scores(query.astype(np.int32)), dense @ (row / np.linalg.norm(row)), atol=1e-5)


def test_the_order_of_words_and_documents_changes_nothing() -> None:
    documents = [words(0, 1, 2), words(2, 2), words(3, 0)]
    one = Bags.build(documents, words=4).scores(words(2, 0))
    two = Bags.build([own[::-1] for own in documents[::-1]], words=4).scores(words(0, 2))
    assert np.allclose(one, two[::-1])


def test_one_document_is_still_found() -> None:
    assert Bags.build([words(1)], words=2).scores(words(1)).tolist() == pytest.approx([1.0])


def test_ranges_one_after_the_other() -> None:
    assert spans(np.array([5, 9, 2]), np.array([2, 1, 0])).tolist() == [5, 6, 9]
    assert spans(np.array([], np.int64), np.array([], np.int64)).tolist() == []


def test_the_kernel_goes_through_its_bytes() -> None:
    kernel = BagOfWords(Codebook(np.eye(4, dtype=np.float32)))
    rows = np.eye(4, dtype=np.float32)
    kernel.build([kernel.describe(rows[:2]), kernel.describe(rows[2:]), kernel.describe(rows[:0])])
    assert kernel.scores(rows[:2]).tolist() == pytest.approx([1.0, 0.0, 0.0], abs=1e-6)


def test_a_word_counts_as_much_as_the_features_in_it_are_worth() -> None:
    bags = Bags.build([words(0), words(1), words(2)], words=3)
    assert bags.scores(words(0, 1), np.array([0.0, 1.0], np.float32)).tolist() == pytest.approx([0, 1, 0], abs=1e-6)
    # Worth 4 and 1, as if one had come four times: roots 2 and 1.
    found = bags.scores(words(0, 1), np.array([4.0, 1.0], np.float32))
    assert found.tolist() == pytest.approx(bags.scores(words(0, 0, 0, 0, 1)).tolist(), abs=1e-6)
    assert found[0] == pytest.approx(2 * found[1])
