#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The driver of the peers that are Python packages; the same protocol as driver.h:

    driver_python.py POINTS.npy RADIUS MODE THREADS REPEATS VARIANT

VARIANT is "package/how", one of the functions below. Each returns (index seconds, result) where the
result is CSR (offsets, ids) or the counts, and is timed as a whole, index and conversion to CSR
included. Removing the point itself from its own row is not timed: not every package can leave it out,
and we would rather give a peer those milliseconds than charge it for our convention.
"""
import json
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

BUCKETS = 4096
METHODS = {}


def method(name, *modes):
    """Registers a way to run a peer for these modes."""
    def register(function):
        for mode in modes:
            METHODS[name, mode] = function
        return function
    return register


def csr_of_lists(lists):
    """CSR from an object array with one sequence of ids per point."""
    lengths = np.fromiter((len(row) for row in lists), dtype=np.int64, count=len(lists))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    ids = np.concatenate([np.asarray(row, dtype=np.int64) for row in lists]) if offsets[-1] else np.zeros(0, np.int64)
    return offsets, ids


def in_threads(threads, rows, work):
    """work(begin, end) over slices of the rows, by as many threads; the pieces in order."""
    edges = np.linspace(0, rows, 8 * threads + 1).astype(int)
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda slice_: work(*slice_), zip(edges[:-1], edges[1:])))


@method("numpy/brute", "csr", "count")
def numpy_brute(x, radius, mode, threads):
    """All pairs, by the definition of docs/exactness.md for f32: no contestant, but a second opinion on tiny inputs
    where no other peer is installed. A product of two f32 is exact in f64, so this fuses as fmaf does."""
    limit = np.float32(radius) * np.float32(radius)
    offsets, ids = [0], []
    for row in x:
        s = np.zeros(len(x), np.float32)
        for j in range(x.shape[1]):
            t = (row[j] - x[:, j]).astype(np.float64)
            s = (t * t + s).astype(np.float32)
        ids.append(np.nonzero(s <= limit)[0])
        offsets.append(offsets[-1] + len(ids[-1]))
    return 0.0, np.diff(offsets) if mode == "count" else (np.array(offsets), np.concatenate(ids))


@method("scipy/query", "csr", "count")
def scipy_query(x, radius, mode, threads):
    from scipy.spatial import cKDTree
    begin = time.perf_counter()
    tree = cKDTree(x, balanced_tree=False, compact_nodes=True)
    index = time.perf_counter() - begin
    found = tree.query_ball_point(x, radius, workers=threads, return_length=mode == "count", return_sorted=False)
    return index, found if mode == "count" else csr_of_lists(found)


@method("scipy/pairs", "csr")
def scipy_pairs(x, radius, mode, threads):
    from scipy.sparse import coo_matrix
    from scipy.spatial import cKDTree
    begin = time.perf_counter()
    tree = cKDTree(x, balanced_tree=False, compact_nodes=True)
    index = time.perf_counter() - begin
    pairs = tree.query_pairs(radius, output_type="ndarray")
    one_way = coo_matrix((np.ones(len(pairs), dtype=bool), (pairs[:, 0], pairs[:, 1])), shape=(len(x), len(x))).tocsr()
    rows = one_way + one_way.T.tocsr()
    return index, (rows.indptr, rows.indices)


def sklearn_tree(kind):
    def run(x, radius, mode, threads):
        from sklearn import neighbors
        begin = time.perf_counter()
        tree = getattr(neighbors, kind)(x, leaf_size=40)
        index = time.perf_counter() - begin
        counting = mode == "count"
        pieces = in_threads(threads, len(x), lambda b, e: tree.query_radius(x[b:e], radius, count_only=counting))
        found = np.concatenate(pieces)
        return index, found if counting else csr_of_lists(found)
    return run


method("sklearn/kdtree", "csr", "count")(sklearn_tree("KDTree"))
method("sklearn/balltree", "csr", "count")(sklearn_tree("BallTree"))


@method("sklearn/brute", "csr", "count")
def sklearn_brute(x, radius, mode, threads):
    from sklearn.neighbors import NearestNeighbors
    begin = time.perf_counter()
    model = NearestNeighbors(radius=radius, algorithm="brute").fit(x)
    index = time.perf_counter() - begin
    found = model.radius_neighbors(x, return_distance=False)
    return index, np.array([len(row) for row in found]) if mode == "count" else csr_of_lists(found)


@method("faiss/flat", "csr", "count")
def faiss_flat(x, radius, mode, threads):
    import faiss
    faiss.omp_set_num_threads(threads)
    begin = time.perf_counter()
    index = faiss.IndexFlatL2(x.shape[1])
    index.add(x)
    index_s = time.perf_counter() - begin
    # range_search keeps squared distances < threshold; the join is closed.
    threshold = np.nextafter(np.float32(radius) * np.float32(radius), np.float32(np.inf))
    limits, _, ids = index.range_search(x, float(threshold))
    return index_s, np.diff(limits) if mode == "count" else (limits, ids)


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


def main(path, radius, mode, threads, repeats, variant):
    run = METHODS.get((variant, mode))
    if run is None:
        sys.exit(f"no method {variant} for mode {mode}; there are {sorted(set(METHODS))}")
    x = np.load(path)
    np.seterr(over="ignore")
    package = variant.split("/")[0]
    version = __import__(package).__version__
    run(x[:100], float(radius), mode, int(threads))  # imports and first-call costs are not timed
    for _ in range(int(repeats)):
        before, cpu, begin = resident(), time.process_time(), time.perf_counter()
        index_s, result = run(x, float(radius), mode, int(threads))
        line = {"driver": package, "variant": variant, "version": version, "mode": mode, "threads": int(threads),
                "seconds": time.perf_counter() - begin, "index_s": index_s, "cpu_s": time.process_time() - cpu,
                "rss_before": before, "rss_peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
        line.update(digest(result, mode))
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    main(*sys.argv[1:])
