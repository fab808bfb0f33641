#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The driver of the peers that are Python packages; the same protocol as driver.h:

    driver_python.py POINTS.npy[,RIGHT.npy] WHAT MODE THREADS REPEATS VARIANT [ANSWER.npy]

VARIANT is "package/how", one of the functions of peers_range.py and peers_knn.py. Each returns (index
seconds, result) where the result is CSR (offsets, ids), the counts, or of kNN joins the two tables
(distances, ids), and is timed as a whole, index and conversion to CSR included. Removing the point itself
from its own row is not timed: not every package can leave it out, and we would rather give a peer those
milliseconds than charge it for our convention. So peers are asked for k + 1 where one set is joined with
itself.
"""
import importlib.metadata
import json
import resource
import sys
import time

import numpy as np

import peers_knn  # noqa: F401  registers its methods, as the next does
import peers_range  # noqa: F401
from peers import METHODS

BUCKETS = 4096


def without_self(distances, ids):
    """Tables of k + 1 without the row's own id; a row that lost it among duplicates gives its last."""
    own = ids == np.arange(len(ids))[:, None]
    own[~own.any(axis=1), -1] = True
    shape = len(ids), ids.shape[1] - 1
    return distances[~own].reshape(shape), ids[~own].reshape(shape)


def far_rows_of(distances, path):
    """Rows of the answer, see bench_answer in driver.h, that these distances are not near to."""
    stride = distances.size // (1 << 24) + 1
    answer = np.load(path)
    near = np.isclose(distances[::stride], answer, rtol=2e-5, atol=0)
    return int((~near.all(axis=1)).sum())


def digest_table(distances, ids, answer):
    rows, k = ids.shape
    sums = np.concatenate([mix(np.arange(b, min(b + 65536, rows))[:, None], ids[b:b + 65536]).sum(1, dtype=np.uint64)
                           for b in range(0, rows, 65536)])
    degrees = mix(np.arange(rows), np.full(rows, k))
    return {"pairs": rows * k, "degree_sum": f"{int(degrees.sum(dtype=np.uint64)):016x}",
            "pair_sum": f"{int(sums.sum(dtype=np.uint64)):016x}",
            "buckets": "".join(f"{int(b):016x}" for b in buckets_of(sums)),
            "distance_sum": float(distances.sum(dtype=np.float64)),
            "far_rows": far_rows_of(distances, answer) if answer else -1}


def mix(i, j):
    """The same bijection of 64-bit words as in driver.c."""
    x = (i.astype(np.uint64) << np.uint64(32) | j.astype(np.uint64)) + np.uint64(0x9e3779b97f4a7c15)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xbf58476d1ce4e5b9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94d049bb133111eb)
    return x ^ x >> np.uint64(31)


def buckets_of(row_sums):
    padded = np.zeros(-(-len(row_sums) // BUCKETS) * BUCKETS, dtype=np.uint64)
    padded[:len(row_sums)] = row_sums
    return padded.reshape(-1, BUCKETS).sum(axis=0, dtype=np.uint64)


def row_sums_of(offsets, ids):
    """Per row: the sum of mix(i, j) and the number of entries, the row's own id left out of both."""
    rows = len(offsets) - 1
    sums, counts = np.zeros(rows, np.uint64), np.zeros(rows, np.int64)
    for first in range(0, rows, 1 << 16):  # pieces, so that the temporaries stay small
        last = min(first + (1 << 16), rows)
        piece = np.asarray(ids[offsets[first]:offsets[last]])
        i = np.repeat(np.arange(first, last), np.diff(offsets[first:last + 1]))
        words = np.where(i == piece, np.uint64(0), mix(i, piece))
        at = offsets[first:last + 1] - offsets[first]
        running = np.concatenate(([np.uint64(0)], np.cumsum(words, dtype=np.uint64)))
        sums[first:last] = running[at[1:]] - running[at[:-1]]
        others = np.concatenate(([0], np.cumsum(i != piece)))
        counts[first:last] = others[at[1:]] - others[at[:-1]]
    return sums, counts


def digest(result, mode):
    if mode == "count":
        counts = np.asarray(result).astype(np.int64) - 1  # itself
        pair_sum, buckets = 0, None
    else:
        sums, counts = row_sums_of(np.asarray(result[0]).astype(np.int64), result[1])
        buckets = buckets_of(sums)
        pair_sum = int(sums.sum(dtype=np.uint64))
    words = mix(np.arange(len(counts)), counts)
    if buckets is None:
        buckets = buckets_of(words)
    return {"pairs": int(counts.sum()), "degree_sum": f"{int(words.sum(dtype=np.uint64)):016x}",
            "pair_sum": f"{pair_sum:016x}", "buckets": "".join(f"{int(b):016x}" for b in buckets)}


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def version_of(package):
    return getattr(__import__(package), "__version__", None) or importlib.metadata.version(package)


def question(path, what, mode, threads, run):
    """The call to time, as a function of how many points of each set to take, and what makes a digest of it."""
    files = path.split(",")
    left = np.load(files[0])
    right = np.load(files[1]) if len(files) > 1 else left
    if mode != "knn":
        return lambda some: run(left[:some], float(what), mode, threads), lambda result, _: digest(result, mode)
    k = int(what.removeprefix("k=")) + (right is left)

    def ask(some):
        queries = left[:some]
        return run(queries, queries if right is left else right[:some], min(k, len(right[:some])), threads)

    def judge(result, answer):
        return digest_table(*(without_self(*result) if right is left else result), answer)
    return ask, judge


def main(path, what, mode, threads, repeats, variant, answer=None):
    run = METHODS.get((variant, mode))
    if run is None:
        sys.exit(f"no method {variant} for mode {mode}; there are {sorted(set(METHODS))}")
    np.seterr(over="ignore")
    package = variant.split("/")[0]
    version = version_of(package)
    ask, judge = question(path, what, mode, int(threads), run)
    ask(1000)  # imports and first-call costs are not timed
    for _ in range(int(repeats)):
        before, cpu, begin = resident(), time.process_time(), time.perf_counter()
        index_s, result = ask(None)
        line = {"driver": package, "variant": variant, "version": version, "mode": mode, "threads": int(threads),
                "seconds": time.perf_counter() - begin, "index_s": index_s, "cpu_s": time.process_time() - cpu,
                "rss_before": before, "rss_peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
        line.update(judge(result, answer))
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    if len(sys.argv) not in (7, 8):
        sys.exit(__doc__)
    main(*sys.argv[1:])
