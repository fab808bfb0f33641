# SPDX-License-Identifier: MIT
"""Exact similarity joins: all pairs of points within a radius, and the k nearest neighbours of each point.

    >>> import adjoin
    >>> points = [[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]
    >>> adjoin.range_join(points, radius=2)[0].tolist()
    [2]
    >>> distances, indices = adjoin.knn_join(points, k=1)

`range_join`, `knn_join`, `count` and `pairs` join one set with itself, or two sets. `dbscan` finds clusters. `blocks`
and `write` are for results larger than memory. `Index` is for points that are queried often. `KDTree` has SciPy's
interface, and `install` makes it and other classes replace the originals in the whole process. Results are exact, and
do not depend on the machine, the number of threads or the use of a GPU.

Adapters for other packages are imported by name: `adjoin.astropy`, `adjoin.dask`, `adjoin.faiss`, `adjoin.sklearn`,
`adjoin.torch`.
"""

from ._config import show_config
from ._dbscan import Clusters, dbscan
from ._errors import (
    ArgumentError,
    ArrayTypeError,
    CancelledError,
    DataError,
    DeviceError,
    Error,
    FileError,
    InternalError,
    LimitError,
    OutOfMemoryError,
    UnsupportedError,
)
from ._functions import blocks, count, explain, knn_join, pairs, range_join, select_k, write
from ._index import Index
from ._install import install, uninstall
from ._library import lib as _lib
from ._options import JoinOptions
from ._plan import Plan
from ._result import Coordinates, Result
from .kdtree import KDTree, cKDTree

__version__: str = _lib.adj_version_string().decode()

__all__ = [
    "ArgumentError",
    "ArrayTypeError",
    "CancelledError",
    "Clusters",
    "Coordinates",
    "DataError",
    "DeviceError",
    "Error",
    "FileError",
    "Index",
    "InternalError",
    "JoinOptions",
    "KDTree",
    "LimitError",
    "OutOfMemoryError",
    "Plan",
    "Result",
    "UnsupportedError",
    "blocks",
    "cKDTree",
    "count",
    "dbscan",
    "explain",
    "install",
    "knn_join",
    "pairs",
    "range_join",
    "select_k",
    "show_config",
    "uninstall",
    "write",
]
