#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""adjoin.sklearn beside scikit-learn, on the same points, in turn, with the answers compared before a time is told.

    python3 bench/python_sklearn.py [--clusters N] [--neighbours N] [--brute N] [--queries N] [--repeat N] [--memory]

DBSCAN of N points in 3-D, uniform and in clusters; other estimators of N points in 3-D; NearestNeighbors by brute force
of N points in 128-D, asked about themselves or, with --queries, about so many others, which takes scikit-learn less time
and gives the same ratio. Fitting is a part of each figure. 0 leaves a part out. --memory adds the most memory that a
process has during DBSCAN, of both.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn
import sklearn.cluster
import sklearn.neighbors

import adjoin
import adjoin.sklearn

Times = tuple[float, float]  # shortest wall clock, shortest CPU time of all threads


def best(repeat: int, ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[Times, Times, Any, Any]:
    """The shortest times of both, taken in turn, and what they return."""
    taken: list[list[Times]] = [[], []]
    answers: list[Any] = [None, None]
    for _ in range(repeat):
        for side, call in enumerate((ours, theirs)):
            answers[side] = None
            begin, busy = time.perf_counter(), time.process_time()
            answers[side] = call()
            taken[side].append((time.perf_counter() - begin, time.process_time() - busy))
    first, second = ((min(t[0] for t in side), min(t[1] for t in side)) for side in taken)
    return first, second, answers[0], answers[1]


def report(name: str, ours: Times, theirs: Times, bar: float | None = None) -> None:
    wall = f"{ours[0]:.2f} | {theirs[0]:.2f} | {theirs[0] / ours[0]:.1f}"
    ratio = f"{theirs[1] / ours[1]:.1f} | {'' if bar is None else format(bar, 'g')}"
    print(f"| {name} | {wall} | {ours[1]:.2f} | {theirs[1]:.2f} | {ratio} |", flush=True)


def uniform(count: int) -> tuple[Any, float]:
    """Points, and a radius with eight neighbours on average."""
    return np.random.default_rng(1).random((count, 3)), (8 / (count * 4.19)) ** (1 / 3)


def clustered(count: int) -> tuple[Any, float]:
    """Four points in five belong to one of 200 clusters; about 30 neighbours."""
    rng = np.random.default_rng(2)
    inside = count * 8 // 10
    points = rng.random((200, 3))[rng.integers(0, 200, inside)] + rng.normal(size=(inside, 3)) * 0.01
    return np.concatenate([points, rng.random((count - inside, 3))]), 0.01 * (1e5 / count) ** (1 / 3)


SETS = {"uniform": uniform, "in clusters": clustered}


def dbscan(count: int, repeat: int) -> None:
    for name, make in SETS.items():
        points, radius = make(count)
        a, b, x, y = best(
            repeat,
            lambda: adjoin.sklearn.DBSCAN(eps=radius, min_samples=8).fit(points),
            lambda: sklearn.cluster.DBSCAN(eps=radius, min_samples=8, n_jobs=-1).fit(points),
        )
        assert np.array_equal(x.labels_, y.labels_) and x.labels_.max() > 0
        report(f"DBSCAN, {count:,} points in 3-D, {name}", a, b, 20)


def neighbours(count: int, repeat: int) -> None:
    points, radius = uniform(count)
    labels = (points[:, 0] > 0.5).astype(int)

    def graph(m: Any) -> Any:
        return m.NearestNeighbors(radius=radius).fit(points).radius_neighbors_graph(points, mode="distance")

    jobs: dict[str, Callable[[Any], Any]] = {
        "NearestNeighbors.kneighbors, k = 8": lambda m: m.NearestNeighbors(n_neighbors=8).fit(points).kneighbors()[0],
        "NearestNeighbors.radius_neighbors_graph": lambda m: graph(m).sum(axis=1),
        "LocalOutlierFactor, 20 neighbours": lambda m: m.LocalOutlierFactor().fit(points).negative_outlier_factor_,
        "KNeighborsClassifier.predict": lambda m: m.KNeighborsClassifier().fit(points, labels).predict(points),
    }
    for name, job in jobs.items():
        a, b, x, y = best(repeat, lambda: job(adjoin.sklearn), lambda: job(sklearn.neighbors))
        assert np.allclose(x, y, rtol=1e-9)
        report(f"{name}, {count:,} points in 3-D", a, b)


def brute(count: int, queries: int, repeat: int) -> None:
    rng = np.random.default_rng(3)
    for kind in ("f8", "f4"):
        points = rng.random((count, 128)).astype(kind)
        others = rng.random((queries, 128)).astype(kind) if queries else None

        def ask(module: Any) -> Any:
            return module.NearestNeighbors(n_neighbors=5, algorithm="brute").fit(points).kneighbors(others)

        a, b, x, y = best(repeat, lambda: ask(adjoin.sklearn), lambda: ask(sklearn.neighbors))
        assert np.allclose(x[0], y[0], rtol=1e-4) and (x[1] == y[1]).mean() > 0.999
        asked = f"{queries:,} queries" if queries else "themselves"
        report(f"brute force, {count:,} points in 128-D, {asked}, {'f64' if kind == 'f8' else 'f32'}", a, b, 10)


# The peak is counted anew from where the points are made (proc(5), clear_refs).
CHILD = """
import re, sys
sys.path.insert(0, {folder!r})
from python_sklearn import SETS
from {module} import DBSCAN

def kib(name):
    return int(re.search(name + r":\\s*(\\d+)", open("/proc/self/status").read())[1])

points, radius = SETS[{name!r}]({count})
DBSCAN(eps=radius, min_samples=8).fit(points[:1000])
open("/proc/self/clear_refs", "w").write("5")
before = kib("VmRSS")
DBSCAN(eps=radius, min_samples=8).fit(points)
print((kib("VmHWM") - before) // 1024)
"""


def memory(count: int) -> None:
    print("| MiB beyond the points | adjoin | scikit-learn |\n|---|---|---|")
    for name in SETS:
        mib = []
        for module in ("adjoin.sklearn", "sklearn.cluster"):
            code = CHILD.format(folder=os.path.dirname(os.path.abspath(__file__)), module=module, name=name, count=count)
            mib.append(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        print(f"| DBSCAN, {count:,} points, {name} | {mib[0].strip()} | {mib[1].strip()} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=1_000_000)
    parser.add_argument("--neighbours", type=int, default=200_000)
    parser.add_argument("--brute", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--memory", action="store_true")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"adjoin {adjoin.__version__}, scikit-learn {sklearn.__version__}, NumPy {np.__version__}, {cores} cores")
    print("| | adjoin, s | scikit-learn, s | ratio | CPU s | scikit-learn's | ratio | bar |\n" + "|---" * 8 + "|")
    if arguments.clusters:
        dbscan(arguments.clusters, arguments.repeat)
    if arguments.neighbours:
        neighbours(arguments.neighbours, arguments.repeat)
    if arguments.brute:
        brute(arguments.brute, arguments.queries, arguments.repeat)
    if arguments.memory:
        memory(arguments.clusters)


if __name__ == "__main__":
    main()
