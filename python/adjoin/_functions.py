# SPDX-License-Identifier: MIT
"""The plain functions: joins of one set with itself, or of two sets; and select_k."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from . import _declarations as d
from ._arrays import F32, F64, Array, is_on_device
from ._context import context as context_of
from ._device import DeviceJob, select_on_device
from ._errors import ArgumentError, ArrayTypeError, OutOfMemoryError
from ._join import PairJob
from ._library import fresh, lib
from ._options import JoinOptions, Settings, _string, documented, k_of, order_of, settings
from ._plan import Plan, explained
from ._result import Result
from ._run import Call, check_call
from ._stream import blocks_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["blocks", "count", "explain", "knn_join", "pairs", "range_join", "select_k", "write"]


def _flags(distances: bool, include_self: bool) -> int:
    return (d.ADJ_WITH_DISTANCE if distances else 0) | (d.ADJ_WITH_SELF if include_self else 0)


def _job(a: Any, b: Any, chosen: Settings, kind: int) -> Any:
    """A join. It runs on a GPU if the points are there."""
    if is_on_device(a) or (b is not None and is_on_device(b)):
        return DeviceJob(a, b, chosen, kind)
    return PairJob(a, b, chosen, kind)


def _range_job(a: Any, b: Any, radius: Any, options: Any) -> Any:
    job = _job(a, b, settings(options), d.ADJ_RANGE)
    job.within(radius)
    return job


def _knn_job(a: Any, b: Any, k: int, radius: Any, include_self: bool, options: Any) -> Any:
    chosen = settings(options)
    job = _job(a, b, chosen, d.ADJ_KNN)
    job.spec.k = k_of(k)
    job.spec.flags = _flags(True, include_self)
    if radius is None:
        job.spec.radius = -math.inf if chosen.metric == d.ADJ_DOT else math.inf
    else:
        job.within(radius)
    return job


def _any_job(a: Any, b: Any, radius: Any, k: int | None, distances: bool, include_self: bool, options: Any) -> Any:
    """A kNN join if k is given, otherwise a range join. The points are in host memory."""
    if is_on_device(a) or (b is not None and is_on_device(b)):
        raise ArrayTypeError("a, b: explain, blocks and write take points in host memory, not on a GPU")
    if k is not None:
        return _knn_job(a, b, k, radius, include_self, options)
    if radius is None:
        raise ArgumentError("neither radius nor k is given")
    job = _range_job(a, b, radius, options)
    job.spec.flags = _flags(distances, include_self)
    return job


@documented()
def range_join(
    a: Any,
    b: Any = None,
    *,
    radius: Any,
    distances: bool = False,
    order: Literal["id", "distance", "any"] = "id",
    include_self: bool = False,
    **options: Unpack[JoinOptions],
) -> Result:
    """All neighbours within a radius of each point.

    Parameters
    ----------
    a : array_like
        The points, one per row. A 1-D array holds points in one dimension.
    b : array_like, optional
        The points that neighbours are taken from. By default the points of `a`, and a point is not its own neighbour.
    radius : float or array_like
        The largest distance of a neighbour (``<=``): one for all points, or one for each point of `a`.
    distances : bool
        Also return the distances.
    order : {"id", "distance", "any"}
        How the neighbours of a point are ordered: "id" is by index, "distance" is by distance with ties by index, and
        "any" is the fastest order.
    include_self : bool
        Without `b`: a point is also a neighbour of itself.
    {options}

    Returns
    -------
    Result
        One row of neighbours for each point of `a`: ``indptr``, ``indices`` and ``distances``.

    Examples
    --------
    >>> import adjoin
    >>> points = [[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]
    >>> near = adjoin.range_join(points, radius=2, distances=True)
    >>> near.indptr, near.indices, near.distances
    (array([0, 1, 1, 2]), array([2, 0], dtype=int32), array([1., 1.]))
    >>> adjoin.range_join(points, [[3.0, 3.0]], radius=[1, 1, 4])[2].tolist()
    [0]
    """
    job = _range_job(a, b, radius, options)
    if distances or include_self:
        job.spec.flags = _flags(distances, include_self)
    if order != "id":
        job.spec.order = order_of(order)
    result: Result = job.rows()
    return result


@documented()
def knn_join(
    a: Any,
    b: Any = None,
    *,
    k: int,
    radius: Any = None,
    include_self: bool = False,
    **options: Unpack[JoinOptions],
) -> tuple[Any, Any]:
    """The k nearest neighbours of each point.

    Parameters
    ----------
    a : array_like
        The points, one per row. A 1-D array holds points in one dimension.
    b : array_like, optional
        The points that neighbours are taken from. By default the points of `a`, and a point is not its own neighbour.
    k : int
        The number of neighbours. Ties go to the lower index.
    radius : float or array_like, optional
        The largest distance of a neighbour (``<=``): one for all points, or one for each point of `a`.
    include_self : bool
        Without `b`: a point is also a neighbour of itself.
    {options}

    Returns
    -------
    distances, indices : arrays of shape (n, k)
        Nearest first. The index of a neighbour is the number of its row in `b`, or without `b` in `a`, from 0. If a
        point has fewer than k neighbours, its row is filled up with distance infinity and index -1.

    Examples
    --------
    >>> import adjoin
    >>> distances, indices = adjoin.knn_join([[0.0], [1.0], [3.0]], k=2)
    >>> indices
    array([[1, 2],
           [0, 2],
           [1, 0]], dtype=int32)
    >>> distances[0]
    array([1., 3.])
    """
    nearest: tuple[Any, Any] = _knn_job(a, b, k, radius, include_self, options).nearest()
    return nearest


@overload
def count(
    a: Any,
    b: Any = None,
    *,
    radius: Any,
    total: Literal[False] = False,
    include_self: bool = False,
    **options: Unpack[JoinOptions],
) -> Any: ...
@overload
def count(
    a: Any,
    b: Any = None,
    *,
    radius: Any,
    total: Literal[True],
    include_self: bool = False,
    **options: Unpack[JoinOptions],
) -> int: ...
@documented()
def count(
    a: Any,
    b: Any = None,
    *,
    radius: Any,
    total: bool = False,
    include_self: bool = False,
    **options: Unpack[JoinOptions],
) -> Any:
    """The number of neighbours within a radius of each point. No pairs are stored.

    Parameters
    ----------
    a, b, radius, include_self
        As for `range_join`.
    total : bool
        Return only the sum, which is faster. Without `b` every pair counts twice.
    {options}

    Returns
    -------
    array of int32, or int

    Examples
    --------
    >>> import adjoin
    >>> points = [[0.0], [1.0], [1.5]]
    >>> adjoin.count(points, radius=1)
    array([1, 2, 1], dtype=int32)
    >>> adjoin.count(points, radius=1, total=True)
    4
    """
    job = _range_job(a, b, radius, options)
    if include_self:
        job.spec.flags = d.ADJ_WITH_SELF
    return job.total() if total else job.counts()


@documented()
def pairs(
    a: Any,
    b: Any = None,
    *,
    radius: Any,
    distances: bool = False,
    **options: Unpack[JoinOptions],
) -> Any:
    """All pairs of points within a radius, one per row. A pair of one set is listed once, with the lower index first.

    Parameters
    ----------
    a, b, radius
        As for `range_join`. Without `b` the radius must be a single number.
    distances : bool
        Also return the distances.
    {options}

    Returns
    -------
    pairs : array of int64, shape (n, 2)
    distances : array, shape (n,)
        Only with ``distances=True``.

    Examples
    --------
    >>> import adjoin
    >>> adjoin.pairs([[0.0], [1.0], [1.5]], radius=1)
    array([[0, 1],
           [1, 2]])
    """
    job = _range_job(a, b, radius, options)
    if b is None and job.radii is not None:
        raise ArgumentError("radius: pairs of one set need a single radius; range_join takes one for each point")
    job.spec.flags = _flags(distances, False) | (d.ADJ_ONE_WAY if b is None else 0)
    result: Result = job.rows()
    found = result.edge_index.T
    if isinstance(found, np.ndarray):
        found = np.ascontiguousarray(found)
    return (found, result.distances) if distances else found


@documented("progress", "max_pairs")
def explain(
    a: Any,
    b: Any = None,
    *,
    radius: Any = None,
    k: int | None = None,
    distances: bool = False,
    include_self: bool = False,
    analyze: bool = False,
    **options: Unpack[JoinOptions],
) -> Plan:
    """How a join would be computed and why, and its expected size and time.

    Parameters
    ----------
    a, b, radius, k, distances, include_self
        As for `range_join` or, if `k` is given, `knn_join`.
    analyze : bool
        Also run the join, counting only, and report what happened.
    {options}

    Returns
    -------
    Plan
        ``str(plan)`` is the explanation, which notebooks show as a table. ``plan.pairs``, ``plan.seconds`` and others
        are estimates.

    Examples
    --------
    >>> import adjoin
    >>> plan = adjoin.explain([[0.0], [1.0], [1.5]], radius=1)
    >>> plan.pairs >= 0
    True
    """
    job = _any_job(a, b, radius, k, distances, include_self, options)
    return explained(job, analyze)


@documented()
def blocks(
    a: Any,
    b: Any = None,
    *,
    radius: Any = None,
    k: int | None = None,
    distances: bool = False,
    order: Literal["id", "distance", "any"] = "id",
    include_self: bool = False,
    **options: Unpack[JoinOptions],
) -> Iterator[Result]:
    """The result of a join in blocks of rows, for results larger than memory.

    Parameters
    ----------
    a, b, radius, k, distances, order, include_self
        As for `range_join` or, if `k` is given, `knn_join`.
    {options}

    Yields
    ------
    Result
        Consecutive rows, from row ``first_row`` on. In a kNN join each row has k entries.

    Examples
    --------
    >>> import adjoin
    >>> for block in adjoin.blocks([[0.0], [1.0], [1.5]], radius=1):
    ...     print(block.first_row, block.indices)
    0 [1 0 2 1]
    """
    job = _any_job(a, b, radius, k, distances, include_self, options)
    job.spec.order = order_of(order)
    return blocks_of(job)


@documented()
def write(
    path: str | os.PathLike[str],
    a: Any,
    b: Any = None,
    *,
    radius: Any = None,
    k: int | None = None,
    distances: bool = False,
    include_self: bool = False,
    counts: bool = False,
    format: str | None = None,
    overwrite: bool = True,
    **options: Unpack[JoinOptions],
) -> None:
    """Writes the result of a join to a file. The result may be larger than memory.

    The file appears only when it is complete.

    Parameters
    ----------
    path : str or path
        Its extension is the format: .npz (``scipy.sparse.load_npz`` reads range joins), .csv, .tsv, .npy and, for kNN
        joins, .ivecs.
    a, b, radius, k, distances, include_self
        As for `range_join` or, if `k` is given, `knn_join`.
    counts : bool
        Write the number of neighbours of each point instead of the pairs.
    format : str, optional
        The format, such as "npz". By default the extension of the path.
    overwrite : bool
        Replace an existing file. If false, an existing file raises `FileError`.
    {options}

    Examples
    --------
    >>> import adjoin, scipy.sparse, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     adjoin.write(f"{folder}/near.npz", [[0.0], [1.0], [1.5]], radius=1)
    ...     scipy.sparse.load_npz(f"{folder}/near.npz").nnz
    4
    """
    job = _any_job(a, b, radius, k, distances, include_self, options)
    how = fresh(d.adj_write_options)
    how.counts = int(counts)
    how.format = _string("format", format)
    how.flags = 0 if overwrite else d.ADJ_NO_CLOBBER
    job.write(path, how)


def select_k(
    values: Any,
    k: int,
    *,
    largest: bool = False,
    ordered: bool = True,
    threads: int | None = None,
    memory: int | str | None = None,
) -> tuple[Any, Any]:
    """The k smallest (or largest) values of each row of a matrix.

    Parameters
    ----------
    values : array_like, shape (n, m)
        The matrix. f16 becomes f32, and types other than f32 and f64 become f64. A 1-D array is one row.
    k : int
        The number of values to select. A row with fewer than k columns is filled up with infinity (minus infinity
        with `largest`) and column -1.
    largest : bool
        Select the largest values.
    ordered : bool
        Sort the selected values of each row: smallest first, or largest first with `largest`. Ties go to the lower
        column, and NaN comes last.
    threads, memory
        As for `range_join`.

    Returns
    -------
    values, columns : arrays of shape (n, k), or (k,) for a 1-D array
        The selected values and their columns.

    Examples
    --------
    >>> import adjoin
    >>> adjoin.select_k([[5.0, 1.0, 3.0]], 2)
    (array([[1., 3.]]), array([[1, 2]], dtype=int32))
    """
    if is_on_device(values):
        return select_on_device(values, k_of(k), largest, ordered)
    try:
        matrix = np.asarray(values)
    except ValueError as reason:
        raise ArgumentError(f"values: cannot be converted to a matrix: {reason}") from None
    if matrix.dtype not in (F32, F64):
        if matrix.dtype.kind not in "fiub":
            raise ArrayTypeError(f"values: dtype {matrix.dtype} is not a type of real numbers")
        matrix = matrix.astype(F32 if matrix.dtype.kind == "f" and matrix.dtype.itemsize <= 4 else F64)
    if matrix.ndim == 1:
        best, columns = _select(matrix.reshape(1, -1), k_of(k), largest, ordered, context_of(threads, memory).handle)
        return best[0], columns[0]
    if matrix.ndim != 2:
        raise ArgumentError(f"values: expected a 2-D array, or one row as a 1-D array, not a {matrix.ndim}-D array")
    return _select(matrix, k_of(k), largest, ordered, context_of(threads, memory).handle)


def _select(matrix: Array, k: int, largest: bool, ordered: bool, context: Any) -> tuple[Array, Array]:
    if largest:
        matrix = -matrix
    if matrix.strides[1] != matrix.itemsize or matrix.strides[0] < matrix.itemsize or not matrix.flags.aligned:
        matrix = np.ascontiguousarray(matrix)
    question = fresh(d.adj_matrix)
    question.type = d.ADJ_F32 if matrix.dtype == F32 else d.ADJ_F64
    question.rows, question.columns = matrix.shape
    question.row_stride = matrix.strides[0]
    question.values = matrix.ctypes.data
    needed, limit = matrix.shape[0] * k * (matrix.itemsize + 4), lib.adj_ctx_memory_limit(context)
    if needed > limit:
        raise OutOfMemoryError(f"k: {k} values for each of {matrix.shape[0]} rows need {needed} B of at most {limit} B")
    best = np.empty((matrix.shape[0], k), matrix.dtype)
    columns = np.empty(best.shape, np.uint32)
    order = d.ADJ_ORDER_ID if ordered else d.ADJ_ORDER_ANY
    addresses = columns.ctypes.data, best.ctypes.data
    check_call(Call(), lib.adj_select_k, context, ctypes.byref(question), k, order, *addresses)
    if largest:
        np.negative(best, best)
    return best, columns.view(np.int32)
