# SPDX-License-Identifier: MIT
"""Runs calls of the library: which are watched for Ctrl-C, repeated calls, limits and progress."""

from __future__ import annotations

import ctypes
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from . import _declarations as d
from ._errors import CANCELLED, CancelledError
from ._interrupt import Call, acknowledge, interruptible
from ._library import check, fresh

__all__ = ["Call", "Control", "check_call", "interruptible", "is_long"]

# Comparisons of coordinates that take a few tenths of a second, if every pair is compared.
LONG = 1_000_000_000


def is_long(left: int, right: int, dim: int, speed: int = 1) -> bool:
    """Whether a join of this size, at so many times the speed of cores, may take so long that a user interrupts it."""
    return left * right * dim > speed * LONG


class _Thread(threading.local):
    in_callback = False


_thread = _Thread()


class _OuterCallCancelled(CancelledError):
    """Ends a call that a callback makes. It is a part of the call that runs the callback, and that one is cancelled."""


def check_call(call: Call, function: Any, *arguments: Any) -> None:
    """Calls function(*arguments), and raises an exception if it fails.

    adj_cancel ends all calls of a context, so those that it was not meant for are made again.
    """
    while True:
        status = function(*arguments)
        if call.error is not None:
            call.raise_error()
        if status != CANCELLED or call.stopped:
            check(status)
            return
        if _thread.in_callback:
            raise _OuterCallCancelled("the join that made this callback is cancelled")
        acknowledge()


class Control:
    """An adj_run_control with the limit of pairs and, if progress is to be shown, a callback."""

    __slots__ = ("bar", "call", "callback", "reference", "show", "struct")

    def __init__(self, call: Call, progress: Any, max_pairs: int) -> None:
        self.call = call
        self.struct = fresh(d.adj_run_control)
        self.struct.max_pairs = max_pairs
        self.bar: Any = None
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
        try:
            outer, _thread.in_callback = _thread.in_callback, True
            del user
            progress = d.adj_progress.from_address(where)
            assert self.show is not None
            self.show(progress.phase.decode(), progress.fraction, progress.pairs)
        except _OuterCallCancelled:
            return 1
        except BaseException as reason:  # noqa: BLE001 - raised again when the library has returned
            self.call.fail(reason)
            return 1
        finally:
            _thread.in_callback = outer
        return 0

    def _advance(self, phase: str, fraction: float, pairs: int) -> None:
        self.bar.set_description(phase, refresh=False)
        self.bar.n = round(100 * fraction)
        self.bar.set_postfix(pairs=pairs)

    def finish(self, complete: bool) -> None:
        """Closes the bar. To be called after the run."""
        if self.bar is not None:
            if complete:
                self.bar.n = 100
                self.bar.refresh()
            self.bar.close()


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


def control_of(call: Call, progress: Any, max_pairs: int) -> Control | None:
    """A control, or None if the run needs none."""
    return Control(call, progress, max_pairs) if progress or max_pairs else None
