# SPDX-License-Identifier: MIT
"""Contexts: threads, memory and devices. They are made when first needed and shared by calls with the same options.

A forked process has none of the threads of a context. There every context of the parent is left alone: `generation`
changes, new calls make new contexts, and nothing of an older generation is used or freed.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence

from . import _declarations as d
from ._errors import ArgumentError, ArrayTypeError
from ._library import check, fresh, lib

__all__ = ["Context", "context", "default", "generation", "parse_memory"]

logger = logging.getLogger("adjoin")
_KEPT = 8
_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class _Generation:
    """How many forks lie between this process and the first one."""

    number = 0


generation = _Generation()


def _forward(user: int, level: int, line: bytes) -> None:
    del user
    python_level = {d.ADJ_LOG_WARN: logging.WARNING, d.ADJ_LOG_INFO: logging.INFO}.get(level, logging.DEBUG)
    logger.log(python_level, line.decode(errors="replace"))


_log = d.LOG(_forward)


class Context:
    """An adj_ctx. Results, indexes and plans hold a reference, so it goes last."""

    __slots__ = ("__weakref__", "generation", "handle")

    def __init__(self, threads: int, memory: int, devices: tuple[int, ...] | None) -> None:
        options = fresh(d.adj_ctx_options)
        options.threads = threads
        options.memory_limit = memory
        options.log = _log
        if devices is not None:
            numbers = (ctypes.c_int32 * max(1, len(devices)))(*devices)
            options.devices = numbers
            options.device_count = len(devices)
        handle = ctypes.c_void_p()
        self.generation = -1
        check(lib.adj_ctx_create(ctypes.byref(options), ctypes.byref(handle)))
        self.handle = handle.value
        self.generation = generation.number

    def __del__(self, destroy=lib.adj_ctx_destroy, now=generation) -> None:  # type: ignore[no-untyped-def]
        if self.generation == now.number:
            destroy(self.handle)


Key = tuple[int, int, "tuple[int, ...] | None"]
_contexts: OrderedDict[Key, Context] = OrderedDict()
_lock = threading.Lock()


def parse_memory(memory: int | str | None) -> int:
    """Bytes of a number or a text such as "4G".

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
    if memory <= 0:
        raise ArgumentError(f"memory: {memory} is not a positive number of bytes")
    return int(memory)


def _parse_devices(device: int | Sequence[int] | None) -> tuple[int, ...] | None:
    if device is None:
        return None
    if isinstance(device, int):
        return (device,)
    return tuple(int(number) for number in device)


def context(
    threads: int | None = None, memory: int | str | None = None, device: int | Sequence[int] | None = None
) -> Context:
    """The context of these options, new or kept."""
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool)):
        raise ArrayTypeError(f"threads: {threads!r} is not an int")
    if threads is not None and not 0 < threads < 1 << 16:
        raise ArgumentError(f"threads: {threads} is not a number of threads")
    key = (threads or 0, parse_memory(memory), _parse_devices(device))
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


def _forget() -> None:
    """In a forked process: nothing of the parent's contexts is used or freed."""
    global _lock
    generation.number += 1
    _lock = threading.Lock()
    _contexts.clear()


os.register_at_fork(after_in_child=_forget)
