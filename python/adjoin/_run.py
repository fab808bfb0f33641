# SPDX-License-Identifier: MIT
"""Runs calls of the library so that Ctrl-C ends them.

Python handles signals between bytecodes of the main thread, which is inside the library during a join. So a join that
may take long, called from the main thread, runs in a thread of its own, and the main thread waits. Short ones, and
those of other threads, run where they are called.
"""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from . import _declarations as d
from ._context import Context
from ._library import fresh, lib

__all__ = ["Control", "LONG", "interruptible", "is_long"]

T = TypeVar("T")
# Comparisons of coordinates that take some tenths of a second where every pair is compared.
LONG = 1_000_000_000


def is_long(left: int, right: int, dim: int) -> bool:
    """Whether a join of so many points may take so long that somebody wants to end it."""
    return left * right * dim > LONG and threading.current_thread() is threading.main_thread()


class Stop(list[bool]):
    """Empty until the call is to end, and then true."""


def interruptible(context: Context, work: Callable[[Stop], T]) -> T:
    """work(stop) in another thread. What a signal handler raises here, such as KeyboardInterrupt, ends it."""
    stop = Stop()
    outcome: list[Any] = []
    done = threading.Lock()
    done.acquire()

    def run() -> None:
        try:
            outcome.append(work(stop))
        except BaseException as reason:  # noqa: BLE001 - raised again by the waiting thread
            outcome.extend((None, reason))
        finally:
            done.release()

    threading.Thread(target=run, name="adjoin", daemon=True).start()
    try:
        done.acquire()
    except BaseException:
        stop.append(True)
        # A cancel between two calls of the library ends nothing, so it is repeated.
        lib.adj_cancel(context.handle)
        while not done.acquire(timeout=0.02):
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
    """An adj_run_control with a callback that shows the progress. None of it where nothing is to be shown."""

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
        """After the run: ends the bar, and raises what the callback raised."""
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
        warnings.warn("progress=True needs tqdm, which is not installed", stacklevel=6)
        return None
    return tqdm(total=100, unit="%", bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed}{postfix}", leave=False)


def control_of(progress: Any, max_pairs: int) -> Control | None:
    """A control, if a run needs one."""
    return Control(progress, max_pairs) if progress or max_pairs else None
