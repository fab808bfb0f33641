#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Questions to a kept index beside scipy's cKDTree, on the same points and queries: 1, 1,000 and 100,000 queries a
call, kNN with k = 8 and all within a radius of 10 neighbours.

    bench/index_scipy.py [--build build/release] [--dims 2,3,6,16] [--count 1000000] [--threads N]

bench/index times ours and leaves points, queries and times in a folder; this program times cKDTree on them. Calls of
cKDTree get all threads (workers) if they have many queries. 16 dimensions have 100,000 points."""
import argparse
import os
import subprocess
import tempfile
import time

import numpy as np
from scipy.spatial import cKDTree


def best(call, rounds):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def time_scipy(tree, queries, kind, many, k, radius, workers):
    if many == 1:
        some = queries[:200]
        if kind == "knn":
            return best(lambda: [tree.query(q, k) for q in some], 3) / len(some)
        return best(lambda: [tree.query_ball_point(q, radius) for q in some], 3) / len(some)
    part = queries[:many]
    if kind == "knn":
        return best(lambda: tree.query(part, k, workers=workers), 3)
    return best(lambda: tree.query_ball_point(part, radius, workers=workers), 3)


def run(options, dim, folder):
    count = options.count if dim < 16 else options.count // 10
    command = [os.path.join(options.build, "bench", "index"), "--dim", str(dim), "--count", str(count), "--save", folder]
    if options.threads:
        command += ["--threads", str(options.threads)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    points = np.load(os.path.join(folder, "points.npy"))
    queries = np.load(os.path.join(folder, "queries.npy"))
    tree = cKDTree(points, balanced_tree=False)
    with open(os.path.join(folder, "times.txt"), encoding="utf-8") as lines:
        _, _, k, _, radius = next(lines).split()
        for line in lines:
            kind, many, ours = line.split()
            theirs = time_scipy(tree, queries, kind, int(many), int(k), float(radius), options.threads or -1)
            ratio = theirs / float(ours)
            print(f"{dim:2d}-D  {kind:6s} {int(many):7d} queries  adjoin {1e6 * float(ours):11.2f} us  "
                  f"cKDTree {1e6 * theirs:11.2f} us  {ratio:6.2f}x{'  slower' if ratio < 1 else ''}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--dims", default="2,3,6,16")
    parser.add_argument("--count", type=int, default=1000000)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    for dim in options.dims.split(","):
        with tempfile.TemporaryDirectory() as folder:
            run(options, int(dim), folder)


if __name__ == "__main__":
    main()
