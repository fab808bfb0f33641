# SPDX-License-Identifier: MIT
"""Exact search with the interface of FAISS: `knn`, `knn_gpu`, `range_search`, and the flat indexes.

Types and conventions are those of FAISS: vectors are f32, distances of METRIC_L2 are squared, indices are int64, and a
missing neighbour has index -1 and distance 3.4e38 (-3.4e38 for inner products). A range is open: it holds the pairs
whose squared distance is below the threshold, or whose inner product is above it. The differences are:

- Results are exact, and ties go to the lower index. Squared distances are the sums that docs/exactness.md defines. For
  many queries FAISS computes ``|x|^2 - 2 x y + |y|^2``, whose rounding errors grow with the norms.
- k has no limit on a GPU.
- `knn`, `knn_gpu` and `search` search vectors on a GPU (torch, CuPy) there, and return arrays of the same package.
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
        The queries, and the vectors that neighbours are taken from.
    k : int
        The number of neighbours.
    metric : int
        METRIC_L2, METRIC_INNER_PRODUCT, METRIC_L1 or METRIC_Linf.
    metric_arg
        Ignored.

    Returns
    -------
    D, I : arrays of float32 and int64, shape (n, k)
        Distances (squared for METRIC_L2) and indices, nearest first.

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
        Ignored. This package has its own resources.
    xq, xb, k, metric
        As for `knn`. Vectors in host memory are copied to the GPU.
    D, I : arrays of float32 and int64, shape (n, k), optional
        Arrays in host memory for the results.
    device : int
        The number of the GPU. -1: any GPU.
    use_cuvs, vectorsMemoryLimit, queriesMemoryLimit
        Ignored. Vectors that do not fit into GPU memory are copied there in pieces.

    Returns
    -------
    D, I : arrays of float32 and int64, shape (n, k)
        As for `knn`.

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
    """The vectors within a threshold of each query: ``IndexFlat.range_search`` without an index.

    Parameters
    ----------
    xq, xb : array_like, shape (n, d)
        The queries, and the vectors that neighbours are taken from.
    thresh : float
        The limit, which is not part of the range: squared distances (METRIC_L2) or distances (METRIC_L1, METRIC_Linf)
        are below it, and inner products above it.
    metric : int
        As for `knn`.

    Returns
    -------
    lims, D, I : arrays of uint64, float32 and int64
        The neighbours of query i are ``I[lims[i]:lims[i + 1]]``, and their distances ``D[lims[i]:lims[i + 1]]``.

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
    """An exact index of vectors: `faiss.IndexFlat`.

    Parameters
    ----------
    d : int
        The number of dimensions.
    metric : int
        METRIC_L2, METRIC_INNER_PRODUCT, METRIC_L1 or METRIC_Linf.

    Attributes
    ----------
    d, ntotal, metric_type : int
        The number of dimensions, the number of vectors, and the metric.
    is_trained : bool
        Always true.

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
        """Does nothing, because a flat index needs no training."""

    def add(self, x: Any) -> None:
        """Adds a copy of the vectors, one per row."""
        part = self._checked(x)
        if self._parts and kind_of(part) != kind_of(self._parts[0]):
            raise ArrayTypeError("x: not in the same memory, or not of the same package, as the vectors of the index")
        self._parts.append(part.clone() if kind_of(part) == "torch" else part.copy())
        self._index = None

    def reset(self) -> None:
        """Removes all vectors."""
        self._parts = []
        self._index = None

    def reconstruct(self, key: int) -> Any:
        """A copy of vector `key`."""
        return self.reconstruct_n(key, 1)[0]

    def reconstruct_n(self, n0: int = 0, ni: int = -1) -> Any:
        """A copy of vectors n0 to n0 + ni - 1, or from n0 to the last if ni is -1."""
        end = self.ntotal if ni == -1 else n0 + ni
        if not 0 <= n0 <= end <= self.ntotal:
            raise ArgumentError(f"n0, ni: vectors {n0} to {end - 1} do not exist, there are {self.ntotal} vectors")
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
        """The k nearest vectors of each query, as for `knn`. D and I are optional arrays for the results."""
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
        """The vectors within a threshold of each query, as for the function `range_search`."""
        del params
        queries = self._checked(x)
        if is_on_device(queries) or (self._parts and is_on_device(self._parts[0])):
            raise ArrayTypeError("x: range_search takes vectors in host memory; adjoin.range_join also takes a GPU's")
        limit = np.float32(thresh)
        products = self.metric_type == METRIC_INNER_PRODUCT
        if not self.ntotal or (limit == np.inf if products else not limit > 0):
            return np.zeros(len(queries) + 1, np.uint64), np.empty(0, F32), np.empty(0, np.int64)
        job = self._kept()._question(queries, d.ADJ_RANGE, False)
        job.spec.flags = _values(self.metric_type)
        if self.metric_type == METRIC_L2:
            job.within(_radius(limit))
            return _below(job.rows(), limit)
        # A closed range up to the last distance below the limit, or from the first product above it.
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
    """An exact index by Euclidean distance: `faiss.IndexFlatL2`.

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
    """An exact index by inner product: `faiss.IndexFlatIP`.

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
        raise ArgumentError(f"metric: {metric!r} is not one of METRIC_L2, METRIC_INNER_PRODUCT, METRIC_L1, METRIC_Linf")
    return _NAMES[metric]


def _vectors(x: Any, name: str) -> Any:
    """A matrix of f32, in host memory or on a device."""
    if not is_on_device(x):
        return as_points(x, name, F32)
    if len(x.shape) != 2:
        raise ArgumentError(f"{name}: expected a 2-D array with one vector per row, not shape {tuple(x.shape)}")
    return x.detach().float() if kind_of(x) == "torch" else x.astype(F32)


def _values(metric: int) -> int:
    """The flag for the values that FAISS reports: for METRIC_L2 sums of squares, otherwise distances."""
    return d.ADJ_WITH_SUM if metric == METRIC_L2 else d.ADJ_WITH_DISTANCE


def _knn(xq: Any, xb: Any, k: int, metric: int, **options: Any) -> tuple[Any, Any]:
    vectors = _vectors(xq, "xq"), _vectors(xb, "xb")
    job = _knn_job(*vectors, k, None, False, {"metric": _name(metric), **options})
    job.names = "xq", "xb"
    return _nearest(job, metric)


def _nearest(job: Any, metric: int) -> tuple[Any, Any]:
    job.spec.flags = _values(metric)
    return _finished(job.nearest(), metric)


def _finished(found: tuple[Any, Any], metric: int) -> tuple[Any, Any]:
    """Distances and ids in FAISS's form."""
    values, ids = found
    values[ids < 0] = -_MISSING if metric == METRIC_INNER_PRODUCT else _MISSING
    return values, ids.long() if kind_of(ids) == "torch" else ids.astype(np.int64)


def _stored(found: tuple[Any, Any], *places: Any) -> tuple[Any, Any]:
    """The results, copied into the caller's arrays if there are any."""
    for array, place in zip(found, places):
        if place is not None:
            if tuple(place.shape) != tuple(array.shape):
                shapes = tuple(place.shape), tuple(array.shape)
                raise ArgumentError(f"D, I: shape {shapes[0]} is not that of the results, {shapes[1]}")
            place[...] = array
    distances, ids = (array if place is None else place for array, place in zip(found, places))
    return distances, ids


def _radius(limit: np.float32) -> float:
    """A radius whose square, rounded to f32, is at least the limit."""
    radius = np.sqrt(min(limit, np.float32(_MISSING)))
    with np.errstate(over="ignore"):
        while radius * radius < limit:
            radius = np.nextafter(radius, np.float32(np.inf))
    return float(radius)


def _below(rows: Any, limit: np.float32) -> tuple[Array, Array, Array]:
    """Drops pairs whose squared distance is not below the limit.

    The library compares with the square of a radius. If the limit lies between two such squares, the join found a few
    pairs too many.
    """
    keep = rows.distances < limit
    kept = np.concatenate(([0], np.cumsum(keep)))[rows.indptr]
    return kept.astype(np.uint64), rows.distances[keep], rows.indices[keep].astype(np.int64)
