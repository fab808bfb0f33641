# SPDX-License-Identifier: MIT
"""Signals during joins: Ctrl-C ends a join at any moment, and other signals leave joins alone."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

# Definitions that all programs below share.
BEGIN = """
import faulthandler, os, random, signal, socket, struct, sys, threading, time, warnings
faulthandler.dump_traceback_later(100, exit=True)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it

# Another process sends the signals, because threads of this one run only while Python lets them.
orders, send_order = os.pipe()
if os.fork() == 0:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.close(send_order)
    while order := os.read(orders, 12):
        delay, number = struct.unpack("di", order)
        time.sleep(delay)
        os.kill(os.getppid(), number)
    os._exit(0)
os.close(orders)

def send(delay, number=signal.SIGINT):
    "Has a signal sent to this process after so many seconds."
    os.write(send_order, struct.pack("di", delay, number))

import numpy as np
import adjoin
from adjoin import _index, _interrupt, _join
from adjoin._context import default
from adjoin._library import lib

rng = np.random.default_rng(1)
few, many = rng.random((1000, 3)), rng.random((300_000, 64))  # a join of many takes minutes

def some_second(limit=0.7):
    "Points whose join with themselves takes about a second, and the time that it takes."
    count = 4000
    while True:
        points = rng.random((count, 100))
        begin = time.monotonic()
        adjoin.knn_join(points, k=3, algorithm="brute")
        took = time.monotonic() - begin
        if took > limit:
            return points, took
        count = int(count * min(4.0, 1.2 * (limit / took) ** 0.5 + 0.1))

def repeat(work, seconds=5):
    "In a function, because in Python 3.13 an exception at the end of a loop's turn escapes a `try` around the loop."
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        work()

def used():
    return lib.adj_ctx_memory_used(default().handle)
"""


def run(code: str) -> str:
    """Runs a program in a new process and returns what it prints."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", BEGIN + textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "call",
    ["adjoin.knn_join(many, k=5)", "adjoin.count(many, radius=1)", "adjoin.Index(many).knn(many, 5)"],
)
def test_interrupt_ends_a_join_within_a_second(call: str) -> None:
    code = """
        adjoin.knn_join(few, k=1)
        before = used()
        send(0.5)
        begin = time.monotonic()
        try:
            {call}
        except KeyboardInterrupt:
            took = time.monotonic() - begin
            print(0.4 < took < 1.5 or took)
        assert used() == before
        assert signal.set_wakeup_fd(-1) == -1
        assert adjoin.knn_join(few, k=1)[1].shape == (1000, 1)
    """
    assert run(code.format(call=call)) == "True\n"


def test_interrupt_by_a_signal_to_another_thread() -> None:
    code = """
        def interrupt():
            time.sleep(0.3)
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            adjoin.knn_join(many, k=5)
        except KeyboardInterrupt:
            print("ended")
    """
    assert run(code) == "ended\n"


def test_a_handler_that_does_not_raise_lets_the_join_finish() -> None:
    code = """
        points, took = some_second()
        expected = adjoin.knn_join(points, k=3)[1]
        seen = []
        signal.signal(signal.SIGINT, lambda *_: seen.append(time.monotonic()))
        send(0.3 * took)
        begin = time.monotonic()
        found = adjoin.knn_join(points, k=3)[1]
        assert np.array_equal(found, expected)
        assert len(seen) == 1 and seen[0] - begin < 0.3 * took + 0.5, (seen, begin, took)
    """
    run(code)


def test_a_handler_may_raise_any_exception() -> None:
    code = """
        class Enough(Exception): pass
        def handler(*_): raise Enough
        signal.signal(signal.SIGINT, handler)
        send(0.3)
        try:
            adjoin.knn_join(many, k=5)
        except Enough:
            print("ended")
    """
    assert run(code) == "ended\n"


def test_other_signals_neither_end_nor_restart_a_join() -> None:
    code = """
        points, took = some_second()
        expected = adjoin.knn_join(points, k=3, algorithm="brute")[1]
        ticks = []
        signal.signal(signal.SIGALRM, lambda *_: ticks.append(time.monotonic()))
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        begin = time.monotonic()
        found = adjoin.knn_join(points, k=3, algorithm="brute")[1]
        end = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert np.array_equal(found, expected)
        assert end - begin < 4 * took, (end - begin, took)
        # Handlers run when the join has ended, as with any function of C. None has run in between.
        assert sum(begin < tick < end - 0.2 for tick in ticks) <= 2, (begin, end, ticks)
        assert ticks
    """
    run(code)


def test_a_handler_that_raises_in_a_callback_ends_the_join() -> None:
    """Python runs the handler of another signal when the library calls back, at the first instruction there."""
    code = """
        def alarm(*_): raise TimeoutError("late")
        signal.signal(signal.SIGALRM, alarm)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        begin = time.monotonic()
        try:
            adjoin.knn_join(many, k=5, threads=1, progress=lambda *_: None)  # called in this thread
        except TimeoutError as reason:
            print(reason, time.monotonic() - begin < 3 or time.monotonic() - begin)
        assert sys.unraisablehook is sys.__unraisablehook__
    """
    assert run(code) == "late True\n"


@pytest.mark.parametrize(
    ("call", "before"),
    [
        ("kept.append(adjoin.knn_join(few, k=3))", False),
        ("kept.append(adjoin.range_join(few, radius=0.05, distances=True))", True),
        ("adjoin.count(few, radius=0.1)", False),
        ("adjoin.count(few, radius=0.1, progress=inner)", True),
        ("kept.append(adjoin.Index(few))", False),
    ],
)
def test_interrupts_at_any_moment(call: str, before: bool) -> None:
    """Joins of about a millisecond are watched, and interrupted at random. Nothing is lost, and nothing stays behind."""
    code = """
        _join.is_long = _index.is_long = lambda *_: True
        def inner(*_): adjoin.count(few[:20], radius=0.1)
        kept = []
        def join(): {call}
        join()
        kept.clear()
        memory, hook = used(), sys.unraisablehook
        ours, theirs = socket.socketpair()
        ours.setblocking(False), theirs.setblocking(False)
        previous = theirs.fileno() if {before} else -1
        signal.set_wakeup_fd(previous)
        seed = random.randrange(1 << 30)
        random.seed(seed)
        for turn in range(200):
            try:
                send(random.random() * 0.005)
                repeat(join)
                raise SystemExit(f"turn {{turn}} of seed {{seed}}: the interrupt is lost")
            except KeyboardInterrupt:
                pass
            kept.clear()
            assert signal.set_wakeup_fd(previous) == previous
            assert previous == -1 or ours.recv(10) == bytes([signal.SIGINT])
            assert sys.unraisablehook is hook and not _interrupt._watcher.calls
            assert used() == memory, (turn, seed, used(), memory)
        ours.close(), theirs.close()
    """
    run(code.format(call=call, before=before))


def test_interrupts_around_the_end_of_a_join() -> None:
    """The interrupt comes within 5 ms of the beginning or the end, and is raised by then or soon afterwards."""
    code = """
        _join.is_long = lambda *_: True
        points = rng.random((3000, 20))
        adjoin.knn_join(points, k=3)
        begin = time.monotonic()
        expected = adjoin.knn_join(points, k=3)[1]
        took = time.monotonic() - begin
        for turn in range(100):
            ended, late = False, 0
            try:
                send(max(0.0, random.choice([0, took]) + random.uniform(-0.005, 0.005)))
                begin = time.monotonic()
                found = adjoin.knn_join(points, k=3)[1]
                ended = True
                repeat(lambda: time.sleep(1e-5))
                raise SystemExit("the interrupt is lost")
            except KeyboardInterrupt:
                late = time.monotonic() - begin
            assert late < took + 1, (late, took)
            assert not ended or np.array_equal(found, expected)
    """
    run(code)


@pytest.mark.parametrize(
    "call", ["adjoin.range_join(few, radius=0.1)", "adjoin.knn_join(few, k=2)", "adjoin.Index(few)"]
)
def test_interrupts_while_a_result_is_freed(call: str) -> None:
    code = """
        import _thread
        adjoin.count(few, radius=0.1)
        memory = used()
        for _ in range(10):
            result = {call}
            signals = map(_thread.interrupt_main, (signal.SIGINT,))
            try:
                done = [*signals]  # Python runs no handlers between this
                del result         # and this
                time.sleep(1)
                print("lost")
            except KeyboardInterrupt:
                assert used() == memory
    """
    assert run(code.format(call=call)) == ""


def test_the_previous_wakeup_file_gets_the_signals_at_once() -> None:
    code = """
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        ours.settimeout(10)
        signal.set_wakeup_fd(theirs.fileno())
        signal.signal(signal.SIGALRM, lambda *_: None)
        read = []
        def reader():
            read.append(ours.recv(10))  # during the join
            send(0.0)
            read.append(ours.recv(10))
        thread = threading.Thread(target=reader)
        thread.start()
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            adjoin.knn_join(many, k=5)
        except KeyboardInterrupt:
            print("ended")
        thread.join()
        assert read == [bytes([signal.SIGALRM]), bytes([signal.SIGINT])], read
        assert signal.set_wakeup_fd(-1) == theirs.fileno()
        ours.close(), theirs.close()
    """
    assert run(code) == "ended\n"


def test_asyncio() -> None:
    code = """
        import asyncio
        async def main():
            asyncio.get_running_loop().slow_callback_duration = 60  # development mode warns of slow ones
            loop, heard = asyncio.get_running_loop(), asyncio.Event()
            loop.add_signal_handler(signal.SIGALRM, heard.set)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            points, took = some_second(0.4)
            await asyncio.wait_for(heard.wait(), 10)
            print("heard")
        asyncio.run(main())
    """
    assert run(code) == "heard\n"


def test_a_join_in_the_handler_of_an_interrupt() -> None:
    code = """
        points, took = some_second(0.4)
        expected = adjoin.knn_join(points, k=3)[1]
        inner = []
        def handler(*_):
            inner.append(adjoin.knn_join(points, k=2)[1])
            inner.append(adjoin.knn_join(few, k=2)[1])
        signal.signal(signal.SIGINT, handler)
        send(0.2)
        assert np.array_equal(adjoin.knn_join(points, k=3)[1], expected)
        assert len(inner) == 2 and np.array_equal(inner[0], expected[:, :2])
        assert signal.set_wakeup_fd(-1) == -1 and not _interrupt._watcher.calls
    """
    run(code)


@pytest.mark.parametrize("handler", ["signal.default_int_handler", "lambda *_: seen.append(1)"])
def test_interrupts_of_a_join_in_a_callback(handler: str) -> None:
    code = """
        seen, inner = [], []
        signal.signal(signal.SIGINT, {handler})
        points, took = some_second(0.5)
        expected = adjoin.knn_join(points, k=3)[1]
        def progress(*_):
            if len(inner) < 3:
                inner.append(0)
                send(0.02)
                adjoin.knn_join(points, k=1, algorithm="brute")
                inner.append(1)
        try:
            found = adjoin.knn_join(points, k=3, algorithm="brute", progress=progress)[1]
            print("finished", np.array_equal(found, expected), bool(seen))
        except KeyboardInterrupt:
            print("ended")
        assert signal.set_wakeup_fd(-1) == -1 and not _interrupt._watcher.calls
        assert np.array_equal(adjoin.knn_join(points, k=3)[1], expected)
    """
    expected = "ended\n" if handler.startswith("signal") else "finished True True\n"
    assert run(code.format(handler=handler)) == expected


def test_interrupts_after_a_fork() -> None:
    code = """
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is tested
        signal.signal(signal.SIGALRM, lambda *_: None)
        def interrupted():
            timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            try:
                adjoin.knn_join(many, k=5)
            except KeyboardInterrupt:
                return True
        assert interrupted()
        child = os.fork()
        if child == 0:
            alone = _interrupt._watcher is None
            os._exit(0 if interrupted() and alone else 3)
        assert os.waitpid(child, 0)[1] == 0
        assert interrupted()

        # Another thread forks during a join. The child does not write into the pipe of its parent.
        def fork():
            time.sleep(0.2)
            child = os.fork()
            if child == 0:
                os._exit(0 if signal.set_wakeup_fd(-1) == -1 and sys.unraisablehook is sys.__unraisablehook__ else 3)
            statuses.append(os.waitpid(child, 0)[1])
        statuses = []
        thread = threading.Thread(target=fork)
        thread.start()
        assert interrupted()
        thread.join()
        assert statuses == [0]
    """
    run(code)


def test_joins_of_other_threads_are_not_watched() -> None:
    code = """
        points, took = some_second(0.3)
        fds = []
        def work():
            fds.append(adjoin.knn_join(points, k=3)[1])
        thread = threading.Thread(target=work)
        thread.start()
        send(0.1)
        try:
            while thread.is_alive():
                time.sleep(0.01)
        except KeyboardInterrupt:
            print("ended")
        thread.join()
        assert len(fds) == 1
    """
    assert run(code) == "ended\n"


def test_a_join_without_a_thread_to_spare() -> None:
    code = """
        def refuse(self): raise RuntimeError("can't start new thread")
        threading.Thread.start, start = refuse, threading.Thread.start
        files = len(os.listdir("/proc/self/fd"))
        points, took = some_second(0.3)
        assert len(os.listdir("/proc/self/fd")) == files and _interrupt._watcher is None
        threading.Thread.start = start
    """
    run(code)
