# SPDX-License-Identifier: MIT
"""Arrays on a GPU, without copies, against the same join in host memory.

Runs with every installed package that has a GPU (torch, CuPy, JAX), as part of the tests or alone as a script. With a
library for the software device (tests/software), whose memory is host memory, the class HostMemory stands for them.
"""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np

import adjoin
from adjoin import _device, _dlpack
from adjoin._library import path

SOFTWARE = "software" in path.rpartition("/")[2]


class HostMemory:
    """An array of the software device: a NumPy array with the interface of arrays on a GPU."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape = array, array.shape
        self.__cuda_array_interface__ = {**array.__array_interface__, "version": 3, "stream": None}

    def reshape(self, *shape: int) -> HostMemory:
        return HostMemory(self.array.reshape(*shape))


class Kind:
    """A package with arrays on a GPU, and conversions to and from NumPy."""

    def __init__(self, name: str) -> None:
        self.name = name

    def put(self, array: Any) -> Any:
        if self.name == "torch":
            import torch

            return torch.from_numpy(np.array(array)).cuda()
        if self.name == "cupy":
            import cupy

            return cupy.asarray(array)
        if self.name == "jax":
            import jax.numpy

            return jax.numpy.asarray(array)
        return HostMemory(np.array(array))

    def get(self, array: Any) -> Any:
        if self.name == "torch":
            assert array.is_cuda
            return array.cpu().numpy()
        if self.name == "cupy":
            return array.get()
        if self.name == "jax":
            return np.asarray(array)
        assert isinstance(array, _dlpack.DeviceArray)
        size = int(np.prod(array.shape)) * array.dtype.itemsize
        return np.frombuffer(ctypes.string_at(array.address, size), array.dtype).reshape(array.shape)

    def is_mine(self, array: Any) -> bool:
        return _device.kind_of(array) == self.name


def kinds() -> list[Kind]:
    """The packages that can be tested here."""
    if SOFTWARE:
        return [Kind("other")]
    found = []
    try:
        import torch

        if torch.cuda.is_available():
            found.append(Kind("torch"))
    except ImportError:
        pass
    try:
        import cupy

        if cupy.cuda.runtime.getDeviceCount():
            found.append(Kind("cupy"))
    except Exception:  # noqa: BLE001 - any failure means that there is none
        pass
    try:
        import jax

        if any(device.platform == "gpu" for device in jax.devices()):
            jax.config.update("jax_enable_x64", True)
            found.append(Kind("jax"))
    except Exception:  # noqa: BLE001
        pass
    return found


def allocate(shape: Any, typestr: str, device: int, stream: Any) -> Any:
    """Memory of the software device."""
    memory = np.empty(shape, typestr)
    return _dlpack.DeviceArray(memory, memory.ctypes.data, shape, typestr, device, stream)


if SOFTWARE:
    _device.allocate = allocate
    _device.synchronize = _dlpack.synchronize = lambda device, stream: None

RNG = np.random.default_rng(1)
SETS = [(RNG.random((700, 3)).astype(kind), RNG.random((300, 3)).astype(kind)) for kind in ("f4", "f8")]


def same(kind: Kind, ours: Any, expected: Any) -> None:
    assert kind.is_mine(ours), type(ours)
    assert np.array_equal(kind.get(ours), expected)


def check_range(kind: Kind) -> None:
    for a, b in SETS:
        for right in (None, b):
            host = adjoin.range_join(a, right, radius=0.15, distances=True)
            there = adjoin.range_join(
                kind.put(a), None if right is None else kind.put(right), radius=0.15, distances=True
            )
            same(kind, there.indptr, host.indptr)
            same(kind, there.indices, host.indices)
            same(kind, there.distances, host.distances)
            if kind.name != "other":
                same(kind, there.edge_index, host.edge_index)
                same(kind, there.to_coo().rows, host.to_coo().rows)
    empty = adjoin.range_join(kind.put(SETS[0][0]), radius=0.0)
    assert empty.indices.shape[0] == 0 and empty.indptr.shape[0] == 701


def check_nearest(kind: Kind) -> None:
    for a, b in SETS:
        for right in (None, b):
            host = adjoin.knn_join(a, right, k=7)
            there = adjoin.knn_join(kind.put(a), None if right is None else kind.put(right), k=7)
            same(kind, there[0], host[0])
            same(kind, there[1], host[1])
    few = adjoin.knn_join(kind.put(SETS[0][0][:3]), k=5)
    assert kind.get(few[1])[0, -1] == -1 and np.isinf(kind.get(few[0])[0, -1])


def check_counts(kind: Kind) -> None:
    for a, b in SETS:
        there = adjoin.count(kind.put(a), kind.put(b), radius=0.15)
        same(kind, there, adjoin.count(a, b, radius=0.15))
        assert adjoin.count(kind.put(a), radius=0.15, total=True) == adjoin.count(a, radius=0.15, total=True)
    if kind.name != "other":
        same(kind, adjoin.pairs(kind.put(SETS[0][0]), radius=0.15), adjoin.pairs(SETS[0][0], radius=0.15))


def check_index(kind: Kind) -> None:
    for a, b in SETS:
        host, there = adjoin.Index(b), adjoin.Index(kind.put(b))
        queries = kind.put(a)
        radii = RNG.random(len(a)) * 0.2
        same(kind, there.knn(queries, 4)[1], host.knn(a, 4)[1])
        same(kind, there.knn(None, 4)[0], host.knn(None, 4)[0])
        same(kind, there.range(queries, 0.15, distances=True).distances, host.range(a, 0.15, distances=True).distances)
        same(kind, there.range(queries, radii).indices, host.range(a, radii).indices)
        same(kind, there.count(queries, 0.15), host.count(a, 0.15))
        if kind.name != "other":
            assert there.knn(queries[0], 2)[1].shape == (2,)


def check_selection(kind: Kind) -> None:
    for values in (RNG.random((20, 1000)).astype("f4"), RNG.random((3, 50))):
        for largest in (False, True):
            host = adjoin.select_k(values, 9, largest=largest)
            there = adjoin.select_k(kind.put(values), 9, largest=largest)
            same(kind, there[0], host[0])
            same(kind, there[1], host[1])


def check_layouts(kind: Kind) -> None:
    points = SETS[1][0]
    expected = adjoin.knn_join(np.ascontiguousarray(points[::2, :2]), k=2)[1]
    if kind.name != "jax":
        wide = HostMemory(points[::2, :2]) if kind.name == "other" else kind.put(points)[::2, :2]
        same(kind, adjoin.knn_join(wide, k=2)[1], expected)
    if kind.name == "torch":
        import torch

        negated = torch.view_as_complex(kind.put(np.stack((points, -points), -1))).conj().imag
        assert negated.is_neg()
        same(kind, adjoin.knn_join(negated, k=2)[0], adjoin.knn_join(points, k=2)[0])
        same(kind, adjoin.knn_join(negated, kind.put(points), k=1)[0], np.zeros((len(points), 1)))
    if kind.name != "other":
        whole = kind.put(np.arange(20))
        same(kind, adjoin.knn_join(whole, k=1)[1], adjoin.knn_join(np.arange(20.0), k=1)[1])


def check_errors(kind: Kind) -> None:
    points = SETS[0][0].copy()
    for wrong, calls in (
        (adjoin.ArrayTypeError, lambda x: adjoin.range_join(x, points, radius=0.1)),
        (adjoin.ArrayTypeError, lambda x: adjoin.explain(x, radius=0.1)),
        (adjoin.ArgumentError, lambda x: adjoin.knn_join(x, k=2, backend="cpu")),
        (adjoin.ArgumentError, lambda x: adjoin.knn_join(x, kind.put(points[:, :2].copy()), k=2)),
    ):
        try:
            calls(kind.put(points))
        except wrong:
            continue
        raise AssertionError(f"{wrong} was expected")
    points[5, 1] = np.nan
    try:
        adjoin.range_join(kind.put(points), radius=0.1)
    except adjoin.DataError as reason:
        assert "row 5" in str(reason) and "column 1" in str(reason), reason
    else:
        raise AssertionError("NaN was not refused")


def check_lifetime(kind: Kind) -> None:
    """Results live exactly as long as their arrays, so many joins in a row do not run out of memory."""
    import gc

    points = kind.put(RNG.random((2000, 3)))
    ids = adjoin.knn_join(points, k=8)[1]
    expected = kind.get(ids).copy()
    for _ in range(20):
        adjoin.knn_join(points, k=8)
    del points
    gc.collect()
    assert np.array_equal(kind.get(ids), expected)


def check_dlpack(kind: Kind) -> None:
    """A capsule that was taken frees its array with its owner, and one that was not frees it in its destructor."""
    if kind.name == "other":
        array: Any = allocate((4, 3), "<f8", 0, None)
        interface, keep = _dlpack.imported(array, None)
        assert interface["data"][0] == array.address and interface["shape"] == (4, 3)
        assert interface["typestr"] == "<f8" and len(_dlpack._given) == 1
        del keep
        assert not _dlpack._given
        capsules: list[Any] = []
        _dlpack.taken(capsules.append, array, array.address, (12,), "<f8", 0)
        interface, keep = _dlpack.imported(SimpleNamespace(__dlpack__=lambda stream: capsules[0]), None)
        assert interface["data"][0] == array.address and interface["shape"] == (12,)
        (where,) = _dlpack._given
        _dlpack.DLManagedTensor.from_address(where).deleter(where)
        assert not _dlpack._given
        return

    class OnlyDLPack:
        def __init__(self, array: Any) -> None:
            self.array, self.shape = array, array.shape

        def __dlpack__(self, stream: Any = None) -> Any:
            return self.array.__dlpack__(stream=stream)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    points = SETS[0][0]
    ours = adjoin.count(OnlyDLPack(kind.put(points)), radius=0.15, total=True)
    assert ours == adjoin.count(points, radius=0.15, total=True)


CHECKS = [
    check_range,
    check_nearest,
    check_counts,
    check_index,
    check_selection,
    check_layouts,
    check_errors,
    check_lifetime,
    check_dlpack,
]

try:
    import pytest
except ImportError:
    pass
else:

    @pytest.mark.skipif(not kinds(), reason="no package with arrays on a GPU")
    @pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_device(kind: Kind, check: Any) -> None:
        check(kind)


def main() -> int:
    """Runs every check with every package, and prints one line for each."""
    failed = 0
    for kind in kinds():
        for check in CHECKS:
            try:
                check(kind)
                print(f"{kind.name:6} {check.__name__:16} ok", flush=True)
            except Exception as reason:  # noqa: BLE001 - the other checks still run
                failed += 1
                print(f"{kind.name:6} {check.__name__:16} FAILED: {type(reason).__name__}: {reason}", flush=True)
                if "-v" in sys.argv:
                    import traceback

                    traceback.print_exc()
    if not kinds():
        print("no package with arrays on a GPU")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
