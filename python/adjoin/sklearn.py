# SPDX-License-Identifier: MIT
"""The neighbour estimators of scikit-learn, DBSCAN and LocalOutlierFactor, with the same parameters, results and types.

    >>> from adjoin.sklearn import NearestNeighbors
    >>> model = NearestNeighbors(n_neighbors=1).fit([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    >>> model.kneighbors([[0.0, 0.9]])
    (array([[0.1]]), array([[2]]))

Each class is a subclass of scikit-learn's that replaces only the search. scikit-learn still checks the parameters, and
pipelines, cloning and pickling work. The metrics "euclidean", "manhattan", "chebyshev", "minkowski" (p >= 1), "cosine"
and "haversine" on dense arrays are searched here. Everything else (sparse matrices, other metrics, precomputed
distances) runs scikit-learn's own code, which is logged with level INFO (``logging.getLogger("adjoin")``).

Distances are those of docs/exactness.md. They differ from scikit-learn's only by rounding. Ties go to the lower index.
`algorithm` and `leaf_size` affect neither the result nor the search, and all threads of the process work on a call,
whatever `n_jobs` is. scikit-learn 1.6 or later is needed.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, csr_matrix, issparse
from sklearn import cluster, neighbors
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ._arrays import Array
from ._dbscan import clusters_of
from ._result import Result
from ._sklearn_search import Search, is_known, log_fallback, search_of

try:
    from sklearn.utils._sparse import _align_api_if_sparse as _matrix
except ImportError:  # before 1.9

    def _matrix(graph: csr_array) -> Any:
        return csr_matrix(graph)


if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "DBSCAN",
    "KNeighborsClassifier",
    "KNeighborsRegressor",
    "KNeighborsTransformer",
    "LocalOutlierFactor",
    "NearestNeighbors",
    "RadiusNeighborsClassifier",
    "RadiusNeighborsRegressor",
    "RadiusNeighborsTransformer",
    "dbscan",
]

# The leaf size of a tree that is not searched: a tree with a single leaf takes no time to build.
_ONE_LEAF = 1 << 40


class _Fitted:
    """Fits as scikit-learn does, but without building its tree, and creates a Search of the points."""

    _adjoin: Search | None = None  # None: scikit-learn's own code does the search

    def _fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803 - scikit-learn's name
        self._adjoin = None
        reason = _why_not(self, X)
        if reason:
            log_fallback(self, reason)
            super()._fit(X, y)  # type: ignore[misc]
            return self
        leaf_size, self.leaf_size = getattr(self, "leaf_size"), _ONE_LEAF  # noqa: B009 - of the estimator
        try:
            super()._fit(X, y)  # type: ignore[misc]
        finally:
            self.leaf_size = leaf_size
        self._adjoin = search_of(self)
        if self._adjoin is not None:
            self.__dict__.pop("_tree")
        return self

    @property
    def _tree(self) -> Any:
        """scikit-learn's tree, built on first use."""
        return self.__dict__.get("_tree") if self._adjoin is None else self._adjoin.original(self)._tree

    @_tree.setter
    def _tree(self, tree: Any) -> None:
        self.__dict__["_tree"] = tree

    def _queries(self, X: Any) -> Any:  # noqa: N803
        """Queries, checked by scikit-learn."""
        return None if X is None else validate_data(self, X, accept_sparse="csr", reset=False, order="C")


def _why_not(estimator: Any, x: Any) -> str:
    """The reason why scikit-learn must fit and search these points itself. Empty if there is none."""
    if issparse(x):
        return "the points are a sparse matrix"
    if isinstance(x, (neighbors.KDTree, neighbors.BallTree)) or hasattr(x, "_fit_X"):
        return "it is fitted on a tree"
    if not is_known(estimator.metric, estimator.p, estimator.metric_params):
        return f"the metric is {estimator.metric!r}"
    return ""


class _Nearest(_Fitted):
    def kneighbors(
        self,
        X: Any = None,  # noqa: N803
        n_neighbors: Any = None,
        return_distance: bool = True,
    ) -> Any:
        """The nearest neighbours of each query.

        Parameters
        ----------
        X : array_like, shape (n, m), optional
            The queries. By default the fitted points, and a point is not its own neighbour.
        n_neighbors : int, optional
            The number of neighbours, by default that of the constructor.
        return_distance : bool
            Also return the distances.

        Returns
        -------
        neigh_dist : array of float64, shape (n, n_neighbors)
            The distances, nearest first. Only with `return_distance`.
        neigh_ind : array of int64, shape (n, n_neighbors)
            The indices of the neighbours.
        """
        check_is_fitted(self)
        search = self._adjoin
        k = getattr(self, "n_neighbors", None) if n_neighbors is None else n_neighbors
        if search is None or not isinstance(k, numbers.Integral) or not 0 < int(k) <= len(search.points) - (X is None):
            return super().kneighbors(X, n_neighbors, return_distance)  # type: ignore[misc]
        queries = self._queries(X)
        if queries is not None and not search.takes(queries):
            log_fallback(self, "the queries are not a dense array, or hold a point of zeros, which has no angle")
            return search.original(self).kneighbors(queries, k, return_distance)
        distances, ids = search.nearest(queries, int(k))
        return (distances, ids) if return_distance else ids


class _Within(_Fitted):
    def _rows(self, X: Any, radius: Any, distances: bool, ordered: bool) -> Result | None:  # noqa: N803
        """The neighbours within a radius. None if scikit-learn's own code must find them."""
        check_is_fitted(self)
        search = self._adjoin
        if radius is None:
            radius = getattr(self, "radius", None)
        if search is None or radius is None or not np.all(np.asarray(radius) >= 0) or (ordered and not distances):
            return None
        queries = self._queries(X)
        if queries is not None and not search.takes(queries):
            return None
        return search.within(queries, radius, distances, ordered)

    def radius_neighbors(
        self,
        X: Any = None,  # noqa: N803
        radius: Any = None,
        return_distance: bool = True,
        sort_results: bool = False,
    ) -> Any:
        """All neighbours within a radius of each query.

        Parameters
        ----------
        X : array_like, shape (n, m), optional
            The queries. By default the fitted points, and a point is not its own neighbour.
        radius : float or array of floats, optional
            The largest distance of a neighbour (``<=``), by default that of the constructor.
        return_distance : bool
            Also return the distances.
        sort_results : bool
            Sort the neighbours of a query by distance. By default they are sorted by index.

        Returns
        -------
        neigh_dist : array of arrays of float64, shape (n,)
            The distances. Only with `return_distance`.
        neigh_ind : array of arrays of int64, shape (n,)
            The indices of the neighbours.
        """
        rows = self._rows(X, radius, return_distance, sort_results)
        if rows is None:
            return self._original_radius("radius_neighbors", X, radius, return_distance, sort_results)
        ids = _ragged(rows.indices.astype(np.intp), rows)
        return (_ragged(rows._distances(), rows), ids) if return_distance else ids

    def radius_neighbors_graph(
        self,
        X: Any = None,  # noqa: N803
        radius: Any = None,
        mode: str = "connectivity",
        sort_results: bool = False,
    ) -> Any:
        """The neighbours that `radius_neighbors` finds, as a sparse matrix.

        Parameters
        ----------
        X, radius, sort_results
            As for `radius_neighbors`.
        mode : {"connectivity", "distance"}
            Whether the matrix holds ones or distances.

        Returns
        -------
        sparse matrix in CSR format, shape (n, number of fitted points)
        """
        distances = mode == "distance"
        rows = None
        if mode in ("connectivity", "distance"):
            rows = self._rows(X, radius, distances, sort_results and distances)
        if rows is None:
            return self._original_radius("radius_neighbors_graph", X, radius, mode, sort_results)
        data = rows._distances() if distances else np.ones(len(rows.indices))
        return _matrix(csr_array((data, rows.indices, rows.indptr), shape=rows.shape))

    def _original_radius(self, method: str, X: Any, *arguments: Any) -> Any:  # noqa: N803
        """scikit-learn's result, for points that were fitted here from its own model of the same points."""
        search = self._adjoin
        if search is None:
            return getattr(super(), method)(X, *arguments)
        radius = getattr(self, "radius", None) if arguments[0] is None else arguments[0]
        log_fallback(self, "the queries are not a dense array, or hold a point of zeros, or the radius is below 0")
        return getattr(search.original(self), method)(self._queries(X), radius, *arguments[1:])


def _ragged(values: Array, rows: Result) -> Array:
    """Rows as an array of arrays."""
    bounds = rows.indptr.tolist()
    slices: Iterable[Array] = (values[begin:end] for begin, end in zip(bounds, bounds[1:]))
    return np.fromiter(slices, object, len(rows))


class NearestNeighbors(_Nearest, _Within, neighbors.NearestNeighbors):
    """`sklearn.neighbors.NearestNeighbors`, with the same parameters.

    Examples
    --------
    >>> from adjoin.sklearn import NearestNeighbors
    >>> model = NearestNeighbors(radius=1.5).fit([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    >>> model.radius_neighbors([[0.0, 0.0]])[1][0]
    array([0, 2])
    >>> model.kneighbors_graph(n_neighbors=1).toarray()
    array([[0., 0., 1.],
           [0., 0., 1.],
           [1., 0., 0.]])
    """


class KNeighborsTransformer(_Nearest, neighbors.KNeighborsTransformer):
    """`sklearn.neighbors.KNeighborsTransformer`, with the same parameters.

    Examples
    --------
    >>> from adjoin.sklearn import KNeighborsTransformer
    >>> KNeighborsTransformer(n_neighbors=1).fit_transform([[0.0], [1.0], [5.0]]).toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 4., 0.]])
    """


class RadiusNeighborsTransformer(_Within, neighbors.RadiusNeighborsTransformer):
    """`sklearn.neighbors.RadiusNeighborsTransformer`, with the same parameters.

    Examples
    --------
    >>> from adjoin.sklearn import RadiusNeighborsTransformer
    >>> RadiusNeighborsTransformer(radius=4.5).fit_transform([[0.0], [1.0], [5.0]]).toarray()
    array([[0., 1., 0.],
           [1., 0., 4.],
           [0., 4., 0.]])
    """


class _Classifier(_Fitted):
    """Makes scikit-learn's classifiers call our kneighbors() and radius_neighbors().

    They do so unless `_fit_method` is "brute", for which they have a search of their own.
    """

    def _fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        super()._fit(X, y)
        if self._adjoin is not None:
            self._fit_method = "adjoin"
        return self


class KNeighborsClassifier(_Nearest, _Classifier, neighbors.KNeighborsClassifier):
    """`sklearn.neighbors.KNeighborsClassifier`, with the same parameters.

    Examples
    --------
    >>> from adjoin.sklearn import KNeighborsClassifier
    >>> KNeighborsClassifier(n_neighbors=1).fit([[0.0], [1.0], [5.0]], ["a", "a", "b"]).predict([[4.0]])
    array(['b'], dtype='<U1')
    """


class KNeighborsRegressor(_Nearest, neighbors.KNeighborsRegressor):
    """`sklearn.neighbors.KNeighborsRegressor`, with the same parameters.

    Examples
    --------
    >>> from adjoin.sklearn import KNeighborsRegressor
    >>> KNeighborsRegressor(n_neighbors=2).fit([[0.0], [1.0], [5.0]], [1.0, 2.0, 3.0]).predict([[0.4]])
    array([1.5])
    """


class RadiusNeighborsClassifier(_Within, _Classifier, neighbors.RadiusNeighborsClassifier):
    """`sklearn.neighbors.RadiusNeighborsClassifier`, with the same parameters.

    Examples
    --------
    >>> from adjoin.sklearn import RadiusNeighborsClassifier
    >>> RadiusNeighborsClassifier(radius=2).fit([[0.0], [1.0], [5.0]], ["a", "a", "b"]).predict([[4.0]])
    array(['b'], dtype='<U1')
    """


class RadiusNeighborsRegressor(_Within, neighbors.RadiusNeighborsRegressor):
    """`sklearn.neighbors.RadiusNeighborsRegressor`, with the same parameters.

    Examples
    --------
    >>> from adjoin.sklearn import RadiusNeighborsRegressor
    >>> RadiusNeighborsRegressor(radius=2).fit([[0.0], [1.0], [5.0]], [1.0, 2.0, 3.0]).predict([[0.4]])
    array([1.5])
    """


class LocalOutlierFactor(_Nearest, neighbors.LocalOutlierFactor):
    """`sklearn.neighbors.LocalOutlierFactor`, with the same parameters.

    Examples
    --------
    >>> from adjoin.sklearn import LocalOutlierFactor
    >>> LocalOutlierFactor(n_neighbors=2).fit_predict([[-1.1], [0.2], [101.1], [0.3]])
    array([ 1,  1, -1,  1])
    """


class DBSCAN(cluster.DBSCAN):
    """`sklearn.cluster.DBSCAN`, with the same parameters and the same labels.

    Neighbourhoods are not stored. In addition to the points it needs a few bytes per point, and a buffer. Sample
    weights are summed in the order of the indices.

    Examples
    --------
    >>> from adjoin.sklearn import DBSCAN
    >>> points = [[1, 2], [2, 2], [2, 3], [8, 7], [8, 8], [25, 80]]
    >>> DBSCAN(eps=3, min_samples=2).fit(points).labels_
    array([ 0,  0,  0,  1,  1, -1])
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: N803
        """Finds the clusters of points.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, m)
            The points.
        y
            Ignored.
        sample_weight : array_like, optional
            The weight of each point, by default 1.

        Returns
        -------
        DBSCAN
            The estimator itself, with ``labels_``, ``core_sample_indices_`` and ``components_``.
        """
        self._validate_params()
        reason = _why_not(self, X)
        search = None
        if not reason:
            points = validate_data(self, X, accept_sparse="csr")
            if sample_weight is not None:
                sample_weight = _check_sample_weight(sample_weight, points)
            search = self._model().fit(points)._adjoin
        else:
            log_fallback(self, reason)
        if search is None:
            super().fit(X, sample_weight=sample_weight)
            return self
        chosen = search.settings()
        radius = float(search.reach(self.eps))
        labels, core = clusters_of(search.points, radius, self.min_samples, sample_weight, chosen)
        self.labels_ = labels.astype(np.intp, copy=False)
        self.core_sample_indices_ = np.flatnonzero(core)
        self.components_ = points[self.core_sample_indices_] if core.any() else np.empty((0, points.shape[1]))
        return self

    def _model(self) -> NearestNeighbors:
        """A model with the same parameters, whose fit() checks the metric and the algorithm."""
        names = ("algorithm", "leaf_size", "metric", "metric_params", "p", "n_jobs")
        return NearestNeighbors(radius=self.eps, **{name: getattr(self, name) for name in names})


def dbscan(
    X: Any,  # noqa: N803
    eps: float = 0.5,
    *,
    min_samples: int = 5,
    metric: Any = "minkowski",
    p: float | None = 2,
    sample_weight: Any = None,
    **parameters: Any,
) -> tuple[Array, Array]:
    """`sklearn.cluster.dbscan`, with the same parameters. Returns the indices of core points, and the labels.

    Examples
    --------
    >>> from adjoin.sklearn import dbscan
    >>> dbscan([[1, 2], [2, 2], [2, 3], [8, 7], [8, 8], [25, 80]], eps=3, min_samples=2)
    (array([0, 1, 2, 3, 4]), array([ 0,  0,  0,  1,  1, -1]))
    """
    model = DBSCAN(eps=eps, min_samples=min_samples, metric=metric, p=p, **parameters)
    model.fit(X, sample_weight=sample_weight)
    return model.core_sample_indices_, model.labels_
