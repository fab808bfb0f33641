# SPDX-License-Identifier: MIT
"""SciPy's KDTree and cKDTree on top of an Index: the same methods, arguments, results, types and exceptions.

Where SciPy leaves an order open (ties, unsorted rows, pairs), results are ordered by index. Distances are those of
docs/exactness.md. They differ from SciPy's only by rounding. All threads of the process work on a call, whatever
`workers` is. The nodes of the tree (`tree`, `indices`, `size`) and norms with p < 1 come from a SciPy tree of the same
points, which is built on first use.
"""

from __future__ import annotations

import functools
import importlib.metadata
import logging
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _declarations as d
from . import _kdtree_answers as answers
from ._arrays import Array
from ._index import Index, _Question
from ._join import Job, PairJob
from ._kdtree_one import OneQuery
from ._options import settings

if TYPE_CHECKING:
    from ._result import Result

__all__ = ["KDTree", "cKDTree"]

_logger = logging.getLogger("adjoin")

_OVERFLOW = (
    "Encountering floating point overflow. The value of p too large for this dataset; "
    "For such large p, consider using the special case p=np.inf . "
)


def _check_workers(workers: Any) -> None:
    if workers is None:
        return
    number = workers.__index__() if hasattr(workers, "__index__") else None
    if number is None:
        raise TypeError(f"'{type(workers).__name__}' object cannot be interpreted as an integer")
    if number == -1:
        if os.cpu_count() is None:
            raise NotImplementedError(
                "Cannot determine the number of cpus using os.cpu_count(), cannot use -1 for the number of workers"
            )
    elif number <= 0:
        raise ValueError(f"Invalid number of workers {number}, must be -1 or > 0")


def _refuse_complex(x: Any) -> None:
    if np.asarray(x).dtype.kind == "c":
        raise TypeError("KDTree does not work with complex data")


def _reach(r: Any, p: float, eps: Any = 0.0) -> Any:
    """The radius for a join that finds what SciPy finds within `r`.

    SciPy compares powers: with p = 2 the sign of the radius has no effect. With `eps` SciPy may also return points a
    little beyond the radius, so the radius grows by an amount about as large as rounding errors.
    """
    if p == 2:
        r = np.abs(r)
    if eps:
        r = r * (1 + min(max(float(eps), 0.0), 1e-10))
    return r


def _protected(array: Array) -> Array:
    """A read-only view."""
    view: Array = array.view()
    view.flags.writeable = False
    return view


@functools.cache
def _protects() -> bool:
    """Whether the installed SciPy makes the points of a tree read-only. True if SciPy is not installed."""
    try:
        version = importlib.metadata.version("scipy").split(".")
    except importlib.metadata.PackageNotFoundError:
        return True
    return (int(version[0]), int(version[1])) >= (1, 18)


class cKDTree:  # noqa: N801 - SciPy's name
    """A faster `scipy.spatial.cKDTree` with the same interface.

    `KDTree`, which describes the arguments, is the same with a default leaf size of 10.
    """

    def __init__(
        self,
        data: Any,
        leafsize: int = 16,
        compact_nodes: bool = True,
        copy_data: bool = False,
        balanced_tree: bool = True,
        boxsize: Any = None,
    ) -> None:
        points = np.array(data, np.float64, order="C") if copy_data else np.asarray(data, np.float64, order="C")
        if points.ndim != 2:
            raise ValueError("data must be of shape (n, m), where there are n points of dimension m")
        if not np.isfinite(points).all():
            raise ValueError("data must be finite, check for nan or inf values")
        if leafsize < 1:
            raise ValueError("leafsize must be at least 1")
        self._points = points
        self._view = _protected(points) if _protects() else points
        self.__dict__["leafsize"] = int(leafsize)
        self._build = {"compact_nodes": compact_nodes, "balanced_tree": balanced_tree}
        self._box, self._lengths = self._check_box(boxsize)
        self._indexes: dict[float, Index] = {}
        self._one = OneQuery(self)
        self._scipy: Any = None

    def _check_box(self, boxsize: Any) -> tuple[Array | None, Array | None]:
        """The box as given, and as the library takes it, with 0 for dimensions that are not periodic."""
        if boxsize is None:
            return None, None
        box = np.empty(self.m)
        box[...] = boxsize
        periodic = box > 0
        if (self._points >= box)[:, periodic].any():
            raise ValueError("Some input data are greater than the size of the periodic box.")
        if (self._points < 0)[:, periodic].any():
            raise ValueError("Negative input data are outside of the periodic box.")
        return _protected(box), (np.where(periodic, box, 0.0) if periodic.any() else None)

    # ---- Attributes ----

    leafsize: int

    @property
    def data(self) -> Array:
        """The points. Read-only, as in SciPy 1.18 and later, unless an older SciPy is installed."""
        return self._view

    @property
    def n(self) -> int:
        """The number of points."""
        return int(self._points.shape[0])

    @property
    def m(self) -> int:
        """The number of dimensions."""
        return int(self._points.shape[1])

    @property
    def maxes(self) -> Array:
        """The largest coordinate in each dimension."""
        return _protected(np.amax(self._points, axis=0) if self.n else np.zeros(self.m))

    @property
    def mins(self) -> Array:
        """The smallest coordinate in each dimension."""
        return _protected(np.amin(self._points, axis=0) if self.n else np.zeros(self.m))

    @property
    def boxsize(self) -> Array | None:
        """The lengths of the periodic box."""
        return self._box

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("n", "m", "data", "leafsize", "maxes", "mins", "boxsize", "tree", "size", "indices"):
            raise AttributeError(f"attribute {name!r} of {type(self).__name__!r} objects is not writable")
        object.__setattr__(self, name, value)

    def __reduce__(self) -> Any:
        build = self._build
        arguments = (self._points, self.leafsize, build["compact_nodes"], False, build["balanced_tree"], self._box)
        extra = {name: value for name, value in self.__dict__.items() if name not in _OWN}
        return type(self), arguments, extra or None

    # ---- SciPy's tree of the same points ----

    def _original(self) -> Any:
        """SciPy's tree of these points."""
        if self._scipy is None:
            try:
                from scipy.spatial._ckdtree import cKDTree as original
            except ImportError:
                raise NotImplementedError("the nodes of a tree, and norms with p < 1, need SciPy") from None
            _logger.info("%s: nodes, and norms with p < 1, come from SciPy's own tree", type(self).__name__)
            self._scipy = original(self._points, self.leafsize, boxsize=self._box, **self._build)
        return self._scipy

    @property
    def tree(self) -> Any:
        """The root node of SciPy's tree."""
        return self._original().tree

    @property
    def size(self) -> int:
        """The number of nodes of SciPy's tree."""
        return int(self._original().size)

    @property
    def indices(self) -> Array:
        """The order of the points in SciPy's tree."""
        order: Array = self._original().indices
        return order

    def _build_weights(self, weights: Any) -> Any:
        return self._original()._build_weights(weights)

    # ---- Queries ----

    def _norm(self, p: float) -> Any:
        """The join options for a norm, with the box if there is one."""
        return {"p": p} if self._lengths is None else {"p": p, "box": self._lengths}

    def _index(self, p: float) -> Index:
        """The index for a norm, created on first use."""
        index = self._indexes.get(p)
        if index is None:
            index = self._indexes[p] = Index(self._points, **self._norm(p))
        return index

    def _range(self, points: Array, p: float) -> Job:
        """A range join of queries, or of the points themselves. For many queries no index is built."""
        queries = None if points is self._points else points
        if p in self._indexes or 8 * len(points) < self.n:
            return _Question(self._index(p)._current(), queries, d.ADJ_RANGE, settings({}))
        if queries is None:
            return PairJob(self._points, None, settings(self._norm(p)), d.ADJ_RANGE)
        return PairJob(queries, self._points, settings(self._norm(p)), d.ADJ_RANGE)

    def _queries(self, x: Any) -> Array:
        """Queries as f64, wrapped into the box."""
        points = np.asarray(x, np.float64, order="C")
        if points.ndim == 0 or points.shape[-1] != self.m:
            shape = points.shape or (1,)
            raise ValueError(f"x must consist of vectors of length {self.m} but has shape {shape}")
        if points is self._view or self._has_these(points):
            points = self._points
        if points is not self._points and not np.isfinite(points).all():
            raise ValueError("'x' must be finite, check for nan or inf values")
        return points if self._lengths is None or points is self._points else answers.wrap(points, self._lengths)

    def _has_these(self, points: Array) -> bool:
        """Whether the queries equal the points, such as f32 points converted again. Such a self-join is faster."""
        own = self._points
        return points.shape == own.shape and np.array_equal(points[:1], own[:1]) and np.array_equal(points, own)

    def query(
        self,
        x: Any,
        k: Any = 1,
        eps: float = 0,
        p: float = 2,
        distance_upper_bound: float = np.inf,
        workers: int | None = 1,
    ) -> Any:
        """The nearest neighbours of each point of `x`; see `scipy.spatial.KDTree.query`."""
        if distance_upper_bound == np.inf and workers == 1:
            found = self._one.nearest(x, k, p)
            if found is not None:
                return found
        points = self._queries(x)
        if p < 1:
            raise ValueError("Only p-norms with 1<=p<=infinity permitted")
        _check_workers(workers)
        if p != p or self.m == 0:
            return self._original().query(x, k, eps, p, distance_upper_bound, workers)
        single = isinstance(k, int) or np.isscalar(k)
        if not single:
            len(k)  # raises a TypeError if k is neither a number nor a sequence
        numbers = np.arange(1, k + 1).astype(np.intp) if single else np.array(k, np.intp)
        if numbers.ndim != 1:
            raise ValueError(f"Buffer has wrong number of dimensions (expected 1, got {numbers.ndim})")
        if numbers.max() < 1 or numbers.min() < 1:
            raise ValueError("k must be greater than or equal to 1")
        bound = _reach(distance_upper_bound, p)
        distances, ids = answers.nearest(self, points, int(numbers.max()), p, float(bound))
        if not single:
            distances, ids = distances[..., numbers - 1], ids[..., numbers - 1]
        elif k == 1:
            distances, ids = distances[..., 0], ids[..., 0]
            if points.ndim == 1:
                return float(distances), int(ids)
        return distances, ids

    def _rows(self, points: Array, r: Any, p: float, distances: bool = False, order: int = d.ADJ_ORDER_ID) -> Result:
        """The neighbours of many queries, or of the points themselves."""
        negative = r < 0
        if not np.any(negative):
            job = self._range(points, p)
            job.within(r)
            job.spec.flags = (d.ADJ_WITH_DISTANCE if distances else 0) | self._itself(points)
            job.spec.order = order
            return job.rows()
        return answers.without(self._rows(points, np.maximum(r, 0.0), p, distances), negative)

    def _itself(self, points: Array) -> int:
        """The flag for queries that are the points themselves: as in SciPy, a point is its own neighbour."""
        return d.ADJ_WITH_SELF if points is self._points else 0

    def query_ball_csr(self, x: Any, r: Any, p: float = 2.0, eps: float = 0, *, distances: bool = False) -> Result:
        """All points within `r` of each point of `x`, as arrays instead of lists.

        It finds the same neighbours as `query_ball_point`, many times faster. SciPy has no such method.

        Parameters
        ----------
        x : array_like, shape (n, m)
            The points whose neighbours are searched.
        r : float or array_like
            The radius: one for all points, or one for each.
        p : float
            The exponent of the norm.
        eps : float
            As for `query_ball_point`.
        distances : bool
            Also return the distances.

        Returns
        -------
        Result
            Rows of neighbours, ordered by index: ``indptr``, ``indices`` and ``distances``.
        """
        points = self._queries(x)
        if points.ndim == 1:
            points = points.reshape(1, -1)
        if points.ndim != 2:
            raise ValueError("x must be an array with one point per row")
        self._check_power(p, points)
        radius = answers.radii(self, points, _reach(np.asarray(r, np.float64), p, eps))
        return self._rows(points, radius, p, distances)

    def _check_power(self, p: float, points: Array) -> None:
        """Raises an error if powers of this norm overflow, as SciPy does."""
        if p in (1, 2, np.inf) or not len(points) or not self.n:
            return
        low = np.minimum(self.mins, points.reshape(-1, self.m).min(axis=0))
        high = np.maximum(self.maxes, points.reshape(-1, self.m).max(axis=0))
        with np.errstate(over="ignore"):
            if np.isinf(np.sum((high - low) ** p)):
                raise ValueError(_OVERFLOW)

    def query_ball_point(
        self,
        x: Any,
        r: Any,
        p: float = 2.0,
        eps: float = 0,
        workers: int | None = 1,
        return_sorted: bool | None = None,
        return_length: bool = False,
    ) -> Any:
        """All points within `r` of each point of `x`; see `scipy.spatial.KDTree.query_ball_point`."""
        if workers == 1 and not eps:
            found = self._one.ball(x, r, p, return_length)
            if found is not None:
                return found
        points = self._queries(x)
        _check_workers(workers)
        if not p >= 1 or self.m == 0:
            return self._original().query_ball_point(x, r, p, eps, workers, return_sorted, return_length)
        radius = np.empty(points.shape[:-1])
        radius[...] = r
        reach = _reach(radius, p, eps)
        self._check_power(p, points)
        if points.ndim == 1:
            return answers.one_ball(self, points, float(reach), p, return_length)
        if np.ndim(r) == 0 and radius.size:
            reach = float(reach.flat[0])
        return answers.balls(self, points, reach, p, return_length)

    def _other(self, other: Any, name: str) -> cKDTree:
        """The other tree. It may also be one of SciPy's."""
        if not isinstance(other, cKDTree):
            if type(other).__name__ not in ("KDTree", "cKDTree") or not hasattr(other, "boxsize"):
                kind = f"{type(other).__module__}.{type(other).__qualname__}".removeprefix("builtins.")
                raise TypeError(f"Argument 'other' has incorrect type (expected adjoin.cKDTree, got {kind})")
            other = cKDTree(other.data, boxsize=other.boxsize)
        tree: cKDTree = other
        if self.m != tree.m:
            raise ValueError(f"Trees passed to {name} have different dimensionality")
        return tree

    def _facing(self, other: cKDTree) -> cKDTree:
        """The other tree with the box of this one, because SciPy measures in the first tree's box."""
        mine, theirs = self._lengths, other._lengths
        same = mine is theirs or (mine is not None and theirs is not None and np.array_equal(mine, theirs))
        return other if same else cKDTree(other._points, boxsize=self._box)

    def query_ball_tree(self, other: Any, r: float, p: float = 2.0, eps: float = 0) -> list[list[int]]:
        """For each point, the points of another tree within `r`; see `scipy.spatial.KDTree.query_ball_tree`."""
        tree = self._other(other, "query_ball_tree")
        radius = answers.number(r)
        if not p >= 1 or self.m == 0:
            found: list[list[int]] = self._original().query_ball_tree(tree._original(), r, p, eps)
            return found
        self._check_power(p, tree._points)
        tree = self._facing(tree)
        reach = answers.radii(tree, self._points, _reach(radius, p, eps))
        return answers.lists(tree._rows(self._points, reach, p))

    def query_pairs(self, r: float, p: float = 2.0, eps: float = 0, output_type: str = "set") -> Any:
        """All pairs of points of this tree within `r`; see `scipy.spatial.KDTree.query_pairs`."""
        radius = answers.number(r)
        if not p >= 1 or self.m == 0:
            return self._original().query_pairs(r, p, eps, output_type)
        if output_type not in ("set", "ndarray"):
            raise ValueError("Invalid output type")
        self._check_power(p, self._points)
        found = answers.pairs(self, _reach(radius, p, eps), p)
        return found if output_type == "ndarray" else answers.as_set(found)

    def count_neighbors(self, other: Any, r: Any, p: float = 2.0, weights: Any = None, cumulative: bool = True) -> Any:
        """The number of pairs of points of two trees within `r`; see `scipy.spatial.KDTree.count_neighbors`."""
        tree = self._other(other, "count_neighbors")
        if np.ndim(r) > 1:
            raise ValueError("r must be either a single value or a one-dimensional array of values")
        if not p >= 1 or self.m == 0:
            return self._original().count_neighbors(tree._original(), r, p, weights, cumulative)
        radii = np.array(r, np.float64, ndmin=1)
        if not cumulative and (radii[:-1] > radii[1:]).any():
            raise ValueError("r must be non-decreasing for non-cumulative counting.")
        own, theirs = answers.weights_of(self, tree, weights)
        self._check_power(p, tree._points)
        facing = self._facing(tree)
        if own is None and theirs is None:
            counts = answers.counts(self, facing, radii, p, cumulative)
        else:
            counts = answers.weighted_counts(self, facing, radii, p, (own, theirs), cumulative)
        if np.ndim(r):
            return counts
        return counts[0] if counts.dtype.kind == "f" else int(counts[0])

    def sparse_distance_matrix(
        self, other: Any, max_distance: float, p: float = 2.0, output_type: str = "dok_matrix"
    ) -> Any:
        """The distances of all pairs of two trees up to `max_distance`, as a sparse matrix.

        See `scipy.spatial.KDTree.sparse_distance_matrix`.
        """
        tree = self._other(other, "sparse_distance_matrix")
        radius = answers.number(max_distance)
        if not p >= 1 or self.m == 0:
            return self._original().sparse_distance_matrix(tree._original(), max_distance, p, output_type)
        if output_type not in answers.MATRICES:
            raise ValueError("Invalid output type")
        self._check_power(p, tree._points)
        facing = self._facing(tree)
        reach = answers.radii(facing, self._points, _reach(radius, p))
        rows = facing._rows(self._points, reach, p, True, d.ADJ_ORDER_ANY)
        return answers.matrix(rows, output_type)


_OWN = ("_points", "_view", "leafsize", "_build", "_box", "_lengths", "_indexes", "_one", "_scipy", "_tree")


class _Node:
    """A node class of SciPy's KDTree, imported on first use."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any) -> Any:
        from scipy.spatial._kdtree import KDTree as Original

        return getattr(Original, self.name)


class KDTree(cKDTree):
    """A faster `scipy.spatial.KDTree` with the same interface.

    Parameters
    ----------
    data : array_like, shape (n, m)
        The points. A C-contiguous f64 array is used in place, without a copy, and must not change while the tree is
        in use.
    leafsize, compact_nodes, balanced_tree
        Options of SciPy's nodes. They have no effect on queries.
    copy_data : bool
        Keep a copy of the points.
    boxsize : array_like or scalar, optional
        The lengths of a periodic box: one for all dimensions, or one for each.

    Examples
    --------
    >>> import adjoin, numpy as np
    >>> x, y = np.mgrid[0:5, 2:8]
    >>> tree = adjoin.KDTree(np.c_[x.ravel(), y.ravel()])
    >>> distances, indices = tree.query([[0, 0], [2.2, 2.9]], k=1)
    >>> indices
    array([ 0, 13])
    >>> tree.query_ball_point([2, 0], 2.3)
    [6, 12, 18]
    >>> tree.query_ball_csr([[2, 0], [3, 3]], 1).counts
    array([0, 5])
    """

    node = _Node("node")
    leafnode = _Node("leafnode")
    innernode = _Node("innernode")

    def __init__(
        self,
        data: Any,
        leafsize: int = 10,
        compact_nodes: bool = True,
        copy_data: bool = False,
        balanced_tree: bool = True,
        boxsize: Any = None,
    ) -> None:
        _refuse_complex(data)
        super().__init__(data, leafsize, compact_nodes, copy_data, balanced_tree, boxsize)

    @property
    def tree(self) -> Any:
        """The root node of SciPy's tree."""
        if "_tree" not in self.__dict__:
            self._tree = KDTree.node._create(self._original().tree)
        return self._tree

    def query(
        self,
        x: Any,
        k: Any = 1,
        eps: float = 0.0,
        p: float = 2.0,
        distance_upper_bound: float = np.inf,
        workers: int | None = 1,
    ) -> Any:
        """The nearest neighbours of each point of `x`.

        Parameters
        ----------
        x : array_like, last dimension m
            The points whose neighbours are searched.
        k : int or sequence of ints
            The number of neighbours, or a sequence that says which ones, counted from 1.
        eps : float
            Ignored, because the result is exact.
        p : float
            The exponent of the norm, from 1 to infinity.
        distance_upper_bound : float
            Return only neighbours nearer than this (``<``).
        workers : int
            Ignored: all threads of the process work on a call.

        Returns
        -------
        distances, indices : float and int, or arrays
            The shape is ``x.shape[:-1] + (k,)``, without the last dimension if k is 1. A missing neighbour has distance
            infinity and index n.
        """
        if type(x) is not np.ndarray or x.dtype.kind == "c":
            _refuse_complex(x)
        if k is None:
            raise ValueError("k must be an integer or a sequence of integers")
        distances, ids = super().query(x, k, eps, p, distance_upper_bound, workers)
        return distances, np.intp(ids) if isinstance(ids, int) else ids

    def query_ball_point(
        self,
        x: Any,
        r: Any,
        p: float = 2.0,
        eps: float = 0.0,
        workers: int | None = 1,
        return_sorted: bool | None = None,
        return_length: bool = False,
    ) -> Any:
        """All points within `r` of each point of `x`; see `scipy.spatial.KDTree.query_ball_point`."""
        if type(x) is not np.ndarray or x.dtype.kind == "c":
            _refuse_complex(x)
        return super().query_ball_point(x, r, p, eps, workers, return_sorted, return_length)
