# SPDX-License-Identifier: MIT
"""Who takes part: the papers' systems as adjoin has them, variants by paper.* settings, packages, and our default.
A contender has one colour in all figures."""
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Contender:
    key: str
    label: str
    colour: str
    request: dict = field(default_factory=dict)
    package: str = ""  # of Python: "package/how" of driver_python.py
    absent: str = ""   # nobody has it for us; the paper's figures are quoted


def _lbjoin(access, order, threads):
    tuning = f"paper.access={access},paper.order={order},paper.point_threads={threads}"
    return {"system": "lbjoin", "backend": "gpu", "tuning": tuning}


def _gpu_join(reorder, sortidu, shortc):
    tuning = f"paper.reorder={reorder},paper.sortidu={sortidu},paper.shortc={shortc}"
    return {"system": "gpu-join", "backend": "gpu", "tuning": tuning}


def _thesis(name, tuning=""):
    request = {"system": name, "backend": "gpu"}
    return {**request, "tuning": tuning} if tuning else request


_ALL = [
    Contender("auto", "adjoin (auto)", "#000000"),
    Contender("cpu", "adjoin (cores)", "#7f7f7f", {"backend": "cpu"}),
    Contender("gpu", "adjoin (GPU)", "#4d4d4d", {"backend": "gpu"}),
    # Range joins.
    Contender("super-ego", "Super-EGO", "#1f77b4", {"system": "super-ego", "backend": "cpu"}),
    Contender("super-ego-f32", "Super-EGO, 32 bits", "#6baed6", {"system": "super-ego", "backend": "cpu", "type": "f32"}),
    Contender("sego-new", "SEGO-New", "#17becf", {"system": "sego-new", "backend": "cpu"}),
    Contender("lbjoin", "LBJoin", "#d62728", {"system": "lbjoin", "backend": "gpu"}),
    Contender("global", "GPUCalcGlobal", "#ff7f0e", _lbjoin("full", "none", 1)),
    Contender("global-k8", "GPUCalcGlobal, k=8", "#bcbd22", _lbjoin("full", "none", 8)),
    Contender("unicomp", "Unicomp", "#9467bd", _lbjoin("unicomp", "none", 1)),
    Contender("lid-unicomp", "Lid-Unicomp", "#8c564b", _lbjoin("lid-unicomp", "none", 1)),
    Contender("sortbywl", "SortByWL", "#e377c2", _lbjoin("full", "sortbywl", 1)),
    Contender("workqueue", "WorkQueue", "#2ca02c", _lbjoin("full", "workqueue", 1)),
    Contender("workqueue-lid", "WorkQueue, Lid-Unicomp", "#98df8a", _lbjoin("lid-unicomp", "workqueue", 1)),
    Contender("workqueue-k8", "WorkQueue, k=8", "#c49c94", _lbjoin("full", "workqueue", 8)),
    Contender("hegjoin", "HEGJoin", "#006d2c", {"system": "hegjoin", "backend": "hybrid"}),
    Contender("gpu-join", "GPU-Join", "#e6550d", {"system": "gpu-join", "backend": "gpu"}),
    Contender("gpu-join-plain", "GPU-Join, no optimisation", "#fdae6b", _gpu_join("off", "off", "off")),
    Contender("gpu-join-reorder", "GPU-Join, reorder", "#756bb1", _gpu_join("on", "off", "off")),
    Contender("gpu-join-sortidu", "GPU-Join, reorder, sortidu", "#9e9ac8", _gpu_join("on", "on", "off")),
    # kNN joins in few dimensions.
    Contender("hybrid-knn", "HybridKNN-Join", "#006d2c", {"system": "hybrid-knn", "backend": "hybrid"}),
    Contender("hybrid-gpu", "GPU-only", "#d62728", {"system": "hybrid-knn", "backend": "gpu"}),
    Contender("hybrid-cpu", "CPU-only", "#1f77b4", {"system": "hybrid-knn", "backend": "cpu"}),
    Contender("hybrid-rr", "CPU-only-RR", "#17becf",
              {"system": "hybrid-knn", "backend": "cpu", "tuning": "paper.queue=points"}),
    Contender("kdtree", "kd-tree (pykdtree)", "#9467bd", package="pykdtree/16"),
    Contender("buffer-kdtree", "buffer kd-tree", "#8c564b", absent="no package of buffer kd-trees for Python 3"),
    # kNN by brute force: distances and selection.
    Contender("knn-bits", "bits", "#d62728", _thesis("knn-bits")),
    Contender("knn-bits-plain", "bits, one read, no prefetching", "#fdae6b",
              _thesis("knn-bits", "paper.reads=1,paper.prefetch=off")),
    Contender("knn-bits-reads", "bits, several reads", "#e6550d", _thesis("knn-bits", "paper.prefetch=off")),
    Contender("knn-bits-prefetch", "bits, several reads and prefetching", "#756bb1",
              _thesis("knn-bits", "paper.prefetch=on")),
    Contender("knn-bitonic", "partial bitonic sort", "#9467bd", _thesis("knn-bitonic")),
    Contender("knn-fused", "fused", "#2ca02c", _thesis("knn-fused")),
    Contender("knn-sample", "Sample Select", "#1f77b4", _thesis("knn-sample")),
    Contender("knn-radix", "Radix Select", "#ff7f0e", _thesis("knn-radix")),
    Contender("knn-sort", "radix sort of CUB", "#8c564b", _thesis("knn-sort")),
    Contender("knn-gemm", "product of matrices (cuBLAS)", "#e377c2", _thesis("knn-gemm")),
    Contender("distance-naive", "one thread a pair", "#7f7f7f",
              {"backend": "gpu", "algorithm": "brute", "tuning": "prefilter=off,paper.distance=naive"}),
    Contender("distance-tiled", "tiles in shared memory", "#17becf",
              {"backend": "gpu", "algorithm": "brute", "tuning": "prefilter=off,paper.distance=tiled"}),
    Contender("distance-register", "modified GEMM (tiles in registers)", "#bcbd22",
              {"backend": "gpu", "algorithm": "brute", "tuning": "prefilter=off,paper.distance=register"}),
    Contender("brute-cpu", "adjoin (cores, brute force)", "#7f7f7f", {"backend": "cpu", "algorithm": "brute"}),
    Contender("faiss", "FAISS (cores)", "#9467bd", package="faiss/flat"),
    # Selection from matrices on a device.
    Contender("select-auto", "adjoin (auto)", "#000000"),
    Contender("select-bits", "bits", "#d62728", {"algorithm": "block-bits"}),
    Contender("select-bitonic", "partial bitonic sort", "#9467bd", {"algorithm": "block-bitonic"}),
    Contender("select-radix", "Radix Select, sorted", "#ff7f0e", {"algorithm": "block-radix"}),
    Contender("select-radix-any", "Radix Select, unsorted", "#fdae6b", {"algorithm": "block-radix", "order": "any"}),
    Contender("select-sample", "Sample Select, sorted", "#1f77b4", {"algorithm": "block-sample"}),
    Contender("select-sample-any", "Sample Select, unsorted", "#6baed6", {"algorithm": "block-sample", "order": "any"}),
    Contender("select-sort", "radix sort of CUB", "#8c564b", {"algorithm": "stream-sort"}),
    Contender("warp-select", "Warp Select (FAISS)", "#bcbd22", absent="FAISS for GPUs is no package of pip"),
    Contender("block-select", "Block Select (FAISS)", "#e377c2", absent="FAISS for GPUs is no package of pip"),
]

CONTENDERS = {c.key: c for c in _ALL}
