# SPDX-License-Identifier: MIT
"""Replaces classes of SciPy and scikit-learn with those of this package in the whole process, and undoes it.

A class is replaced by a stand-in: an empty subclass of ours. There are two reasons for stand-ins. First,
``isinstance(x, scipy.spatial.KDTree)`` stays true for trees of SciPy's own class. Second, ``uninstall`` can tell names
that were imported from SciPy from names that were imported from this package. Stand-ins are attributes of this module,
created on first use, so that their objects can be pickled.
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
    """A class or function: the module and the name of the original, and our module that has the replacement."""

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

# The installed stand-ins with their originals, by the id of the stand-in.
_installed: dict[int, tuple[Any, Any]] = {}


class _StandInMeta(type):
    """The metaclass of stand-ins: instances of the original and of our class are also instances of the stand-in.

    Subclasses of a stand-in have the same metaclass, but not this behaviour.
    """

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        # Only the bases are looked at: issubclass() of an abstract class asks its subclasses, such as the stand-in.
        meant = cls.__dict__.get("_adjoin_stands_for")
        if meant is None:
            return super().__subclasscheck__(subclass)
        return any(kind in subclass.__mro__ for kind in meant)


@functools.cache
def _stand_in(row: _Row) -> Any:
    """The replacement of an original."""
    original = _original(row)
    ours = getattr(importlib.import_module(row.ours), row.name)
    if not inspect.isclass(ours):

        @functools.wraps(ours)
        def function(*arguments: Any, **options: Any) -> Any:
            return ours(*arguments, **options)

        function.__module__ = __name__
        return function
    kind = type("StandIn", (_StandInMeta, type(ours)), {})
    names = {
        "__module__": __name__,
        "__qualname__": row.name,
        "__doc__": ours.__doc__,
        "_adjoin_stands_for": (original, ours),
    }
    return kind(row.name, (ours,), names)


@functools.cache
def _original(row: _Row) -> Any:
    """The original object of a name. The first call must precede any replacement."""
    return getattr(importlib.import_module(row.module), row.name)


def __getattr__(name: str) -> Any:
    """A stand-in, so that pickle finds it."""
    for rows in TABLE.values():
        for row in rows:
            if row.name == name:
                return _stand_in(row)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _replace(old: Any, new: Any) -> int:
    """Rebinds the names for `old` in all modules, except in the module that defines it and in this package.

    Returns the number of names.
    """
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
    """Replaces classes of SciPy and scikit-learn with those of this package, in the whole process.

    The replaced classes are ``scipy.spatial.KDTree`` and ``cKDTree``, the estimators of ``sklearn.neighbors``, and
    ``sklearn.cluster.DBSCAN`` with the function ``dbscan``. Modules that have already imported them get the new classes
    too. Existing objects do not change. If a class of this package cannot answer a call, the original does, and logs it
    to the logger "adjoin" with level INFO. A second call has no effect.

    ``python -m adjoin script.py`` does the same for a script.

    Parameters
    ----------
    *packages : {"scipy", "sklearn"}
        The packages whose classes are replaced. By default both, if they are installed.

    See Also
    --------
    uninstall : Restores the original classes.

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
            raise ArgumentError(f"packages: {package!r} is not one of {', '.join(map(repr, TABLE))}")
        try:
            # All are looked up before the first is replaced, because our own modules import some of them.
            found = [(row, _original(row), _stand_in(row)) for row in TABLE[package]]
        except ImportError as reason:
            if package in packages:
                raise
            logger.info("install: no class of %s is replaced: %s", package, reason)
            continue
        for row, original, stand_in in found:
            if id(stand_in) not in _installed:
                _installed[id(stand_in)] = stand_in, original
                count = _replace(original, stand_in)
                logger.info("install: %s.%s is now that of %s (%d names)", row.module, row.name, row.ours, count)


def uninstall() -> None:
    """Undoes `install`: all names mean the original classes again, also in modules that were imported since.

    Existing objects do not change.

    Examples
    --------
    >>> import adjoin
    >>> adjoin.uninstall()
    """
    while _installed:
        _, (stand_in, original) = _installed.popitem()
        _replace(stand_in, original)
