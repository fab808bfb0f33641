#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What joins of arrays on a GPU cost in Python beyond the C functions of adjoin_cuda.h.

    bench/python_device.py [--package torch|cupy] [--repeats 30] [--quick]

The same join is called in turns through adjoin.knn_join, range_join or count, and through the C function with arguments
that are prepared once. The times go to the end of all work on the device, with the result freed; the median counts.
The library is the one the package finds (ADJOIN_LIBRARY), so both sides use the same code."""
import argparse
import ctypes
import statistics
import time

import adjoin
from adjoin import _declarations as d
from adjoin import _device
from adjoin._context import context
from adjoin._library import check, fresh, lib


class Torch:
    def __init__(self):
        import torch

        self.wait = torch.cuda.synchronize
        self.torch = torch

    def points(self, count, dim):
        self.torch.manual_seed(1)
        return self.torch.rand((count, dim), device="cuda")


class Cupy:
    def __init__(self):
        import cupy

        self.wait = cupy.cuda.runtime.deviceSynchronize
        self.cupy = cupy

    def points(self, count, dim):
        return self.cupy.random.default_rng(1).random((count, dim), dtype="float32")


def c_call(points, kind, k, radius):
    """A function that does the join in C."""
    place = _device.Place(points)
    held = _device.Points(points, "points", place, None)
    handle = context(device=place.device).handle
    spec = fresh(d.adj_join_spec)
    spec.kind = d.ADJ_KNN if kind == "knn" else d.ADJ_RANGE
    if kind == "knn":
        spec.k, spec.radius, spec.flags = k, float("inf"), d.ADJ_WITH_DISTANCE
        spec.order = d.ADJ_ORDER_DISTANCE
    else:
        spec.radius = radius
    out, total = ctypes.c_void_p(), ctypes.c_uint64()

    def call():
        left, where = ctypes.byref(held.struct), ctypes.byref(spec)
        if kind == "count":
            check(lib.adj_cuda_range_count(handle, where, left, None, place.stream, None, ctypes.byref(total)))
            return
        join = lib.adj_cuda_knn_join if kind == "knn" else lib.adj_cuda_range_join
        check(join(handle, where, left, None, place.stream, ctypes.byref(out)))
        lib.adj_cuda_result_destroy(out, place.stream)

    return call


def python_call(points, kind, k, radius):
    if kind == "knn":
        return lambda: adjoin.knn_join(points, k=k)
    if kind == "count":
        return lambda: adjoin.count(points, radius=radius, total=True)
    return lambda: adjoin.range_join(points, radius=radius)


def measure(package, calls, repeats):
    """The median milliseconds of each call, in turns."""
    times = [[] for _ in calls]
    for i in range(repeats + 3):
        for which in range(len(calls)):
            at = (which + i) % len(calls)
            package.wait()
            begin = time.perf_counter()
            calls[at]()
            package.wait()
            if i >= 3:
                times[at].append(time.perf_counter() - begin)
    return [1e3 * statistics.median(some) for some in times]


# Kind, points, dimensions, k, mean number of neighbours.
CASES = [
    ("knn", 100_000, 3, 8, 0),
    ("knn", 1_000_000, 3, 8, 0),
    ("knn", 10_000_000, 3, 8, 0),
    ("knn", 10_000_000, 2, 32, 0),
    ("knn", 100_000, 128, 10, 0),
    ("range", 100_000, 2, 0, 10),
    ("range", 2_000_000, 2, 0, 10),
    ("range", 2_000_000, 3, 0, 100),
    ("count", 2_000_000, 2, 0, 10),
    ("count", 2_000_000, 3, 0, 100),
]


def radius_of(count, dim, mean):
    """The radius at which uniform points in the unit cube have this mean number of neighbours."""
    volume = mean / count
    return {2: (volume / 3.141592653589793) ** 0.5, 3: (volume / 4.1887902047863905) ** (1 / 3)}.get(dim, 0.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", choices=["torch", "cupy"], default="torch")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="joins of 100,000 points only")
    options = parser.parse_args()
    package = Torch() if options.package == "torch" else Cupy()
    for kind, count, dim, k, mean in CASES:
        if options.quick and count > 100_000:
            continue
        points, radius = package.points(count, dim), radius_of(count, dim, mean)
        calls = [c_call(points, kind, k, radius), python_call(points, kind, k, radius)]
        c, python = measure(package, calls, options.repeats)
        what = f"k={k}" if kind == "knn" else f"mean {mean}"
        print(f"{options.package:6s} {kind:6s} {count:9d} x {dim:<4d} {what:9s} C {c:9.3f} ms  Python {python:9.3f} ms"
              f"  {python / c:6.3f}  (+{1e3 * (python - c):.0f} us)", flush=True)


if __name__ == "__main__":
    main()
