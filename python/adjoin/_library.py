# SPDX-License-Identifier: MIT
"""Finds and loads libadjoin, and turns its status codes into exceptions."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any, TypeVar

from . import _declarations as d
from ._errors import error

__all__ = ["check", "fresh", "lib", "path"]

S = TypeVar("S", bound=ctypes.Structure)


def _find() -> str:
    """The path of the library: $ADJOIN_LIBRARY, or the copy inside this package."""
    asked = os.environ.get("ADJOIN_LIBRARY")
    if asked:
        return asked
    inside = sorted(Path(__file__).parent.glob("lib/libadjoin.so*"))
    if not inside:
        raise ImportError(
            "this copy of the package has no libadjoin: install adjoin with pip, or set ADJOIN_LIBRARY to the path of "
            "a libadjoin.so"
        )
    return str(inside[0])


def _load(file: str) -> Any:
    """Loads the library and declares its functions. Calls release the GIL."""
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
    """A struct with its default values. Copying them is faster than calling its _init function."""
    return struct.from_buffer_copy(_defaults[struct])


def check(status: int) -> None:
    """Raises an exception if a status is not success. To be called in the thread that made the call."""
    if status:
        raise error(status, lib.adj_last_error().decode(errors="replace"))
