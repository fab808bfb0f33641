# SPDX-License-Identifier: MIT
"""k-Nearest Neighbour Search on GPUs (thesis, Hanák): distances, selection, and both in one kernel."""
from .claims import Best, Claim, Faster, Within
from .model import Experiment, Panel, Paper, Plot, Published

K, M = 1 << 10, 1 << 20
KS = (32, 128, 512, 2048)
SELECT = "Matrix and answer in device memory; uniform values."
JOIN = ("kNN joins of uniform points from host memory to host memory; throughput by the time of kernels, which includes "
        "what checks the exact order.")
NO_FAISS = "FAISS for GPUs is no package of pip; Warp Select's parameters are its own"


def _matrix(q, n, ks=KS):
    return Panel(f"q={q}, n={n}", "Unif2D2M", n, ks, {"queries": q})


def _knn(name, n, q, xs, **request):
    return Panel(name, "unif", n, xs, {"queries": q, **request})


PAPER = Paper(
    "004", "kNN on GPUs", "k-Nearest Neighbour Search on GPUs (thesis)", "Xeon Gold 5218 (16 cores), Tesla V100",
    slug="knn-thesis", experiments=[
        Experiment("F5.1", "Throughput of distance kernels over dimensions", axis="d", kind="knn",
                   panels=tuple(_knn(f"q={q}", n, q, (4, 16, 64, 128, 256), k=1) for q, n in (
                       (1, 4 * M), (128, M), (2048, 128 * K))),
                   contenders=("distance-naive", "distance-tiled", "distance-register", "knn-gemm", "auto"),
                   metrics=("kernel_giga_s",), plot=Plot("kernel_giga_s", log_x=True), small=0.05, repeats=2,
                   note=JOIN + " k = 1, so that selection is little.", claims=[
                       Faster("The modified GEMM is the fastest up to 128 dimensions, from 128 queries on", "", a="distance-register",
                              b="distance-tiled", at=("F5.1",), panels=("q=128", "q=2048"), xs=(4, 16, 64),
                              metric="kernel_giga_s"),
                       Faster("The product of matrices is faster beyond 128 dimensions", "", a="knn-gemm", b="distance-register",
                              at=("F5.1",), panels=("q=2048",), xs=(256,), metric="kernel_giga_s"),
                       Faster("With one query nothing beats a plain kernel", "No coordinate is used twice.",
                              a="distance-naive", b="distance-tiled", at=("F5.1",), panels=("q=1",), by=0.9,
                              metric="kernel_giga_s")]),
        Experiment("F5.2", "Bitonic sort in shared memory, with shuffles, in registers",
                   absent="only the last form is kept: the sort in registers",
                   published=(Published("all k", None, "knn-bitonic", "speed-up of registers over shared memory", 2),),
                   claims=[Claim("Registers are about twice as fast for all k",
                                 "The slower forms of the sort are not part of adjoin.")]),
        Experiment("F5.3", "Buffering: bits over the partial bitonic sort", axis="k", kind="select",
                   panels=(_matrix(1024, M),), contenders=("select-bits", "select-bitonic"), metrics=("giga_s",),
                   plot=Plot(kind="ratio", pairs=(("select-bitonic", "select-bits"),), log_x=True), note=SELECT, claims=[
                       Faster("Buffering makes it much faster", "Most values are larger than the k-th found so far, and only "
                              "the others are sorted.", a="select-bits", b="select-bitonic", at=("F5.3",), everywhere=True)]),
        Experiment("F5.4", "Several reads per thread, and prefetching", axis="k", kind="knn",
                   panels=(_knn("q=2048, n=512 K", 512 * K, 2048, KS, dim=4),),
                   contenders=("knn-bits-plain", "knn-bits-reads", "knn-bits-prefetch"), metrics=("kernel_giga_s",),
                   plot=Plot("kernel_giga_s", log_x=True), small=0.02, note=JOIN, repeats=2, claims=[
                       Faster("Several reads help for all k, by up to 2 times", "The time here includes the distances.",
                              a="knn-bits-reads", b="knn-bits-plain", at=("F5.4",), metric="kernel_giga_s"),
                       Faster("Prefetching helps a little more", "", a="knn-bits-prefetch", b="knn-bits-reads", at=("F5.4",),
                              metric="kernel_giga_s")]),
        Experiment("F5.5", "Parameters of Warp Select", absent=NO_FAISS, published=(
                       Published("k = 64 to 128", None, "warp-select", "gain of tuned queues: significant", 1),),
                   claims=[Claim("Other thread queues than FAISS's are better for 64 ≤ k ≤ 128",
                                 "FAISS for GPUs is not there to be run.")]),
        Experiment("F5.6", "Single-pass selection over k", axis="k", kind="select",
                   panels=(_matrix(1024, M), _matrix(8192, 128 * K), _matrix(32768, 32 * K)),
                   contenders=("select-bits", "select-bitonic", "warp-select", "block-select", "select-auto"),
                   metrics=("giga_s",), plot=Plot("giga_s", log_x=True), note=SELECT, claims=[
                       Within("bits reaches 80 % of the memory's speed (180 G values/s on a V100)", "An H200 reads 1,050 G "
                              "values a second; the selection is then limited by its instructions.", who="select-bits",
                              metric="giga_s", at=("F5.6",), xs=(32,), least=840),
                       Faster("bits is the fastest of all", "Ours reads a row once with a bound from a sample.", a="select-bits",
                              b="select-auto", at=("F5.6",), metric="giga_s")]),
        Experiment("F5.7", "One query: throughput over partitions", axis="partitions", kind="knn",
                   panels=tuple(_knn(f"k={k}", 16 * M, 1, (16, 64, 128, 256, 1024), dim=4, k=k) for k in (32, 512, 2048)),
                   contenders=("knn-bits",), metrics=("kernel_giga_s",), plot=Plot("kernel_giga_s", log_x=True), small=0.02,
                   note=JOIN + " 16 M points; the thesis has 128 M distances in memory.", repeats=2, claims=[
                       Best("256 partitions are best for k ≤ 512, 128 for more", "", who="knn-bits", x=256, at=("F5.7",),
                            slack=1.2)]),
        Experiment("F5.8", "Fused kernel over k", axis="k", kind="knn",
                   panels=tuple(_knn(f"d={d}", 512 * K, 8192, (8, 32, 64), dim=d) for d in (4, 16, 32, 64)),
                   contenders=("knn-fused", "knn-bits", "auto"), metrics=("kernel_giga_s",),
                   plot=Plot("kernel_giga_s", log_x=True), small=0.02, note=JOIN, repeats=2, claims=[
                       Faster("The fused kernel is faster for d ≤ 32 and k ≤ 64", "No matrix of distances is written.",
                              a="knn-fused", b="knn-bits", at=("F5.8",), panels=("d=4", "d=16", "d=32"), xs=(8, 32),
                              metric="kernel_giga_s"),
                       Claim("Two stages are faster beyond",
                             "The fused kernel is made for up to 32 dimensions and k up to 64; larger ones are refused.")]),
        Experiment("F5.9", "Fused kernel over queries, d = 16, k = 32", axis="q", kind="knn",
                   panels=(_knn("n=512 K", 512 * K, 1, (128, 1024, 8192), dim=16, k=32),),
                   contenders=("knn-fused", "knn-bits", "auto"), metrics=("kernel_giga_s",),
                   plot=Plot("kernel_giga_s", log_x=True), small=0.02, note=JOIN, repeats=2, claims=[
                       Faster("The fused kernel needs 8,000 queries: with 128 bits is faster", "Fewer blocks than the GPU has "
                              "multiprocessors.", a="knn-bits", b="knn-fused", at=("F5.9",), xs=(128,),
                              metric="kernel_giga_s")]),
        Experiment("F5.10", "Sample Select, one and two stages, over k/n", axis="k/n", kind="select",
                   panels=(_matrix(256, M, (0.001, 0.01, 0.1, 0.3, 0.5)),),
                   contenders=("select-sample", "select-sample-any", "select-sort"), metrics=("giga_s",),
                   plot=Plot("giga_s", log_x=True), note=SELECT + " 256 queries; the thesis has 1,000.", repeats=2, claims=[
                       Faster("Sorted, Sample Select is faster than a sort of everything for k ≤ 30 % of n", "",
                              a="select-sample", b="select-sort", at=("F5.10",), xs=(0.001, 0.01, 0.1, 0.3), metric="giga_s"),
                       Faster("Unsorted it is much faster", "", a="select-sample-any", b="select-sort", at=("F5.10",),
                              metric="giga_s", by=1.5)]),
        Experiment("F5.11", "Multi-pass selection over k/n", axis="k/n", kind="select",
                   panels=tuple(_matrix(q, n, (0.01, 0.1, 0.5)) for q, n in ((256, M), (2048, 128 * K), (8192, 32 * K))),
                   contenders=("select-sample", "select-sample-any", "select-radix", "select-radix-any", "select-sort"),
                   metrics=("giga_s",), plot=Plot("giga_s", log_x=True), note=SELECT, repeats=2, claims=[
                       Faster("Sample Select is faster than Radix Select from 128 K columns on", "Digits of 11 bits need three "
                              "passes over uniform values.", a="select-sample-any", b="select-radix-any", at=("F5.11",),
                              panels=(f"q=256, n={M}", f"q=2048, n={128 * K}"), metric="giga_s"),
                       Faster("Radix Select is faster for 32 K columns", "", a="select-radix-any", b="select-sample-any",
                              at=("F5.11",), panels=(f"q=8192, n={32 * K}",), metric="giga_s")]),
        Experiment("F5.12", "Final kernels with distances over k", axis="k", kind="knn",
                   panels=tuple(_knn(f"d={d}", 128 * K, 8192, (32, 512, 2048, 4096), dim=d) for d in (16, 64, 128)),
                   contenders=("knn-fused", "knn-bits", "knn-sample", "knn-radix", "auto"), metrics=("kernel_giga_s",),
                   plot=Plot("kernel_giga_s", log_x=True), small=0.02, note=JOIN, repeats=2, claims=[
                       Faster("bits is the best for 64 < k ≤ 2,048", "", a="knn-bits", b="knn-sample", at=("F5.12",),
                              xs=(512, 2048), metric="kernel_giga_s"),
                       Faster("Sample Select is the best from 4,096 on", "bits keeps its lists in global memory there.",
                              a="knn-sample", b="knn-bits", at=("F5.12",), xs=(4096,), metric="kernel_giga_s")]),
        Experiment("F5.13", "Speed-up of a GPU over cores", axis="d", kind="knn",
                   panels=(_knn("k=32, n=2 M, q=1000", 2 * M, 1000, (4, 16, 64, 128), k=32),),
                   contenders=("knn-bits", "brute-cpu", "faiss", "auto"), metrics=("seconds",), full=0.5, small=0.05, repeats=2,
                   plot=Plot(log_x=True), note="From host memory to host memory; the thesis leaves out transfers.", claims=[
                       Faster("Tens of times as fast as 16 cores", "", a="knn-bits", b="brute-cpu", at=("F5.13",), by=10)]),
        Experiment("F5.14", "Time of kernels over that of transfers", axis="d", kind="knn", uses=("F5.13",),
                   contenders=("knn-bits", "auto"), metrics=("transfer",), plot=Plot("transfer", log_x=True), claims=[
                       Within("Transfers limit it in many dimensions", "The host's share also has the plan and the placing of "
                              "rows.", who="knn-bits", metric="transfer", at=("F5.13",), xs=(128,), most=2)]),
    ])
