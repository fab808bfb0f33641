# SPDX-License-Identifier: MIT
"""Exceptions. Each is also one of Python's own kinds, and carries the message of the library."""

from __future__ import annotations

import re

__all__ = [
    "ArgumentError",
    "ArrayTypeError",
    "CancelledError",
    "DataError",
    "DeviceError",
    "Error",
    "FileError",
    "InternalError",
    "LimitError",
    "OutOfMemoryError",
    "UnsupportedError",
]


class Error(Exception):
    """What every exception of this package is."""


class ArgumentError(Error, ValueError):
    """An argument has a value that makes no sense."""


class ArrayTypeError(Error, TypeError):
    """An argument is of a type that cannot be joined."""


class DataError(ArgumentError):
    """A point holds a value that cannot be joined, such as NaN. The message names its row and column, from 0."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class OutOfMemoryError(Error, MemoryError):
    """The memory limit, or the memory of the machine or device, is too small."""


class LimitError(Error, ValueError):
    """The result has more pairs than `max_pairs`."""


class UnsupportedError(Error, ValueError):
    """This build or machine cannot do it, or the metric or backend cannot."""


class DeviceError(Error, RuntimeError):
    """A GPU reported a fault."""


class CancelledError(Error, RuntimeError):
    """Another thread ended the call."""


class InternalError(Error, RuntimeError):
    """The library found a mistake of its own. Please report it."""


CANCELLED = 1
_KINDS: dict[int, type[Error]] = {
    CANCELLED: CancelledError,
    -10: ArgumentError,
    -11: InternalError,
    -20: DataError,
    -21: FileError,
    -22: FileError,
    -30: OutOfMemoryError,
    -31: OutOfMemoryError,
    -32: LimitError,
    -40: UnsupportedError,
    -41: DeviceError,
    -50: CancelledError,
}


def error(status: int, message: str) -> Error:
    """The exception of a status. The library counts rows and columns from 1, as people do in files; Python from 0."""
    kind = _KINDS.get(status, InternalError)
    if kind is DataError:
        message = re.sub(r"\b(row|column|coordinate) ([0-9]+)", lambda m: f"{m[1]} {int(m[2]) - 1}", message)
    return kind(message)
