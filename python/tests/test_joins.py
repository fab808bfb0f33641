# SPDX-License-Identifier: MIT
"""The plain functions against the reference: types, layouts, shapes."""

from __future__ import annotations

from typing import Any

import brute
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjoin

METRICS = ["euclidean", "manhattan", "chebyshev"]
DTYPES = [np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64, np.uint16, ">f8", "<f4", np.bool_]


@st.composite
def point_sets(draw: Any, dim: int | None = None) -> Any:
    """Points with small whole numbers, so that distances are exact in every type, in any layout."""
    rows = draw(st.integers(0, 40))
    dim = dim or draw(st.integers(1, 9))
    values = np.random.default_rng(draw(st.integers(0, 2**32))).integers(0, draw(st.integers(1, 9)), (rows, dim))
    array = values.astype(draw(st.sampled_from(DTYPES)))
    layout = draw(st.sampled_from(["plain", "fortran", "strided", "backwards", "columns", "readonly", "list", "odd"]))
    return lay_out(array, layout)


def lay_out(array: Any, layout: str) -> Any:
    rows, dim = array.shape
    if layout == "fortran":
        return np.asfortranarray(array)
    if layout == "strided":
        wide = np.zeros((2 * rows, dim), array.dtype)
        wide[::2] = array
        return wide[::2]
    if layout == "backwards":
        return array[::-1].copy()[::-1]
    if layout == "columns":
        wide = np.zeros((rows, 2 * dim), array.dtype)
        wide[:, ::2] = array
        return wide[:, ::2]
    if layout == "readonly":
        array.flags.writeable = False
    if layout == "list" and rows:
        return array.tolist()
    if layout == "odd":
        raw = np.zeros(array.nbytes + 1, np.uint8)
        out = raw[1:].view(array.dtype).reshape(array.shape)
        out[...] = array
        return out
    return array


def expected_type(points: Any) -> Any:
    kind = np.asarray(points).dtype
    return np.float32 if kind.kind == "f" and kind.itemsize <= 4 else np.float64


def plain(points: Any) -> Any:
    array = np.asarray(points).astype(np.float64)
    return array


@given(point_sets(), st.integers(0, 6), st.sampled_from(METRICS))
def test_range_self(points: Any, radius: int, metric: str) -> None:
    if len(np.shape(points)) < 2:
        return
    result = adjoin.range_join(points, radius=radius, metric=metric, distances=True)
    assert [row.tolist() for row in result] == brute.within(plain(points), None, radius, metric)
    assert result.distances.dtype == expected_type(points)
    rows, columns, distances = result.to_coo()
    assert np.allclose(distances, brute.matrix(plain(points), plain(points), metric)[rows, columns], rtol=1e-6)
    assert adjoin.count(points, radius=radius, metric=metric).tolist() == result.counts.tolist()
    assert adjoin.count(points, radius=radius, metric=metric, total=True) == len(result.indices)
    once = adjoin.pairs(points, radius=radius, metric=metric)
    assert sorted(map(tuple, once.tolist())) == [(i, j) for i, j in result.edge_index.T.tolist() if i < j]


@given(st.integers(1, 6).flatmap(lambda dim: st.tuples(point_sets(dim), point_sets(dim))), st.data())
def test_two_sets(sets: Any, data: Any) -> None:
    a, b = sets
    if 0 in (len(a), len(b)) and not (hasattr(a, "shape") and hasattr(b, "shape")):
        return
    metric = data.draw(st.sampled_from(METRICS))
    k = data.draw(st.sampled_from([1, 2, 5, 41, 1000]))
    radii = np.random.default_rng(len(a)).integers(0, 6, len(a))
    result = adjoin.range_join(a, b, radius=radii, metric=metric)
    assert [row.tolist() for row in result] == brute.within(plain(a), plain(b), radii, metric)
    distances, ids = adjoin.knn_join(a, b, k=k, metric=metric)
    expected_distances, expected_ids = brute.nearest(plain(a), plain(b), k, metric)
    assert np.array_equal(ids, expected_ids)
    assert np.allclose(distances, expected_distances, rtol=1e-6)
    index = adjoin.Index(b, metric=metric)
    asked = index.knn(a, k)
    assert np.array_equal(asked[1], ids)
    assert np.array_equal(asked[0], distances)
    assert np.array_equal(index.range(a, radii).indices, result.indices)
    assert np.array_equal(index.count(a, radii), result.counts)


@given(point_sets(), st.sampled_from([1, 3, 40, 500]))
def test_nearest_self(points: Any, k: int) -> None:
    if len(np.shape(points)) < 2:
        return
    distances, ids = adjoin.knn_join(points, k=k)
    expected_distances, expected_ids = brute.nearest(plain(points), None, k)
    assert np.array_equal(ids, expected_ids)
    assert np.allclose(distances, expected_distances, rtol=1e-6)
    assert distances.dtype == expected_type(points)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 40), st.booleans(), st.booleans())
def test_select_k(rows: int, columns: int, k: int, largest: bool, single: bool) -> None:
    values = np.random.default_rng(rows * 31 + columns).integers(0, 9, (rows, columns)).astype("f4" if single else "f8")
    best, where = adjoin.select_k(values, k, largest=largest)
    for i in range(rows):
        order = np.argsort(-values[i] if largest else values[i], kind="stable")[:k]
        assert where[i].tolist() == order.tolist() + [-1] * (k - len(order))
        assert best[i, : len(order)].tolist() == values[i, order].tolist()
    assert best.dtype == values.dtype


def test_one_dimension() -> None:
    points = np.array([0.0, 1.0, 1.5])
    assert [row.tolist() for row in adjoin.range_join(points, radius=1)] == [[1], [0, 2], [1]]
    assert adjoin.Index(points).knn([0.9, 0.1])[1].tolist() == [[1], [0]]


@pytest.mark.parametrize("empty", [[], (), np.array([]), np.empty((0, 3))])
def test_no_points(empty: Any) -> None:
    """An empty list has as many dimensions as the other set."""
    points = np.random.default_rng(3).random((5, 3))
    assert len(adjoin.range_join(empty, radius=1)) == 0
    found = adjoin.range_join(empty, points, radius=1, distances=True)
    assert found.shape == (0, 5) and len(found.indices) == 0
    assert adjoin.range_join(points, empty, radius=1).indptr.tolist() == [0] * 6
    assert adjoin.knn_join(empty, points, k=2)[1].shape == (0, 2)
    assert adjoin.knn_join(points, empty, k=2)[1].tolist() == [[-1, -1]] * 5
    assert adjoin.count(points, empty, radius=1).tolist() == [0] * 5
    assert adjoin.pairs(empty, points, radius=1).shape == (0, 2)
    assert list(adjoin.blocks(empty, points, radius=1)) == []
    index = adjoin.Index(points)
    assert index.knn(empty, 2)[1].shape == (0, 2) and len(index.range(empty, 1.0)) == 0
    assert index.count(empty, 1.0).shape == (0,) and index.count(empty, 1.0, total=True) == 0
    if np.shape(empty) == (0,):
        with pytest.raises(adjoin.ArgumentError, match=r"queries have 3 .* has 1; .* of shape \(0, 3\)"):
            adjoin.Index(empty).knn(points, 1)
    with pytest.raises(adjoin.ArgumentError, match=r"a: the points have no coordinates \(shape \(1, 0\)\)"):
        adjoin.range_join([[]], points, radius=1)


def test_arrays_are_not_copied_and_outlive_the_join() -> None:
    points = np.random.default_rng(1).random((1000, 3))
    result = adjoin.range_join(points, radius=0.2, distances=True)
    distances, ids = adjoin.knn_join(points, k=4)
    copies = [array.copy() for array in (result.indptr, result.indices, result.distances, distances, ids)]
    assert not result.indices.flags.owndata and not ids.flags.owndata
    kept = [result.indptr, result.indices, result.distances, distances, ids]
    del result, distances, ids, points
    for array, copy in zip(kept, copies):
        assert np.array_equal(array, copy)
        array[...] = 0  # writable, and not used by anything else


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_cannot_be_joined(bad: float) -> None:
    points = np.zeros((20, 3))
    points[7, 2] = bad
    calls = [
        lambda: adjoin.range_join(points, radius=1),
        lambda: adjoin.knn_join(points, k=1),
        lambda: adjoin.knn_join(np.zeros((2, 3)), points, k=1),
        lambda: adjoin.Index(points),
        lambda: adjoin.Index(np.zeros((2, 3))).knn(points),
    ]
    for call in calls:
        with pytest.raises(adjoin.DataError, match=r"row 7.*column 2"):
            call()
    with pytest.raises(ValueError):
        adjoin.count(points, radius=1)


def test_messages_name_the_argument() -> None:
    points, wrong = np.ones((3, 2)), np.array([[1.0, 1.0], [1.0, np.nan]])
    index, angles = adjoin.Index(points), adjoin.Index(points, metric="cosine")
    calls: list[tuple[str, Any]] = [
        ("a: row 1", lambda: adjoin.range_join(wrong, points, radius=1)),
        ("b: row 1", lambda: adjoin.range_join(points, wrong, radius=1)),
        ("b: row 1", lambda: adjoin.count(points, wrong, radius=1)),
        ("b: row 0", lambda: adjoin.knn_join(points, np.zeros((1, 2)), k=1, metric="cosine")),
        ("points: row 1", lambda: adjoin.Index(wrong)),
        ("queries: row 1", lambda: index.knn(wrong)),
        ("queries: coordinate 1", lambda: index.knn(wrong[1])),
        ("queries: row 0", lambda: angles.count(np.zeros((1, 2)), 1)),
        ("queries: ", lambda: index.knn("points")),
        ("queries: ", lambda: index.knn(3.0)),
        ("a: NoneType", lambda: adjoin.knn_join(None, k=1)),
        ("a: .*masked", lambda: adjoin.knn_join(np.ma.masked_invalid(wrong), k=1)),
        ("a: .*too large", lambda: adjoin.knn_join([[10**400]], k=1)),
        ("b has 2; a 1-D array", lambda: adjoin.knn_join([1.0, 1.0], points, k=1)),
        ("radius is not given", lambda: adjoin.count(points, radius=None)),
        ("radius: ", lambda: adjoin.count(points, radius="far")),
        (r"radius\[1\]", lambda: adjoin.count(points, radius=[1, -1, 1])),
        ("radius: .*single", lambda: adjoin.pairs(points, radius=[1, 1, 1])),
        ("weights: row 2", lambda: adjoin.dbscan(points, radius=1, weights=[1, 1, np.nan])),
        ("k: array", lambda: adjoin.knn_join(points, k=np.array([1, 2]))),  # type: ignore[arg-type]
        ("p: 'x'", lambda: adjoin.count(points, radius=1, p="x")),  # type: ignore[arg-type]
        ("box: 'x'", lambda: adjoin.count(points, radius=1, box="x")),  # type: ignore[arg-type]
        ("dtype: 'x'", lambda: adjoin.count(points, radius=1, dtype="x")),
        ("memory: ", lambda: adjoin.count(points, radius=1, memory=[1])),  # type: ignore[arg-type]
        ("device: 'cuda:0'", lambda: adjoin.count(points, radius=1, device="cuda:0")),  # type: ignore[arg-type]
        ("device: -1", lambda: adjoin.count(points, radius=1, device=-1)),
        ("format: 3", lambda: adjoin.write("none.npz", points, radius=1, format=3)),  # type: ignore[arg-type]
        ("values: ", lambda: adjoin.select_k([[1.0], [1.0, 2.0]], 1)),
    ]
    for message, call in calls:
        with pytest.raises(adjoin.Error, match=message):
            call()
    with pytest.raises(adjoin.OutOfMemoryError, match="k: "):
        adjoin.select_k([1.0, 2.0], 2**30, memory="1G")


def test_whole_numbers_of_numpy() -> None:
    points = np.zeros((3, 2))
    assert adjoin.knn_join(points, k=np.int64(2), threads=np.int64(1))[1].shape == (3, 2)  # type: ignore[arg-type]
    assert adjoin.select_k(np.ones((2, 3), ">f4"), np.int8(1))[0].dtype == np.float32  # type: ignore[arg-type]


def test_arguments_that_make_no_sense() -> None:
    points = np.zeros((4, 2))
    for wrong in (
        {"radius": -1.0},
        {"radius": float("nan")},
        {"radius": [1, 2]},
        {"radius": 1, "metric": "sound"},
        {"radius": 1, "backend": "cloud"},
        {"radius": 1, "order": "odd"},
        {"radius": 1, "threads": 0},
        {"radius": 1, "memory": "much"},
        {"radius": 1, "p": 0.5},
        {"radius": 1, "box": [[1.0]]},
    ):
        with pytest.raises(adjoin.ArgumentError):
            adjoin.range_join(points, **wrong)
    for k in (0, -1, 2**32):
        with pytest.raises(adjoin.ArgumentError):
            adjoin.knn_join(points, k=k)
    with pytest.raises(adjoin.ArrayTypeError):
        adjoin.knn_join(points, k=1.5)  # type: ignore[arg-type]
    with pytest.raises(adjoin.ArrayTypeError):
        adjoin.range_join(points.astype(complex), radius=1)
    with pytest.raises(adjoin.ArrayTypeError):
        adjoin.range_join(np.array([["a", "b"]]), radius=1)
    with pytest.raises(adjoin.ArgumentError):
        adjoin.range_join(np.zeros((2, 2, 2)), radius=1)
    with pytest.raises(adjoin.ArgumentError, match="2 dimensions and b has 3"):
        adjoin.range_join(points, np.zeros((4, 3)), radius=1)
    with pytest.raises(TypeError, match="speed"):
        adjoin.range_join(points, radius=1, speed="high")  # type: ignore[call-arg]
    with pytest.raises(adjoin.LimitError):
        adjoin.range_join(points, radius=1, max_pairs=3)
    for unlimited in (None, 0):
        assert len(adjoin.range_join(points, radius=1, max_pairs=unlimited).indices) == 12
    with pytest.raises(adjoin.ArrayTypeError, match="max_pairs: '3' is not a whole number"):
        adjoin.range_join(points, radius=1, max_pairs="3")  # type: ignore[arg-type]
    with pytest.raises(adjoin.OutOfMemoryError):
        adjoin.knn_join(np.zeros((100, 2)), k=2**31, memory="16M")
    assert issubclass(adjoin.OutOfMemoryError, MemoryError) and issubclass(adjoin.ArrayTypeError, TypeError)


def test_metrics_by_name() -> None:
    rng = np.random.default_rng(4)
    points = rng.random((50, 3))
    for names in (["euclidean", "l2"], ["manhattan", "cityblock", "l1"], ["chebyshev", "linf"], ["dot", "ip"]):
        answers = [adjoin.knn_join(points, k=3, metric=name)[1].tolist() for name in names]
        assert all(answer == answers[0] for answer in answers)
    by_p = adjoin.knn_join(points, k=3, p=3)[0]
    assert np.allclose(by_p[:, 0] ** 3, np.sort((np.abs(points[:, None] - points) ** 3).sum(-1))[:, 1])
    cosine = adjoin.knn_join(points, k=1, metric="cosine")[0][:, 0]
    unit = points / np.linalg.norm(points, axis=1)[:, None]
    assert np.allclose(cosine, 1 - np.sort(unit @ unit.T)[:, -2])
    place = [[-0.1276, 51.5072], [2.3522, 48.8566]]
    metres = adjoin.knn_join(place, k=1, metric="haversine")[0][0, 0]
    assert 342e3 < metres < 345e3
    with pytest.raises(adjoin.DataError):
        adjoin.range_join(np.zeros((3, 2)), radius=1, metric="cosine")


def test_box() -> None:
    points = np.array([[0.05, 0.5], [0.95, 0.5]])
    assert adjoin.count(points, radius=0.2, total=True) == 0
    assert adjoin.count(points, radius=0.2, total=True, box=1) == 2
    assert adjoin.count(points, radius=0.2, total=True, box=[1, 0]) == 2
    assert adjoin.count(points, radius=0.2, total=True, box=[0, 1]) == 0


def test_results_are_the_same_everywhere() -> None:
    points = np.random.default_rng(5).random((2000, 3)).astype(np.float32)
    first = adjoin.range_join(points, radius=0.1, distances=True)
    for options in ({"threads": 1}, {"backend": "reference"}, {"algorithm": "brute"}, {"memory": "1G"}):
        again = adjoin.range_join(points, radius=0.1, distances=True, **options)
        assert np.array_equal(first.indices, again.indices)
        assert np.array_equal(first.distances, again.distances)
