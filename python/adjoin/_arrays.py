# SPDX-License-Identifier: MIT
"""Points in, arrays out. Arrays of f32 and f64 are used where they are, whatever their strides; others are converted.

What a join returns are arrays over the memory of the library's result, which is freed with the last of them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _declarations as d
from ._context import Context, generation
from ._errors import ArgumentError, ArrayTypeError
from ._library import fresh, lib

__all__ = ["Array", "as_points", "describe", "held", "is_on_device"]

Array = NDArray[Any]
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
_first_byte: Any = ctypes.c_char.from_buffer
_address = ctypes.addressof
_TYPES = {F32: d.ADJ_F32, F64: d.ADJ_F64}


def _borrowed(kind: int) -> bytes:
    """A description of points that the library borrows, for points of this type to begin with."""
    points = fresh(d.adj_points)
    points.type = kind
    points.ownership = d.ADJ_BORROW
    return bytes(points)


_borrowed_points = {dtype: _borrowed(kind) for dtype, kind in _TYPES.items()}


def is_on_device(x: Any) -> bool:
    """Whether an array is in the memory of a GPU."""
    if isinstance(x, np.ndarray) or not hasattr(x, "shape"):
        return False
    if hasattr(x, "__cuda_array_interface__"):
        return True
    return hasattr(x, "__dlpack_device__") and int(x.__dlpack_device__()[0]) == 2


def _is_table(x: Any) -> bool:
    return hasattr(x, "columns") and (hasattr(x, "to_numpy") or hasattr(x, "column_names"))


def _from_table(x: Any, columns: Sequence[str] | None) -> Array:
    """The coordinates in a table of pandas, polars or pyarrow."""
    names = list(getattr(x, "column_names", x.columns))
    wanted = names if columns is None else [columns] if isinstance(columns, str) else list(columns)
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ArgumentError(f"columns: there is no column {missing[0]!r}; there are {', '.join(map(repr, names))}")
    if hasattr(x, "column_names"):
        parts = [x.column(name).to_numpy() for name in wanted]
    elif wanted == names:
        return _numbers(x.to_numpy())
    else:
        return _numbers(x[wanted].to_numpy())
    return _numbers(np.column_stack(parts) if parts else np.empty((x.num_rows, 0)))


def _numbers(values: Array) -> Array:
    if values.dtype.kind in "OSUVMmc":
        raise ArrayTypeError(f"the columns hold values that are not numbers (dtype {values.dtype})")
    return values


def _from_others(x: Any, name: str) -> Array:
    """Whatever NumPy can make an array of."""
    if hasattr(x, "detach"):
        x = x.detach()
    try:
        if hasattr(x, "__dlpack__") and not hasattr(x, "__array__") and not hasattr(x, "__array_interface__"):
            return np.from_dlpack(x)
        return np.asarray(x)
    except (ValueError, TypeError) as reason:
        raise ArgumentError(f"{name}: cannot be made an array of points: {reason}") from None


def _convert(x: Array, dtype: np.dtype[Any] | None, name: str) -> Array:
    """To f32 or f64 in the byte order of the machine."""
    if dtype is None:
        if x.dtype.kind == "f" and x.dtype.itemsize <= 4:
            dtype = F32
        elif x.dtype.kind in "fiub":
            dtype = F64
        else:
            if x.dtype.kind == "O":
                try:
                    return x.astype(F64)
                except (TypeError, ValueError):
                    pass
            raise ArrayTypeError(f"{name}: dtype {x.dtype} cannot be joined; real numbers can")
    if x.dtype.kind == "c":
        raise ArrayTypeError(f"{name}: dtype {x.dtype} cannot be joined; real numbers can")
    return x.astype(dtype)


def as_points(
    points: Any, name: str = "a", dtype: np.dtype[Any] | None = None, columns: Sequence[str] | None = None
) -> Array:
    """Points as a matrix of f32 or f64, one point a row, without a copy where that is possible."""
    x: Array = points
    if type(points) is not np.ndarray:
        x = _from_table(points, columns) if _is_table(points) else _from_others(points, name)
    if (x.dtype is not F32 and x.dtype is not F64) or (dtype is not None and x.dtype != dtype):
        if x.dtype not in _TYPES or (dtype is not None and x.dtype != dtype):
            x = _convert(x, dtype, name)
    if x.ndim != 2:
        if x.ndim != 1:
            raise ArgumentError(f"{name}: an array of {x.ndim} dimensions is not a set of points; one of 2 is")
        x = x.reshape(-1, 1)
    if x.shape[1] == 0:
        raise ArgumentError(f"{name}: the points have no coordinates (shape {x.shape})")
    flags = x.flags
    if flags.c_contiguous and flags.aligned:
        return x
    return x if _has_plain_strides(x) else np.array(x, order="C")


def _has_plain_strides(x: Array) -> bool:
    """Whether the library can step through the array: forwards, and by whole values."""
    item = x.itemsize
    return x.flags.aligned and all(stride > 0 and stride % item == 0 for stride in x.strides)


def same_type(a: Array, b: Array) -> tuple[Array, Array]:
    """Both of the wider type."""
    if a.dtype == b.dtype:
        return a, b
    return as_points(a, "a", F64), as_points(b, "b", F64)


def describe(x: Array) -> d.adj_points:
    """The points for the library, which borrows them. The array must live as long."""
    points = d.adj_points.from_buffer_copy(_borrowed_points[x.dtype])
    points.count, points.dim = x.shape
    flags = x.flags
    if flags.c_contiguous and flags.writeable and x.size:
        points.data = _address(_first_byte(x))  # a quarter of the time of the other way
    else:
        points.data = x.__array_interface__["data"][0]
        points.row_stride, points.column_stride = x.strides if x.size else (0, 0)
    return points


class Held:
    """A result of the library, which is freed with the last array over its memory."""

    __slots__ = ("__array_interface__", "__weakref__", "context", "generation", "handle")
    __array_interface__: dict[str, Any]

    def __init__(self, handle: int, context: Context) -> None:
        self.handle = handle
        self.context = context
        self.generation = generation.number

    def __del__(self, destroy=lib.adj_result_destroy, now=generation) -> None:  # type: ignore[no-untyped-def]
        if self.generation == now.number:
            destroy(self.handle)


_BYTE_ORDER = np.dtype(np.int32).str[0]
INT32, INT64 = _BYTE_ORDER + "i4", _BYTE_ORDER + "i8"
REAL = {F32: F32.str, F64: F64.str}


def held(owner: Held, address: int | None, shape: tuple[int, ...], typestr: str) -> Array:
    """An array over memory of a result, which it keeps alive. NumPy reads the description once, so the next array may
    have another."""
    if not address or 0 in shape:
        return np.empty(shape, typestr)
    owner.__array_interface__ = {"shape": shape, "typestr": typestr, "data": (address, False), "version": 3}
    return np.asarray(owner)


def ids_from(ids: Array, count: int) -> Array:
    """Ids as numbers with a sign, -1 for none: the same bits, unless there are more than 2^31 points."""
    if count <= 1 << 31:
        return ids
    wide = ids.view(np.uint32).astype(np.int64)
    wide[wide == 0xFFFFFFFF] = -1
    return wide


def from_memory(address: int | None, shape: tuple[int, ...], typestr: str) -> Array:
    """A copy of memory that is valid for a moment only."""
    out = np.empty(shape, typestr)
    if address and out.nbytes:
        ctypes.memmove(out.__array_interface__["data"][0], address, out.nbytes)
    return out
