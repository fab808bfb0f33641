# SPDX-License-Identifier: MIT
"""Exceptions. Each is also a built-in exception such as ValueError, and carries the library's message."""

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
    """Base class of the exceptions of this package."""


class ArgumentError(Error, ValueError):
    """An argument has an invalid value."""


class ArrayTypeError(Error, TypeError):
    """An argument has a type that cannot be joined."""


class DataError(ArgumentError):
    """A point has a value that cannot be joined, such as NaN. The message names its row and column, counted from 0."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class OutOfMemoryError(Error, MemoryError):
    """The memory limit was reached, or the machine or device has too little memory."""


class LimitError(Error, ValueError):
    """The result has more pairs than `max_pairs`."""


class UnsupportedError(Error, ValueError):
    """This build, machine, metric or backend does not support the call."""


class DeviceError(Error, RuntimeError):
    """A GPU reported a fault."""


class CancelledError(Error, RuntimeError):
    """Another thread cancelled the call."""


class InternalError(Error, RuntimeError):
    """The library found a bug in itself. Please report it."""


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
    """The exception for a status.

    The library counts rows and columns from 1, and messages here count them from 0. The library's `radii` are the
    argument `radius` here.
    """
    kind = _KINDS.get(status, InternalError)
    if issubclass(kind, ArgumentError):
        message = re.sub(r"\b(row|column|coordinate) ([0-9]+)", lambda m: f"{m[1]} {int(m[2]) - 1}", message)
        message = re.sub(r"^radii\[", "radius[", message)
    return kind(message)


def with_names(reason: DataError, **names: str) -> DataError:
    """The same error with an argument's own name where the message begins with the library's: left, right or point."""
    begin, colon, rest = str(reason).partition(": ")
    return DataError(f"{names[begin]}: {rest}") if colon and begin in names else reason
