# SPDX-License-Identifier: MIT
"""For adjoin.dask: space cut into regions, and lists of nearest neighbours that are merged."""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import _declarations as d
from ._arrays import _TYPES, Array, describe
from ._context import Context, generation
from ._library import check, fresh, lib
from ._options import Settings

__all__ = ["Split", "dataset", "merge", "radii_of", "reported"]

byref, c_void_p = ctypes.byref, ctypes.c_void_p


def _address(x: Array | None) -> int | None:
    return None if x is None else x.ctypes.data


def spec_of(settings: Settings, kind: int, radius: float | None = None) -> d.adj_join_spec:
    """The join with these settings, as a struct for the library."""
    spec = fresh(d.adj_join_spec)
    settings.fill(spec)
    spec.kind = kind
    if radius is not None:
        spec.radius = radius
    elif kind == d.ADJ_KNN:
        spec.radius = -math.inf if settings.metric == d.ADJ_DOT else math.inf
    return spec


@contextlib.contextmanager
def dataset(context: Context, points: Array) -> Iterator[ctypes.c_void_p]:
    """A dataset over an array, for the length of a `with` block."""
    out = c_void_p()
    check(lib.adj_dataset_create(context.handle, byref(describe(points)), byref(out)))
    try:
        yield out
    finally:
        lib.adj_dataset_destroy(out)


class Split:
    """Regions of space with about the same work each. Every point has its home in one of them."""

    __slots__ = ("context", "dim", "dtype", "generation", "handle", "regions")

    def __init__(self, settings: Settings, dtype: np.dtype[Any], dim: int, handle: int | None) -> None:
        self.context = settings.get_context()
        self.dtype, self.dim = dtype, dim
        self.handle = handle
        self.generation = generation.number
        self.regions: int = lib.adj_split_regions(handle)

    def __del__(self, destroy=lib.adj_split_destroy, now=generation) -> None:  # type: ignore[no-untyped-def]
        if self.generation == now.number:
            destroy(self.handle)

    @classmethod
    def of(cls, settings: Settings, spec: d.adj_join_spec, sample: Array, total: int, regions: int) -> Split:
        """A split into regions, from a sample of `total` points."""
        context = settings.get_context()
        weights = np.empty(len(sample))
        out = c_void_p()
        with dataset(context, sample) as points:
            check(lib.adj_split_weights(context.handle, byref(spec), points, total, _address(weights)))
            check(lib.adj_split_create(context.handle, byref(spec), points, _address(weights), regions, byref(out)))
        return cls(settings, sample.dtype, sample.shape[1], out.value)

    @classmethod
    def load(cls, settings: Settings, spec: d.adj_join_spec, dtype: np.dtype[Any], dim: int, stored: bytes) -> Split:
        """The split in bytes that save() returned."""
        out = c_void_p()
        context = settings.get_context()
        where = stored, len(stored), byref(out)
        check(lib.adj_split_load(context.handle, byref(spec), _TYPES[dtype], dim, *where))
        return cls(settings, dtype, dim, out.value)

    def save(self) -> bytes:
        """The split as bytes."""
        needed = ctypes.c_uint64()
        check(lib.adj_split_save(self.handle, None, 0, byref(needed)))
        buffer = ctypes.create_string_buffer(needed.value)
        check(lib.adj_split_save(self.handle, buffer, needed.value, None))
        return buffer.raw

    def home(self, points: Array) -> Array:
        """The home region of each point."""
        home = np.empty(len(points), np.uint32)
        with dataset(self.context, points) as data:
            check(lib.adj_split_home(self.handle, data, _address(home)))
        return home

    def bounds(self, points: Array, home: Array) -> Array:
        """The bounding box of the points of each region: low corners, then high corners."""
        corners = np.empty((2, self.regions, lib.adj_split_dim(self.handle)))
        with dataset(self.context, points) as data:
            check(
                lib.adj_split_bounds(self.handle, data, _address(home), corners[0].ctypes.data, corners[1].ctypes.data)
            )
        return corners

    def set_bounds(self, corners: Array) -> None:
        """Sets the bounding boxes of all points, as bounds() returns them."""
        check(lib.adj_split_set_bounds(self.handle, corners[0].ctypes.data, corners[1].ctypes.data))

    def halo(self, points: Array, home: Array | None, radii: Array | None = None) -> list[Array]:
        """For each region, the points of other regions that may be within the radius of one of its points."""
        starts = np.zeros(self.regions, np.uint64)
        with dataset(self.context, points) as data:
            arguments = self.handle, data, _address(home), _address(radii), _address(starts)
            check(lib.adj_split_halo(*arguments, None))
            ends = np.cumsum(starts, dtype=np.int64)
            starts[:] = ends.astype(np.uint64) - starts
            rows = np.empty(int(ends[-1]), np.uint32)
            check(lib.adj_split_halo(*arguments, _address(rows)))
        return np.split(rows, ends[:-1])


def _lists(ids: Array, sums: Array) -> d.adj_lists:
    lists = fresh(d.adj_lists)
    lists.type = _TYPES[sums.dtype]
    lists.rows, lists.k = ids.shape
    lists.ids, lists.sums = ids.ctypes.data, sums.ctypes.data
    return lists


def merge(ids: Array, sums: Array, other_ids: Array, other_sums: Array, rows: Array | None) -> None:
    """Merges lists of nearest neighbours into `ids` and `sums`: row i of the others into row rows[i].

    All arrays are C-contiguous, and ids are int64.
    """
    where = None if rows is None else np.ascontiguousarray(rows, np.uint64)
    check(lib.adj_lists_merge(byref(_lists(ids, sums)), byref(_lists(other_ids, other_sums)), _address(where)))


def reported(spec: d.adj_join_spec, sums: Array) -> Array:
    """The distances that a join reports for these sums."""
    out = np.empty_like(sums)
    check(lib.adj_sums_report(byref(spec), _TYPES[sums.dtype], sums.size, _address(sums), _address(out)))
    return out


def radii_of(spec: d.adj_join_spec, sums: Array) -> Array:
    """Radii within which a join finds every point with this sum or a smaller one."""
    packed = np.ascontiguousarray(sums)
    out = np.empty(packed.shape)
    check(lib.adj_sums_radii(byref(spec), _TYPES[packed.dtype], packed.size, _address(packed), _address(out)))
    return out
