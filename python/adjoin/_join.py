# SPDX-License-Identifier: MIT
"""Jobs: joins that are ready to run. A job can be collected, counted, streamed, written to a file or explained.

To run, a job opens a plan of the library: PairJob creates one for its one or two sets, and the jobs of _index.py get
theirs from an index.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from . import _declarations as d
from ._arrays import (
    F64,
    INT32,
    INT64,
    REAL,
    Array,
    Held,
    as_points,
    check_columns,
    describe,
    fitted,
    held,
    ids_from,
    same_type,
)
from ._context import Context
from ._errors import ArgumentError, ArrayTypeError, DataError, with_names
from ._library import check, fresh, lib
from ._result import Result
from ._run import Call, check_call, control_of, interruptible, is_long

if TYPE_CHECKING:
    from ._options import Settings

__all__ = ["Handles", "Job", "PairJob", "dataset", "ends_of", "new_handle"]

T = TypeVar("T")
# Calls that destroy a plan and the handles below it, the newest first.
Handles = list["functools.partial[None]"]
byref, c_void_p = ctypes.byref, ctypes.c_void_p
_VALUES = d.ADJ_WITH_DISTANCE | d.ADJ_WITH_SUM


def ends_of(handles: Handles) -> Iterator[None]:
    """An iterator that destroys the handles, also those that are added later."""
    return map(operator.methodcaller("__call__"), handles)


def new_handle(handles: Handles, destroy: Callable[[Any], None]) -> ctypes.c_void_p:
    """A handle that is still NULL. Its end is noted before a call sets it, so that no exception can lose it."""
    handle = c_void_p()
    handles.insert(0, functools.partial(destroy, handle))
    return handle


def dataset(context: Context, points: Array, handles: Handles, call: Call, name: str) -> ctypes.c_void_p:
    """A dataset over an array. Messages about its values begin with the argument's name."""
    out = new_handle(handles, lib.adj_dataset_destroy)
    try:
        check_call(call, lib.adj_dataset_create, context.handle, byref(describe(points)), byref(out))
    except DataError as reason:
        raise DataError(f"{name}: {reason}") from None
    return out


def radius_of(radius: Any, rows: int) -> tuple[float, Array | None]:
    """One radius for all rows and None, or an array with one radius for each row."""
    if type(radius) is float:  # the usual case, without a detour through NumPy
        return radius, None
    if radius is None:
        raise ArgumentError("radius is not given")
    if hasattr(radius, "get") and hasattr(radius, "__cuda_array_interface__"):
        radius = radius.get()
    elif hasattr(radius, "cpu"):
        radius = radius.cpu()
    try:
        radii = np.asarray(radius, F64, order="C")
    except (ValueError, OverflowError) as reason:
        raise ArgumentError(f"radius: {reason}") from None
    except TypeError:
        raise ArrayTypeError(f"radius: {type(radius).__name__} is neither a number nor an array of numbers") from None
    if radii.ndim == 0:
        return float(radii), None
    if radii.shape != (rows,):
        raise ArgumentError(f"radius: shape {radii.shape} is neither one number nor one for each of {rows} points")
    return 0.0, radii


class Job:
    """A join that is ready to run: the arrays that it reads, and how to open a plan for it."""

    __slots__ = ("_long", "candidates", "context", "kind", "left", "radii", "settings", "spec")

    context: Context
    settings: Settings
    left: Array
    candidates: int  # how many points neighbours are taken from
    kind: int
    spec: Any
    radii: Array | None
    _long: bool

    def open(self, handles: Handles, call: Call) -> ctypes.c_void_p:
        """Opens a plan, and adds it and the handles below it to `handles`."""
        raise NotImplementedError

    def within(self, radius: Any) -> None:
        """Sets one radius, or a radius for each left point."""
        if type(radius) is float:
            self.spec.radius = radius
            return
        self.spec.radius, self.radii = radius_of(radius, self.left.shape[0])
        if self.radii is not None:
            self.spec.radii = self.radii.ctypes.data
            self.spec.radius_count = len(self.radii)

    def run(self, work: Callable[[ctypes.c_void_p, Call], T], call: Call | None = None) -> T:
        """Calls work(plan, call). Without a `call` of the caller, Ctrl-C ends it if it is long or has callbacks."""

        def whole(call: Call) -> T:
            handles: Handles = []
            ended: list[None] = []
            ends = ends_of(handles)
            try:
                return work(self.open(handles, call), call)
            finally:
                ended.extend(ends)  # one call of C, so the handler of a signal cannot end it early

        if call is None and (self._long or self.settings.progress):
            return interruptible(self.context, whole)
        return whole(call or Call())

    def controlled(self, call: Call, function: Any, *arguments: Any) -> None:
        """Calls function(*arguments, control, NULL), where control has the progress callback and the limits."""
        control = control_of(call, self.settings.progress, self.settings.max_pairs)
        if control is None:
            check_call(call, function, *arguments, None, None)
            return
        complete = False
        try:
            check_call(call, function, *arguments, control.reference, None)
            complete = True
        finally:
            control.finish(complete)

    def collect(self) -> Held:
        """The whole result, in the library's memory."""

        def work(plan: ctypes.c_void_p, call: Call) -> Held:
            found = Held(self.context)
            self.controlled(call, lib.adj_collect, plan, byref(found.handle))
            return found

        return self.run(work)

    def rows(self) -> Result:
        """The result of a range join."""
        with_distances = bool(self.spec.flags & _VALUES)
        return rows_of(self.collect(), self.left.shape[0], self.candidates, self.left.dtype, with_distances)

    def nearest(self) -> tuple[Array, Array]:
        """The result of a kNN join: distances and ids, k per row."""
        owner = self.collect()
        shape = (self.left.shape[0], self.spec.k)
        ids = held(owner, lib.adj_result_ids(owner.handle), shape, INT32)
        distances = held(owner, lib.adj_result_distances(owner.handle), shape, REAL[self.left.dtype])
        return distances, ids_from(ids, self.candidates)

    def counts(self) -> Array:
        """The number of neighbours of each row."""
        degrees = np.empty(self.left.shape[0], np.uint32)
        self.run(lambda plan, call: self.controlled(call, lib.adj_count, plan, degrees.ctypes.data_as(c_void_p), None))
        return degrees.view(np.int32) if self.candidates < 1 << 31 else degrees.astype(np.int64)

    def total(self) -> int:
        """The total number of neighbours."""
        out = ctypes.c_uint64()
        self.run(lambda plan, call: self.controlled(call, lib.adj_count, plan, None, byref(out)))
        return out.value

    def write(self, path: str | os.PathLike[str], options: d.adj_write_options) -> None:
        """Writes the result to a file."""
        name = os.fsencode(path)
        self.run(lambda plan, call: self.controlled(call, lib.adj_write, plan, name, byref(options)))


def rows_of(owner: Held, count: int, candidates: int, dtype: np.dtype[Any], with_distances: bool) -> Result:
    """A Result over the memory of a range join."""
    handle = owner.handle
    indptr = held(owner, lib.adj_result_offsets(handle), (count + 1,), INT64)
    shape = (indptr.item(count),)
    ids = ids_from(held(owner, lib.adj_result_ids(handle), shape, INT32), candidates)
    distances = held(owner, lib.adj_result_distances(handle), shape, REAL[dtype]) if with_distances else None
    return Result(indptr, ids, distances, (count, candidates))


class PairJob(Job):
    """A join of one set with itself, or of two sets."""

    __slots__ = ("names", "right")

    def __init__(self, a: Any, b: Any, settings: Settings, kind: int) -> None:
        self.settings = settings
        self.context = settings.get_context()
        self.names = "a", "b"
        check_columns(settings.columns, {"a": a} if b is None else {"a": a, "b": b})
        self.left = as_points(a, "a", settings.dtype, settings.columns)
        self.right: Array | None = None
        if b is not None:
            self.right = as_points(b, "b", settings.dtype, settings.columns)
            self.left, self.right = same_type(self.left, self.right)
            if self.left.shape[1] != self.right.shape[1]:
                self.left = fitted(self.left, a, self.right.shape[1])
                self.right = fitted(self.right, b, self.left.shape[1])
            if self.left.shape[1] != self.right.shape[1]:
                dims = self.left.shape[1], self.right.shape[1]
                hint = "; a 1-D array holds points in one dimension, so pass a single point as [point]"
                raise ArgumentError(f"a has {dims[0]} dimensions and b has {dims[1]}{hint if 1 in dims else ''}")
        count, dim = self.left.shape
        self.candidates = count if self.right is None else self.right.shape[0]
        self._long = is_long(count, self.candidates, dim)
        self.spec = fresh(d.adj_join_spec)
        self.spec.kind = self.kind = kind
        if not settings.plain:
            settings.fill(self.spec)
        self.radii = None

    def collect(self) -> Held:
        """The whole result. A join without progress or limits is a single call."""
        if self.settings.progress or self.settings.max_pairs:
            return super().collect()
        found, left = Held(self.context), byref(describe(self.left))
        right = None if self.right is None else byref(describe(self.right))

        def join(call: Call | None) -> int:
            del call
            status: int = lib.adj_join(self.context.handle, byref(self.spec), left, right, byref(found.handle))
            return status

        status = interruptible(self.context, join) if self._long else join(None)
        if status:
            # Run again if another thread cancelled it, and for a message that names the argument.
            if status in (d.ADJ_CANCELLED, d.ADJ_E_DATA):
                return super().collect()
            check(status)
        return found

    def open(self, handles: Handles, call: Call) -> ctypes.c_void_p:
        names = self.names
        left = dataset(self.context, self.left, handles, call, names[0])
        right = None if self.right is None else dataset(self.context, self.right, handles, call, names[1])
        plan = new_handle(handles, lib.adj_plan_destroy)
        try:
            check_call(call, lib.adj_plan_create, self.context.handle, byref(self.spec), left, right, byref(plan))
        except DataError as reason:
            raise with_names(reason, left=names[0], right=names[1]) from None
        return plan


def explanation(plan: ctypes.c_void_p) -> str:
    """The text of a plan: what it decided, and why."""
    needed = ctypes.c_size_t()
    check(lib.adj_plan_explain(plan, None, 0, byref(needed)))
    buffer = ctypes.create_string_buffer(needed.value)
    check(lib.adj_plan_explain(plan, buffer, needed.value, None))
    return buffer.value.decode(errors="replace")
