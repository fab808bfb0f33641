# SPDX-License-Identifier: MIT
"""Range joins by Python packages: (points, radius, mode, threads) -> index seconds, CSR (offsets, ids) or counts."""
import time

import numpy as np

from peers import canonical_squares, in_threads, method


def csr_of_lists(lists):
    """CSR from an object array with one sequence of ids per point."""
    lengths = np.fromiter((len(row) for row in lists), dtype=np.int64, count=len(lists))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    ids = np.concatenate([np.asarray(row, dtype=np.int64) for row in lists]) if offsets[-1] else np.zeros(0, np.int64)
    return offsets, ids


@method("numpy/brute", "csr", "count")
def numpy_brute(x, radius, mode, threads):
    """All pairs: no contestant, but a second opinion on tiny inputs where no other peer is installed."""
    limit = np.float32(radius) * np.float32(radius)
    offsets, ids = [0], []
    for row in x:
        ids.append(np.nonzero(canonical_squares(row, x) <= limit)[0])
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
