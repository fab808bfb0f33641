# SPDX-License-Identifier: MIT
"""The search of the estimators of adjoin.sklearn: fitted points, with one of scikit-learn's metrics.

As in scikit-learn, points and distances are f64 and indices are intp.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from . import _declarations as d
from ._arrays import Array
from ._index import Index, _Question
from ._join import Job, PairJob
from ._options import Settings
from ._result import Result

__all__ = ["Search", "search_of", "is_known"]

logger = logging.getLogger("adjoin")

# The join options for scikit-learn's metrics. Its haversine takes latitudes first, and angles in radians.
_OPTIONS: dict[str, dict[str, Any]] = {
    "euclidean": {"metric": "euclidean"},
    "l2": {"metric": "euclidean"},
    "manhattan": {"metric": "manhattan"},
    "cityblock": {"metric": "manhattan"},
    "l1": {"metric": "manhattan"},
    "chebyshev": {"metric": "chebyshev"},
    "infinity": {"metric": "chebyshev"},
    "minkowski": {"metric": "minkowski"},
    "cosine": {"metric": "cosine"},
    "haversine": {"metric": "haversine", "angle": "radians", "unit": "radians"},
}
# Upper bounds of the distances of metrics that have one.
_LARGEST = {"cosine": 2.5, "haversine": 3.2}


def _options(metric: Any, parameters: dict[str, Any]) -> dict[str, Any] | None:
    """The join options for a metric and its parameters. None if there is no such join."""
    options = _OPTIONS.get(metric) if isinstance(metric, str) else None
    given = {name: value for name, value in parameters.items() if value is not None}
    if options is None:
        return None
    if metric != "minkowski":
        return None if given else options
    p = given.pop("p", 2)
    return None if given or not p >= 1 else {**options, "p": float(p)}


def is_known(metric: Any, p: Any, parameters: dict[str, Any] | None) -> bool:
    """Whether there is a join for the metric of an estimator."""
    given = dict(parameters or {})
    if metric == "minkowski" and p is not None:
        given.setdefault("p", p)
    return _options(metric, given) is not None


class Search:
    """The points of an estimator, and joins with them. The index is kept for later calls, but not pickled."""

    def __init__(self, fitted: Array, metric: str, parameters: dict[str, Any]) -> None:
        self._made_of = fitted, metric, parameters
        self.metric = metric
        options = _options(metric, parameters)
        assert options is not None
        self.options = options
        self.points = self._coordinates(fitted)
        self._index: Index | None = None
        self._model: Any = None

    def __reduce__(self) -> Any:
        return Search, self._made_of

    def _coordinates(self, x: Array) -> Array:
        values = np.asarray(x, np.float64)
        if self.metric == "haversine":
            values = np.ascontiguousarray(values[:, ::-1])
        return values

    def takes(self, queries: Any) -> bool:
        """Whether these queries can be joined: a dense array and, for cosine, without points of zeros."""
        if not isinstance(queries, np.ndarray):
            return False
        return self.metric != "cosine" or bool(queries.any(axis=1).all())

    def settings(self) -> Settings:
        """The options as values for the library."""
        return Settings(**self.options)

    def _kept(self) -> Index:
        if self._index is None:
            self._index = Index(self.points, **self.options)
        return self._index

    def nearest(self, queries: Array | None, k: int) -> tuple[Array, Array]:
        """Distances and indices of the k nearest points of each query. None: of each point, without itself."""
        places = None if queries is None else self._coordinates(queries)
        distances, ids = self._kept().knn(places, k)
        return distances, ids.astype(np.intp)

    def _range(self, queries: Array | None) -> Job:
        """A range join. For many queries no index is built."""
        left = self.points if queries is None else queries
        if self._index is not None or 8 * len(left) < len(self.points):
            return _Question(self._kept()._current(), queries, d.ADJ_RANGE, self.settings())
        if queries is None:
            return PairJob(self.points, None, self.settings(), d.ADJ_RANGE)
        return PairJob(queries, self.points, self.settings(), d.ADJ_RANGE)

    def within(self, queries: Array | None, radius: Any, distances: bool, ordered: bool) -> Result:
        """All points within a radius of each query. None: of each point, without itself."""
        places = None if queries is None else self._coordinates(queries)
        job = self._range(places)
        job.within(self.reach(radius, places))
        job.spec.flags = d.ADJ_WITH_DISTANCE if distances else 0
        job.spec.order = d.ADJ_ORDER_DISTANCE if ordered else d.ADJ_ORDER_ID
        return job.rows()

    def reach(self, radius: Any, queries: Array | None = None) -> Any:
        """The radius, reduced to a finite one that is still larger than any distance."""
        largest = _LARGEST.get(self.metric)
        if largest is None:
            if np.max(radius, initial=0) < 1e150:
                return radius
            both = [self.points] if queries is None else [self.points, queries]
            largest = 4.0 * self.points.shape[1] * max(1e-150, *(float(np.abs(x).max(initial=0)) for x in both))
        return np.minimum(radius, largest)

    def original(self, estimator: Any) -> Any:
        """scikit-learn's own NearestNeighbors on the same points, for queries that have no join."""
        if self._model is None:
            names = NearestNeighbors().get_params()
            self._model = NearestNeighbors(**{name: getattr(estimator, name, None) for name in names})
            self._model.fit(self._made_of[0])
        return self._model


def search_of(estimator: Any) -> Search | None:
    """The search of a fitted estimator whose metric is known. None if its points cannot be joined."""
    metric, points = estimator.effective_metric_, estimator._fit_X
    if metric == "haversine" and points.shape[1] != 2:
        return None  # every query raises an error, which is left to scikit-learn
    search = Search(points, metric, estimator.effective_metric_params_)
    if search.takes(points):
        return search
    log_fallback(estimator, "one of the points is all zeros, and has no angle")
    return None


def log_fallback(estimator: Any, reason: str) -> None:
    """Logs that scikit-learn's own code runs, and why."""
    logger.info("%s: scikit-learn's own code runs: %s", type(estimator).__name__, reason)
