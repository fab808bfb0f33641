# SPDX-License-Identifier: MIT
"""Joins and the process they run in: Ctrl-C, threads, forks, progress, logs, the exit of the interpreter."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import sysconfig
import textwrap
import threading
import time
from typing import Any

import numpy as np
import pytest

import adjoin

ARRAYS = ("indptr", "indices", "distances")


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in a new process."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


# A join that takes minutes, so that the test notices if Ctrl-C does not end it.
LONG = """
    import os, signal, threading, time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    import numpy as np
    import adjoin
    points = np.random.default_rng(1).random((300_000, 64))
    def interrupt():
        time.sleep(0.6)
        interrupt.at = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        {call}
    except KeyboardInterrupt:
        took = time.monotonic() - interrupt.at
        print("ended", took < 2.0 or took)
    assert adjoin.knn_join(points[:100], k=1)[1].shape == (100, 1)
"""


@pytest.mark.parametrize(
    "call",
    [
        "adjoin.knn_join(points, k=5)",
        "adjoin.knn_join(points, k=5, progress=lambda *where: None)",
        "adjoin.count(points, radius=2, backend='reference')",
        "for block in adjoin.blocks(points, k=5): pass",
        "adjoin.Index(points).knn(points, 5)",
    ],
)
def test_interrupt(call: str) -> None:
    done = run(LONG.format(call=call))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ended True\n", done.stdout


def test_an_interrupt_ends_no_join_of_another_thread() -> None:
    done = run(
        """
        import os, signal, threading, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
        import numpy as np
        import adjoin
        rng = np.random.default_rng(1)
        points, others = rng.random((300_000, 64)), rng.random((30_000, 32))
        expected = adjoin.knn_join(others, k=3, threads=1)[1]
        answers = []
        other = threading.Thread(target=lambda: answers.append(adjoin.knn_join(others, k=3)[1]))
        def interrupt():
            time.sleep(0.3)
            other.start()
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            adjoin.knn_join(points, k=5)
        except KeyboardInterrupt:
            print("ended")
        other.join()
        assert np.array_equal(answers[0], expected)
        """
    )
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


def test_other_threads_run_during_a_join() -> None:
    points = np.random.default_rng(1).random((20_000, 40))
    ticks: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.005)

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.monotonic()
    adjoin.knn_join(points, k=3, threads=1)
    end = time.monotonic()
    stop.set()
    thread.join()
    assert sum(begin < t < end for t in ticks) >= min(5, (end - begin) / 0.1)


def test_threads_join_at_once() -> None:
    """Threads share contexts, settings and one array, and each gets the results of its own radius."""
    points = np.random.default_rng(5).random((300, 2))
    radii = [0.02 * (i + 1) for i in range(6)]
    expected = [adjoin.range_join(points, radius=radius, distances=True) for radius in radii]
    start, wrong = threading.Barrier(len(radii)), []

    def ask(number: int) -> None:
        start.wait()
        for turn in range(30):
            options: Any = {"threads": 1 + turn % 3} if turn % 2 else {}
            found = adjoin.range_join(points, radius=radii[number], distances=True, **options)
            same = (np.array_equal(getattr(found, name), getattr(expected[number], name)) for name in ARRAYS)
            if not all(same):
                wrong.append((number, turn))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(radii))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL")
def test_no_lock_comes_back() -> None:
    """An extension module that needs the GIL would enable it for the whole process."""
    code = "import sys, adjoin; adjoin.range_join([[0.0]], radius=1); print(sys._is_gil_enabled())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_threads_share_an_index() -> None:
    rng = np.random.default_rng(2)
    points, queries = rng.random((5000, 3)), rng.random((40, 3))
    index = adjoin.Index(points)
    expected = index.knn(queries, 4)[1]
    wrong: list[int] = []

    def ask() -> None:
        for _ in range(20):
            if not np.array_equal(index.knn(queries, 4)[1], expected):
                wrong.append(1)
            if index.knn(queries[3], 4)[1].tolist() != expected[3].tolist():
                wrong.append(2)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_fork() -> None:
    done = run(
        """
        import os, warnings
        import numpy as np
        import adjoin
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is tested
        points = np.random.default_rng(3).random((20_000, 3))
        index = adjoin.Index(points, threads=2)
        tree = adjoin.KDTree(points)
        result = adjoin.range_join(points, radius=0.02)
        def answers():
            found = adjoin.knn_join(points, k=3)[1], index.knn(points, 3)[1], tree.query(points, 3)[1]
            return *(ids.sum() for ids in found), adjoin.count(points, radius=0.02, total=True), len(result.indices)
        expected = answers()
        child = os.fork()
        if child == 0:
            same = answers() == expected
            del index, tree, result
            os._exit(0 if same else 3)
        assert os.waitpid(child, 0)[1] == 0
        assert answers() == expected
        """
    )
    assert done.returncode == 0, done.stderr


def test_the_end_of_the_interpreter() -> None:
    done = run(
        """
        import numpy as np
        import adjoin
        points = np.random.default_rng(3).random((1000, 3))
        kept = adjoin.range_join(points, radius=0.1), adjoin.Index(points), adjoin.KDTree(points)
        kept[2].query(points)
        waiting = adjoin.blocks(points, radius=1.7)
        next(waiting)
        """
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_progress() -> None:
    points = np.random.default_rng(5).random((60_000, 16))
    seen: list[tuple[str, float, int]] = []
    adjoin.knn_join(points, k=2, algorithm="brute", progress=lambda *where: seen.append(where))
    assert seen and all(0 <= fraction <= 1 for _, fraction, _ in seen)

    def refuse(phase: str, fraction: float, pairs: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        adjoin.knn_join(points, k=2, algorithm="brute", progress=refuse)
    with pytest.raises(RuntimeError, match="enough"):
        adjoin.Index(points).knn(points, 3, progress=refuse)


def test_bar(capsys: Any) -> None:
    pytest.importorskip("tqdm")
    points = np.random.default_rng(5).random((60_000, 16))
    adjoin.knn_join(points, k=2, algorithm="brute", progress=True)
    assert "%" in capsys.readouterr().err


def test_a_missing_bar_warns_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.warns(UserWarning, match="tqdm") as caught:
        adjoin.Index([[0.0], [1.0]]).range(radius=1, progress=True)
    assert [warning.filename for warning in caught] == [__file__]


def test_pickles() -> None:
    points = np.random.default_rng(6).random((300, 3))
    result = adjoin.range_join(points, radius=0.2, distances=True)
    again = pickle.loads(pickle.dumps(result))
    assert np.array_equal(again.indices, result.indices) and np.array_equal(again.distances, result.distances)
    index = pickle.loads(pickle.dumps(adjoin.Index(points, metric="manhattan")))
    assert np.array_equal(index.knn(points[:5], 2)[1], adjoin.knn_join(points[:5], points, k=2, metric="l1")[1])


def test_memory_is_freed() -> None:
    from adjoin._context import default
    from adjoin._library import lib

    points = np.random.default_rng(7).random((20_000, 3))
    adjoin.range_join(points, radius=0.1)
    before = lib.adj_ctx_memory_used(default().handle)
    result = adjoin.range_join(points, radius=0.1)
    held = result.indices
    del result
    assert lib.adj_ctx_memory_used(default().handle) > before
    del held
    assert lib.adj_ctx_memory_used(default().handle) == before


def test_interrupts_of_this_process_are_left_alone() -> None:
    assert signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_IGN)
    assert os.getpid() > 0
