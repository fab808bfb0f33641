# SPDX-License-Identifier: MIT
"""Exchange of GPU memory with other packages, by __cuda_array_interface__ and by DLPack.

Both describe an array by a pointer, a shape and a type. DLPack puts them into a capsule, with a function that frees the
memory. The structs here are those of its header dlpack.h.
"""

from __future__ import annotations

import ctypes as c
import functools
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ._arrays import F32, F64, INT32, INT64
from ._errors import ArrayTypeError, DeviceError

__all__ = ["DeviceArray", "allocate", "imported", "synchronize", "taken"]

CUDA = 2
_CODES = {"i": 0, "u": 1, "f": 2}
_LETTERS = {code: letter for letter, code in _CODES.items()}


class DLDevice(c.Structure):
    _fields_ = [("device_type", c.c_int32), ("device_id", c.c_int32)]


class DLDataType(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class DLTensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("device", DLDevice),
        ("ndim", c.c_int32),
        ("dtype", DLDataType),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    ]


_DELETER = c.CFUNCTYPE(None, c.c_void_p)


class DLManagedTensor(c.Structure):
    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", c.c_void_p), ("deleter", _DELETER)]


_NAME = b"dltensor"
_new = c.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = c.py_object, (c.c_void_p, c.c_char_p, c.c_void_p)
_is_valid = c.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = c.c_int, (c.c_void_p, c.c_char_p)
_get = c.pythonapi.PyCapsule_GetPointer
_get.restype, _get.argtypes = c.c_void_p, (c.c_void_p, c.c_char_p)

# What our capsules point to, by address: a DLManagedTensor and the owner of the memory, until the last user is done.
_given: dict[int, tuple[Any, Any]] = {}


def _drop(capsule: int) -> None:
    """Destructor of our capsules. It frees the memory if nobody took the capsule."""
    if _is_valid(capsule, _NAME):
        del _given[_get(capsule, _NAME)]


# Not a function of Python: there, the handler of a signal could raise before the memory is freed.
_deleter = _DELETER(_given.__delitem__)
_FREE = c.cast(_deleter, c.c_void_p).value
_destructor = c.CFUNCTYPE(None, c.c_void_p)(_drop)

# A DLManagedTensor and the two sizes that its shape points to. Packing takes a third of the time of setting fields.
_EXPORT = struct.Struct("PiiiBBHPPQPPqq")
_Export = c.c_char * _EXPORT.size
_SIZES = DLManagedTensor.deleter.offset + DLManagedTensor.deleter.size
_CODE_AND_BITS = {typestr: (_CODES[typestr[1]], 8 * int(typestr[2:])) for typestr in (INT32, INT64, F32.str, F64.str)}


def _export(address: int, shape: tuple[int, ...], typestr: str, device: int) -> tuple[Any, int]:
    """A C-contiguous array of one or two dimensions as a DLManagedTensor, and its address."""
    managed = _Export()
    where = c.addressof(managed)
    code, bits = _CODE_AND_BITS[typestr]
    ndim, sizes = len(shape), where + _SIZES
    _EXPORT.pack_into(
        managed, 0, address, CUDA, device, ndim, code, bits, 1, sizes, 0, 0, 0, _FREE, shape[0], shape[-1]
    )
    return managed, where


def taken(
    take: Callable[[Any], Any], owner: Any, address: int, shape: tuple[int, ...], typestr: str, device: int
) -> Any:
    """take(capsule): another package's array over memory that belongs to `owner`.

    If `take` is a function of C, Python runs no handlers of signals between the note of the owner and the array that
    frees it, so the capsule needs no destructor.
    """
    managed, where = _export(address, shape, typestr, device)
    arrays = map(take, (_new(where, _NAME, None),))
    _given[where] = managed, owner
    (array,) = arrays
    return array


class DeviceArray:
    """A C-contiguous array on a GPU, which other packages can use without a copy."""

    __slots__ = ("__weakref__", "address", "device", "dtype", "owner", "shape", "stream")

    def __init__(
        self, owner: Any, address: int, shape: tuple[int, ...], typestr: str, device: int, stream: int | None
    ) -> None:
        self.owner = owner
        self.address = address
        self.shape = shape
        self.dtype = np.dtype(typestr)
        self.device = device
        self.stream = stream

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.device

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, **unused: Any) -> Any:
        """A capsule. Waits for our stream first, because the other package does not know it."""
        del stream, max_version, unused
        synchronize(self.device, self.stream)
        managed, where = _export(self.address, self.shape, self.dtype.str, self.device)
        _given[where] = managed, self
        return _new(where, _NAME, c.cast(_destructor, c.c_void_p))

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, device={self.device})"


class _Taken:
    """Keeps a capsule of another package alive while its memory is used."""

    __slots__ = ("capsule",)

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule


def imported(x: Any, stream: int | None) -> tuple[dict[str, Any], Any]:
    """A __cuda_array_interface__ for an array that has only __dlpack__, and the object that keeps it alive.

    The capsule is not marked as used, so its own destructor frees it.
    """
    capsule = x.__dlpack__(stream=stream or 1)
    address = _get(id(capsule), _NAME)
    tensor = DLManagedTensor.from_address(address).dl_tensor
    kind, shape = tensor.dtype, tuple(tensor.shape[: tensor.ndim])
    if kind.lanes != 1 or kind.code not in _LETTERS:
        raise ArrayTypeError("points on a GPU are a 2-D array of float32 or float64, and not of this type")
    item = kind.bits // 8
    strides = tuple(item * step for step in tensor.strides[: tensor.ndim]) if tensor.strides else None
    interface = {
        "shape": shape,
        "typestr": f"<{_LETTERS[kind.code]}{item}",
        "data": ((tensor.data or 0) + tensor.byte_offset, False),
        "strides": strides,
    }
    return interface, _Taken(capsule)


# ---- The CUDA driver, which any process with arrays on a GPU has already loaded ----


@functools.cache
def _driver() -> Any:
    try:
        return c.CDLL("libcuda.so.1")
    except OSError as reason:
        raise DeviceError(f"the CUDA driver cannot be loaded: {reason}") from None


def _demand(status: int, what: str) -> None:
    if status:
        raise DeviceError(f"{what}: CUDA error {status}")


class _Current:
    """Makes the primary CUDA context of a device, which all packages share, current in a `with` block."""

    def __init__(self, device: int) -> None:
        self.cuda = _driver()
        self.number = device
        self.device = c.c_int()

    def __enter__(self) -> Any:
        context = c.c_void_p()
        _demand(self.cuda.cuInit(0), "cuInit")
        _demand(self.cuda.cuDeviceGet(c.byref(self.device), self.number), "cuDeviceGet")
        _demand(self.cuda.cuDevicePrimaryCtxRetain(c.byref(context), self.device), "cuDevicePrimaryCtxRetain")
        _demand(self.cuda.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent")
        return self.cuda

    def __exit__(self, *unused: object) -> None:
        self.cuda.cuCtxPopCurrent_v2(c.byref(c.c_void_p()))
        self.cuda.cuDevicePrimaryCtxRelease_v2(self.device)


def synchronize(device: int, stream: int | None) -> None:
    """Waits until the work on a stream is done."""
    with _Current(device) as cuda:
        _demand(cuda.cuStreamSynchronize(c.c_void_p(stream or 0)), "cuStreamSynchronize")


class _Memory:
    """An allocation in GPU memory."""

    __slots__ = ("address", "device")

    def __init__(self, size: int, device: int) -> None:
        self.device = device
        self.address = 0
        out = c.c_uint64()
        with _Current(device) as cuda:
            _demand(cuda.cuMemAlloc_v2(c.byref(out), c.c_size_t(max(size, 1))), "cuMemAlloc")
        self.address = out.value

    def __del__(self) -> None:
        if self.address:
            with _Current(self.device) as cuda:
                cuda.cuMemFree_v2(c.c_uint64(self.address))


def allocate(shape: tuple[int, ...], typestr: str, device: int, stream: int | None) -> DeviceArray:
    """A new array on a device, for packages whose arrays are not writable."""
    memory = _Memory(math.prod(shape) * np.dtype(typestr).itemsize, device)
    return DeviceArray(memory, memory.address, shape, typestr, device, stream)
