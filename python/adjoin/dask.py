# SPDX-License-Identifier: MIT
"""Joins of Dask arrays and DataFrames that are larger than the memory of a worker, on any Dask cluster.

`range_join`, `knn_join` and `count` have the same results as those of `adjoin`, bit for bit. They are lazy: partitions
are joined when a result is computed. The differences are:

- Ids are int64. They number the rows of the whole set, partition after partition.
- The radius is a single number.
- A task uses one thread, unless `threads` says otherwise, because Dask runs one task per thread of a worker.
- There are no options `progress` and `max_pairs`. Dask shows the progress on its dashboard.

A join of p partitions has about 3 p^2 tasks, and most of them only pick a piece of an array. So partitions should not
be small: 100 MB is a good size. A worker holds a few partitions at a time, and the results of its tasks.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import dask
import numpy as np
from dask import array as da
from dask.base import tokenize
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph

from . import _dask_tasks as tasks
from ._arrays import Array, as_points, check_columns
from ._errors import ArgumentError, ArrayTypeError
from ._options import METRICS, JoinOptions, documented, k_of, order_of, settings
from ._result import Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Rows", "count", "knn_join", "range_join"]

# "auto" joins by regions in up to so many dimensions. In more, the halo of a region holds nearly all points.
_FEW = 6
_NOT_OF_DASK = ("progress", "max_pairs")


class Rows:
    """The lazy result of a range join: one `adjoin.Result` for each partition of the left points.

    Attributes
    ----------
    partitions : list of Delayed
        Each computes a `Result` with the rows of a partition. Its `first_row` is the number of its first row in the
        whole set.

    Examples
    --------
    >>> import dask.array, adjoin.dask
    >>> points = dask.array.from_array([[0.0], [1.0], [1.5]], chunks=(2, 1))
    >>> rows = adjoin.dask.range_join(points, radius=1)
    >>> rows
    Rows(partitions=2)
    >>> [row.tolist() for row in rows.compute(scheduler="synchronous")]
    [[1], [0, 2], [1]]
    """

    def __init__(self, partitions: Sequence[Delayed], distances: np.dtype[Any] | None) -> None:
        self.partitions = list(partitions)
        self._distances = distances

    def __repr__(self) -> str:
        return f"Rows(partitions={len(self.partitions)})"

    def compute(self, **options: Any) -> Result:
        """Computes all rows, as one `Result` in memory. Options are those of ``dask.compute``."""
        parts: tuple[Result, ...] = dask.compute(*self.partitions, **options)
        ends = np.cumsum([0] + [len(part.indices) for part in parts])
        indptr = np.concatenate([[0], *(part.indptr[1:] + end for part, end in zip(parts, ends))])
        indices = np.concatenate([part.indices for part in parts])
        distances = None if self._distances is None else np.concatenate([part.distances for part in parts])
        return Result(indptr, indices, distances, (len(indptr) - 1, parts[0].shape[1]))

    def persist(self, **options: Any) -> Rows:
        """The same rows, computed and kept in the memory of the workers. Options are those of ``dask.persist``."""
        return Rows(dask.persist(*self.partitions, **options), self._distances)

    def to_delayed(self) -> list[Delayed]:
        """The partitions, as a list of Delayed objects."""
        return list(self.partitions)

    def to_dataframe(self) -> Any:
        """All pairs as a lazy Dask DataFrame with columns row, column and, if the join computes them, distance."""
        import pandas as pd
        from dask import dataframe as dd

        kinds: dict[str, Any] = {"row": np.int64, "column": np.int64}
        if self._distances is not None:
            kinds["distance"] = self._distances
        meta = pd.DataFrame({name: np.empty(0, kind) for name, kind in kinds.items()})
        return dd.from_delayed([dask.delayed(_as_frame)(part) for part in self.partitions], meta=meta)


def _as_frame(part: Result) -> Any:
    import pandas as pd

    rows, columns, distances = part.to_coo()
    frame = {"row": rows.astype(np.int64), "column": columns.astype(np.int64)}
    return pd.DataFrame(frame if distances is None else {**frame, "distance": distances})


@documented(*_NOT_OF_DASK)
def range_join(
    a: Any,
    b: Any = None,
    *,
    radius: float,
    distances: bool = False,
    order: Literal["id", "distance", "any"] = "id",
    include_self: bool = False,
    method: Literal["auto", "regions", "blocks"] = "auto",
    **options: Unpack[JoinOptions],
) -> Rows:
    """All neighbours within a radius of each point.

    Parameters
    ----------
    a : dask Array or DataFrame
        The points, one per row. A 1-D array holds points in one dimension.
    b : dask Array or DataFrame, optional
        The points that neighbours are taken from. By default the points of `a`, and a point is not its own neighbour.
    radius : float
        The largest distance of a neighbour (``<=``).
    distances : bool
        Also return the distances.
    order : {"id", "distance", "any"}
        How the neighbours of a point are ordered: "id" is by index, "distance" is by distance with ties by index, and
        "any" is any order.
    include_self : bool
        Without `b`: a point is also a neighbour of itself.
    method : {"auto", "regions", "blocks"}
        "regions" moves the points to regions of space and joins each region, "blocks" joins every two partitions.
        "auto" uses regions in up to six dimensions. The result does not depend on it.
    {options}

    Returns
    -------
    Rows
        A lazy `Result` for each partition of `a`.

    Examples
    --------
    >>> import dask.array, adjoin.dask
    >>> points = dask.array.from_array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]], chunks=(1, 2))
    >>> near = adjoin.dask.range_join(points, radius=2, distances=True).compute(scheduler="synchronous")
    >>> near.indptr, near.indices, near.distances
    (array([0, 1, 1, 2]), array([2, 0]), array([1., 1.]))
    """
    order_of(order)
    graph = _Graph(a, b, options, method, include_self, radius=_number(radius), distances=distances, order=order)
    return Rows(graph.delayed(graph.range_join()), graph.asked.dtype if distances else None)


@documented(*_NOT_OF_DASK)
def knn_join(
    a: Any,
    b: Any = None,
    *,
    k: int,
    radius: float | None = None,
    include_self: bool = False,
    method: Literal["auto", "regions", "blocks"] = "auto",
    **options: Unpack[JoinOptions],
) -> tuple[Any, Any]:
    """The k nearest neighbours of each point.

    Parameters
    ----------
    a, b, include_self, method
        As for `range_join`.
    k : int
        The number of neighbours. Ties go to the lower index.
    radius : float, optional
        The largest distance of a neighbour (``<=``).
    {options}

    Returns
    -------
    distances, indices : dask Arrays of shape (n, k)
        Nearest first, with the chunks of `a`. If a point has fewer than k neighbours, its row is filled up with
        distance infinity and index -1.

    Examples
    --------
    >>> import dask.array, adjoin.dask
    >>> points = dask.array.from_array([[0.0], [1.0], [3.0]], chunks=(2, 1))
    >>> distances, indices = adjoin.dask.knn_join(points, k=2)
    >>> indices.compute(scheduler="synchronous")
    array([[1, 2],
           [0, 2],
           [1, 0]])
    """
    bound = None if radius is None else _number(radius)
    graph = _Graph(a, b, options, method, include_self, radius=bound, k=k_of(k))
    return graph.nearest(graph.knn_join())


@documented(*_NOT_OF_DASK)
def count(
    a: Any,
    b: Any = None,
    *,
    radius: float,
    total: bool = False,
    include_self: bool = False,
    method: Literal["auto", "regions", "blocks"] = "auto",
    **options: Unpack[JoinOptions],
) -> Any:
    """The number of neighbours within a radius of each point. No pairs are stored.

    Parameters
    ----------
    a, b, radius, include_self, method
        As for `range_join`.
    total : bool
        Return only the sum. Without `b` every pair counts twice.
    {options}

    Returns
    -------
    dask Array of int64
        One count for each point, with the chunks of `a`. With `total` a 0-dimensional array.

    Examples
    --------
    >>> import dask.array, adjoin.dask
    >>> points = dask.array.from_array([[0.0], [1.0], [1.5]], chunks=(2, 1))
    >>> adjoin.dask.count(points, radius=1).compute(scheduler="synchronous")
    array([1, 2, 1])
    """
    graph = _Graph(a, b, options, method, include_self, radius=_number(radius), counts=True)
    counts = graph.counts(graph.range_join())
    return counts.sum() if total else counts


# ---- Graphs ----


def _number(radius: Any) -> float:
    if np.ndim(radius):
        raise ArgumentError("radius: joins of Dask collections take one radius for all points")
    return float(radius)


class _Set:
    """Points in partitions."""

    def __init__(self, x: Any, name: str, columns: Any) -> None:
        self.name = name
        if isinstance(x, da.Array):
            if x.ndim == 1:
                x = x[:, None]
            if x.ndim != 2:
                raise ArgumentError(f"{name}: points are a 2-D array with one point per row, not a {x.ndim}-D array")
            if len(x.chunks[1]) > 1:
                x = x.rechunk({1: -1})
            self.chunks: tuple[Any, ...] = x.chunks[0]
            self.parts = x.to_delayed().ravel().tolist()
            meta: Any = np.empty((0, x.shape[1]), x.dtype)
        elif hasattr(x, "to_delayed") and hasattr(x, "_meta"):
            self.parts = list(x.to_delayed())
            self.chunks = (np.nan,) * len(self.parts)
            meta = x._meta
        else:
            raise ArrayTypeError(f"{name}: {type(x).__name__} is neither a Dask array nor a Dask DataFrame")
        self.table = meta
        self.meta: Array = as_points(meta, name, columns=columns)


class _Graph:
    """The task graph of a join. A key is the name of a step, with the numbers of partitions or regions."""

    def __init__(self, a: Any, b: Any, options: Any, method: str, include_self: bool, **asked: Any) -> None:
        for name in _NOT_OF_DASK:
            if name in options:
                raise TypeError(f"joins of Dask collections take no argument {name!r}")
        options = {"threads": 1, **options}
        chosen = settings(options)  # raises an error for wrong options here, and not on a worker
        columns = options.pop("columns", None)
        self.left = _Set(a, "a", columns)
        self.right = self.left if b is None else _Set(b, "b", columns)
        check_columns(columns, {"a": self.left.table} if b is None else {"a": self.left.table, "b": self.right.table})
        kinds = {each.meta.dtype for each in (self.left, self.right)}
        dtype = chosen.dtype or (kinds.pop() if len(kinds) == 1 else np.dtype(np.float64))
        dim = self.left.meta.shape[1]
        if self.right.meta.shape[1] != dim:
            raise ArgumentError(f"a has {dim} dimensions and b has {self.right.meta.shape[1]}")
        self.regions = max(len(self.left.parts), len(self.right.parts))
        self.asked = tasks.Asked(options, dtype, dim, b is None, include_self, self.regions, columns=columns, **asked)
        self.by_regions = self._method(method, chosen.metric)
        self.token = "adjoin-" + tokenize(a, b, self.asked, self.by_regions)
        self.tasks: dict[Any, Any] = {}
        self.asked_key = self.add("asked", task=self.asked)

    def _method(self, method: str, metric: int) -> bool:
        has_regions = metric != METRICS["dot"]
        if method not in ("auto", "regions", "blocks"):
            raise ArgumentError(f"method: {method!r} is not one of auto, regions, blocks")
        if method == "regions" and not has_regions:
            raise ArgumentError("method: inner products cannot be joined by regions, use blocks")
        return method == "regions" or (method == "auto" and has_regions and self.left.meta.shape[1] <= _FEW)

    def add(self, step: str, *numbers: int, task: Any) -> Any:
        """Adds a task, and returns its key."""
        key = (f"{step}-{self.token}", *numbers)
        self.tasks[key] = task
        return key

    def pick(self, step: str, key: Any, *numbers: int) -> Any:
        """Adds a task that picks one entry of another task's list. The last of the numbers is its place."""
        return self.add(step, *numbers, task=(operator.getitem, key, numbers[-1]))

    # ---- Partitions ----

    def points(self, of: _Set) -> tuple[list[Any], Any]:
        """The keys of the points of each partition, and the key of the partitions' offsets."""
        step, name = f"points-{of.name}", of.name
        keys = []
        for i, part in enumerate(of.parts):
            keys.append(self.add(step, i, task=(tasks.points_of, self.asked_key, name, i, part.key)))
        lengths = [self.add(f"length-{name}", i, task=(len, key)) for i, key in enumerate(keys)]
        return keys, self.add(f"offsets-{name}", task=(tasks.offsets_of, lengths))

    def split(self, points: list[Any], offsets: Any) -> Any:
        """The key of the regions, which are made from a sample of the left points."""
        samples = [self.add("sample", i, task=(tasks.sample_of, key, offsets)) for i, key in enumerate(points)]
        return self.add("split", task=(tasks.split_of, self.asked_key, offsets, samples))

    def scatter(self, of: _Set, keys: list[Any], offsets: Any, split: Any, own: bool, halo: bool) -> list[list[Any]]:
        """For each region, the keys of the pieces that the partitions send there."""
        regions: list[list[Any]] = [[] for _ in range(self.regions)]
        for i, key in enumerate(keys):
            task = (tasks.scatter, self.asked_key, of.name, i, key, offsets, split, own, halo)
            sent = self.add(f"scatter-{of.name}", i, task=task)
            for r, pieces in enumerate(regions):
                pieces.append(self.pick(f"piece-{of.name}", sent, i, r))
        return regions

    def by_partition(self, step: str, keys: Iterable[Any]) -> list[list[Any]]:
        """For each left partition, the keys of its parts of the regions' results."""
        found = list(enumerate(keys))
        return [[self.pick(step, key, r, i) for r, key in found] for i in range(len(self.left.parts))]

    # ---- Joins ----

    def range_join(self) -> list[Any]:
        """The keys of the rows or counts of each left partition."""
        asked, own = self.asked_key, self.asked.own
        left, offsets = self.points(self.left)
        right, right_offsets = (left, offsets) if own else self.points(self.right)
        if self.by_regions:
            split = self.split(left, offsets)
            mine = self.scatter(self.left, left, offsets, split, True, own)
            theirs: list[Any] = [None] * self.regions
            if not own:
                theirs = list(self.scatter(self.right, right, right_offsets, split, False, True))
            joins = [
                self.add("join", r, task=(tasks.join_region, asked, offsets, *pieces))
                for r, pieces in enumerate(zip(mine, theirs))
            ]
            pieces = self.by_partition("rows", joins)
        else:
            both = offsets, right_offsets
            pieces = [[self._block(i, j, x, y, *both) for j, y in enumerate(right)] for i, x in enumerate(left)]
        if self.asked.counts:
            return [self.add("counts", i, task=(tasks.gather_counts, i, offsets, p)) for i, p in enumerate(pieces)]
        candidates = self.add("candidates", task=(operator.getitem, right_offsets, -1))
        return [
            self.add("result", i, task=(tasks.gather_rows, asked, i, offsets, candidates, p))
            for i, p in enumerate(pieces)
        ]

    def _block(self, i: int, j: int, left: Any, right: Any, offsets: Any, right_offsets: Any) -> Any:
        task = (tasks.join_block, self.asked_key, left, right, [i, j], offsets, right_offsets)
        return self.add("block", i, j, task=task)

    def knn_join(self) -> list[Any]:
        """The keys of the distances and ids of each left partition."""
        left, offsets = self.points(self.left)
        right, right_offsets = (left, offsets) if self.asked.own else self.points(self.right)
        if self.by_regions:
            pieces = self._search_regions(left, offsets, right, right_offsets)
        else:
            pieces = [[self._search_blocks(i, left, right, offsets, right_offsets)] for i in range(len(left))]
        return [
            self.add("nearest", i, task=(tasks.gather_nearest, self.asked_key, i, offsets, p))
            for i, p in enumerate(pieces)
        ]

    def _search_regions(self, left: list[Any], offsets: Any, right: list[Any], right_offsets: Any) -> list[list[Any]]:
        asked, numbers = self.asked_key, range(self.regions)
        split = self.split(left, offsets)
        mine = self._regions(self.left, left, offsets, split)
        theirs = mine if self.asked.own else self._regions(self.right, right, right_offsets, split)
        boxes = [self.add("bounds", i, task=(tasks.bounds_of, asked, key, split)) for i, key in enumerate(right)]
        bounds = self.add("bounds-of-all", task=(tasks.bounds_of_all, boxes))
        searched, visits = [], []
        for r in numbers:
            searched.append(
                self.add("search", r, task=(tasks.search_region, asked, r, mine[r], theirs[r], split, bounds))
            )
            visits.append(self.add("visits", r, task=(operator.getitem, searched[r], 1)))
        answers = []
        for s in numbers:
            visitors = [self.pick("visitors", visits[r], r, s) for r in numbers]
            answers.append(self.add("answers", s, task=(tasks.search_visitors, asked, theirs[s], visitors)))
        finished = []
        for r in numbers:
            others = [self.pick("answer", answers[s], s, r) for s in numbers]
            finished.append(self.add("finish", r, task=(tasks.finish_region, offsets, searched[r], others)))
        return self.by_partition("lists", finished)

    def _regions(self, of: _Set, keys: list[Any], offsets: Any, split: Any) -> list[Any]:
        """The keys of the points of each region."""
        pieces = self.scatter(of, keys, offsets, split, True, False)
        return [self.add(f"region-{of.name}", r, task=(tasks.region_of, each)) for r, each in enumerate(pieces)]

    def _search_blocks(self, i: int, left: list[Any], right: list[Any], offsets: Any, right_offsets: Any) -> Any:
        """The key of a left partition's lists. A chain of tasks searches one right partition after the other."""
        found = None
        for j, key in enumerate(right):
            task = (tasks.search_block, self.asked_key, found, left[i], key, [i, j], offsets, right_offsets)
            found = self.add("block", i, j, task=task)
        return found

    # ---- Results ----

    def _finished(self, name: str) -> HighLevelGraph:
        parts = self.left.parts + ([] if self.asked.own else self.right.parts)
        return HighLevelGraph.from_collections(name, self.tasks, dependencies=parts)

    def delayed(self, keys: list[Any]) -> list[Delayed]:
        """The results of tasks, as Delayed objects."""
        graph = self._finished(self.token)
        return [Delayed(key, graph, layer=self.token) for key in keys]

    def counts(self, keys: list[Any]) -> Any:
        """The results of tasks, as one array."""
        name = keys[0][0]
        return da.Array(self._finished(name), name, (self.left.chunks,), dtype=np.int64)

    def nearest(self, keys: list[Any]) -> tuple[Any, Any]:
        """The distances and ids of tasks, as two arrays."""
        steps, arrays = ("distances", "ids"), []
        for place, step in enumerate(steps):
            for i, key in enumerate(keys):
                self.add(step, i, 0, task=(operator.getitem, key, place))
        for step, kind in zip(steps, (self.asked.dtype, np.dtype(np.int64))):
            name = f"{step}-{self.token}"
            chunks = (self.left.chunks, (self.asked.k,))
            arrays.append(da.Array(self._finished(name), name, chunks, dtype=kind))
        return arrays[0], arrays[1]
