# SPDX-License-Identifier: MIT
"""Contexts: threads, memory and devices. They are created when first needed, and shared by calls with the same options.

A forked process does not have the threads of its parent's contexts, so it must not use or free them. After a fork
`generation` changes, and new calls create new contexts. Objects of an older generation are neither used nor freed.
"""

from __future__ import annotations

import ctypes
import logging
import numbers
import operator
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

from . import _declarations as d
from ._errors import ArgumentError, ArrayTypeError
from ._library import check, fresh, lib

__all__ = ["Context", "context", "default", "finalizer", "generation", "on_device", "parse_memory", "whole"]

logger = logging.getLogger("adjoin")
_KEPT = 8
_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class _Generation:
    """The number of forks between the first process and this one."""

    number = 0


generation = _Generation()


def _forward(user: int, level: int, line: bytes) -> None:
    del user
    python_level = {d.ADJ_LOG_WARN: logging.WARNING, d.ADJ_LOG_INFO: logging.INFO}.get(level, logging.DEBUG)
    logger.log(python_level, line.decode(errors="replace"))


_log = d.LOG(_forward)


class Context:
    """An adj_ctx. Results, indexes and plans hold a reference to it, so it is destroyed last."""

    __slots__ = ("__weakref__", "generation", "handle")

    def __init__(self, threads: int, memory: int, devices: tuple[int, ...] | None) -> None:
        options = fresh(d.adj_ctx_options)
        options.threads = threads
        options.memory_limit = memory
        options.log = _log
        if devices is not None:
            options.devices = (ctypes.c_int32 * max(1, len(devices)))(*devices)
            options.device_count = len(devices)
        handle = ctypes.c_void_p()
        check(lib.adj_ctx_create(ctypes.byref(options), ctypes.byref(handle)))
        self.handle = handle.value
        self.generation = generation.number

    def __del__(self, destroy=lib.adj_ctx_destroy, now=generation) -> None:  # type: ignore[no-untyped-def]
        # Nothing is set if creating it failed, or if the handler of a signal ended __init__ at once.
        if getattr(self, "generation", -1) == now.number:
            destroy(self.handle)


def _finalizer(keep: Any, ends: Iterator[None], now: _Generation) -> Generator[None, None, None]:
    number = now.number
    try:
        yield
    finally:
        try:  # Python 3.10 runs no handlers before a `try`
            if now.number == number:
                _ = [*ends]
        finally:
            del keep


def finalizer(keep: Any, ends: Iterator[None]) -> Generator[None, None, None]:
    """An object that runs through `ends`, whose items destroy handles, when it is itself destroyed.

    Until then it keeps what they need: the context, and points that are not copied. In a forked process it destroys
    nothing. It has no __del__, since the handler of a signal may raise there, and Python ignores that exception. From
    the `yield` of this generator to its end, Python runs no handlers.
    """
    end = _finalizer(keep, ends, generation)
    next(end)
    return end


Key = tuple[int, int, "tuple[int, ...] | None"]
_contexts: OrderedDict[Key, Context] = OrderedDict()
_lock = threading.Lock()


def whole(name: str, value: Any) -> int:
    """An argument that must be a whole number. NumPy's integers are taken too."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise ArrayTypeError(f"{name}: {value!r} is not a whole number")


def parse_memory(memory: int | str | None) -> int:
    """The bytes in a number or a text such as "4G".

    >>> parse_memory("2.5M")
    2621440
    """
    if memory is None:
        return 0
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([KMGT]?)(?:i?B)?\s*", memory, re.IGNORECASE)
        if not found:
            raise ArgumentError(f'memory: {memory!r} is not a number of bytes such as 4000000000 or "4G"')
        memory = int(float(found[1]) * _SUFFIXES[found[2].upper()])
    if not isinstance(memory, numbers.Real):
        raise ArrayTypeError(f'memory: {memory!r} is neither a number of bytes nor a text such as "4G"')
    if not 0 < memory < 1 << 64:
        raise ArgumentError(f"memory: {memory} is not a positive number of bytes")
    return int(memory)


def _parse_devices(device: int | Sequence[int] | None) -> tuple[int, ...] | None:
    if device is None:
        return None
    several = isinstance(device, Iterable) and not isinstance(device, str)
    devices = tuple(whole("device", number) for number in (device if several else [device]))  # type: ignore[union-attr]
    wrong = [number for number in devices if not 0 <= number < 1 << 31]
    if wrong:
        raise ArgumentError(f"device: {wrong[0]} is not the number of a GPU")
    return devices


def context(
    threads: int | None = None, memory: int | str | None = None, device: int | Sequence[int] | None = None
) -> Context:
    """The context for these options. The last few are kept."""
    count = 0 if threads is None else whole("threads", threads)
    if threads is not None and not 0 < count < 1 << 16:
        raise ArgumentError(f"threads: {count} is not between 1 and 65535")
    return _shared((count, parse_memory(memory), _parse_devices(device)))


def _shared(key: Key) -> Context:
    with _lock:
        found = _contexts.get(key)
        if found is None:
            found = _contexts[key] = Context(*key)
            if len(_contexts) > _KEPT:
                oldest = next(k for k in _contexts if k != _DEFAULT)
                del _contexts[oldest]
        _contexts.move_to_end(key)
        return found


_DEFAULT: Key = (0, 0, None)


def default() -> Context:
    """The context of calls without options."""
    return _contexts.get(_DEFAULT) or context()


def on_device(number: int) -> Context:
    """The context of calls without options whose points are on this GPU."""
    key: Key = (0, 0, (number,))
    return _contexts.get(key) or _shared(key)


def _forget() -> None:
    """In a forked process: leaves the contexts of the parent alone."""
    global _lock
    generation.number += 1
    _lock = threading.Lock()
    _contexts.clear()


os.register_at_fork(after_in_child=_forget)
