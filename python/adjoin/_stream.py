# SPDX-License-Identifier: MIT
"""Results larger than memory, block by block.

The join runs in another thread, and the caller gets a copy of each block. At most one finished block waits for the
caller.
"""

from __future__ import annotations

import atexit
import ctypes
import queue
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _declarations as d
from ._arrays import INT32, INT64, REAL, from_memory, ids_from
from ._library import check, fresh, lib
from ._result import Result
from ._run import Call, control_of

if TYPE_CHECKING:
    from ._join import Job

__all__ = ["blocks_of"]


class _Stream:
    """A run that puts its blocks into a queue, and None after the last. `error` is the exception if it failed."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.active = _active  # the global may be gone when the interpreter exits
        self.call = Call()
        self.blocks: queue.Queue[Any] = queue.Queue(1)
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="adjoin stream", daemon=True)

    def close(self) -> None:
        """Cancels the run and waits for it to end."""
        self.call.stopped = True
        while self.thread.is_alive() and not sys.is_finalizing():
            lib.adj_cancel(self.job.context.handle)
            self.thread.join(0.02)
        self.active.discard(self)

    def _put(self, item: Any) -> None:
        while not self.call.stopped:
            try:
                self.blocks.put(item, timeout=0.1)
                return
            except queue.Full:
                pass

    def _write(self, user: int, address: int) -> int:
        del user
        try:
            rows = d.adj_rows.from_address(address)
            indptr = from_memory(rows.offsets, (rows.row_count + 1,), INT64)
            entries = int(indptr[-1] - indptr[0])
            ids = ids_from(from_memory(rows.ids, (entries,), INT32), self.job.candidates)
            kind = REAL[self.job.left.dtype]
            distances = from_memory(rows.distances, (entries,), kind) if rows.distances else None
            indptr -= indptr[0]
            self._put(Result(indptr, ids, distances, (rows.row_count, self.job.candidates), rows.first_row))
        except BaseException as reason:  # noqa: BLE001 - raised again by the caller's thread
            self.error = reason
        return d.ADJ_E_SINK if self.call.stopped or self.error else d.ADJ_OK

    def _run(self) -> None:
        try:
            sink = fresh(d.adj_sink)
            callback = d.WRITE(self._write)
            sink.write = callback
            self.job.run(lambda plan, call: self._stream(plan, sink), self.call)
        except BaseException as reason:  # noqa: BLE001 - raised again by the caller's thread
            self.error = self.error or reason
        self._put(None)

    def _stream(self, plan: ctypes.c_void_p, sink: d.adj_sink) -> None:
        settings = self.job.settings
        call = Call()
        control = control_of(call, settings.progress, settings.max_pairs)
        if control is None:
            check(lib.adj_stream(plan, ctypes.byref(sink), None, None))
            return
        status = lib.adj_stream(plan, ctypes.byref(sink), control.reference, None)
        control.finish(status == 0)
        call.raise_error()
        check(status)


# Streams that are still running. They are closed before the interpreter exits.
_active: set[_Stream] = set()


def _close_all() -> None:
    for stream in list(_active):
        stream.close()


atexit.register(_close_all)


def blocks_of(job: Job) -> Iterator[Result]:
    """Yields the blocks of a join as they are found."""
    stream = _Stream(job)
    _active.add(stream)
    stream.thread.start()
    try:
        while True:
            block = stream.blocks.get()
            if block is None:
                break
            yield block
            del block
        if stream.error is not None:
            raise stream.error
    finally:
        stream.close()
