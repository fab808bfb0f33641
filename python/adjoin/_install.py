# SPDX-License-Identifier: MIT
"""Puts classes of this package in the place of SciPy's and scikit-learn's, for a whole process, and back.

What takes the place of a class is a stand-in: a subclass of ours that does nothing itself. It is there for two reasons.
``isinstance(x, scipy.spatial.KDTree)`` stays true of trees that are SciPy's own. And ``uninstall`` can tell names that
were imported from SciPy from names that were imported from this package. Stand-ins are attributes of this module, made
when first asked for, so that objects can be pickled.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import sys
from typing import Any, NamedTuple

from ._errors import ArgumentError

__all__ = ["install", "uninstall"]

logger = logging.getLogger("adjoin")


class _Row(NamedTuple):
    """A class or function, the module it is imported from, and the module of ours that has the same."""

    module: str
    name: str
    ours: str


# Everything that is replaced, by package.
TABLE: dict[str, tuple[_Row, ...]] = {
    "scipy": (
        _Row("scipy.spatial", "KDTree", "adjoin.kdtree"),
        _Row("scipy.spatial", "cKDTree", "adjoin.kdtree"),
    ),
    "sklearn": (
        _Row("sklearn.neighbors", "NearestNeighbors", "adjoin.sklearn"),
        _Row("sklearn.neighbors", "KNeighborsTransformer", "adjoin.sklearn"),
        _Row("sklearn.neighbors", "RadiusNeighborsTransformer", "adjoin.sklearn"),
        _Row("sklearn.neighbors", "KNeighborsClassifier", "adjoin.sklearn"),
        _Row("sklearn.neighbors", "KNeighborsRegressor", "adjoin.sklearn"),
        _Row("sklearn.neighbors", "RadiusNeighborsClassifier", "adjoin.sklearn"),
        _Row("sklearn.neighbors", "RadiusNeighborsRegressor", "adjoin.sklearn"),
        _Row("sklearn.neighbors", "LocalOutlierFactor", "adjoin.sklearn"),
        _Row("sklearn.cluster", "DBSCAN", "adjoin.sklearn"),
        _Row("sklearn.cluster", "dbscan", "adjoin.sklearn"),
    ),
}

# The original of every stand-in that is installed, by the id of the stand-in.
_installed: dict[int, tuple[Any, Any]] = {}


class _Standing(type):
    """The class of stand-ins: instances of the original, and of our class, are instances of the stand-in too.

    It is also the class of subclasses of a stand-in, of which this is not true."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        # By the bases alone: an abstract class asks its subclasses, of which the stand-in may be one.
        meant = cls.__dict__.get("_adjoin_stands_for")
        if meant is None:
            return super().__subclasscheck__(subclass)
        return any(kind in subclass.__mro__ for kind in meant)


@functools.cache
def _stand_in(row: _Row) -> Any:
    """What takes the place of an original."""
    original = _original(row)
    ours = getattr(importlib.import_module(row.ours), row.name)
    if not inspect.isclass(ours):

        @functools.wraps(ours)
        def function(*arguments: Any, **options: Any) -> Any:
            return ours(*arguments, **options)

        function.__module__ = __name__
        return function
    kind = type("StandIn", (_Standing, type(ours)), {})
    names = {
        "__module__": __name__,
        "__qualname__": row.name,
        "__doc__": ours.__doc__,
        "_adjoin_stands_for": (original, ours),
    }
    return kind(row.name, (ours,), names)


@functools.cache
def _original(row: _Row) -> Any:
    """What a name means before anything is installed."""
    return getattr(importlib.import_module(row.module), row.name)


def __getattr__(name: str) -> Any:
    """A stand-in, for pickles."""
    for rows in TABLE.values():
        for row in rows:
            if row.name == name:
                return _stand_in(row)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _replace(old: Any, new: Any) -> int:
    """Changes what names of modules mean, but not where the old one is defined, nor in this package.

    Returns how many there were."""
    home, changed = getattr(old, "__module__", None), 0
    for name, module in list(sys.modules.items()):
        if name == home or name.partition(".")[0] == "adjoin":
            continue
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict):
            continue
        for key, value in list(names.items()):
            if value is old:
                names[key] = new
                changed += 1
    return changed


def install(*packages: str) -> None:
    """Puts the classes of this package in the place of SciPy's and scikit-learn's, for the whole process.

    These are replaced: ``scipy.spatial.KDTree`` and ``cKDTree``; the estimators of ``sklearn.neighbors``; and
    ``sklearn.cluster.DBSCAN`` and ``dbscan``. Modules that imported them already get the new ones too. Objects that
    exist stay what they are. What a class cannot do, its original does; a line of the logger "adjoin", of level INFO,
    tells so. A second call has no effect.

    ``python -m adjoin script.py`` does the same for a script.

    Parameters
    ----------
    *packages : {"scipy", "sklearn"}
        Which; by default both, if they are there.

    See Also
    --------
    uninstall : Undoes it.

    Examples
    --------
    >>> import adjoin, scipy.spatial
    >>> adjoin.install("scipy")
    >>> tree = scipy.spatial.KDTree([[0.0, 0.0], [3.0, 4.0]])
    >>> isinstance(tree, adjoin.KDTree)
    True
    >>> adjoin.uninstall()
    >>> issubclass(scipy.spatial.KDTree, adjoin.KDTree)
    False
    """
    for package in packages or TABLE:
        if package not in TABLE:
            raise ArgumentError(f"packages: {package!r} is none of {', '.join(map(repr, TABLE))}")
        try:
            # Looked up before any is replaced, because modules of ours import some of them.
            found = [(row, _original(row), _stand_in(row)) for row in TABLE[package]]
        except ImportError as reason:
            if package in packages:
                raise
            logger.info("install: nothing of %s is replaced: %s", package, reason)
            continue
        for row, original, stand_in in found:
            if id(stand_in) not in _installed:
                _installed[id(stand_in)] = stand_in, original
                count = _replace(original, stand_in)
                logger.info("install: %s.%s is that of %s, by %d names", row.module, row.name, row.ours, count)


def uninstall() -> None:
    """Undoes `install`: names mean the originals again, also in modules that were imported since.

    Objects that were made meanwhile stay what they are.

    Examples
    --------
    >>> import adjoin
    >>> adjoin.uninstall()
    """
    while _installed:
        _, (stand_in, original) = _installed.popitem()
        _replace(stand_in, original)
