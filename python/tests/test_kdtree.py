# SPDX-License-Identifier: MIT
"""Our trees against SciPy's: the same calls must have the same results, types and exceptions."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjoin

spatial = pytest.importorskip("scipy.spatial")
NORMS = [1, 2, 2.5, 3, np.inf]


@st.composite
def trees(draw: Any) -> Any:
    """Points with whole numbers, which have exact distances and many ties, or with random ones, where ties are rare."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, dim = draw(st.integers(0, 60)), draw(st.integers(1, 5))
    values = rng.integers(0, 8, (rows, dim)) if draw(st.booleans()) else rng.random((rows, dim)) * 8
    data = values.astype(draw(st.sampled_from(["f8", "f4", "i4"])))
    box = draw(st.sampled_from([None, 9.0, [9.0] * (dim - 1) + [0]]))
    queries = rng.integers(-3, 12, (draw(st.integers(0, 20)), dim)) if draw(st.booleans()) else values
    which = draw(st.sampled_from([("KDTree", 10), ("cKDTree", 16)]))[0]
    return (
        getattr(adjoin, which)(data, boxsize=box),
        getattr(spatial, which)(data, boxsize=box),
        queries.astype(draw(st.sampled_from(["f8", "i8"]))),
    )


def same(ours: Any, theirs: Any) -> None:
    assert np.shape(ours) == np.shape(theirs)
    assert np.asarray(ours).dtype == np.asarray(theirs).dtype
    np.testing.assert_allclose(np.asarray(ours, float), np.asarray(theirs, float), rtol=1e-12, atol=1e-12)


@given(trees(), st.sampled_from([1, 2, 7, [1], [2, 5], 80]), st.sampled_from(NORMS), st.sampled_from([np.inf, 2, 0]))
def test_query(sets: Any, k: Any, p: float, bound: float) -> None:
    ours, theirs, queries = sets
    found = ours.query(queries, k, p=p, distance_upper_bound=bound)
    expected = theirs.query(queries, k, p=p, distance_upper_bound=bound)
    same(found[0], expected[0])
    assert found[1].dtype == expected[1].dtype and np.array_equal(found[1] == ours.n, expected[1] == ours.n)
    for query in queries[:3]:
        one, other = ours.query(query, k, p=p), theirs.query(query, k, p=p)
        same(one[0], other[0])
        assert type(one[0]) is type(other[0]) and type(one[1]) is type(other[1])


@given(trees(), st.sampled_from([0, 1, 2, 2.5, 5, np.inf, -1]), st.sampled_from(NORMS), st.booleans())
def test_balls(sets: Any, r: float, p: float, several: bool) -> None:
    ours, theirs, queries = sets
    radii = np.linspace(0, 4, len(queries)) if several else r
    found, expected = ours.query_ball_point(queries, radii, p=p), theirs.query_ball_point(queries, radii, p=p)
    assert found.dtype == expected.dtype and found.tolist() == expected.tolist()
    lengths = ours.query_ball_point(queries, radii, p=p, return_length=True)
    same(lengths, theirs.query_ball_point(queries, radii, p=p, return_length=True))
    assert ours.query_ball_csr(queries, radii, p=p).counts.tolist() == lengths.tolist()
    for query in queries[:3]:
        assert ours.query_ball_point(query, r, p=p) == sorted(theirs.query_ball_point(query, r, p=p))


@given(trees(), st.sampled_from([0, 1, 2.5, 100]), st.sampled_from(NORMS))
def test_pairs_of_trees(sets: Any, r: float, p: float) -> None:
    ours, theirs, queries = sets
    inside = np.mod(queries, 9)
    other, others = type(ours)(inside, boxsize=ours.boxsize), type(theirs)(inside, boxsize=theirs.boxsize)
    assert ours.query_ball_tree(other, r, p=p) == theirs.query_ball_tree(others, r, p=p)
    assert ours.query_ball_tree(ours, r, p=p) == theirs.query_ball_tree(theirs, r, p=p)
    assert ours.query_pairs(r, p=p) == theirs.query_pairs(r, p=p)
    found = ours.query_pairs(r, p=p, output_type="ndarray")
    assert found.dtype == np.intp and found.shape[1] == 2
    assert set(map(tuple, found.tolist())) == theirs.query_pairs(r, p=p)
    mine, reference = (
        a.sparse_distance_matrix(b, r, p=p, output_type="dict") for a, b in ((ours, other), (theirs, others))
    )
    assert mine.keys() == reference.keys()
    assert all(abs(mine[key] - reference[key]) < 1e-12 * (1 + reference[key]) for key in mine)
    for kind in ("coo_matrix", "dok_matrix", "ndarray"):
        one, two = (a.sparse_distance_matrix(b, r, p=p, output_type=kind) for a, b in ((ours, other), (theirs, others)))
        assert type(one) is type(two) and one.dtype == two.dtype and one.shape == two.shape
        if kind != "ndarray":
            assert abs(one - two).max() < 1e-12 if one.nnz else not two.nnz


@given(trees(), st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.5, 3.25, 11.0]), max_size=5), st.sampled_from(NORMS))
def test_counts(sets: Any, radii: Any, p: float) -> None:
    ours, theirs, _ = sets
    edges = np.sort(radii) + 0.01
    for r in (edges, 1.1):
        same(ours.count_neighbors(ours, r, p=p), theirs.count_neighbors(theirs, r, p=p))
        kind = type(theirs.count_neighbors(theirs, r, p=p))
        assert type(ours.count_neighbors(ours, r, p=p)) is kind
        same(
            ours.count_neighbors(ours, r, p=p, cumulative=False),
            theirs.count_neighbors(theirs, r, p=p, cumulative=False),
        )
        weights = np.linspace(0, 1, ours.n)
        if ours.n == 0:
            continue  # SciPy's fails with an IndexError
        for given_weights in (weights, (weights, None), (None, weights)):
            for cumulative in (True, False):
                mine = ours.count_neighbors(ours, r, p=p, weights=given_weights, cumulative=cumulative)
                reference = theirs.count_neighbors(theirs, r, p=p, weights=given_weights, cumulative=cumulative)
                assert np.allclose(mine, reference, rtol=1e-9, atol=1e-9) and np.shape(mine) == np.shape(reference)


CALLS: list[Any] = [
    lambda kind, x: kind([1.0, 2.0]),
    lambda kind, x: kind(x, leafsize=0),
    lambda kind, x: kind(x, boxsize=[1, 2]),
    lambda kind, x: kind(x, boxsize=0.01),
    lambda kind, x: kind(-x, boxsize=1),
    lambda kind, x: kind([["a"]]),
    lambda kind, x: kind(x * np.nan),
    lambda kind, x: kind(x).query(x[0], k=0),
    lambda kind, x: kind(x).query(x[0], k=[]),
    lambda kind, x: kind(x).query(x[0], k="a"),
    lambda kind, x: kind(x).query(x[0], k=None),
    lambda kind, x: kind(x).query(x[0], k=[[1, 2]]),
    lambda kind, x: kind(x).query(x[0], k=np.array(2)),
    lambda kind, x: kind(x).query(x[0], k=2.0),
    lambda kind, x: kind(x).query(x[0], p=0.5),
    lambda kind, x: kind(x).query(x[0], p=np.nan),
    lambda kind, x: kind(x).query(x[0], workers=0),
    lambda kind, x: kind(x).query(x[0], workers=1.5),
    lambda kind, x: kind(x).query(x[0], n_jobs=1),
    lambda kind, x: kind(x).query(1.0),
    lambda kind, x: kind(x).query(x[0] * np.inf),
    lambda kind, x: kind(x).query_ball_point(x[0], [1.0]),
    lambda kind, x: kind(x).query_ball_point(x[:3], [0.1, 0.2]),
    lambda kind, x: kind(x).query_ball_point(x[0], 0.3, p=0.5),
    lambda kind, x: kind(x).query_ball_point(x[0] + 100, 0.3, p=1e3),
    lambda kind, x: kind(x).query_ball_tree(x, 0.1),
    lambda kind, x: kind(x).query_ball_tree(kind(x[:, :2]), 0.1),
    lambda kind, x: kind(x).query_ball_tree(kind(x), [0.1]),
    lambda kind, x: kind(x).query_ball_tree(kind(x), np.nan),
    lambda kind, x: kind(x).query_pairs(0.1, output_type="list"),
    lambda kind, x: kind(x).query_pairs(0.1, p=0.5),
    lambda kind, x: kind(x).count_neighbors(kind(x), [[0.1]]),
    lambda kind, x: kind(x).count_neighbors(kind(x), [0.2, 0.1], cumulative=False),
    lambda kind, x: kind(x).count_neighbors(kind(x), 0.1, weights=np.ones(50)),
    lambda kind, x: kind(x).count_neighbors(kind(x), 0.1, weights=(np.ones(3), None)),
    lambda kind, x: kind(x).sparse_distance_matrix(kind(x), 0.1, output_type="list"),
    lambda kind, x: setattr(kind(x), "n", 3),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["KDTree", "cKDTree"])
def test_odd_arguments(name: str, call: Any) -> None:
    """The same exception or the same result as SciPy's."""
    points = np.random.default_rng(0).random((50, 3))

    def outcome(module: Any) -> Any:
        try:
            return repr(call(getattr(module, name), points))
        except Exception as reason:  # noqa: BLE001 - compared with SciPy's
            return type(reason)

    ours, theirs = outcome(adjoin), outcome(spatial)
    if isinstance(ours, type) and isinstance(theirs, type):
        assert issubclass(ours, theirs)
    else:
        assert ours == theirs


def test_other_trees_and_copies() -> None:
    points = np.random.default_rng(1).random((200, 3))
    ours, theirs = adjoin.KDTree(points), spatial.KDTree(points)
    assert ours.query_ball_tree(theirs, 0.1) == theirs.query_ball_tree(theirs, 0.1)
    again = pickle.loads(pickle.dumps(adjoin.KDTree(points, boxsize=1)))
    assert again.query_pairs(0.1) == spatial.KDTree(points, boxsize=1).query_pairs(0.1)
    assert np.shares_memory(ours.data, points) and ours.size == theirs.size and np.array_equal(ours.indices, theirs.indices)
    assert np.array_equal(ours.mins, theirs.mins) and np.array_equal(ours.maxes, theirs.maxes)


def test_the_points_themselves() -> None:
    """Queries equal to the tree's points use a self-join, which must have the same results."""
    points = np.random.default_rng(1).random((500, 2))
    tree = adjoin.KDTree(points)
    for same_points in (points, points.copy()):
        assert np.array_equal(tree.query(same_points, 3)[1], tree.query(points.copy(), 3)[1])
        assert tree.query_ball_point(same_points, 0.1).tolist() == tree.query_ball_point(points.copy(), 0.1).tolist()
        assert np.array_equal(
            tree.query_ball_csr(same_points, 0.1).indices, tree.query_ball_csr(points.copy(), 0.1).indices
        )
