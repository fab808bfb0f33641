# SPDX-License-Identifier: MIT
"""libadjoin: finds and loads it, and makes calls whose status becomes an exception."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any, TypeVar

from . import _declarations as d
from ._errors import CANCELLED, error

__all__ = ["check", "fresh", "lib", "path"]

S = TypeVar("S", bound=ctypes.Structure)


def _find() -> str:
    """The library: $ADJOIN_LIBRARY, or the one inside this package."""
    asked = os.environ.get("ADJOIN_LIBRARY")
    if asked:
        return asked
    inside = sorted(Path(__file__).parent.glob("lib/libadjoin.so*"))
    if not inside:
        raise ImportError(
            "libadjoin is not inside the package: install it with pip, or set ADJOIN_LIBRARY to a libadjoin.so"
        )
    return str(inside[0])


def _load(file: str) -> Any:
    """The library with all functions declared. Calls release the GIL."""
    library = ctypes.CDLL(file)
    for name, (result, *arguments) in d.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


path = _find()
lib = _load(path)


def _default(struct: type[ctypes.Structure]) -> bytes:
    value = struct()
    getattr(lib, struct.__name__ + "_init")(ctypes.byref(value), ctypes.sizeof(struct))
    return bytes(value)


_defaults = {struct: _default(struct) for struct in d.SIZED}


def fresh(struct: type[S]) -> S:
    """A struct with its defaults. Copying them takes less time than a call of its _init function."""
    return struct.from_buffer_copy(_defaults[struct])


def check(status: int) -> None:
    """Raises the exception of a status that is not success. The calling thread made the call."""
    if status:
        raise error(status, lib.adj_last_error().decode(errors="replace"))


def settled(stopped: Any, function: Any, *arguments: Any) -> None:
    """Makes a call, again if it was ended on behalf of another thread: adj_cancel ends every call of a context."""
    while True:
        status = function(*arguments)
        if status == CANCELLED and not stopped:
            continue
        check(status)
        return
