# SPDX-License-Identifier: MIT
"""kNN joins by Python packages: (queries, points to search, entries a row, threads) -> index seconds, (distances, ids)."""
import time

import numpy as np

from peers import canonical_squares, in_threads, method


@method("numpy/brute", "knn")
def numpy_nearest(queries, x, k, threads):
    """By the definition, ties to the lower id: for tiny inputs."""
    ids = np.empty((len(queries), k), np.int64)
    squares = np.empty((len(queries), k), np.float32)
    for i, row in enumerate(queries):
        s = canonical_squares(row, x)
        ids[i] = np.argsort(s, kind="stable")[:k]
        squares[i] = s[ids[i]]
    return 0.0, (np.sqrt(squares), ids)


@method("scipy/query", "knn")
def scipy_nearest(queries, x, k, threads):
    from scipy.spatial import cKDTree
    begin = time.perf_counter()
    tree = cKDTree(x, balanced_tree=False, compact_nodes=True)
    index = time.perf_counter() - begin
    return index, tree.query(queries, np.arange(1, k + 1), workers=threads)


def spread_bits(cells, dims):
    """The bits of small integers, dims - 1 zeros between each two."""
    out = np.zeros(cells.shape, np.uint64)
    for bit in range(64 // dims):
        out |= (cells >> np.uint64(bit) & np.uint64(1)) << np.uint64(bit * dims)
    return out


def morton_order(x):
    dims = min(x.shape[1], 8)
    low, high = x[:, :dims].min(0), x[:, :dims].max(0)
    top = 2.0 ** min(64 // dims - 1, 10) - 1
    cells = ((x[:, :dims] - low) * (top / np.maximum(high - low, 1e-30))).astype(np.uint64)
    key = np.zeros(len(x), np.uint64)
    for j in range(dims):
        key |= spread_bits(cells[:, j], dims) << np.uint64(j)
    return np.argsort(key)


def table_of(found):
    """pykdtree leaves out the second dimension where k is 1."""
    return tuple(part.reshape(len(part), -1) for part in found)


def pykdtree_nearest(leaf, ordered):
    """ordered: points and queries in Morton order first, which pays on some data; the sort is timed."""
    def run(queries, x, k, threads):
        from pykdtree.kdtree import KDTree
        begin = time.perf_counter()
        if not ordered:
            tree = KDTree(x, leafsize=leaf)
            index = time.perf_counter() - begin
            return index, table_of(tree.query(queries, k=k))
        rows = morton_order(x)
        tree = KDTree(x[rows], leafsize=leaf)
        index = time.perf_counter() - begin
        asked = rows if queries is x else morton_order(queries)
        distances, ids = table_of(tree.query(queries[asked], k=k))
        back = np.empty_like(asked)
        back[asked] = np.arange(len(asked))
        return index, (distances[back], rows[ids[back]])
    return run


method("pykdtree/16", "knn")(pykdtree_nearest(16, False))
method("pykdtree/ordered", "knn")(pykdtree_nearest(16, True))


@method("sklearn/kdtree", "knn")
def sklearn_nearest(queries, x, k, threads):
    from sklearn.neighbors import KDTree
    begin = time.perf_counter()
    tree = KDTree(x, leaf_size=40)
    index = time.perf_counter() - begin
    pieces = in_threads(threads, len(queries), lambda b, e: tree.query(queries[b:e], k))
    return index, tuple(np.concatenate(part) for part in zip(*pieces))


@method("sklearn/brute", "knn")
def sklearn_brute_nearest(queries, x, k, threads):
    from sklearn.neighbors import NearestNeighbors
    begin = time.perf_counter()
    model = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(x)
    index = time.perf_counter() - begin
    return index, model.kneighbors(queries)


@method("faiss/flat", "knn")
def faiss_nearest(queries, x, k, threads):
    import faiss
    faiss.omp_set_num_threads(threads)
    begin = time.perf_counter()
    index = faiss.IndexFlatL2(x.shape[1])
    index.add(x)
    index_s = time.perf_counter() - begin
    squares, ids = index.search(queries, k)
    return index_s, (np.sqrt(np.maximum(squares, 0, out=squares), out=squares), ids)  # some come out negative
