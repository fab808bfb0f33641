# SPDX-License-Identifier: MIT
"""Index: points that are prepared once and queried often."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from . import _declarations as d
from ._arrays import Array, as_points, check_columns, fitted, is_on_device
from ._context import Context, finalizer, generation
from ._errors import ArgumentError, ArrayTypeError, DataError, with_names
from ._join import Handles, Job, dataset, ends_of, new_handle
from ._library import check, fresh, lib
from ._options import JoinOptions, Settings, documented, k_of, order_of, settings
from ._run import LONG, Call, check_call, interruptible, is_long

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._result import Result

__all__ = ["Index"]

byref, c_void_p = ctypes.byref, ctypes.c_void_p
_NOT_OF_AN_INDEX = ("progress", "max_pairs", "algorithm", "tuning", "system")


class Kept:
    """An adj_index and its dataset."""

    __slots__ = ("__weakref__", "context", "end", "generation", "handle", "points")

    def __init__(self, points: Array, chosen: Settings) -> None:
        self.generation = generation.number
        self.points = points
        self.context: Context = chosen.get_context()
        handles: Handles = []
        self.end = finalizer((self.context, points), ends_of(handles))

        def work(call: Call) -> int:
            options = fresh(d.adj_index_options)
            chosen.fill_index(options)
            data = dataset(self.context, points, handles, call, "points")
            out = new_handle(handles, lib.adj_index_destroy)
            check_call(call, lib.adj_index_create, self.context.handle, byref(options), data, byref(out))
            return out.value or 0

        long = is_long(len(points), LONG // 100_000, points.shape[1])
        self.handle = interruptible(self.context, work) if long else work(Call())


class _Question(Job):
    """A join of queries with the points of an index, or of the points with themselves."""

    __slots__ = ("kept", "queries")

    def __init__(self, kept: Kept, queries: Array | None, kind: int, chosen: Settings) -> None:
        self.settings = chosen
        self.context = kept.context
        self.kept = kept
        self.queries = queries
        self.left = kept.points if queries is None else queries
        self.candidates = len(kept.points)
        self._long = is_long(len(self.left), self.candidates, kept.points.shape[1])
        self.spec = fresh(d.adj_question)
        self.spec.kind = self.kind = kind
        self.radii = None

    def open(self, handles: Handles, call: Call) -> ctypes.c_void_p:
        queries = None if self.queries is None else dataset(self.context, self.queries, handles, call, "queries")
        plan = new_handle(handles, lib.adj_plan_destroy)
        try:
            check_call(call, lib.adj_index_plan, self.kept.handle, byref(self.spec), queries, byref(plan))
        except DataError as reason:
            raise with_names(reason, left="queries") from None
        return plan


class Index:
    """An index of points: built once, then queried any number of times with different queries, k and radii.

    Results are the same as those of `range_join` and `knn_join`. Queries are converted to the type of the points.
    Several threads may query one index at the same time.

    Parameters
    ----------
    points : array_like
        The points, one per row. A 1-D array holds points in one dimension. The array must not change while the index
        is in use, unless `copy` is true.
    copy : bool
        Keep a copy of the points, so that the array may change.
    **options
        `metric`, `p`, `box`, `angle`, `unit`, `sphere_radius`, `backend`, `threads`, `memory`, `device`, `dtype` and
        `columns`, as for `range_join`.

    Examples
    --------
    >>> import adjoin
    >>> index = adjoin.Index([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    >>> index.knn([[0.0, 0.1]], k=2)
    (array([[0.1, 0.9]]), array([[0, 2]], dtype=int32))
    >>> index.range([[0.0, 0.0]], radius=1)[0].tolist()
    [0, 2]
    >>> index.count([[0.0, 0.0]], radius=5)
    array([3], dtype=int32)
    """

    points: Any

    @documented(*_NOT_OF_AN_INDEX)
    def __init__(self, points: Any, *, copy: bool = False, **options: Unpack[JoinOptions]) -> None:
        for name in _NOT_OF_AN_INDEX:
            if name in options:
                raise TypeError(f"Index() got an unexpected keyword argument {name!r}")
        self._options = dict(options)
        self._settings = settings(options)
        self._device: Any = None
        if is_on_device(points):
            from ._device import DeviceIndex

            self._device = DeviceIndex(points, copy, self._settings)
            self.points = self._device.points
            return
        check_columns(self._settings.columns, {"points": points})
        array = as_points(points, "points", self._settings.dtype, self._settings.columns)
        self.points = array.copy() if copy else array
        self._kept = Kept(self.points, self._settings)

    @property
    def count_of_points(self) -> int:
        """The number of points."""
        return int(self.points.shape[0])

    @property
    def dim(self) -> int:
        """The number of dimensions."""
        return int(self.points.shape[1])

    def __len__(self) -> int:
        return self.count_of_points

    def __repr__(self) -> str:
        return f"Index({len(self)} points, {self.dim} dimensions, {self.points.dtype})"

    def __reduce__(self) -> Any:
        return _restore, (self.points, self._options)

    def _current(self) -> Kept:
        """The library's index. A forked process builds its own."""
        if self._kept.generation != generation.number:
            if not self._settings.plain:
                self._settings = Settings(**self._options)
            self._kept = Kept(self.points, self._settings)
        return self._kept

    def _queries(self, queries: Any) -> Array:
        array = as_points(queries, "queries", self.points.dtype, self._settings.columns)
        if array.shape[1] != self.dim:
            array = fitted(array, queries, self.dim)
        if array.shape[1] != self.dim:
            hint = f"; an index of no points is made from an array of shape (0, {array.shape[1]})"
            raise ArgumentError(
                f"queries have {array.shape[1]} dimensions and the index has {self.dim}{'' if len(self) else hint}"
            )
        return array

    def _question(self, queries: Any, kind: int, progress: Any) -> Any:
        chosen = self._settings
        if progress:
            chosen = Settings(**self._options, progress=progress)
        if self._device is not None:
            return self._device.question(queries, kind, chosen)
        return _Question(self._current(), None if queries is None else self._queries(queries), kind, chosen)

    def _one(self, query: Any) -> Array | None:
        """A single query, given as a 1-D array of coordinates. None for any other queries."""
        dim = self.points.shape[1]
        if dim == 1 or queries_are_many(query):
            return None
        try:
            array = np.asarray(query, self.points.dtype, order="C")
        except (TypeError, ValueError, OverflowError) as reason:
            raise ArrayTypeError(f"queries: {reason}") from None
        if array.shape != (dim,):
            raise ArgumentError(f"queries: shape {array.shape} is neither ({dim},) nor (n, {dim})")
        return array

    def knn(
        self,
        queries: Any = None,
        k: int = 1,
        *,
        radius: Any = None,
        include_self: bool = False,
        progress: Any = False,
    ) -> tuple[Any, Any]:
        """The k nearest points of each query.

        Parameters
        ----------
        queries : array_like, optional
            One query per row, or the coordinates of a single query as a 1-D array. By default the points of the
            index, and a point is not its own neighbour.
        k : int
            The number of neighbours. Ties go to the lower index.
        radius : float or array_like, optional
            The largest distance of a neighbour: one for all queries, or one for each.
        include_self : bool
            Without `queries`: a point is also a neighbour of itself.
        progress : bool or callable
            As for `range_join`.

        Returns
        -------
        distances, indices : arrays of shape (n, k), or (k,) for a single query
            Nearest first. If a query has fewer than k neighbours, its row is filled up with distance infinity and
            index -1.
        """
        number = k_of(k)
        if queries is not None and self._device is None:
            one = self._one(queries)
            if one is not None:
                if radius is None:
                    return self._nearest(one, number)
                distances, ids = self.knn(one.reshape(1, -1), number, radius=radius)
                return distances[0], ids[0]
        job = self._question(queries, d.ADJ_KNN, progress)
        job.spec.k = number
        job.spec.flags = d.ADJ_WITH_DISTANCE | (d.ADJ_WITH_SELF if include_self and queries is None else 0)
        if radius is not None:
            job.within(radius)
        elif self._settings.metric == d.ADJ_DOT:
            job.spec.radius = -math.inf
        nearest: tuple[Any, Any] = job.nearest()
        if self._device is not None and queries is not None and len(queries.shape) == 1 and self.dim > 1:
            return nearest[0][0], nearest[1][0]
        return nearest

    def _nearest(self, query: Array, k: int) -> tuple[Array, Array]:
        """The neighbours of one query, without the cost of a plan."""
        distances = np.empty(k, query.dtype)
        ids = np.empty(k, np.int32)
        handle = self._current().handle
        addresses = [array.__array_interface__["data"][0] for array in (query, ids, distances)]
        try:
            check(lib.adj_index_nearest(handle, addresses[0], k, addresses[1], addresses[2], None))
        except DataError as reason:
            raise with_names(reason, point="queries") from None
        return distances, ids

    def range(
        self,
        queries: Any = None,
        radius: Any = None,
        *,
        distances: bool = False,
        order: Literal["id", "distance", "any"] = "id",
        include_self: bool = False,
        progress: Any = False,
    ) -> Result:
        """All points within a radius of each query.

        Parameters
        ----------
        queries : array_like, optional
            One query per row, or the coordinates of a single query as a 1-D array. By default the points of the
            index, and a point is not its own neighbour.
        radius : float or array_like
            The largest distance of a neighbour: one for all queries, or one for each.
        distances, order, include_self, progress
            As for `range_join`.

        Returns
        -------
        Result
            One row of neighbours for each query.
        """
        job = self._within(queries, radius, progress)
        job.spec.flags |= d.ADJ_WITH_DISTANCE if distances else 0
        job.spec.flags |= d.ADJ_WITH_SELF if include_self and queries is None else 0
        job.spec.order = order_of(order)
        result: Result = job.rows()
        return result

    def _within(self, queries: Any, radius: Any, progress: Any) -> Any:
        if radius is None:
            raise ArgumentError("radius is not given")
        if queries is not None and self._device is None:
            one = self._one(queries)
            queries = queries if one is None else one.reshape(1, -1)
        job = self._question(queries, d.ADJ_RANGE, progress)
        job.within(radius)
        return job

    @overload
    def count(
        self,
        queries: Any = None,
        radius: Any = None,
        *,
        total: Literal[False] = False,
        include_self: bool = False,
        progress: Any = False,
    ) -> Any: ...
    @overload
    def count(
        self,
        queries: Any = None,
        radius: Any = None,
        *,
        total: Literal[True],
        include_self: bool = False,
        progress: Any = False,
    ) -> int: ...
    def count(
        self,
        queries: Any = None,
        radius: Any = None,
        *,
        total: bool = False,
        include_self: bool = False,
        progress: Any = False,
    ) -> Any:
        """The number of points within a radius of each query.

        Parameters
        ----------
        queries, radius, include_self, progress
            As for `Index.range`.
        total : bool
            Return only the sum, which is faster.

        Returns
        -------
        array of int32, or int
        """
        job = self._within(queries, radius, progress)
        job.spec.flags |= d.ADJ_WITH_SELF if include_self and queries is None else 0
        return job.total() if total else job.counts()


def queries_are_many(query: Any) -> bool:
    """Whether this is anything but a 1-D array or sequence of one or more numbers."""
    shape = getattr(query, "shape", None)
    if shape is not None:
        return len(shape) != 1 or shape[0] == 0
    if hasattr(query, "columns") or not hasattr(query, "__len__") or not hasattr(query, "__getitem__"):
        return True
    return len(query) == 0 or np.ndim(query[0]) > 0


def _restore(points: Any, options: dict[str, Any]) -> Index:
    """A pickled index. Its points are an array, and `columns` is only for the tables of queries."""
    index = Index(points, **{name: value for name, value in options.items() if name != "columns"})
    index._options, index._settings = options, settings(options)
    return index
