# SPDX-License-Identifier: MIT
"""The reference: every pair is compared in NumPy, in f64.

For coordinates whose distances are exact in f64 the results are those of docs/exactness.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def matrix(a: Array, b: Array, metric: str = "euclidean") -> Array:
    """All distances, in f64."""
    difference = np.abs(a[:, None, :].astype(np.float64) - b[None, :, :].astype(np.float64))
    if metric == "euclidean":
        out: Array = np.sqrt((difference**2).sum(-1))
    elif metric == "manhattan":
        out = difference.sum(-1)
    elif metric == "chebyshev":
        out = difference.max(-1)
    else:
        raise ValueError(metric)
    return out


def within(a: Array, b: Array | None, radius: Any, metric: str = "euclidean") -> list[list[int]]:
    """Rows of neighbours. The coordinates must have exact distances."""
    near = matrix(a, a if b is None else b, metric) <= np.reshape(radius, (-1, 1) if np.ndim(radius) else (1, 1))
    if b is None:
        np.fill_diagonal(near, False)
    return [np.flatnonzero(row).tolist() for row in near]


def nearest(a: Array, b: Array | None, k: int, metric: str = "euclidean") -> tuple[Array, Array]:
    """Distances and ids of the k nearest. Ties go to the lower id."""
    all_pairs = matrix(a, a if b is None else b, metric)
    columns = all_pairs.shape[1]
    ids = np.full((len(a), k), -1)
    distances = np.full((len(a), k), np.inf)
    for i, row in enumerate(all_pairs):
        order = [j for j in np.lexsort((np.arange(columns), row)).tolist() if b is not None or j != i][:k]
        ids[i, : len(order)] = order
        distances[i, : len(order)] = row[order]
    return distances, ids
