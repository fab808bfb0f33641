# SPDX-License-Identifier: MIT
"""dbscan: clusters of points by density."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _declarations as d
from ._arrays import Array, is_on_device
from ._errors import ArgumentError, ArrayTypeError
from ._join import Handles, PairJob, dataset
from ._library import fresh, lib
from ._options import JoinOptions, Settings, _whole, documented, settings
from ._run import Call

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Clusters", "dbscan"]


class Clusters(NamedTuple):
    """The result of `dbscan`.

    Attributes
    ----------
    labels : array of int64
        The cluster of each point, numbered from 0. -1 for points in no cluster.
    core : array of bool
        True for core points.
    """

    labels: Any
    core: Any


class _Job(PairJob):
    """A set of points to cluster. The library plans and runs the join itself."""

    __slots__ = ()

    def open(self, handles: Handles, call: Call) -> ctypes.c_void_p:
        return dataset(self.context, self.left, handles, call, "a")

    def clusters(self, min_points: int, weights: Array | None) -> Clusters:
        count = len(self.left)
        labels, core = np.empty(count, np.int64), np.empty(count, np.bool_)
        wanted = fresh(d.adj_dbscan_job)
        wanted.min_points = min_points
        wanted.labels, wanted.core = labels.ctypes.data, core.ctypes.data
        if weights is not None:
            wanted.weights, wanted.weight_count = weights.ctypes.data, len(weights)
        context, spec, job = self.context.handle, ctypes.byref(self.spec), ctypes.byref(wanted)
        self.run(lambda points, call: self.controlled(call, lib.adj_dbscan, context, spec, points, job))
        return Clusters(labels, core)


def _weights(weights: Any, count: int) -> Array | None:
    if weights is None:
        return None
    try:
        values = np.ascontiguousarray(weights, np.float64)
    except (TypeError, ValueError) as reason:
        raise ArrayTypeError(f"weights: {reason}") from None
    if values.shape != (count,):
        raise ArgumentError(f"weights: shape {values.shape} is not one number for each of {count} points")
    return values


def clusters_of(points: Any, radius: float, min_points: Any, weights: Any, chosen: Settings) -> Clusters:
    """dbscan() with options that are already checked."""
    if is_on_device(points):
        raise ArrayTypeError("a: dbscan takes points in host memory, not on a GPU")
    if np.ndim(radius):
        raise ArgumentError("radius: dbscan takes one radius for all points")
    job = _Job(points, None, chosen, d.ADJ_RANGE)
    job.within(radius)
    return job.clusters(_whole("min_points", min_points, 1, (1 << 64) - 1), _weights(weights, len(job.left)))


@documented()
def dbscan(
    a: Any,
    *,
    radius: float,
    min_points: int = 5,
    weights: Any = None,
    **options: Unpack[JoinOptions],
) -> Clusters:
    """Clusters of points by density (DBSCAN), with the same labels as scikit-learn.

    A core point has at least `min_points` points within the radius. Core points within the radius of each other are in
    the same cluster, and so are all points within the radius of a core point. Pairs are not stored: in addition to
    the points it needs a few bytes per point, and a buffer.

    Parameters
    ----------
    a : array_like
        The points, one per row. A 1-D array holds points in one dimension.
    radius : float
        The largest distance of a neighbour (``<=``).
    min_points : int
        The number of points within the radius that makes a point a core point. The point itself counts.
    weights : array_like, optional
        The weight of each point, which counts towards `min_points`. By default 1.
    {options}

    Returns
    -------
    Clusters
        ``labels``, the cluster of each point or -1, and ``core``, which is true for core points. Clusters are numbered
        in the order of their first core points. A point near several clusters belongs to the first of them.

    Examples
    --------
    >>> import adjoin
    >>> points = [[1.0, 2.0], [2.0, 2.0], [2.0, 3.0], [8.0, 7.0], [8.0, 8.0], [25.0, 80.0]]
    >>> adjoin.dbscan(points, radius=3, min_points=2).labels
    array([ 0,  0,  0,  1,  1, -1])
    """
    return clusters_of(a, radius, min_points, weights, settings(options))
