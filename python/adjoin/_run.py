# SPDX-License-Identifier: MIT
"""Runs calls of the library so that Ctrl-C ends them.

Python handles signals in the main thread, between bytecodes, so not while that thread is inside the library. A join
that may take long and is called from the main thread therefore runs in another thread, while the main thread waits.
Short joins, and joins called from other threads, run in the calling thread.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import warnings
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from . import _declarations as d
from ._context import Context
from ._library import fresh, lib

__all__ = ["Control", "LONG", "interruptible", "is_long"]

T = TypeVar("T")
# Comparisons of coordinates that take a few tenths of a second, if every pair is compared.
LONG = 1_000_000_000


def is_long(left: int, right: int, dim: int) -> bool:
    """Whether a join of this size may take so long that a user wants to interrupt it."""
    return left * right * dim > LONG and threading.current_thread() is threading.main_thread()


class Stop(list[bool]):
    """A flag that asks a call to end: an empty list, which is false, until something is appended."""


# The queues of threads that wait for calls. Threads are kept, as starting one takes 50 microseconds. There is more than
# one only if a signal handler starts a join while another runs.
_idle: list[SimpleQueue[Callable[[], None]]] = []
os.register_at_fork(after_in_child=_idle.clear)


def _serve(calls: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        calls.get()()


def interruptible(context: Context, work: Callable[[Stop], T]) -> T:
    """Runs work(stop) in another thread. An exception from a signal handler, such as KeyboardInterrupt, ends it."""
    stop = Stop()
    outcome: list[Any] = []
    done = threading.Lock()
    done.acquire()
    try:
        calls = _idle.pop()
    except IndexError:
        calls = SimpleQueue()
        threading.Thread(target=_serve, args=(calls,), name="adjoin", daemon=True).start()

    def run() -> None:
        try:
            outcome.append(work(stop))
        except BaseException as reason:  # noqa: BLE001 - raised again by the waiting thread
            outcome.extend((None, reason))
        finally:
            _idle.append(calls)
            done.release()

    calls.put(run)
    try:
        done.acquire()
    except BaseException:
        stop.append(True)
        # Repeated, because a cancel between two calls of the library has no effect.
        lib.adj_cancel(context.handle)
        while not outcome and not done.acquire(timeout=0.02):
            lib.adj_cancel(context.handle)
        raise
    if len(outcome) == 2:
        try:
            raise outcome[1]
        finally:
            outcome.clear()
    result: T = outcome.pop()
    return result


class Control:
    """An adj_run_control with the limit of pairs and, if progress is to be shown, a callback."""

    __slots__ = ("bar", "callback", "error", "reference", "show", "stop", "struct")

    def __init__(self, progress: Any, max_pairs: int) -> None:
        self.struct = fresh(d.adj_run_control)
        self.struct.max_pairs = max_pairs
        self.error: BaseException | None = None
        self.bar: Any = None
        self.stop = Stop()
        self.show: Callable[[str, float, int], object] | None = None
        if callable(progress):
            self.show = progress
        elif progress:
            self.bar = _bar()
            self.show = self._advance if self.bar is not None else None
        if self.show is not None:
            self.callback = d.PROGRESS(self._progress)
            self.struct.progress = self.callback
        self.reference = ctypes.byref(self.struct)

    def _progress(self, user: int, where: int) -> int:
        del user
        try:
            progress = d.adj_progress.from_address(where)
            assert self.show is not None
            self.show(progress.phase.decode(), progress.fraction, progress.pairs)
        except BaseException as reason:  # noqa: BLE001 - raised again when the run has ended
            self.error = reason
            self.stop.append(True)
            return 1
        return 0

    def _advance(self, phase: str, fraction: float, pairs: int) -> None:
        self.bar.set_description(phase, refresh=False)
        self.bar.n = round(100 * fraction)
        self.bar.set_postfix(pairs=pairs)

    def finish(self, complete: bool) -> None:
        """To be called after the run: closes the bar, and raises the exception of the callback, if any."""
        if self.bar is not None:
            if complete:
                self.bar.n = 100
                self.bar.refresh()
            self.bar.close()
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None


def _bar() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        frame, level = sys._getframe(), 1
        while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
            frame, level = frame.f_back, level + 1
        warnings.warn("progress=True needs tqdm, which is not installed", stacklevel=level)
        return None
    return tqdm(total=100, unit="%", bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed}{postfix}", leave=False)


def control_of(progress: Any, max_pairs: int) -> Control | None:
    """A control, or None if the run needs none."""
    return Control(progress, max_pairs) if progress or max_pairs else None
