#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""adjoin.KDTree beside SciPy's, on the same points, in turn, with the answers compared before a time is told.

    python3 bench/python_trees.py [--count N] [--repeat N] [--small-join PROGRAM]

The time of a tree is a part of each figure. SciPy works with all cores (workers=-1) where it can. The last lines are
about the overhead of calls: one query to a tree; and, on one core, a small join beside the same join in C
(build/release/bench/small_join), both in CPU time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
import scipy.spatial

import adjoin


Times = tuple[float, float]  # shortest wall clock, shortest CPU time of all threads


def best(repeat: int, ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[Times, Times, Any, Any]:
    """The shortest times of both, taken in turn, and what they return."""
    wall: tuple[list[float], list[float]] = ([], [])
    processor: tuple[list[float], list[float]] = ([], [])
    answers: list[Any] = [None, None]
    for _ in range(repeat):
        for side, call in enumerate((ours, theirs)):
            answers[side] = None
            begin, busy = time.perf_counter(), time.process_time()
            answers[side] = call()
            wall[side].append(time.perf_counter() - begin)
            processor[side].append(time.process_time() - busy)
    first, second = ((min(wall[side]), min(processor[side])) for side in (0, 1))
    return first, second, answers[0], answers[1]


def report(name: str, ours: Times, theirs: Times, bar: float) -> None:
    figures = f"{ours[0]:.3f} | {theirs[0]:.3f} | {theirs[0] / ours[0]:.1f} | {bar:g} | {ours[1]:.2f} | {theirs[1]:.2f}"
    print(f"| {name} | {figures} |", flush=True)


def same_rows(rows: Any, lists: Any) -> None:
    flat = np.fromiter((j for row in lists for j in row), np.int64, len(rows.indices))
    assert np.array_equal(rows.indices, flat)


def joins(points: Any, repeat: int, name: str) -> None:
    """The bars, for one set."""
    mine, peer = adjoin.KDTree, scipy.spatial.KDTree
    n = len(points)
    radius = (8 / (n * 4.19)) ** (1 / 3)  # about eight neighbours

    a, b, x, y = best(repeat, lambda: mine(points).query(points, 8), lambda: peer(points).query(points, 8, workers=-1))
    assert np.allclose(x[0], y[0], rtol=1e-12)
    report(f"{name}: query, k = 8", a, b, 15)
    a, b, x, y = best(
        repeat,
        lambda: mine(points).query_ball_point(points, radius),
        lambda: peer(points).query_ball_point(points, radius, workers=-1),
    )
    assert all(p == q for p, q in zip(x, y))
    report(f"{name}: query_ball_point", a, b, 3)
    c, _, x, _ = best(repeat, lambda: mine(points).query_ball_csr(points, radius), lambda: None)
    same_rows(x, y)
    report(f"{name}: query_ball_csr beside SciPy's lists", c, b, 25)
    del x, y
    a, b, x, y = best(
        repeat,
        lambda: mine(points).query_pairs(radius, output_type="ndarray"),
        lambda: peer(points).query_pairs(radius, output_type="ndarray"),
    )
    assert np.array_equal(x, y[np.lexsort((y[:, 1], y[:, 0]))])
    report(f"{name}: query_pairs, ndarray", a, b, 6)

    def matrix(kind: Any) -> Any:
        tree = kind(points)
        return tree.sparse_distance_matrix(tree, radius, output_type="coo_matrix")

    a, b, x, y = best(repeat, lambda: matrix(mine), lambda: matrix(peer))
    assert x.nnz == y.nnz and np.allclose(x.data.sum(), y.data.sum())
    report(f"{name}: sparse_distance_matrix, coo_matrix", a, b, 10)
    del x, y

    def count(kind: Any) -> Any:
        tree = kind(points)
        return tree.count_neighbors(tree, [radius / 2, radius, 2 * radius])

    a, b, x, y = best(repeat, lambda: count(mine), lambda: count(peer))
    assert np.array_equal(x, y)
    report(f"{name}: count_neighbors, three radii", a, b, 10)


def per_call(call: Callable[[], Any], times: int = 3000) -> float:
    """Microseconds of one call."""
    shortest = float("inf")
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(times // 7):
            call()
        shortest = min(shortest, (time.perf_counter() - begin) / (times // 7))
    return 1e6 * shortest


def calls(points: Any) -> None:
    """One query per call."""
    mine, peer = adjoin.KDTree(points), scipy.spatial.KDTree(points)
    fast = scipy.spatial.cKDTree(points)
    query = np.random.default_rng(2).random(3)
    print("| one query per call, µs | adjoin.KDTree | SciPy's KDTree | cKDTree |\n|---|---|---|---|")
    for name, call in (
        ("query, k = 1", lambda tree: tree.query(query)),
        ("query, k = 8", lambda tree: tree.query(query, 8)),
        ("query_ball_point", lambda tree: tree.query_ball_point(query, 0.01)),
    ):
        found = [per_call(lambda: call(tree)) for tree in (mine, peer, fast)]
        print(f"| {name} | {found[0]:.1f} | {found[1]:.1f} | {found[2]:.1f} |", flush=True)


def small_join(program: str) -> None:
    """The overhead of a call. On one core, since waking a second thread takes longer and varies."""
    code = (
        "import sys, time, numpy as np, adjoin\n"
        "points = np.fromfile(sys.argv[1]).reshape(-1, 3)\n"
        "def round():\n"
        "    begin = time.process_time()\n"
        "    for _ in range(300): adjoin.range_join(points, radius=0.1)\n"
        "    return (time.process_time() - begin) / 300e-6\n"
        "print(min(round() for _ in range(60)))\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "points")
        np.random.default_rng(1).random((100, 3)).tofile(file)
        one = ["taskset", "-c", str(max(os.sched_getaffinity(0)))]
        commands = [one + [program, file, "100", "3", "0.1"], one + [sys.executable, "-c", code, file]]
        taken: list[list[float]] = [[], []]
        for _ in range(3):
            for side, command in enumerate(commands):
                output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                taken[side].append(float(output))
    first, second = min(taken[0]), min(taken[1])
    print(f"a join of 100 points in 3-D: {first:.1f} µs in C, {second:.1f} from Python, {second - first:.1f} more")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--types", default="f4,f8")
    parser.add_argument("--small-join", default="build/release/bench/small_join")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"adjoin {adjoin.__version__}, SciPy {scipy.__version__}, NumPy {np.__version__}, {cores} cores")
    points = np.random.default_rng(1).random((arguments.count, 3))
    print("| | adjoin, s | SciPy, s | ratio | bar | CPU s | SciPy's |\n|---|---|---|---|---|---|---|")
    for kind in arguments.types.split(","):
        joins(points.astype(kind), arguments.repeat, {"f4": "f32", "f8": "f64"}[kind])
    calls(points)
    if os.path.exists(arguments.small_join):
        small_join(arguments.small_join)


if __name__ == "__main__":
    main()
