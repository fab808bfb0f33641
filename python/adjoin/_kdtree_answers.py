# SPDX-License-Identifier: MIT
"""Results of a KDTree in SciPy's shapes and types."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _declarations as d
from ._arrays import Array
from ._context import context
from ._library import check, lib
from ._result import Result
from ._stream import blocks_of

if TYPE_CHECKING:
    from .kdtree import cKDTree

MATRICES = ("dict", "ndarray", "coo_array", "coo_matrix", "dok_array", "dok_matrix")
# The first buffer for the neighbours of one query has room for so many.
_ROOM = 256
# Arrays of at least so many ids are copied by all threads.
_MANY_IDS = 1 << 20


def number(r: Any) -> float:
    """A single radius as a float. Anything but a number is an error."""
    if not hasattr(r, "__float__") and not hasattr(r, "__index__"):
        raise TypeError(f"must be real number, not {type(r).__name__}")
    return float(r)


def wrap(points: Array, lengths: Array) -> Array:
    """Points moved into the box by whole lengths."""
    out: Array = points.copy()
    for j, length in enumerate(lengths.tolist()):
        if length > 0:
            column = out[..., j]
            column -= np.floor(column / length) * length
            column[column >= length] -= length
            column[column < 0] += length
    return out


def radii(tree: cKDTree, points: Array, r: Any) -> Any:
    """Radii that the library accepts, with -1 for those that find nothing (NaN and negative ones).

    A huge radius is replaced by one that is still larger than any distance.
    """
    if isinstance(r, float) and 0 <= r < 1e150:
        return r
    most = _diameter(tree, points)
    values = np.where(r > most, most, r)
    values = np.where(values >= 0, values, -1.0)
    return float(values) if np.ndim(values) == 0 else np.broadcast_to(values, (len(points),))


def _diameter(tree: cKDTree, points: Array) -> float:
    """An upper bound of the distances between points of the tree and the queries, in any norm."""
    if not tree.n or not points.size:
        return 1.0
    high = max(float(np.abs(tree._points).max()), float(np.abs(points).max()))
    return 4.0 * tree.m * max(high, 1e-150)


def widened(ids: Array) -> Array:
    """A copy of ids as intp. All threads copy a large array, because most of the time goes into touching new pages."""
    out: Array = np.empty(ids.shape, np.intp)
    if ids.size < _MANY_IDS:
        out[...] = ids
        return out
    flat, source = out.reshape(-1), ids.reshape(-1)
    workers = lib.adj_ctx_threads(context().handle)
    bounds = [len(flat) * i // workers for i in range(workers + 1)]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda begin, end: np.copyto(flat[begin:end], source[begin:end]), bounds, bounds[1:]))
    return out


def nearest(tree: cKDTree, points: Array, k: int, p: float, bound: float) -> tuple[Array, Array]:
    """The k nearest neighbours: distances, and ids of type intp. The id of a missing neighbour is n."""
    shape = points.shape[:-1] + (k,)
    flat = points if points.ndim == 2 else points.reshape(-1, tree.m)
    none = np.isnan(bound) or bound <= 0
    if none or tree.n == 0 or len(flat) == 0:
        return np.full(shape, np.inf), np.full(shape, tree.n, np.intp)
    index = tree._index(p)
    radius = None if bound == np.inf else min(bound, _diameter(tree, flat))
    if flat is tree._points:
        distances, ids = index.knn(None, k, radius=radius, include_self=True)
    else:
        distances, ids = index.knn(flat, k, radius=radius)
    places = widened(ids)
    if radius is not None or k > tree.n:
        beyond = (places < 0) | (distances >= bound)
        places[beyond] = tree.n
        distances[beyond] = np.inf
    return distances.reshape(shape), places.reshape(shape)


def one_ball(tree: cKDTree, point: Array, r: float, p: float, length: bool) -> Any:
    """The ids within r of one point, as a list, or their number."""
    if not r >= 0 or tree.n == 0:
        return np.intp(0) if length else []
    if r >= 1e150:
        r = min(r, _diameter(tree, point))
    handle = tree._index(p)._current().handle
    address = point.__array_interface__["data"][0]
    found = ctypes.c_uint32()
    room = 0 if length else _ROOM
    while True:
        ids = np.empty(room, np.int32)
        where = ids.__array_interface__["data"][0]
        check(lib.adj_index_within(handle, address, r, room, where, None, ctypes.byref(found)))
        if length:
            return np.intp(found.value)
        if found.value <= room:
            return ids[: found.value].tolist()
        room = found.value


def without(rows: Result, skip: Any) -> Result:
    """The same rows, with those marked in `skip` made empty."""
    counts = np.where(skip, 0, rows.counts)
    keep = np.repeat(np.broadcast_to(~np.asarray(skip), (len(rows),)), rows.counts)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    distances = None if rows.distances is None else rows.distances[keep]
    return Result(indptr, rows.indices[keep], distances, rows.shape)


@contextlib.contextmanager
def _many_objects() -> Iterator[None]:
    """Pauses the garbage collector, which would scan millions of new lists again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def lists(rows: Result) -> list[list[int]]:
    """Rows as lists of ints."""
    with _many_objects():
        flat, bounds = rows.indices.tolist(), rows.indptr.tolist()
        return [flat[begin:end] for begin, end in zip(bounds, bounds[1:])]


def balls(tree: cKDTree, points: Array, r: Any, p: float, length: bool) -> Array:
    """The ids within r of each point, as an array of lists, or their numbers."""
    shape = points.shape[:-1]
    flat = points if points.ndim == 2 else points.reshape(-1, tree.m)
    radius = radii(tree, flat, r if isinstance(r, float) else r.reshape(-1))
    if length:
        job = tree._range(flat, p)
        job.within(np.maximum(radius, 0.0))
        job.spec.flags = tree._itself(flat)
        counted = job.counts().astype(np.intp)
        counted[np.broadcast_to(np.asarray(radius) < 0, (len(flat),))] = 0
        return np.asarray(counted.reshape(shape))
    found = lists(tree._rows(flat, radius, p))
    return np.fromiter(found, object, len(found)).reshape(shape)


def pairs(tree: cKDTree, r: float, p: float) -> Array:
    """Pairs (i, j) with i < j, as intp."""
    radius = radii(tree, tree._points, r)
    if radius < 0 or tree.n < 2:
        return np.empty((0, 2), np.intp)
    job = tree._range(tree._points, p)
    job.within(radius)
    job.spec.flags = d.ADJ_ONE_WAY
    rows = job.rows()
    out = np.empty((len(rows.indices), 2), np.intp)
    out[:, 0] = np.repeat(np.arange(tree.n, dtype=np.intp), rows.counts)
    out[:, 1] = rows.indices
    return out


def as_set(found: Array) -> set[tuple[int, int]]:
    """Pairs as a set of tuples."""
    with _many_objects():
        return set(zip(found[:, 0].tolist(), found[:, 1].tolist()))


def weights_of(tree: cKDTree, other: cKDTree, weights: Any) -> tuple[Array | None, Array | None]:
    """The weights of the points of both trees. None means that all are 1."""
    if weights is None:
        return None, None
    if isinstance(weights, tuple):
        own, theirs = weights
    elif other is not tree:
        raise ValueError("Two different trees are used. Specify weights for both in a tuple.")
    else:
        own = theirs = weights
    return _weights(tree, own), _weights(other, theirs)


def _weights(tree: cKDTree, weights: Any) -> Array | None:
    if weights is None:
        return None
    values = np.ascontiguousarray(weights, np.float64)
    if values.ndim != 1:
        raise ValueError(f"Buffer has wrong number of dimensions (expected 1, got {values.ndim})")
    if len(values) != tree.n:
        raise ValueError("Number of weights differ from the number of data points")
    return values


def counts(tree: cKDTree, other: cKDTree, r: Array, p: float, cumulative: bool) -> Array:
    """The number of pairs within each radius. If not cumulative, without those within the radius before it."""
    distinct, places = np.unique(np.abs(r) if p == 2 else r, return_inverse=True)
    totals = np.array([_count(tree, other, float(radius), p) for radius in distinct], np.intp)
    found = totals[places]
    return found if cumulative else np.diff(found, prepend=0)


def _count(tree: cKDTree, other: cKDTree, r: float, p: float) -> int:
    if np.isnan(r):
        return tree.n * other.n
    radius = radii(other, tree._points, r)
    if radius < 0 or not tree.n or not other.n:
        return 0
    if np.isinf(r):
        return tree.n * other.n
    job = other._range(tree._points, p)
    job.within(radius)
    job.spec.flags = other._itself(tree._points)
    return job.total()


def weighted_counts(
    tree: cKDTree, other: cKDTree, r: Array, p: float, weights: tuple[Any, Any], cumulative: bool
) -> Array:
    """The same, with the sum of the products of weights. Pairs are put into bins of distance, one block at a time."""
    own, theirs = weights
    edges, places = np.unique(np.abs(r) if p == 2 else r, return_inverse=True)
    sums = np.zeros(len(edges) + 1)
    if len(edges) and tree.n and other.n and edges[-1] >= 0:
        job = other._range(tree._points, p)
        job.within(radii(other, tree._points, float(edges[-1])))
        job.spec.flags = (d.ADJ_WITH_DISTANCE if len(edges) > 1 else 0) | other._itself(tree._points)
        for block in blocks_of(job):
            values = np.ones(len(block.indices)) if theirs is None else theirs[block.indices]
            if own is not None:
                rows = slice(block.first_row, block.first_row + len(block))
                values *= np.repeat(own[rows], block.counts)
            if block.distances is None:
                sums[0] += values.sum()
            else:
                bins = np.searchsorted(edges, block.distances)
                sums += np.bincount(bins, values, len(sums))
    found = np.asarray(np.cumsum(sums)[places])
    return found if cumulative else np.diff(found, prepend=0.0)


def matrix(rows: Result, output_type: str) -> Any:
    """Distances as a dictionary, records, or a sparse matrix."""
    first, second, distances = rows.to_coo()
    values: Any = distances
    if output_type == "dict":
        with _many_objects():
            return dict(zip(zip(first.tolist(), second.tolist()), values.tolist()))
    if output_type == "ndarray":
        record = np.dtype([("i", np.intp), ("j", np.intp), ("v", np.float64)], align=True)
        out = np.empty(len(rows.indices), record)
        out["i"], out["j"], out["v"] = first, second, values
        return out
    import scipy.sparse

    kind: Any = scipy.sparse.coo_array if output_type.endswith("array") else scipy.sparse.coo_matrix
    sparse = kind((values, (first, second)), shape=rows.shape)
    return sparse if output_type.startswith("coo") else sparse.todok()
