# SPDX-License-Identifier: MIT
"""Input points as arrays, and results as arrays.

Arrays of f32 and f64 are read in place, also with strides; other types are converted. The arrays that a join returns
are views of the library's result. Its memory is freed with the last of them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _declarations as d
from ._context import Context, finalizer
from ._errors import ArgumentError, ArrayTypeError
from ._library import fresh, lib

__all__ = ["Array", "as_points", "check_columns", "describe", "fitted", "held", "is_on_device"]

Array = NDArray[Any]
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
_first_byte: Any = ctypes.c_char.from_buffer
_address = ctypes.addressof
_TYPES = {F32: d.ADJ_F32, F64: d.ADJ_F64}


def _borrowed(kind: int) -> bytes:
    """The bytes of an adj_points for borrowed points of this type. describe() copies them and adds the rest."""
    points = fresh(d.adj_points)
    points.type = kind
    points.ownership = d.ADJ_BORROW
    return bytes(points)


_borrowed_points = {dtype: _borrowed(kind) for dtype, kind in _TYPES.items()}


def is_on_device(x: Any) -> bool:
    """Whether an array is in the memory of a GPU."""
    if isinstance(x, np.ndarray) or not hasattr(x, "shape"):
        return False
    package = type(x).__module__.partition(".")[0]  # hasattr() makes a description, which takes ten times as long
    if package == "torch":
        return bool(x.is_cuda)
    if package == "cupy" or hasattr(x, "__cuda_array_interface__"):
        return True
    return hasattr(x, "__dlpack_device__") and int(x.__dlpack_device__()[0]) == 2


def _is_table(x: Any) -> bool:
    return hasattr(x, "columns") and (hasattr(x, "to_numpy") or hasattr(x, "column_names"))


def check_columns(columns: Any, sets: dict[str, Any]) -> None:
    """`columns` names columns of tables. If none of the sets, given by argument name, is a table, it is an error."""
    if columns is None or any(_is_table(x) for x in sets.values()):
        return
    which = " nor ".join(sets)
    raise ArgumentError(
        f"columns: {f'neither {which} is' if len(sets) > 1 else f'{which} is not'} a table with named columns; to choose "
        "columns of an array, index it: a[:, [0, 2]]"
    )


def _from_table(x: Any, name: str, columns: Sequence[str] | None) -> Array:
    """The coordinates in a pandas, polars or pyarrow table."""
    names = list(getattr(x, "column_names", x.columns))
    wanted = names if columns is None else [columns] if isinstance(columns, str) else list(columns)
    missing = [column for column in wanted if column not in names]
    if missing:
        raise ArgumentError(f"columns: there is no column {missing[0]!r}; there are {', '.join(map(repr, names))}")
    if hasattr(x, "column_names"):
        parts = [x.column(column).to_numpy() for column in wanted]
        values: Array = np.column_stack(parts) if parts else np.empty((x.num_rows, 0))
    else:
        table = x if wanted == names else x[wanted]
        values = table.to_numpy()
        if values.dtype.kind == "O" and all(getattr(kind, "kind", "O") in "fiub" for kind in table.dtypes):
            values = table.to_numpy(F64, na_value=np.nan)  # pandas: nullable columns, or numbers and bools
    if values.dtype.kind in "OSUVMmc":
        raise ArrayTypeError(f"{name}: some columns are not numbers (dtype {values.dtype}); pass columns= to choose")
    return values


def _from_others(x: Any, name: str) -> Array:
    """Anything else that NumPy can convert to an array."""
    if hasattr(x, "detach"):
        x = x.detach()
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise ArgumentError(f"{name}: the array has masked values; drop these points or fill the values first")
    if hasattr(x, "toarray") and hasattr(x, "nnz"):
        raise ArrayTypeError(f"{name}: sparse matrices cannot be joined; pass {name}.toarray()")
    try:
        if hasattr(x, "__dlpack__") and not hasattr(x, "__array__") and not hasattr(x, "__array_interface__"):
            return np.from_dlpack(x)
        array = np.asarray(x)
    except (ValueError, TypeError) as reason:
        raise ArgumentError(f"{name}: cannot be converted to an array of points: {reason}") from None
    if array.ndim == 0:
        raise ArrayTypeError(f"{name}: {type(x).__name__} is not an array of points; pass one point per row")
    return array


def _convert(x: Array, dtype: np.dtype[Any] | None, name: str) -> Array:
    """Converts to f32 or f64 in the byte order of the machine."""
    kind = x.dtype.kind
    # Void types may be numbers of other packages, such as bfloat16: those are converted if the caller asks for it.
    if kind in "SUMmc" or (kind == "V" and dtype is None) or (kind == "O" and any(isinstance(v, str) for v in x.flat)):
        raise ArrayTypeError(f"{name}: dtype {x.dtype} is not a type of real numbers")
    if dtype is None:
        dtype = F32 if kind == "f" and x.dtype.itemsize <= 4 else F64
    try:
        return x.astype(dtype)
    except (TypeError, ValueError):
        raise ArrayTypeError(f"{name}: dtype {x.dtype} is not a type of real numbers") from None
    except OverflowError:
        raise ArgumentError(f"{name}: a whole number is too large for {dtype}") from None


def as_points(
    points: Any, name: str = "a", dtype: np.dtype[Any] | None = None, columns: Sequence[str] | None = None
) -> Array:
    """Points as an f32 or f64 matrix with one point per row, without a copy where possible."""
    x: Array = points
    if type(points) is not np.ndarray:
        x = _from_table(points, name, columns) if _is_table(points) else _from_others(points, name)
    if (x.dtype is not F32 and x.dtype is not F64) or (dtype is not None and x.dtype != dtype):
        if x.dtype not in _TYPES or (dtype is not None and x.dtype != dtype):
            x = _convert(x, dtype, name)
    if x.ndim != 2:
        if x.ndim != 1:
            raise ArgumentError(f"{name}: points are a 2-D array with one point per row, not a {x.ndim}-D array")
        x = x.reshape(-1, 1)
    if x.shape[1] == 0:
        raise ArgumentError(f"{name}: the points have no coordinates (shape {x.shape})")
    flags = x.flags
    if flags.c_contiguous and flags.aligned:
        return x
    return x if _has_plain_strides(x) else np.array(x, order="C")


def _has_plain_strides(x: Array) -> bool:
    """Whether the library can read the array in place: aligned, with positive strides of whole values."""
    item = x.itemsize
    return x.flags.aligned and all(stride > 0 and stride % item == 0 for stride in x.strides)


def fitted(points: Array, source: Any, dim: int) -> Array:
    """Points with this number of dimensions, if they are none and come from [] or the like, which has no number."""
    return points.reshape(0, dim) if not points.size and np.ndim(source) == 1 else points


def same_type(a: Array, b: Array) -> tuple[Array, Array]:
    """Both arrays in the wider of their two types."""
    if a.dtype == b.dtype:
        return a, b
    return as_points(a, "a", F64), as_points(b, "b", F64)


def describe(x: Array) -> d.adj_points:
    """An adj_points for the array. The library borrows the points, so the array must live as long as it uses them."""
    points = d.adj_points.from_buffer_copy(_borrowed_points[x.dtype])
    points.count, points.dim = x.shape
    flags = x.flags
    if flags.c_contiguous and flags.writeable and x.size:
        points.data = _address(_first_byte(x))  # four times faster than __array_interface__
    else:
        points.data = x.__array_interface__["data"][0]
        points.row_stride, points.column_stride = x.strides if x.size else (0, 0)
    return points


class Held:
    """A result of the library, once a call has stored it in `handle`. It is freed with the last array over its memory.

    It exists before the call, so that no exception in between can lose the result.
    """

    __slots__ = ("__array_interface__", "__weakref__", "end", "handle")
    __array_interface__: dict[str, Any]

    def __init__(self, context: Context) -> None:
        self.handle = ctypes.c_void_p()
        self.end = finalizer(context, map(lib.adj_result_destroy, (self.handle,)))


_BYTE_ORDER = np.dtype(np.int32).str[0]
INT32, INT64 = _BYTE_ORDER + "i4", _BYTE_ORDER + "i8"
REAL = {F32: F32.str, F64: F64.str}


def held(owner: Held, address: int | None, shape: tuple[int, ...], typestr: str) -> Array:
    """An array over a result's memory, which keeps the result alive.

    NumPy reads `__array_interface__` once, so the next call may overwrite it.
    """
    if not address or 0 in shape:
        return np.empty(shape, typestr)
    owner.__array_interface__ = {"shape": shape, "typestr": typestr, "data": (address, False), "version": 3}
    return np.asarray(owner)


def ids_from(ids: Array, count: int) -> Array:
    """Ids as signed integers, -1 for none: the same bits as int32, or int64 if there are more than 2^31 points."""
    if count <= 1 << 31:
        return ids
    wide = ids.view(np.uint32).astype(np.int64)
    wide[wide == 0xFFFFFFFF] = -1
    return wide


def from_memory(address: int | None, shape: tuple[int, ...], typestr: str) -> Array:
    """A copy of memory that is valid only during a callback."""
    out = np.empty(shape, typestr)
    if address and out.nbytes:
        ctypes.memmove(out.__array_interface__["data"][0], address, out.nbytes)
    return out
