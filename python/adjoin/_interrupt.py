# SPDX-License-Identifier: MIT
"""Ends calls of the library on Ctrl-C.

Python runs the handlers of signals in the main thread, between bytecodes, so not while that thread is inside the
library. But it writes the number of each signal to a file descriptor at once (signal.set_wakeup_fd). During a long call
of the main thread this is a pipe. A thread, the watcher, reads it, and cancels the call if the signal is SIGINT. The
main thread then leaves the library, and Python runs the handler, which raises KeyboardInterrupt. If the handler does
not raise, check_call() in _run.py makes the call again. So a cancel that comes too late does no harm, and neither does
one that also ends calls of other threads.

A handler may raise in the main thread after any call. Where the result of a C function must not be lost,
`list.extend(map(function, arguments))` makes the call and stores the result in one call. In a `finally` block, only
what follows the first call may be skipped.
"""

from __future__ import annotations

import functools
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ._context import Context
from ._library import lib

__all__ = ["Call", "acknowledge", "interruptible"]

T = TypeVar("T")
_set_wakeup_fd = functools.partial(signal.set_wakeup_fd, warn_on_full_buffer=False)


class Call:
    """One or several calls of the library, which can be ended."""

    stopped = False  # a cancelled call is not made again
    error: BaseException | None = None  # to be raised when the library has returned

    def fail(self, reason: BaseException) -> None:
        """Ends the call with this exception. To be called in a callback of the library, which then cancels."""
        if self.error is None:
            self.error = reason
        self.stopped = True

    def raise_error(self) -> None:
        """Raises the exception of a callback, if there is one."""
        error, self.error = self.error, None
        if error is not None:
            raise error


class _WatchedCall(Call):
    """A call of the main thread, which the watcher can cancel."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.hook = sys.unraisablehook
        self.previous: list[int] = []  # the file descriptor that ours has replaced, once it has

    def keep(self, unraisable: Any) -> None:
        """Ends the call with an exception that Python cannot raise where it happened.

        This takes the place of sys.unraisablehook. A handler may raise at the first instruction of a callback, before
        its `try`, and ctypes reports the exceptions of callbacks to that hook.
        """
        trace, reason = unraisable.exc_traceback, unraisable.exc_value
        ours = trace is not None and trace.tb_frame.f_globals.get("__package__") == __package__
        if ours or isinstance(reason, KeyboardInterrupt):
            self.fail(reason)
            lib.adj_cancel(self.context.handle)
        else:
            self.hook(unraisable)


class _Watcher:
    """The pipe, and the thread that reads it."""

    def __init__(self) -> None:
        self.calls: list[_WatchedCall] = []  # of the main thread, the innermost last
        self.interrupted = False  # SIGINT has arrived, and the main thread may still be inside the library
        self.lock = threading.RLock()  # held from reading signals until they are passed on
        self.outlet, self.inlet = os.pipe()
        os.set_blocking(self.outlet, False)
        os.set_blocking(self.inlet, False)
        thread = threading.Thread(target=self._watch, name="adjoin", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self.close()
            raise

    def close(self) -> None:
        """Closes the pipe, which no thread uses."""
        os.close(self.outlet)
        os.close(self.inlet)
        self.outlet = self.inlet = -1

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self.outlet, select.POLLIN)
        while poll.poll()[0][1] == select.POLLIN:
            if signal.SIGINT in self.pass_on():
                self._cancel()

    def _cancel(self) -> None:
        """Cancels the innermost call. Repeats it, as a cancel between two calls of the library has no effect."""
        self.interrupted = True
        while self.interrupted:
            try:
                context = self.calls[-1].context
            except IndexError:  # the call has ended
                return
            lib.adj_cancel(context.handle)
            time.sleep(0.02)

    def pass_on(self) -> bytes:
        """Reads the signals that have arrived, and writes them to the file descriptor that ours has replaced."""
        signals = b""
        locked: list[bool] = []
        try:
            locked.extend(map(self.lock.acquire, (True,)))
            signals = os.read(self.outlet, 4096)
            replaced = (call.previous[0] for call in reversed(self.calls) if call.previous)
            other = next((number for number in replaced if number != self.inlet), -1)
            if other != -1:
                os.write(other, signals)
        except OSError:
            pass  # nothing has arrived, or the other file is full or closed
        finally:
            if locked:
                self.lock.release()
        return signals


_watcher: _Watcher | None = None


def _in_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def interruptible(context: Context, work: Callable[[Call], T]) -> T:
    """Runs work(call). In the main thread, SIGINT cancels the calls of the library that it makes in this context."""
    global _watcher
    if not _in_main_thread():
        return work(Call())
    if _watcher is None:
        try:
            _watcher = _Watcher()
        except (OSError, RuntimeError):  # no more files or threads, or Python exits
            return work(Call())
    watcher, call = _watcher, _WatchedCall(context)
    try:
        watcher.calls.append(call)
        try:
            call.previous.extend(map(_set_wakeup_fd, (watcher.inlet,)))
        except (OSError, ValueError):
            pass  # this is a subinterpreter, or the program has closed our file
        sys.unraisablehook = call.keep
        return work(call)
    finally:
        sys.unraisablehook = call.hook
        try:
            if call.previous:
                signal.set_wakeup_fd(call.previous[0])
        except (OSError, ValueError):
            signal.set_wakeup_fd(-1)  # a callback has closed the previous one
        finally:
            try:
                if call.previous and call.previous[0] not in (-1, watcher.inlet):
                    watcher.pass_on()
            finally:
                del watcher.calls[-1]
                watcher.interrupted = False
                if call.error is not None:
                    call.raise_error()


def acknowledge() -> None:
    """Tells the watcher that a call was cancelled. Python has then run the signal's handler, if this is its thread."""
    if _watcher is not None and _in_main_thread():
        _watcher.interrupted = False


def _after_fork() -> None:
    """A forked process has no watcher, and the pipe is that of its parent."""
    global _watcher
    old, _watcher = _watcher, None
    if old is None:
        return
    if old.calls:
        sys.unraisablehook = old.calls[0].hook
        now = signal.set_wakeup_fd(-1)
        if now not in (-1, old.inlet):
            signal.set_wakeup_fd(now)
    old.lock = threading.RLock()
    old.close()


os.register_at_fork(after_in_child=_after_fork)
