# SPDX-License-Identifier: MIT
"""What figures show of a run: a number from the driver's line. None: the run does not tell it."""
import math


def _part(over, of, given=None):
    """given: what runs have that could tell it. Zeros are not stored."""
    return lambda r: r.get(over, 0) / r[of] if r.get(given or over) and r.get(of) else None


def _percent(name):
    return lambda r: 100 * r[name] if r.get(name) else None


def _rate(seconds):
    return lambda r: r["queries"] * r["points"] / r[seconds] * 1e-9 if r.get(seconds) else None


def _queue_share(r):
    return r["grid_order_s"] / r["seconds"] if r.get("grid_order_s") else None


def _search_operations(r):
    """|D| 3^k log2 |G| (GPU-Join, 5.6)."""
    indexed = next((int(s.split("=")[1]) for s in r["request"].get("tuning", "").split(",")
                    if s.startswith("indexed=")), None)
    cells = r.get("cells")
    return r["points"] * 3 ** indexed * max(1, math.log2(cells)) if indexed and cells else None


def _cache_misses(r):
    return 100 * r["cache_misses"] / r["cache_references"] if r.get("cache_references") else None


# name: (label with unit, function of a run, format)
METRICS = {
    "seconds": ("seconds", lambda r: r.get("seconds"), "{:.3g}"),
    "join_s": ("seconds without plan and index", lambda r: r.get("join_s"), "{:.3g}"),
    "sort_s": ("seconds of the EGO-sort", lambda r: r.get("ego_sort_s"), "{:.3g}"),
    "queries_s": ("queries per second", lambda r: r["queries"] / r["seconds"] if r.get("seconds") else None, "{:,.0f}"),
    "giga_s": ("10⁹ distances per second", _rate("seconds"), "{:.3g}"),
    "kernel_giga_s": ("10⁹ distances per second (GPU: of kernels)",
                      lambda r: _rate("kernel_s" if r.get("kernel_s") else "seconds")(r), "{:.3g}"),
    "warp": ("warp execution efficiency, %", _percent("warp_efficiency"), "{:.1f}"),
    "imbalance": ("load imbalance, share of the time", lambda r: r.get("worker_imbalance"), "{:.3f}"),
    "failed": ("failed queries, share", _part("grid_failed", "grid_queries", "grid_queries"), "{:.3f}"),
    "reindex": ("re-indexing, share of the time", _part("grid_reindex_s", "seconds", "grid_queries"), "{:.3f}"),
    "reindexed": ("times re-indexed", lambda r: r.get("grid_reindexed", 0) if r.get("grid_queries") else None, "{:.0f}"),
    "epsilon": ("choosing epsilon, share of the time", _part("grid_epsilon_s", "seconds"), "{:.3f}"),
    "queue": ("ordering the queue, share of the time", _queue_share, "{:.3f}"),
    "device": ("queries done by the GPU, share", lambda r: r.get("device_share"), "{:.3f}"),
    "overhead": ("outside of kernels, share of the time",
                 lambda r: max(0, 1 - r["kernel_s"] / r["seconds"]) if r.get("kernel_s") else None, "{:.3f}"),
    "compute": ("seconds of kernels", lambda r: r.get("kernel_s") or None, "{:.3g}"),
    "transfer": ("time of kernels over that of copies",
                 lambda r: r["kernel_s"] / (r["seconds"] - r["kernel_s"])
                 if r.get("kernel_s") and r["seconds"] > r["kernel_s"] else None, "{:.3g}"),
    "comparisons": ("compared candidates", lambda r: r.get("candidates"), "{:.3g}"),
    "searches": ("memory operations of searches for cells", _search_operations, "{:.3g}"),
    "cache_misses": ("cache misses, %", _cache_misses, "{:.1f}"),
}


def measure(metric, record):
    """The number, or None where the run failed or does not tell it."""
    return METRICS[metric][1](record) if record and record.get("status") == "ok" else None


def show(metric, value):
    return "–" if value is None else METRICS[metric][2].format(value)
