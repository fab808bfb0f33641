# SPDX-License-Identifier: MIT
"""The ways to run a peer that is a Python package: functions of peers_range.py and peers_knn.py, by the name of the
variant and the mode."""
from concurrent.futures import ThreadPoolExecutor

import numpy as np

METHODS = {}


def method(name, *modes):
    """Registers a way to run a peer for these modes."""
    def register(function):
        for mode in modes:
            METHODS[name, mode] = function
        return function
    return register


def canonical_squares(row, x):
    """The squared distances of row to every point, by the definition of docs/exactness.md for f32. A product of two f32
    is exact in f64, so this fuses as fmaf does."""
    s = np.zeros(len(x), np.float32)
    for j in range(x.shape[1]):
        t = (row[j] - x[:, j]).astype(np.float64)
        s = (t * t + s).astype(np.float32)
    return s


def in_threads(threads, rows, work):
    """work(begin, end) over slices of the rows, by as many threads; the pieces in order."""
    edges = np.linspace(0, rows, 8 * threads + 1).astype(int)
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda slice_: work(*slice_), zip(edges[:-1], edges[1:])))
