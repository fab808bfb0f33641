# SPDX-License-Identifier: MIT
"""Exact search in the manner of FAISS: `knn`, `knn_gpu`, `range_search`, and the flat indexes.

Types and conventions are those of FAISS: vectors are f32, distances of METRIC_L2 are squares, indices are int64, and a
neighbour that is missing has index -1 and distance 3.4e38 (-3.4e38 with inner products). A range is open: pairs have a
square below the threshold, or a product above it. What differs:

- Results are exact, with ties to the lower index: squares are the sums that docs/exactness.md defines. FAISS computes
  ``|x|^2 - 2 x y + |y|^2`` for many queries, whose rounding errors grow with the norms.
- k has no limit on a GPU.
- Vectors on a GPU (torch, CuPy) are searched there by `knn`, `knn_gpu` and `search`, and the results are arrays of the
  same kind.
- The metrics are METRIC_L2, METRIC_INNER_PRODUCT, METRIC_L1 and METRIC_Linf.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

from . import _declarations as d
from ._arrays import F32, Array, as_points, is_on_device
from ._device import kind_of
from ._errors import ArgumentError, ArrayTypeError
from ._functions import _knn_job
from ._index import Index
from ._options import k_of

__all__ = [
    "METRIC_INNER_PRODUCT",
    "METRIC_L1",
    "METRIC_L2",
    "METRIC_Linf",
    "IndexFlat",
    "IndexFlatIP",
    "IndexFlatL2",
    "knn",
    "knn_gpu",
    "range_search",
]

METRIC_INNER_PRODUCT = 0
METRIC_L2 = 1
METRIC_L1 = 2
METRIC_Linf = 3

_NAMES = {METRIC_INNER_PRODUCT: "dot", METRIC_L2: "euclidean", METRIC_L1: "manhattan", METRIC_Linf: "chebyshev"}
_MISSING = float(np.finfo(np.float32).max)


def knn(xq: Any, xb: Any, k: int, metric: int = METRIC_L2, metric_arg: float = 0.0) -> tuple[Any, Any]:
    """The k nearest vectors of each query: `faiss.knn`.

    Parameters
    ----------
    xq, xb : array_like, shape (n, d)
        Queries, and the vectors that neighbours are taken from.
    k : int
        How many.
    metric : int
        METRIC_L2, METRIC_INNER_PRODUCT, METRIC_L1 or METRIC_Linf.
    metric_arg
        Accepted.

    Returns
    -------
    D, I : arrays of float32 and int64, shape (n, k)

    Examples
    --------
    >>> from adjoin.faiss import knn
    >>> knn([[0.0, 0.0]], [[3.0, 4.0], [1.0, 0.0]], 2)
    (array([[ 1., 25.]], dtype=float32), array([[1, 0]]))
    """
    del metric_arg
    return _knn(xq, xb, k, metric)


def knn_gpu(
    res: Any,
    xq: Any,
    xb: Any,
    k: int,
    D: Any = None,
    I: Any = None,  # noqa: E741 - FAISS's name
    metric: int = METRIC_L2,
    device: int = -1,
    use_cuvs: bool = False,
    vectorsMemoryLimit: int = 0,
    queriesMemoryLimit: int = 0,
) -> tuple[Any, Any]:
    """The k nearest vectors of each query, on a GPU: `faiss.knn_gpu`.

    Parameters
    ----------
    res
        Accepted. The package has its own resources.
    xq, xb, k, metric
        As of `knn`. Vectors in host memory are copied to the device.
    D, I : arrays of float32 and int64, shape (n, k), optional
        Where results in host memory go.
    device : int
        The number of the GPU; -1: any.
    use_cuvs, vectorsMemoryLimit, queriesMemoryLimit
        Accepted. Vectors larger than the device go there in pieces.

    Returns
    -------
    D, I : arrays of float32 and int64, shape (n, k)

    Examples
    --------
    >>> from adjoin.faiss import knn_gpu
    >>> D, I = knn_gpu(None, [[0.0, 0.0]], [[3.0, 4.0], [1.0, 0.0]], 2)  # doctest: +SKIP
    """
    del res, use_cuvs, vectorsMemoryLimit, queriesMemoryLimit
    options: dict[str, Any] = {} if is_on_device(xq) else {"backend": "gpu"}
    if device >= 0 and options:
        options["device"] = device
    return _stored(_knn(xq, xb, k, metric, **options), D, I)


def range_search(xq: Any, xb: Any, thresh: float, metric: int = METRIC_L2) -> tuple[Array, Array, Array]:
    """The vectors within a threshold of each query, as of ``IndexFlat.range_search``.

    Parameters
    ----------
    xq, xb : array_like, shape (n, d)
        Queries, and the vectors that neighbours are taken from.
    thresh : float
        Squares of distances are below this (METRIC_L2), distances are (METRIC_L1, METRIC_Linf), or products above.
    metric : int
        As of `knn`.

    Returns
    -------
    lims, D, I : arrays of uint64, float32 and int64
        The neighbours of query i are entries ``lims[i]`` to ``lims[i + 1] - 1`` of D and I.

    Examples
    --------
    >>> from adjoin.faiss import range_search
    >>> lims, D, I = range_search([[0.0, 0.0]], [[3.0, 4.0], [1.0, 0.0]], 25)
    >>> lims.tolist(), D.tolist(), I.tolist()
    ([0, 1], [1.0], [1])
    """
    index = IndexFlat(_vectors(xb, "xb").shape[1], metric)
    index.add(xb)
    return index.range_search(xq, thresh)


class IndexFlat:
    """Vectors that are searched exactly: `faiss.IndexFlat`.

    Parameters
    ----------
    d : int
        The number of dimensions.
    metric : int
        METRIC_L2, METRIC_INNER_PRODUCT, METRIC_L1 or METRIC_Linf.

    Attributes
    ----------
    d, ntotal, metric_type : int
        Dimensions, vectors, and the metric.
    is_trained : bool
        True.

    Examples
    --------
    >>> from adjoin.faiss import IndexFlatL2
    >>> index = IndexFlatL2(2)
    >>> index.add([[3.0, 4.0], [1.0, 0.0]])
    >>> index.ntotal
    2
    >>> D, I = index.search([[0.0, 0.0]], 3)
    >>> I
    array([[ 1,  0, -1]])
    """

    is_trained = True

    def __init__(self, d: int, metric: int = METRIC_L2) -> None:
        self.d = int(d)
        self.metric_type = metric
        _name(metric)
        self._parts: list[Any] = []
        self._index: Index | None = None

    @property
    def ntotal(self) -> int:
        """The number of vectors."""
        return sum(len(part) for part in self._parts)

    def train(self, x: Any) -> None:
        """Does nothing."""

    def add(self, x: Any) -> None:
        """Adds vectors, one a row. A copy is kept."""
        part = self._checked(x)
        if self._parts and kind_of(part) != kind_of(self._parts[0]):
            raise ArrayTypeError("x: some vectors are on a GPU and some are not, or they are of two packages")
        self._parts.append(part.clone() if kind_of(part) == "torch" else part.copy())
        self._index = None

    def reset(self) -> None:
        """Removes all vectors."""
        self._parts = []
        self._index = None

    def reconstruct(self, key: int) -> Any:
        """A vector."""
        return self.reconstruct_n(key, 1)[0]

    def reconstruct_n(self, n0: int = 0, ni: int = -1) -> Any:
        """Vectors n0 to n0 + ni - 1; -1: to the last."""
        end = self.ntotal if ni == -1 else n0 + ni
        if not 0 <= n0 <= end <= self.ntotal:
            raise ArgumentError(f"n0, ni: there are {self.ntotal} vectors, and not {n0} to {end - 1}")
        vectors = self._vectors()[n0:end]
        return vectors.clone() if kind_of(vectors) == "torch" else vectors.copy()

    def search(
        self,
        x: Any,
        k: int,
        *,
        params: Any = None,
        D: Any = None,
        I: Any = None,  # noqa: E741
    ) -> tuple[Any, Any]:
        """The k nearest vectors of each query, as of `knn`. D and I are arrays for the results."""
        del params
        queries, number = self._checked(x), k_of(k)
        if not self.ntotal:
            found: Any = np.full((len(queries), number), np.inf, F32), np.full((len(queries), number), -1)
            return _stored(_finished(found, self.metric_type), D, I)
        job = self._kept()._question(queries, d.ADJ_KNN, False)
        job.spec.k = number
        if self.metric_type == METRIC_INNER_PRODUCT:
            job.spec.radius = -math.inf
        return _stored(_nearest(job, self.metric_type), D, I)

    def assign(self, x: Any, k: int = 1, labels: Any = None) -> Any:
        """The indices of the k nearest vectors of each query."""
        return self.search(x, k, I=labels)[1]

    def range_search(self, x: Any, thresh: float, *, params: Any = None) -> tuple[Array, Array, Array]:
        """The vectors within a threshold of each query, as of the function `range_search`."""
        del params
        queries = self._checked(x)
        if is_on_device(queries) or (self._parts and is_on_device(self._parts[0])):
            raise ArrayTypeError("range_search takes vectors in host memory; adjoin.range_join takes any")
        limit = np.float32(thresh)
        products = self.metric_type == METRIC_INNER_PRODUCT
        if not self.ntotal or (limit == np.inf if products else not limit > 0):
            return np.zeros(len(queries) + 1, np.uint64), np.empty(0, F32), np.empty(0, np.int64)
        job = self._kept()._question(queries, d.ADJ_RANGE, False)
        job.spec.flags = _values(self.metric_type)
        if self.metric_type == METRIC_L2:
            job.within(_radius(limit))
            return _below(job.rows(), limit)
        # The last value below the limit, or the first product above it.
        job.within(float(np.nextafter(limit, np.float32(np.inf if products else -np.inf))))
        rows = job.rows()
        return rows.indptr.astype(np.uint64), np.array(rows.distances), rows.indices.astype(np.int64)

    def _checked(self, x: Any) -> Any:
        vectors = _vectors(x, "x")
        if vectors.shape[1] != self.d:
            raise ArgumentError(f"x: vectors have {vectors.shape[1]} dimensions, those of the index {self.d}")
        return vectors

    def _vectors(self) -> Any:
        """All vectors, in one array."""
        if not self._parts:
            return np.empty((0, self.d), F32)
        if len(self._parts) > 1:
            kind = kind_of(self._parts[0])
            package = importlib.import_module(kind if kind in ("torch", "cupy") else "numpy")
            self._parts = [package.concatenate(self._parts)]
        return self._parts[0]

    def _kept(self) -> Index:
        if self._index is None:
            self._index = Index(self._vectors(), metric=_name(self.metric_type))
        return self._index


class IndexFlatL2(IndexFlat):
    """Vectors that are searched by Euclidean distance: `faiss.IndexFlatL2`.

    Examples
    --------
    >>> from adjoin.faiss import IndexFlatL2
    >>> index = IndexFlatL2(1)
    >>> index.add([[1.0], [4.0]])
    >>> index.search([[2.0]], 1)
    (array([[1.]], dtype=float32), array([[0]]))
    """

    def __init__(self, d: int) -> None:
        super().__init__(d, METRIC_L2)


class IndexFlatIP(IndexFlat):
    """Vectors that are searched by inner product: `faiss.IndexFlatIP`.

    Examples
    --------
    >>> from adjoin.faiss import IndexFlatIP
    >>> index = IndexFlatIP(1)
    >>> index.add([[1.0], [4.0]])
    >>> index.search([[2.0]], 1)
    (array([[8.]], dtype=float32), array([[1]]))
    """

    def __init__(self, d: int) -> None:
        super().__init__(d, METRIC_INNER_PRODUCT)


def _name(metric: int) -> str:
    if metric not in _NAMES:
        raise ArgumentError(f"metric: {metric!r} is none of METRIC_L2, METRIC_INNER_PRODUCT, METRIC_L1, METRIC_Linf")
    return _NAMES[metric]


def _vectors(x: Any, name: str) -> Any:
    """A matrix of f32, in host memory or on a device."""
    if not is_on_device(x):
        return as_points(x, name, F32)
    if len(x.shape) != 2:
        raise ArgumentError(f"{name}: an array of shape {tuple(x.shape)} is not vectors, one a row")
    return x.detach().float() if kind_of(x) == "torch" else x.astype(F32)


def _values(metric: int) -> int:
    """The flag for the values that FAISS reports: of METRIC_L2 the sums of squares, which joins compare."""
    return d.ADJ_WITH_SUM if metric == METRIC_L2 else d.ADJ_WITH_DISTANCE


def _knn(xq: Any, xb: Any, k: int, metric: int, **options: Any) -> tuple[Any, Any]:
    vectors = _vectors(xq, "xq"), _vectors(xb, "xb")
    return _nearest(_knn_job(*vectors, k, None, False, {"metric": _name(metric), **options}), metric)


def _nearest(job: Any, metric: int) -> tuple[Any, Any]:
    job.spec.flags = _values(metric)
    return _finished(job.nearest(), metric)


def _finished(found: tuple[Any, Any], metric: int) -> tuple[Any, Any]:
    """Values and ids as FAISS has them."""
    values, ids = found
    values[ids < 0] = -_MISSING if metric == METRIC_INNER_PRODUCT else _MISSING
    return values, ids.long() if kind_of(ids) == "torch" else ids.astype(np.int64)


def _stored(found: tuple[Any, Any], *places: Any) -> tuple[Any, Any]:
    """Results in the arrays of the caller, if there are any."""
    for array, place in zip(found, places):
        if place is not None:
            if tuple(place.shape) != tuple(array.shape):
                raise ArgumentError(f"D, I: shape {tuple(place.shape)}, and the results have {tuple(array.shape)}")
            place[...] = array
    distances, ids = (array if place is None else place for array, place in zip(found, places))
    return distances, ids


def _radius(limit: np.float32) -> float:
    """A radius whose square is not below a limit."""
    radius = np.sqrt(min(limit, np.float32(_MISSING)))
    with np.errstate(over="ignore"):
        while radius * radius < limit:
            radius = np.nextafter(radius, np.float32(np.inf))
    return float(radius)


def _below(rows: Any, limit: np.float32) -> tuple[Array, Array, Array]:
    """Pairs whose square is below a limit. The library compares with the square of a radius, and the limit may lie
    between two such squares: so it found a little more."""
    keep = rows.distances < limit
    kept = np.concatenate(([0], np.cumsum(keep)))[rows.indptr]
    return kept.astype(np.uint64), rows.distances[keep], rows.indices[keep].astype(np.int64)
