# SPDX-License-Identifier: MIT
"""adjoin.sklearn against scikit-learn and brute force: the same results, types and exceptions, and logged fallbacks."""

from __future__ import annotations

import copy
import logging
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("sklearn")

import sklearn.cluster
import sklearn.neighbors
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import adjoin
import adjoin.sklearn as ours
import brute

METRICS = ["euclidean", "manhattan", "chebyshev", "minkowski", "cosine", "haversine"]
ESTIMATORS = [name for name in ours.__all__ if name != "dbscan"]


def theirs_of(name: str) -> Any:
    return getattr(sklearn.cluster if name == "DBSCAN" else sklearn.neighbors, name)


@st.composite
def sets(draw: Any) -> Any:
    """Points with whole numbers, which have exact distances and many ties, or with random ones, where ties are rare."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, dim = draw(st.integers(3, 60)), draw(st.integers(1, 5))
    whole = draw(st.booleans())
    points = rng.integers(0, 6, (rows, dim)) if whole else rng.random((rows, dim)) * 6
    queries = rng.integers(0, 6, (draw(st.integers(1, 20)), dim)) if whole else rng.random((7, dim)) * 6
    kind = draw(st.sampled_from(["f8", "f4", "i4"]))
    order = draw(st.sampled_from(["C", "F"]))
    return points.astype(kind, order=order), queries.astype(kind)


@given(sets(), st.sampled_from(["euclidean", "manhattan", "chebyshev"]), st.integers(1, 3), st.integers(0, 9))
def test_brute_force(both: Any, metric: str, k: int, radius: float) -> None:
    points, queries = both
    model = ours.NearestNeighbors(n_neighbors=k, radius=radius, metric=metric).fit(points)
    a, b = points.astype("f8"), queries.astype("f8")
    for asked, left, right in ((None, a, None), (queries, b, a)):
        if asked is None and k >= len(points):
            continue
        distances, ids = model.kneighbors(asked)
        expected = brute.nearest(left, right, k, metric)
        np.testing.assert_allclose(distances, expected[0], rtol=1e-12)
        if points.dtype == "i4":
            assert np.array_equal(ids, expected[1])
            rows = model.radius_neighbors(asked, return_distance=False)
            assert [row.tolist() for row in rows] == brute.within(left, right, radius, metric)


def sorted_rows(found: Any) -> list[Any]:
    """Rows by index, with their distances."""
    return [(ids[order], distances[order]) for distances, ids in zip(*found) for order in [np.argsort(ids)]]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", ["f8", "f4"])
@pytest.mark.parametrize("algorithm", ["auto", "brute"])
def test_neighbours(metric: str, kind: str, algorithm: str) -> None:
    rng = np.random.default_rng(1)
    points, queries = rng.random((200, 2)).astype(kind), rng.random((30, 2)).astype(kind)
    arguments = {"metric": metric, "p": 3, "algorithm": algorithm, "n_neighbors": 4, "radius": 0.2}
    mine = ours.NearestNeighbors(**arguments).fit(points)
    peer = sklearn.neighbors.NearestNeighbors(**arguments).fit(points)
    tolerance = 1e-5 if kind == "f4" or metric == "cosine" else 1e-11
    for asked in (None, queries):
        found, expected = mine.kneighbors(asked), peer.kneighbors(asked)
        np.testing.assert_allclose(found[0], expected[0], atol=tolerance)
        assert found[0].dtype == np.float64 and found[1].dtype == expected[1].dtype == np.intp
        assert np.array_equal(mine.kneighbors(asked, return_distance=False), found[1])
        if kind == "f4" or metric == "cosine":
            continue  # scikit-learn's rounding errors are larger here
        assert np.array_equal(found[1], expected[1])
        for ordered in (False, True):
            found = mine.radius_neighbors(asked, sort_results=ordered)
            expected = peer.radius_neighbors(asked, sort_results=ordered)
            assert found[0].shape == expected[0].shape and found[0].dtype == found[1].dtype == object
            for (ids, distances), (their_ids, their_distances) in zip(sorted_rows(found), sorted_rows(expected)):
                assert np.array_equal(ids, their_ids) and ids.dtype == their_ids.dtype
                np.testing.assert_allclose(distances, their_distances, atol=tolerance)
            assert not ordered or all((np.diff(row) >= 0).all() for row in found[0])
        for mode in ("connectivity", "distance"):
            graph, other = mine.radius_neighbors_graph(asked, mode=mode), peer.radius_neighbors_graph(asked, mode=mode)
            assert type(graph) is type(other) and graph.shape == other.shape and graph.dtype == other.dtype
            assert abs(graph - other).max() < 1e-11
            graph, other = mine.kneighbors_graph(asked, mode=mode), peer.kneighbors_graph(asked, mode=mode)
            assert type(graph) is type(other) and abs(graph - other).max() < 1e-11


@given(sets(), st.sampled_from([1, 1.5, 2, 100]), st.integers(1, 6), st.booleans())
def test_dbscan(both: Any, radius: float, min_samples: int, weighted: bool) -> None:
    points, _ = both
    weights = np.random.default_rng(2).integers(-1, 4, len(points)) / 2 if weighted else None
    mine = ours.DBSCAN(eps=radius, min_samples=min_samples).fit(points, sample_weight=weights)
    peer = sklearn.cluster.DBSCAN(eps=radius, min_samples=min_samples).fit(points, sample_weight=weights)
    assert np.array_equal(mine.labels_, peer.labels_) and mine.labels_.dtype == peer.labels_.dtype
    assert np.array_equal(mine.core_sample_indices_, peer.core_sample_indices_)
    assert np.array_equal(mine.components_, peer.components_) and mine.components_.dtype == peer.components_.dtype


@pytest.mark.parametrize("metric", METRICS)
def test_dbscan_of_many(metric: str) -> None:
    points = np.random.default_rng(3).random((3000, 2))
    radius = {"cosine": 1e-6, "haversine": 0.012}.get(metric, 0.012)
    arguments = {"eps": radius, "min_samples": 4, "metric": metric, "p": 3}
    mine, peer = ours.DBSCAN(**arguments).fit(points), sklearn.cluster.DBSCAN(**arguments).fit(points)
    assert peer.labels_.max() > 10
    assert np.array_equal(mine.labels_, peer.labels_)


def test_plain_dbscan() -> None:
    points = np.random.default_rng(4).random((500, 2))
    labels, core = adjoin.dbscan(points, radius=0.05, min_points=4)
    expected = sklearn.cluster.DBSCAN(eps=0.05, min_samples=4).fit(points)
    assert np.array_equal(labels, expected.labels_)
    assert np.array_equal(np.flatnonzero(core), expected.core_sample_indices_) and core.dtype == bool
    box = adjoin.dbscan([[0.05], [0.95], [0.5]], radius=0.15, min_points=2, box=1.0)
    assert box.labels.tolist() == [0, 0, -1]
    assert adjoin.dbscan(np.empty((0, 2)), radius=1).labels.shape == (0,)
    for wrong in ({"min_points": 0}, {"radius": [1.0] * 500}, {"weights": [1.0]}, {"weights": [np.nan] * 500}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            adjoin.dbscan(points, **{"radius": 0.1, **wrong})


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.filterwarnings("ignore")
def test_check_estimator(name: str) -> None:
    check_estimator(getattr(ours, name)())


def fitted(kind: Any, points: Any) -> Any:
    labels = (points[:, 0] > 0.5).astype(float if "Regressor" in kind.__name__ else int)
    return kind().fit(points, labels)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_same_predictions(name: str) -> None:
    rng = np.random.default_rng(5)
    points, queries = rng.random((300, 3)), rng.random((40, 3))
    mine, peer = fitted(getattr(ours, name), points), fitted(theirs_of(name), points)
    again = pickle.loads(pickle.dumps(mine))
    assert repr(mine) == repr(peer) and clone(mine).get_params() == peer.get_params()
    for model in (mine, again, copy.deepcopy(mine)):
        for method in ("predict", "predict_proba", "transform", "kneighbors", "radius_neighbors"):
            if not hasattr(peer, method) or name == "LocalOutlierFactor" and method == "predict":
                continue
            found, expected = getattr(model, method)(queries), getattr(peer, method)(queries)
            if method == "transform":
                assert abs(found - expected).max() < 1e-12
            elif method == "radius_neighbors":
                assert all(np.array_equal(*row) for row in zip(found[1], map(np.sort, expected[1])))
            else:
                np.testing.assert_allclose(found, expected, atol=1e-12)
        for attribute in ("labels_", "negative_outlier_factor_", "offset_"):
            if hasattr(peer, attribute):
                np.testing.assert_allclose(getattr(model, attribute), getattr(peer, attribute), rtol=1e-12)


def test_pipelines_of_graphs() -> None:
    """metric='precomputed' accepts the graphs of our transformers, as it accepts scikit-learn's."""
    points = np.random.default_rng(6).random((200, 2))
    for transformer, last in (
        ("RadiusNeighborsTransformer", sklearn.cluster.DBSCAN(eps=0.4, metric="precomputed")),
        ("RadiusNeighborsTransformer", ours.DBSCAN(eps=0.4, metric="precomputed")),
        ("KNeighborsTransformer", ours.LocalOutlierFactor(n_neighbors=4, metric="precomputed")),
    ):
        chains = [
            make_pipeline(StandardScaler(), kind(), last)
            for kind in (getattr(ours, transformer), theirs_of(transformer))
        ]
        first, second = (clone(chain).fit_predict(points) for chain in chains)
        assert np.array_equal(first, second)


FALLBACKS: list[Any] = [
    ("sparse", lambda kind, x: kind().fit(csr_array(x)).kneighbors(csr_array(x[:5]))),
    ("metric", lambda kind, x: kind(metric="canberra").fit(x).kneighbors(x[:5])),
    ("metric", lambda kind, x: kind(metric=lambda a, b: abs(a - b).sum()).fit(x).kneighbors(x[:5])),
    ("metric", lambda kind, x: kind(metric="minkowski", metric_params={"w": [1, 2, 3]}).fit(x).kneighbors(x[:5])),
    ("metric", lambda kind, x: kind(metric="precomputed").fit(np.abs(x @ x.T)).kneighbors()),
    ("queries", lambda kind, x: kind(algorithm="brute").fit(x).kneighbors(csr_array(x[:5]))),
    ("queries", lambda kind, x: kind(metric="cosine").fit(x).kneighbors(np.zeros((1, 3)))),
    ("zeros", lambda kind, x: kind(metric="cosine").fit(np.vstack([x, [[0, 0, 0]]])).kneighbors(x[:5])),
    ("tree", lambda kind, x: kind().fit(sklearn.neighbors.KDTree(x)).kneighbors(x[:5])),
    ("tree", lambda kind, x: kind().fit(kind().fit(x)).kneighbors(x[:5])),
    ("radius", lambda kind, x: kind().fit(x).radius_neighbors(x[:5], -1.0)[1][0]),
    ("queries", lambda kind, x: kind(algorithm="brute").fit(x).radius_neighbors_graph(csr_array(x[:5])).toarray()),
]


@pytest.mark.parametrize(("word", "call"), FALLBACKS)
def test_fallbacks(word: str, call: Any, caplog: Any) -> None:
    """If scikit-learn's own code runs, the result is scikit-learn's, and the log says so."""
    points = np.random.default_rng(7).random((50, 3))
    expected = call(sklearn.neighbors.NearestNeighbors, points)
    with caplog.at_level(logging.INFO, "adjoin"):
        found = call(ours.NearestNeighbors, points)
    assert any(word in record.getMessage() for record in caplog.records)
    np.testing.assert_allclose(found, expected)


def test_no_lines_without_fallbacks(caplog: Any) -> None:
    points = np.random.default_rng(7).random((50, 3))
    with caplog.at_level(logging.INFO, "adjoin"):
        ours.NearestNeighbors().fit(points).kneighbors()
        ours.DBSCAN().fit(points)
    assert not caplog.records


ERRORS: list[Any] = [
    lambda kind, x: kind(n_neighbors=0).fit(x),
    lambda kind, x: kind(algorithm="none").fit(x),
    lambda kind, x: kind(algorithm="kd_tree", metric="cosine").fit(x),
    lambda kind, x: kind(metric="nothing").fit(x),
    lambda kind, x: kind().fit(x * np.nan),
    lambda kind, x: kind().fit(x[0]),
    lambda kind, x: kind().kneighbors(x),
    lambda kind, x: kind().fit(x).kneighbors(n_neighbors=50),
    lambda kind, x: kind().fit(x).kneighbors(x, n_neighbors=51),
    lambda kind, x: kind().fit(x).kneighbors(x, n_neighbors=0),
    lambda kind, x: kind().fit(x).kneighbors(x, n_neighbors=2.5),
    lambda kind, x: kind().fit(x).kneighbors(x[:, :2]),
    lambda kind, x: kind().fit(x).kneighbors(x * np.inf),
    lambda kind, x: kind().fit(x).kneighbors_graph(mode="none"),
    lambda kind, x: kind().fit(x).radius_neighbors(x, return_distance=False, sort_results=True),
    lambda kind, x: kind().fit(x).radius_neighbors_graph(x, mode="none"),
    lambda kind, x: kind(metric="haversine").fit(x).kneighbors(x),
]


@pytest.mark.parametrize("call", ERRORS)
def test_errors(call: Any) -> None:
    points = np.random.default_rng(8).random((50, 3))
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - compared with ours
        call(sklearn.neighbors.NearestNeighbors, points)
    with pytest.raises(type(theirs.value)) as mine:
        call(ours.NearestNeighbors, points)
    assert str(mine.value) == str(theirs.value)


def test_large_radii_and_radii_of_each() -> None:
    points = np.random.default_rng(9).random((40, 3)) + 0.1
    for metric in ("euclidean", "cosine"):
        model = ours.NearestNeighbors(metric=metric).fit(points)
        for radius in (np.inf, 1e200, 5):
            assert all(len(row) == 39 for row in model.radius_neighbors(radius=radius, return_distance=False))
    radii = np.linspace(0, 1, 5)
    found = ours.NearestNeighbors().fit(points).radius_neighbors(points[:5], radii)
    expected = sklearn.neighbors.NearestNeighbors().fit(points).radius_neighbors(points[:5], radii)
    assert [row.tolist() for row in found[1]] == [sorted(row.tolist()) for row in expected[1]]


def test_feature_names() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(np.random.default_rng(10).random((30, 2)), columns=["x", "y"])
    model = ours.NearestNeighbors(n_neighbors=2).fit(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.kneighbors(table)
    assert model.feature_names_in_.tolist() == ["x", "y"]
    with pytest.raises(ValueError, match="feature names"):
        model.kneighbors(table.rename(columns={"x": "z"}))
