# SPDX-License-Identifier: MIT
"""FAISS's conventions, against FAISS itself if it is installed, and against exact arithmetic.

Vectors of small whole numbers have exact sums in FAISS too, so whole results can be compared.
"""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import adjoin
from adjoin import faiss as ours

METRICS = [ours.METRIC_L2, ours.METRIC_INNER_PRODUCT, ours.METRIC_L1, ours.METRIC_Linf]


def vectors(seed: int, n: int, d: int) -> Any:
    return np.random.default_rng(seed).integers(-4, 5, (n, d)).astype(np.float32)


def by_distance_and_id(distances: Any, ids: Any, metric: int) -> Any:
    """FAISS leaves the order of ties open."""
    key = -distances if metric == ours.METRIC_INNER_PRODUCT else distances
    order = np.lexsort((np.where(ids < 0, len(ids) + 2**40, ids), key))
    return np.take_along_axis(distances, order, 1), np.take_along_axis(ids, order, 1)


@pytest.fixture
def theirs() -> Any:
    return pytest.importorskip("faiss")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n, d, k", [(50, 3, 1), (200, 8, 7), (5, 4, 9)])
def test_knn(theirs: Any, metric: int, n: int, d: int, k: int) -> None:
    queries, base = vectors(1, 40, d), vectors(2, n, d)
    # FAISS returns all vectors, so that its choice among ties at the k-th place does not matter.
    expected = by_distance_and_id(*theirs.knn(queries, base, max(n, k), metric=metric), metric)
    found = ours.knn(queries, base, k, metric=metric)
    for mine, right in zip(found, expected):
        assert mine.dtype == right.dtype and np.array_equal(mine, right[:, :k])
    index, other = ours.IndexFlat(d, metric), theirs.IndexFlat(d, metric)
    for each in (index, other):
        each.add(base[: n // 2])
        each.add(base[n // 2 :])
    assert (index.ntotal, index.d, index.metric_type, index.is_trained) == (n, d, other.metric_type, True)
    for mine, right in zip(index.search(queries, k), by_distance_and_id(*other.search(queries, max(n, k)), metric)):
        assert mine.dtype == right.dtype and np.array_equal(mine, right[:, :k])
    assert np.array_equal(index.reconstruct_n(1, 3), other.reconstruct_n(1, 3))
    assert np.array_equal(index.reconstruct(2), other.reconstruct(2))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("thresh", [-3.0, 0.0, 4.0, 9.0, 12.5, 30.0, np.inf])
def test_ranges(theirs: Any, metric: int, thresh: float) -> None:
    queries, base = vectors(3, 30, 5), vectors(4, 120, 5)
    index = theirs.IndexFlat(5, metric)
    index.add(base)
    expected = index.range_search(queries, thresh)
    for mine, right in zip(ours.range_search(queries, base, thresh, metric), expected):
        assert mine.dtype == right.dtype and np.array_equal(mine, right)


def test_nothing_is_there(theirs: Any) -> None:
    queries = vectors(1, 4, 3)
    for metric in METRICS:
        expected = theirs.IndexFlat(3, metric)
        for mine, right in zip(ours.IndexFlat(3, metric).search(queries, 2), expected.search(queries, 2)):
            assert mine.dtype == right.dtype and np.array_equal(mine, right)
        for mine, right in zip(ours.IndexFlat(3, metric).range_search(queries, 1), expected.range_search(queries, 1)):
            assert mine.dtype == right.dtype and np.array_equal(mine, right)


def fused(a: Any, b: Any) -> np.float32:
    """The canonical sum of squares, computed with fractions and rounded once per step."""
    total = np.float32(0)
    for t in (a - b).astype(np.float32):
        exact = Fraction(float(t)) ** 2 + Fraction(float(total))
        near = np.float32(float(exact))
        candidates = [np.nextafter(near, np.float32(-1)), near, np.nextafter(near, np.float32(np.inf))]
        total = min(candidates, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(np.int32)) & 1))
    return total


def test_thresholds_between_squares() -> None:
    rng = np.random.default_rng(5)
    queries, base = rng.random((6, 3)).astype(np.float32), rng.random((25, 3)).astype(np.float32)
    squares = np.array([[fused(a, b) for b in base] for a in queries])
    assert np.array_equal(ours.knn(queries, base, 25)[0], np.sort(squares, axis=1))
    for value in squares.ravel()[::7]:
        for thresh in (np.nextafter(value, np.float32(0)), value, np.nextafter(value, np.float32(9))):
            lims, distances, ids = ours.range_search(queries, base, float(thresh))
            expected = [np.flatnonzero(row < thresh) for row in squares]
            assert lims.tolist() == np.cumsum([0, *map(len, expected)]).tolist()
            assert ids.tolist() == np.concatenate(expected).tolist()
            assert distances.tolist() == squares[squares < thresh].tolist()


def test_far_from_the_origin() -> None:
    """Vectors for which FAISS's expansion of the square loses all digits."""
    base = np.float32(30_000) + np.arange(1000, dtype=np.float32).reshape(-1, 1) * np.ones((1, 4), np.float32)
    distances, ids = ours.knn(base[:40], base, 2)
    assert ids[:, 0].tolist() == list(range(40)) and distances[:, 0].tolist() == 40 * [0.0]
    assert distances[:, 1].tolist() == 40 * [4.0] and ids[:3, 1].tolist() == [1, 0, 1]


def test_results_go_into_arrays_of_the_caller() -> None:
    index = ours.IndexFlatL2(3)
    index.add(vectors(1, 20, 3))
    distances, ids = np.empty((4, 2), np.float32), np.empty((4, 2), np.int64)
    found = index.search(vectors(2, 4, 3), 2, D=distances, I=ids)
    assert found[0] is distances and found[1] is ids
    assert np.array_equal(ids, index.search(vectors(2, 4, 3), 2)[1])
    assert np.array_equal(index.assign(vectors(2, 4, 3)), ids[:, :1])
    with pytest.raises(adjoin.ArgumentError, match=r"\(4, 3\)"):
        index.search(vectors(2, 4, 3), 2, D=np.empty((4, 3), np.float32))


def test_the_index_keeps_a_copy() -> None:
    base = vectors(1, 20, 3)
    index = ours.IndexFlatIP(3)
    index.add(base)
    expected = index.search(base, 3)
    base[:] = 7
    again = pickle.loads(pickle.dumps(index))
    assert np.array_equal(again.search(vectors(1, 20, 3), 3)[1], expected[1])
    index.reset()
    assert index.ntotal == 0 and index.search(base, 1)[1].tolist() == 20 * [[-1]]


def test_wrong_arguments() -> None:
    with pytest.raises(adjoin.ArgumentError, match="metric: 23"):
        ours.knn([[0.0]], [[0.0]], 1, metric=23)
    with pytest.raises(adjoin.ArgumentError, match="4 dimensions, those of the index 3"):
        ours.IndexFlatL2(3).add(vectors(1, 5, 4))
    with pytest.raises(adjoin.ArgumentError, match="there are 0 vectors"):
        ours.IndexFlatL2(3).reconstruct(0)
    with pytest.raises(adjoin.ArgumentError, match="k: 0"):
        ours.IndexFlatL2(3).search(vectors(1, 5, 3), 0)


def test_vectors_on_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or not adjoin.show_config("dicts")["devices"]:
        pytest.skip("there is no GPU")
    rng = np.random.default_rng(6)
    queries, base = rng.random((50, 24)).astype(np.float32), rng.random((3000, 24)).astype(np.float32)
    for metric in METRICS:
        expected = ours.knn(queries, base, 9, metric=metric)
        index = ours.IndexFlat(24, metric)
        index.add(torch.tensor(base[:1000]).cuda())
        index.add(torch.tensor(base[1000:]).cuda())
        there = torch.tensor(queries).cuda(), torch.tensor(base).cuda()
        for found in (
            ours.knn(*there, 9, metric=metric),
            index.search(there[0], 9),
            ours.knn_gpu(None, *there, 9, metric=metric),
            ours.knn_gpu(None, queries, base, 9, metric=metric, device=0),
        ):
            for mine, right in zip(found, expected):
                assert np.array_equal(torch.as_tensor(mine).cpu().numpy(), right)
