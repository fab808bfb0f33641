# SPDX-License-Identifier: MIT
"""Hybrid KNN-Join: Parallel Nearest Neighbor Searches Exploiting CPU and GPU Architectural Features (Gowanlock)."""
from .claims import FAILS, HOLDS, UNKNOWN, Best, Claim, Computed, Faster, Speedup, Verdict, Within
from .model import Experiment, Panel, Paper, Plot, Published, published_table

M = 1_000_000
IMITATED = "GAIA and OSM are imitations. "
INDEX = "Times include all indexes, which the paper leaves out."
BOTH = IMITATED + INDEX
NO_BUFFERS = "no package of buffer kd-trees for Python 3"


def _set(name, xs, **request):
    real = name in ("GAIA", "OSM")
    return Panel(name, name if real else f"{name[:-2].capitalize()}{name[-2:]}10M", 25 * M if real else 10 * M, xs, request,
                 share=0.4 if real else 0.3 if name.endswith("6D") else 1.0)


UNIF, EXPO, REAL = ("UNIF2D", "UNIF4D", "UNIF6D"), ("EXPO2D", "EXPO4D", "EXPO6D"), ("GAIA", "OSM")
KS = (1, 8, 32, 128)


def _batches(view, experiment="F14"):
    """Whether batches of the device get smaller, from the trace of the runs."""
    found = {panel: record["device_batches"] for (panel, _, _), record in view.runs.get(experiment, {}).items()
             if record.get("status") == "ok" and record.get("device_batches")}
    if not found:
        return Verdict(UNKNOWN, f"Not measured on this machine ({view.reason((experiment,), 'hybrid-knn')}).")
    words = [f"{panel}: {len(b)} batches, {b[0]:,} queries first, {b[len(b) // 2]:,} in the middle, {b[-1]:,} last"
             for panel, b in sorted(found.items())]
    falls = all(b[0] > b[-1] for b in found.values())
    return Verdict(HOLDS if falls else FAILS, "; ".join(words) + ".")


def _expansions(view):
    again = {panel: r.get("grid_reindexed", 0) for (panel, _, who), r in view.runs.get("F15", {}).items()
             if who == "hybrid-gpu" and r.get("status") == "ok"}
    if len(again) < 2:
        return Verdict(UNKNOWN, f"Not measured on this machine ({view.reason(('F15',), 'hybrid-gpu')}).")
    return Verdict(HOLDS if again["EXPO6D"] > again["UNIF6D"] else FAILS,
                   f"Epsilon grew {again['UNIF6D']} times on UNIF6D and {again['EXPO6D']} times on EXPO6D.")


TABLE7 = """
    GAIA 8 19.96 19.90 19.98 21.00
    OSM 8 36.31 32.45 31.97 32.34
    UNIF4D 8 11.75 12.23 12.50 14.00
    UNIF6D 8 41.33 42.62 44.85 52.15
    GAIA 32 25.85 25.34 23.78 24.40
    OSM 32 36.73 32.13 31.92 31.19
    UNIF4D 32 20.35 19.99 20.15 21.74
    UNIF6D 32 90.01 73.99 78.15 84.43
    GAIA 128 41.45 39.42 40.32 40.38
    OSM 128 35.60 32.51 31.57 32.24
    UNIF4D 128 41.65 37.27 38.27 40.23
    UNIF6D 128 184.45 168.01 172.23 172.67"""


def _table7():
    """Rows of table 7 by set and K; a panel here is both, the axis is t."""
    return tuple(Published(f"{name}, K={k}", t, "hybrid-knn", "seconds", float(v)) for name, k, *values in (
        line.split() for line in TABLE7.strip().splitlines()) for t, v in zip((1, 8, 16, 32), values))


FAILED = published_table("failed", ("8", "32", "96"), """
    GAIA - 0.073 0.164 0.240
    OSM - 0.000 0.000 0.000
    UNIF2D - 0.163 0.135 0.162
    UNIF4D - 0.217 0.198 0.273
    UNIF6D - 0.270 0.236 0.211
    EXPO2D - 0.087 0.058 0.041
    EXPO4D - 0.257 0.280 0.296
    EXPO6D - 0.342 0.274 0.250""")
REINDEXED = published_table("reindex", ("8", "8/reindexed", "32", "32/reindexed", "96", "96/reindexed"), """
    GAIA - 0.039 1 0.026 1 0.029 1
    OSM - 0.000 0 0.000 0 0.000 0
    UNIF2D - 0.030 1 0.024 1 0.021 1
    UNIF4D - 0.028 1 0.018 1 0.017 1
    UNIF6D - 0.015 1 0.009 1 0.005 1
    EXPO2D - 0.061 1 0.027 1 0.020 1
    EXPO4D - 0.083 3 0.034 2 0.021 2
    EXPO6D - 0.036 2 0.017 2 0.011 2""")


def _by_k(rows):
    """Tables with a column for each K: the column is the place on the axis."""
    return tuple(Published(p.panel, float(p.contender), "hybrid-knn", p.metric, p.value) for p in rows)


THREADS = tuple(_set(name, (1, 2, 4, 8, 16), k=32) for name in ("OSM", "GAIA") + UNIF)
RESPONSE = ("hybrid-knn", "hybrid-cpu", "hybrid-gpu", "kdtree", "buffer-kdtree", "auto")

PAPER = Paper(
    "000", "HybridKNN-Join", "Hybrid KNN-Join: Parallel Nearest Neighbor Searches Exploiting CPU and GPU Architectural "
    "Features", "2 × Xeon E5-2620 v4 (16 cores), GP100", slug="hybrid-knn", experiments=[
        Experiment("F7", "Scaling of CPU-only over threads, K = 32", axis="threads", panels=THREADS, kind="knn",
                   contenders=("hybrid-cpu", "cpu"), plot=Plot(log_x=True), full=0.03, small=0.004, note=BOTH, repeats=2,
                   published=(Published("GAIA", 16.0, "hybrid-cpu", "speed-up", 5.26),
                              Published("UNIF6D", 16.0, "hybrid-cpu", "speed-up", 10.34)),
                   claims=[Speedup("Scales from 5.26 (GAIA) to 10.34 (UNIF6D) on 16 cores, better in more dimensions",
                                   "In two dimensions memory limits it.", who="hybrid-cpu", at=("F7",), least=1.5)]),
        Experiment("F8", "Scaling of a kd-tree by others over threads, K = 32", axis="threads", panels=THREADS, kind="knn",
                   contenders=("kdtree",), plot=Plot(log_x=True), full=0.03, small=0.005, repeats=1,
                   note=BOTH + " pykdtree in the place of the paper's program.",
                   claims=[Speedup("Scales as CPU-only does", "not examined.", who="kdtree", at=("F8",), least=1.5)]),
        Experiment("F9", "Height of the buffer kd-tree", absent=NO_BUFFERS, published=(
                       Published("all sets", None, "buffer-kdtree", "best height", 12),),
                   claims=[Claim("A height of 12 is best on all sets", "The program is not there to be run.")]),
        Experiment("F10", "CPU-only with and without the work queue over K", axis="K", panels=tuple(_set(n, KS) for n in UNIF),
                   kind="knn", contenders=("hybrid-cpu", "hybrid-rr", "cpu"), plot=Plot(log_x=True), full=0.03, small=0.004,
                   metrics=("seconds", "epsilon"),
                   note=INDEX + " CPU-only chooses epsilon on the cores; in the paper a GPU does.", repeats=2, claims=[
                       Faster("The queue is faster for K ≥ 8 in 4 and 6 dimensions", "choosing epsilon for the cells of the "
                              "queue is most of the time of CPU-only here (column epsilon); the paper leaves that to the GPU.", a="hybrid-cpu", b="hybrid-rr", at=("F10",),
                              panels=("UNIF4D", "UNIF6D"), xs=(8, 32, 128)),
                       Faster("Without it K ≤ 32 is faster in 2 dimensions", "Ordering the queue costs more than it gains in the "
                              "paper; here the order comes with the tree.", a="hybrid-rr", b="hybrid-cpu", at=("F10",),
                              panels=("UNIF2D",), xs=(1, 8, 32))]),
        Experiment("T5", "Cache references and misses with and without the queue, UNIF4D", axis="K",
                   panels=(_set("UNIF4D", (1, 8, 16, 32, 64, 128)),), kind="knn", contenders=("hybrid-cpu", "hybrid-rr"),
                   metrics=("cache_misses", "seconds"), full=0.03, small=0.004, repeats=1,
                   published=published_table("cache_misses", ("hybrid-cpu", "hybrid-rr"), """
                       UNIF4D 1 52.18 57.80
                       UNIF4D 8 54.42 64.11
                       UNIF4D 16 54.72 67.81
                       UNIF4D 32 53.76 72.19
                       UNIF4D 64 48.18 76.67
                       UNIF4D 128 38.39 81.73"""),
                   note="Counted by perf_event_open in user mode; most virtual machines do not offer these counters.",
                   claims=[Within("With the queue fewer references miss, 38 to 55 %", "", who="hybrid-cpu",
                                  metric="cache_misses", at=("T5",), most=55)]),
        Experiment("T6", "Shares of choosing epsilon and of ordering the queue, K = 32", axis="K",
                   panels=tuple(_set(n, (32,)) for n in UNIF + EXPO), kind="knn", contenders=("hybrid-knn",),
                   metrics=("seconds", "epsilon", "queue"), full=0.2, small=0.01, note=INDEX,
                   published=published_table("seconds", ("hybrid-knn", "hybrid-knn/epsilon", "hybrid-knn/queue"), """
                       UNIF2D 32 9.82 0.063 0.068
                       UNIF4D 32 19.54 0.037 0.035
                       UNIF6D 32 74.50 0.012 0.011
                       EXPO2D 32 10.82 0.057 0.063
                       EXPO4D 32 22.97 0.038 0.035
                       EXPO6D 32 77.21 0.013 0.011"""),
                   claims=[Within("Choosing epsilon takes 1.2 to 6.3 % of the time", "It compares 500 points with all others: "
                                  "a fixed cost in joins that are much shorter here.", who="hybrid-knn", metric="epsilon",
                                  at=("T6",), most=0.07),
                           Within("Ordering the queue takes 1.1 to 6.8 % of the time", "", who="hybrid-knn", metric="queue",
                                  at=("T6",), most=0.07)]),
        Experiment("T7", "Threads per query point", axis="t",
                   panels=tuple(Panel(f"{p.name}, K={k}", p.data, p.points, p.xs, {"k": k}, p.share) for p in (
                       _set(n, (1, 8, 16, 32)) for n in REAL + ("UNIF4D", "UNIF6D")) for k in (8, 32, 128)),
                   kind="knn", contenders=("hybrid-knn",), full=0.1, small=0.01, note=BOTH, published=_table7(), repeats=2,
                   claims=[Best("t = 8 is best or near to it", "", who="hybrid-knn", x=8, at=("T7",))]),
        Experiment("F11", "Response time over the first batch of the GPU, K = 32, none reserved for cores", axis="n_large",
                   panels=tuple(_set(n, (0.05, 0.2, 0.4, 0.6, 1), k=32, tuning="paper.n_cwin=0") for n in UNIF + EXPO),
                   kind="knn", contenders=("hybrid-knn",), plot=Plot(log_y=False), full=0.2, small=0.01, note=INDEX, repeats=2,
                   claims=[Best("n_large of 0.3 to 0.6 is good", "", who="hybrid-knn", x=0.4, at=("F11",))]),
        Experiment("F12", "Load imbalance of cores and GPU", axis="K", uses=("T8",), contenders=("hybrid-knn",),
                   metrics=("imbalance",), plot=Plot("imbalance", log_x=True, log_y=False),
                   claims=[Within("Below 10 % on all sets", "Joins are short here, and the last batch of either side is a larger "
                                  "part of them.", who="hybrid-knn", metric="imbalance", at=("T8",), most=0.1)]),
        Experiment("T8", "Failed queries of the GPU, share of those tried", axis="K",
                   panels=tuple(_set(n, (8, 32, 96, 128)) for n in REAL + UNIF + EXPO), kind="knn",
                   contenders=("hybrid-knn",), metrics=("failed", "seconds"), full=0.2, small=0.01, note=BOTH, repeats=2,
                   published=_by_k(FAILED),
                   claims=[Within("From 0 to 34.2 % fail", "", who="hybrid-knn", metric="failed", at=("T8",), most=0.342)]),
        Experiment("F13", "Response time over the factor of the first epsilon, K = 32", axis="epsilon",
                   panels=tuple(_set(n, (0.25, 0.5, 1, 2, 4), k=32) for n in REAL + ("UNIF2D", "EXPO2D")), kind="knn",
                   contenders=("hybrid-knn",), plot=Plot(log_x=True), full=0.2, small=0.01, note=BOTH, repeats=2,
                   claims=[Best("The chosen epsilon is a good one on all sets", "", who="hybrid-knn", x=1, at=("F13",),
                                slack=1.3)]),
        Experiment("T9", "Re-indexing, share of the time, and how often", axis="K", uses=("T8",), contenders=("hybrid-knn",),
                   metrics=("reindex", "reindexed"), published=_by_k(REINDEXED),
                   claims=[Within("Up to three times, 0 to 8.3 % of the time", "", who="hybrid-knn", metric="reindex",
                                  at=("T8",), most=0.083)]),
        Experiment("F14", "Queries of each batch of the GPU, K = 8", axis="K",
                   panels=(_set("UNIF4D", (8,)), _set("EXPO4D", (8,))), kind="knn", contenders=("hybrid-knn",), full=0.2,
                   small=0.01, note=INDEX, repeats=1, plot=Plot(kind="batches", log_y=True),
                   claims=[Computed("Batches are large at first and small in the end", "", function=_batches)]),
        Experiment("F15", "Queries that remain after each batch of GPU-only", axis="K",
                   panels=(_set("UNIF6D", (8,)), _set("EXPO6D", (8,))), kind="knn",
                   contenders=("hybrid-gpu",), metrics=("seconds", "reindexed", "failed"), full=0.2, small=0.01, repeats=1,
                   note="The figures of each batch are not reported; the number of times that epsilon grew is.",
                   published=(Published("UNIF6D", None, "hybrid-gpu", "batches", 4),
                              Published("EXPO6D", None, "hybrid-gpu", "batches", 64),
                              Published("EXPO6D", None, "hybrid-gpu", "batches for 99 % of the queries", 9)),
                   claims=[Computed("UNIF6D needs 4 batches, EXPO6D 64", "What is left after 99 % is done by a tree here.",
                                    function=_expansions)]),
        Experiment("F16", "Response time over K, synthetic sets", axis="K", panels=tuple(_set(n, KS) for n in UNIF + EXPO),
                   kind="knn", contenders=RESPONSE, plot=Plot(log_x=True), full=0.05, small=0.004, note=INDEX, repeats=2,
                   claims=[Faster("HybridKNN-Join is faster than CPU-only everywhere", "", a="hybrid-knn", b="hybrid-cpu",
                                  at=("F16",), everywhere=True),
                           Faster("GPU-only is slightly faster than HybridKNN-Join on UNIF2D", "", a="hybrid-gpu",
                                  b="hybrid-knn", at=("F16",), panels=("UNIF2D",)),
                           Faster("HybridKNN-Join is faster than GPU-only on UNIF6D", "The GPU is tens of times as fast as the "
                                  "cores here.", a="hybrid-knn", b="hybrid-gpu", at=("F16",), panels=("UNIF6D",))]),
        Experiment("F17", "Response time over K, real sets", axis="K", panels=tuple(_set(n, KS) for n in REAL), kind="knn",
                   contenders=RESPONSE, plot=Plot(log_x=True), full=0.05, small=0.004, note=BOTH, repeats=2,
                   claims=[Faster("HybridKNN-Join is faster than CPU-only on GAIA", "", a="hybrid-knn", b="hybrid-cpu",
                                  at=("F17",), panels=("GAIA",), everywhere=True),
                           Faster("And on OSM for K > 32", "", a="hybrid-knn", b="hybrid-cpu", at=("F17",), panels=("OSM",),
                                  xs=(128,)),
                           Faster("The kd-tree by others is faster than HybridKNN-Join for K ≤ 16", "pykdtree is another "
                                  "program than the paper's.", a="kdtree", b="hybrid-knn", at=("F17",), xs=(1, 8))]),
        Experiment("F18", "Speed-up of CPU-only over the kd-tree by others", axis="K", uses=("F16", "F17"),
                   contenders=("hybrid-cpu", "kdtree"), plot=Plot(kind="ratio", pairs=(("kdtree", "hybrid-cpu"),), log_x=True),
                   claims=[Faster("CPU-only is mostly as fast or faster, above all for large K", "as in F10, choosing "
                                  "epsilon on the cores.", a="hybrid-cpu", b="kdtree",
                                  at=("F16", "F17"))]),
        Experiment("F19", "Speed-up of HybridKNN-Join over CPU-only, and the share of queries that the GPU does", axis="K",
                   uses=("F16", "F17"), contenders=("hybrid-knn", "hybrid-cpu"), metrics=("seconds", "device"),
                   plot=Plot(kind="ratio", pairs=(("hybrid-cpu", "hybrid-knn"),), log_x=True),
                   claims=[Within("The GPU does less than half of the queries", "It is faster here, relative to the cores.",
                                  who="hybrid-knn", metric="device", at=("F16", "F17"), most=0.5),
                           Faster("The speed-up is below 2, and larger for large K", "", a="hybrid-knn", b="hybrid-cpu",
                                  at=("F16", "F17"), xs=(128,))]),
        Experiment("F20", "Speed-up of HybridKNN-Join over the buffer kd-tree", axis="K", uses=("F16", "F17"),
                   contenders=("hybrid-knn", "buffer-kdtree"), absent=NO_BUFFERS, published=(
                       Published("GAIA", None, "hybrid-knn", "speed-up, least", 1.08),
                       Published("GAIA", None, "hybrid-knn", "speed-up, most", 16.59),
                       Published("OSM", None, "hybrid-knn", "speed-up, least", 0.85),
                       Published("OSM", None, "hybrid-knn", "speed-up, most", 19.24)),
                   claims=[Claim("0.85 to 19.24 times as fast", "The program is not there to be run.")]),
    ])
