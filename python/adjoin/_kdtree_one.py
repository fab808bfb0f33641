# SPDX-License-Identifier: MIT
"""A fast path for one query per call, which takes the library only a microsecond or two.

The point and the answer go through buffers of the calling thread. Anything unusual (types, shapes, values that are not
finite, points outside of a box) is left to the general path, which also raises the exceptions.
"""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from ._context import generation
from ._index import Kept
from ._library import lib

if TYPE_CHECKING:
    from .kdtree import cKDTree

_ROOM = 256
_nearest, _within = lib.adj_index_nearest, lib.adj_index_within


class _Buffers(threading.local):
    """Buffers of a thread: a point, ids, distances, and the number of results."""

    def __init__(self, dim: int) -> None:
        self.point = (ctypes.c_double * dim)()
        self.ids = (ctypes.c_int32 * _ROOM)()
        self.distances = (ctypes.c_double * _ROOM)()
        self.found = ctypes.c_uint32()
        self.found_address = ctypes.addressof(self.found)


class OneQuery:
    """Single queries to a tree. Methods return None if the general path must answer."""

    __slots__ = ("buffers", "kept", "tree")

    def __init__(self, tree: cKDTree) -> None:
        self.tree = tree
        self.buffers = _Buffers(tree.m)
        self.kept: dict[Any, Kept] = {}

    def _ready(self, x: Any, p: Any) -> tuple[int, _Buffers] | None:
        """The handle of the index, and the buffers with the point in them."""
        tree = self.tree
        if type(x) is np.ndarray:
            if x.ndim != 1:
                return None
            x = x.tolist()
        elif type(x) is not list and type(x) is not tuple:
            return None
        kept = self.kept.get(p)
        if kept is None or kept.generation != generation.number:
            if not tree.n or not tree.m or not p >= 1 or p not in (1, 2, np.inf):
                return None
            kept = self.kept[p] = tree._index(p)._current()
        buffers = self.buffers
        try:
            buffers.point[:] = x
        except (TypeError, ValueError):
            return None
        return kept.handle, buffers

    def nearest(self, x: Any, k: Any, p: Any) -> Any:
        """The distances and ids of the k nearest points."""
        if type(k) is not int or not 0 < k <= _ROOM:
            return None
        ready = self._ready(x, p)
        if ready is None:
            return None
        handle, b = ready
        if _nearest(handle, b.point, k, b.ids, b.distances, b.found_address) or b.found.value != k:
            return None
        if k == 1:
            return b.distances[0], b.ids[0]
        return np.array(b.distances[:k]), np.array(b.ids[:k], np.intp)

    def ball(self, x: Any, r: Any, p: Any, length: bool) -> Any:
        """The ids of the points within r, or their number."""
        if type(r) is not float or not 0 <= r < 1e150:
            return None
        ready = self._ready(x, p)
        if ready is None:
            return None
        handle, b = ready
        if _within(handle, b.point, r, _ROOM, b.ids, None, b.found_address):
            return None
        found = b.found.value
        if length:
            return np.intp(found)
        return b.ids[:found] if found <= _ROOM else None
