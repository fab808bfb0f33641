# SPDX-License-Identifier: MIT
"""Joins of arrays that are on a GPU. Points and results stay there, and results are arrays of the caller's package.

Work runs on the package's current stream at the time of the call. To use a result on another stream, first wait for
that stream, and keep the result alive until the use is over.
"""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _declarations as d
from ._arrays import F32, F64, INT32, INT64, REAL, check_columns
from ._context import Context, finalizer, on_device
from ._dlpack import DeviceArray, allocate, imported, synchronize, taken
from ._errors import ArgumentError, ArrayTypeError
from ._join import radius_of
from ._library import check, fresh, lib
from ._result import Result
from ._run import Call, check_call, interruptible, is_long

if TYPE_CHECKING:
    from ._options import Settings

__all__ = ["DeviceIndex", "DeviceJob", "row_numbers", "select_on_device", "stack"]

byref, c_void_p = ctypes.byref, ctypes.c_void_p
_KINDS = {"torch": "torch", "cupy": "cupy", "jax": "jax", "jaxlib": "jax"}
_NAMES = {np.dtype(name): name for name in ("float32", "float64", "int32", "int64")}  # the property takes microseconds


def kind_of(x: Any) -> str:
    """The package of an array: "torch", "cupy", "jax" or "other"."""
    return _KINDS.get(type(x).__module__.partition(".")[0], "other")


def _torch_stream(torch: Any, device: int) -> int:
    """The current stream of torch. Where torch can give its address alone, that saves making an object around it."""
    address = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    stream: int = torch.cuda.current_stream(device).cuda_stream if address is None else address(device)
    return stream


class Place:
    """A device, a stream on it, and the package whose arrays are used."""

    __slots__ = ("device", "kind", "package", "stream", "torch_device")

    def __init__(self, x: Any) -> None:
        self.kind = kind_of(x)
        self.package: Any = None  # torch or CuPy
        self.stream: int | None = None
        if self.kind == "torch":
            import torch

            self.package = torch
            self.torch_device = x.device
            self.device = self.torch_device.index or 0
            self.stream = _torch_stream(torch, self.device)
        elif self.kind == "cupy":
            import cupy

            self.package = cupy
            self.device = x.device.id
            self.stream = cupy.cuda.get_current_stream(self.device).ptr
        elif self.kind == "jax":
            x.block_until_ready()
            (device,) = x.devices()
            self.device = device.local_hardware_id or 0
        else:
            self.device = int(x.__dlpack_device__()[1]) if hasattr(x, "__dlpack_device__") else 0
            if hasattr(x, "__cuda_array_interface__"):
                self.stream = x.__cuda_array_interface__.get("stream")

    def wrap(self, owner: Any, address: int | None, shape: tuple[int, ...], typestr: str) -> Any:
        """An array of this package over memory that belongs to `owner`."""
        if not address or 0 in shape:
            return self.empty(shape, typestr)
        if self.kind == "torch":
            take = getattr(self.package._C, "_from_dlpack", self.package.from_dlpack)
            return taken(take, owner, address, shape, typestr, self.device)
        if self.kind == "cupy":
            cuda, dtype = self.package.cuda, np.dtype(typestr)
            memory = cuda.UnownedMemory(address, math.prod(shape) * dtype.itemsize, owner, self.device)
            return self.package.ndarray(shape, dtype, cuda.MemoryPointer(memory, 0))
        return self._from_view(DeviceArray(owner, address, shape, typestr, self.device, self.stream))

    def _from_view(self, view: DeviceArray) -> Any:
        if self.kind != "jax":
            return view
        import jax.dlpack

        return jax.dlpack.from_dlpack(view)

    def empty(self, shape: tuple[int, ...], typestr: str) -> Any:
        """A new array to be filled. For JAX, whose arrays are not writable, and for other packages a DeviceArray."""
        dtype = np.dtype(typestr)
        if self.kind == "torch":
            return self.package.empty(shape, dtype=getattr(self.package, _NAMES[dtype]), device=self.torch_device)
        if self.kind == "cupy":
            with self.package.cuda.Device(self.device):
                return self.package.empty(shape, dtype)
        if self.kind == "jax" and 0 in shape:
            import jax.numpy

            return jax.numpy.empty(shape, dtype)
        return allocate(shape, typestr, self.device, self.stream)

    def finish(self, x: Any) -> Any:
        """The caller's array for one from empty() that the library has filled."""
        return self._from_view(x) if isinstance(x, DeviceArray) else x


def _address(x: Any) -> int:
    address: int = x.data_ptr() if hasattr(x, "data_ptr") else x.__cuda_array_interface__["data"][0]
    return address


def _layout(x: Any, place: Place) -> tuple[tuple[int, ...], np.dtype[Any], int, Any, Any]:
    """Shape, type, address and strides (None: packed) of an array from _converted(), and what keeps its memory."""
    if place.kind == "torch":
        dtype = F32 if x.dtype is place.package.float32 else F64
        strides = None if x.is_contiguous() else [dtype.itemsize * step for step in x.stride()]
        return x.shape, dtype, x.data_ptr(), strides, None
    if place.kind == "cupy":
        return x.shape, x.dtype, x.data.ptr, x.strides, None
    interface, keep = (
        (x.__cuda_array_interface__, None) if hasattr(x, "__cuda_array_interface__") else imported(x, place.stream)
    )
    dtype = np.dtype(interface["typestr"])
    return tuple(interface["shape"]), dtype, interface["data"][0], interface.get("strides"), keep


class Points:
    """Points on a device: the array, and its description for the library."""

    __slots__ = ("array", "dtype", "keep", "shape", "struct")

    def __init__(self, x: Any, name: str, place: Place, dtype: np.dtype[Any] | None) -> None:
        self.array = _converted(x, name, place, dtype)
        self.shape, self.dtype, address, strides, self.keep = _layout(self.array, place)
        if len(self.shape) != 2 or self.dtype not in (F32, F64):
            raise ArrayTypeError(
                f"{name}: points on a GPU are a 2-D array of float32 or float64, not shape {self.shape} of {self.dtype}"
            )
        self.struct = struct = fresh(d.adj_cuda_points)
        struct.count, struct.dim = self.shape
        struct.data = address
        struct.type = d.ADJ_F32 if self.dtype == F32 else d.ADJ_F64
        if strides is not None and 0 not in self.shape:
            struct.row_stride, struct.column_stride = strides


def _is_kept(x: Any, place: Place, dtype: np.dtype[Any] | None) -> bool:
    """Whether an array has the wanted type, or without a wanted type one that the library takes."""
    if place.kind != "torch":
        return x.dtype in (F32, F64) if dtype is None else x.dtype == dtype
    torch = place.package
    if dtype is None:
        return x.dtype is torch.float32 or x.dtype is torch.float64
    return x.dtype is getattr(torch, _NAMES[dtype])


def _cast(x: Any, name: str, place: Place, dtype: np.dtype[Any] | None) -> Any:
    """Points as f32 or f64, converted by the array's own package."""
    if dtype is None:
        now = str(x.dtype).rpartition(".")[2]
        if now.startswith("complex"):
            raise ArrayTypeError(f"{name}: dtype {now} is not a type of real numbers")
        dtype = F32 if now in ("float16", "bfloat16") else F64
    if place.kind == "torch":
        return x.to(getattr(place.package, _NAMES[dtype]))
    x = x.astype(dtype)
    if x.dtype != dtype:
        raise ArrayTypeError(
            f"{name}: JAX converted it to {x.dtype} instead of {dtype}; set jax_enable_x64, or pass dtype=numpy.float32"
        )
    return x


def _converted(x: Any, name: str, place: Place, dtype: np.dtype[Any] | None) -> Any:
    """A matrix of f32 or f64 with positive strides, converted by the array's own package."""
    kind = place.kind
    if kind == "other":
        return x
    if kind == "torch":
        if x.requires_grad:
            x = x.detach()
        if x.is_neg():  # a view whose minus sign torch has not applied yet, such as x.conj().imag
            x = x.resolve_neg()
    if x.ndim == 1:
        x = x.reshape(-1, 1)
    if x.ndim != 2 or x.shape[1] == 0:
        raise ArgumentError(f"{name}: points are a 2-D array with one point per row, not of shape {tuple(x.shape)}")
    if not _is_kept(x, place, dtype):
        x = _cast(x, name, place, dtype)
    if kind == "torch":
        return x if x.is_contiguous() or min(x.stride()) > 0 else x.contiguous()
    return x.copy() if kind == "cupy" and min(x.strides) <= 0 else x


class DeviceHeld:
    """A result on a device, once a call has stored it in `handle`. It is freed with the last array over its memory."""

    __slots__ = ("__weakref__", "end", "handle")

    def __init__(self, context: Context, stream: int | None) -> None:
        self.handle = c_void_p()
        self.end = finalizer(context, map(lib.adj_cuda_result_destroy, (self.handle,), (stream,)))


class _DeviceJoin:
    """Common to joins and to queries of an index: the radius, and results as arrays."""

    place: Place
    context: Context
    spec: Any
    left: Points
    candidates: int
    radii: Any = None

    def within(self, radius: Any) -> None:
        """Sets one radius, or a radius for each left point."""
        self.spec.radius, self.radii = radius_of(radius, self.left.shape[0])
        if self.radii is not None:
            self.spec.radii = self.radii.ctypes.data
            self.spec.radius_count = len(self.radii)

    def ask(self, call: Call, name: str, *outputs: Any) -> None:
        """Calls a function of the library on these points."""
        raise NotImplementedError

    def _run(self, name: str, *outputs: Any) -> None:
        if is_long(self.left.shape[0], self.candidates, self.left.shape[1], _SPEED):
            interruptible(self.context, lambda call: self.ask(call, name, *outputs))
        else:
            self.ask(Call(), name, *outputs)

    def _held(self, name: str) -> DeviceHeld:
        found = DeviceHeld(self.context, self.place.stream)
        self._run(name, byref(found.handle))
        return found

    def rows(self) -> Result:
        """The result of a range join."""
        owner = self._held("range")
        count, pairs = self.left.shape[0], lib.adj_cuda_result_pairs(owner.handle)
        wrap, handle = self.place.wrap, owner.handle
        indptr = wrap(owner, lib.adj_cuda_result_offsets(handle), (count + 1,), INT64)
        ids = wrap(owner, lib.adj_cuda_result_ids(handle), (pairs,), INT32)
        distances = None
        if self.spec.flags & d.ADJ_WITH_DISTANCE:
            distances = wrap(owner, lib.adj_cuda_result_distances(handle), (pairs,), REAL[self.left.dtype])
        return Result(indptr, ids, distances, (count, self.candidates))

    def nearest(self) -> tuple[Any, Any]:
        """The result of a kNN join."""
        owner = self._held("knn")
        shape = (self.left.shape[0], self.spec.k)
        wrap, handle = self.place.wrap, owner.handle
        distances = wrap(owner, lib.adj_cuda_result_distances(handle), shape, REAL[self.left.dtype])
        return distances, wrap(owner, lib.adj_cuda_result_ids(handle), shape, INT32)

    def counts(self) -> Any:
        """The number of neighbours of each row."""
        degrees = self.place.empty((self.left.shape[0],), INT32)
        if self.left.shape[0]:
            self._run("count", _address(degrees), None)
        return self.place.finish(degrees)

    def total(self) -> int:
        """The total number of neighbours."""
        out = ctypes.c_uint64()
        self._run("count", None, byref(out))
        return out.value


def _device_context(settings: Settings, place: Place) -> Context:
    if settings.backend not in (d.ADJ_BACKEND_AUTO, d.ADJ_BACKEND_GPU):
        raise ArgumentError('backend: points on a GPU are joined there, with backend "auto" or "gpu"')
    if settings.plain:
        return on_device(place.device)
    return settings.on_device(place.device)


# A device is assumed to compare so many times as fast as cores. This only decides which joins are watched for Ctrl-C.
# A join below the limit may take longer in a slow type or metric, such as f64 on a GPU with few f64 units.
_SPEED = 30
_JOINS = {"range": lib.adj_cuda_range_join, "knn": lib.adj_cuda_knn_join, "count": lib.adj_cuda_range_count}


class DeviceJob(_DeviceJoin):
    """A join of one or two sets on a device."""

    def __init__(self, a: Any, b: Any, settings: Settings, kind: int) -> None:
        if not hasattr(a, "__dlpack__") and not hasattr(a, "__cuda_array_interface__"):
            raise ArrayTypeError("a, b: b is on a GPU, and a is not")
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            raise ArrayTypeError("a, b: one is on a GPU, and the other is not")
        if settings.columns is not None:
            check_columns(settings.columns, {"a": a} if b is None else {"a": a, "b": b})
        self.place = Place(a)
        self.context = _device_context(settings, self.place)
        self.left = Points(a, "a", self.place, settings.dtype)
        self.right: Points | None = None
        if b is not None:
            self.right = Points(b, "b", self.place, settings.dtype)
            if self.left.dtype != self.right.dtype:
                self.left = Points(a, "a", self.place, F64)
                self.right = Points(b, "b", self.place, F64)
            if self.left.shape[1] != self.right.shape[1]:
                raise ArgumentError(f"a has {self.left.shape[1]} dimensions and b has {self.right.shape[1]}")
        self.candidates = (self.right or self.left).shape[0]
        self.spec = fresh(d.adj_join_spec)
        self.spec.kind = kind
        if not settings.plain:
            settings.fill(self.spec)

    def ask(self, call: Call, name: str, *outputs: Any) -> None:
        right = None if self.right is None else byref(self.right.struct)
        left = byref(self.left.struct)
        handle, stream = self.context.handle, self.place.stream
        check_call(call, _JOINS[name], handle, byref(self.spec), left, right, stream, *outputs)


_QUESTIONS = {"range": lib.adj_cuda_index_range, "knn": lib.adj_cuda_index_knn, "count": lib.adj_cuda_index_count}


class _DeviceQuestion(_DeviceJoin):
    """A join of queries with an index on a device."""

    def __init__(self, index: DeviceIndex, queries: Points | None, place: Place, kind: int) -> None:
        self.index = index
        self.context = index.context
        self.place = place
        self.queries = queries
        self.left = queries or index.held
        self.candidates = index.held.shape[0]
        self.spec = fresh(d.adj_question)
        self.spec.kind = kind

    def ask(self, call: Call, name: str, *outputs: Any) -> None:
        queries = None if self.queries is None else byref(self.queries.struct)
        handle, stream = self.index.handle, self.place.stream
        check_call(call, _QUESTIONS[name], handle, byref(self.spec), queries, stream, *outputs)


class DeviceIndex:
    """An index that stays on a device."""

    def __init__(self, points: Any, copy: bool, settings: Settings) -> None:
        check_columns(settings.columns, {"points": points})
        place = Place(points)
        self.context = _device_context(settings, place)
        if place.kind == "torch":  # detach() keeps the memory, even if the caller gives the tensor other memory
            points = points.clone() if copy else points.detach()
        elif copy:
            points = points.copy()
        self.held = Points(points, "points", place, settings.dtype)
        self.points = self.held.array
        options = fresh(d.adj_index_options)
        settings.fill_index(options)
        self.handle = c_void_p()
        self.end = finalizer((self.context, self.held), map(lib.adj_index_destroy, (self.handle,)))
        where, create = byref(self.held.struct), lib.adj_cuda_index_create
        check_call(Call(), create, self.context.handle, byref(options), where, place.stream, byref(self.handle))

    def question(self, queries: Any, kind: int, settings: Settings) -> _DeviceQuestion:
        """A join of queries on the same device, or of the points with themselves."""
        del settings
        if queries is None:
            return _DeviceQuestion(self, None, Place(self.points), kind)
        if isinstance(queries, np.ndarray) or not hasattr(queries, "shape"):
            raise ArrayTypeError("queries: the index is on a GPU, and the queries are not")
        if len(queries.shape) == 1 and self.held.shape[1] != 1:
            queries = queries.reshape(1, -1)
        place = Place(queries)
        held = Points(queries, "queries", place, self.held.dtype)
        if held.shape[1] != self.held.shape[1]:
            raise ArgumentError(f"queries have {held.shape[1]} dimensions and the index has {self.held.shape[1]}")
        return _DeviceQuestion(self, held, place, kind)


def select_on_device(values: Any, k: int, largest: bool, ordered: bool) -> tuple[Any, Any]:
    """The k smallest or largest values of each row of a matrix on a device."""
    place = Place(values)
    vector = len(values.shape) == 1
    held = Points(values.reshape(1, -1) if vector else values, "values", place, None)
    if held.struct.column_stride not in (0, held.dtype.itemsize):
        raise ArgumentError("values: the columns of a row must be contiguous in memory")
    matrix = fresh(d.adj_matrix)
    matrix.type, matrix.values = held.struct.type, held.struct.data
    matrix.rows, matrix.columns = held.shape
    matrix.row_stride = held.struct.row_stride
    options = fresh(d.adj_cuda_select_options)
    options.largest = int(largest)
    options.order = d.ADJ_ORDER_ID if ordered else d.ADJ_ORDER_ANY
    best = place.empty((held.shape[0], k), held.dtype.str)
    columns = place.empty((held.shape[0], k), INT32)
    handle, where = on_device(place.device).handle, (_address(columns), _address(best))
    check(lib.adj_cuda_select_k(handle, byref(matrix), k, byref(options), place.stream, *where))
    if place.kind in ("jax", "other"):
        synchronize(place.device, place.stream)
    best, columns = place.finish(best), place.finish(columns)
    return (best[0], columns[0]) if vector else (best, columns)


def row_numbers(indptr: Any, indices: Any, first: int) -> Any:
    """The row of every entry, on the device."""
    kind, rows = kind_of(indptr), indptr.shape[0] - 1
    if kind == "torch":
        import torch

        numbers = torch.arange(first, first + rows, device=indptr.device, dtype=torch.int32)
        return torch.repeat_interleave(numbers, indptr[1:] - indptr[:-1], output_size=indices.shape[0])
    if kind == "cupy":
        import cupy

        places = cupy.arange(indices.shape[0], dtype=cupy.int64)
        found = cupy.searchsorted(indptr, places, side="right") - 1 + first
        return found.astype(cupy.int32)
    if kind == "jax":
        import jax.numpy as jnp

        numbers = jnp.arange(first, first + rows, dtype=jnp.int32)
        return jnp.repeat(numbers, indptr[1:] - indptr[:-1], total_repeat_length=indices.shape[0])
    raise ArrayTypeError("this result's arrays belong to no package that can do this: torch, CuPy or JAX")


def stack(rows: Any, columns: Any) -> Any:
    """Rows and columns as one array of two rows."""
    kind = kind_of(rows)
    if kind == "torch":
        import torch

        return torch.stack((rows.long(), columns.long()))
    if kind == "cupy":
        import cupy

        return cupy.stack((rows, columns)).astype(cupy.int64)
    import jax.numpy as jnp

    return jnp.stack((rows, columns))
