# SPDX-License-Identifier: MIT
"""Measurements that are no contest with a peer: memory of a streamed join, speed of a reader, an answer that
must not need n² work. Each gives one record {check, what, value, unit, bar, ok, fault, ...}: ok says whether
the bar was met, fault (None or a text) that the answer was wrong."""
import json
import math
import os
import subprocess
import time

from cases import CASES
from drivers import OURS


def record(check, what, value, unit, bar, ok, fault=None, **more):
    return dict(check=check, what=what, value=value, unit=unit, bar=bar, ok=bool(ok), fault=fault, **more)


def run_program(setting, args):
    """Runs the program: (stdout, seconds, peak resident bytes)."""
    begin = time.perf_counter()
    with subprocess.Popen([setting.points.adjoin, *args], stdout=subprocess.PIPE, text=True) as process:
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"adjoin {' '.join(args)}: exit status {process.returncode}")
    return out, time.perf_counter() - begin, usage.ru_maxrss * 1024


def stream(setting):
    """A little over 1 G pairs into a file, with bounded memory."""
    count = 100_000 if setting.quick else 10_000_000
    radius = (101 / (math.pi * count)) ** 0.5  # a mean of 101 neighbours, less at the border
    points = setting.points.generate("unif", count, 2)
    out, stats = setting.points.folder / "stream.npz", setting.points.folder / "stream.json"
    try:
        _, seconds, peak = run_program(setting, ["range", "-r", repr(radius), str(points), "-o", str(out), "--quiet",
                                                 "--threads", str(setting.threads), "--stats", str(stats)])
        pairs, size = json.loads(stats.read_text())["pairs"], out.stat().st_size
    finally:
        out.unlink(missing_ok=True)
        stats.unlink(missing_ok=True)
    expected = int(run_program(setting, ["count", "-r", repr(radius), str(points), "--quiet"])[0].split()[0])
    return record("stream", f"peak memory while {pairs:,} pairs go to a file of {size / 1e6:,.0f} MB", peak / 1e6, "MB",
                  1000, peak < 1e9, None if pairs == expected else f"{pairs} pairs written, {expected} counted",
                  seconds=seconds, pairs=pairs, file_bytes=size)


def equal(setting):
    """Equal points: n (n - 1) pairs, without looking at each."""
    count = 10_000 if setting.quick else 1_000_000
    points = setting.points.equal(count, 2)
    out, seconds, _ = run_program(setting, ["count", "-r", "0.1", str(points), "--quiet",
                                            "--threads", str(setting.threads)])
    fault = None if int(out.split()[0]) == count * (count - 1) else f"{out.strip()} pairs of {count} equal points"
    return record("equal", f"count of {count:,} equal points", seconds, "s", 0.5, seconds < 0.5, fault)


def read_csv(setting):
    """A CSV file of three columns, parsed by all threads."""
    count = 20_000 if setting.quick else 10_000_000
    path = setting.points.generate("unif", count, 3, "csv")
    lines = [setting.drivers.run(OURS[0], path, "0", "read", setting.threads, setting.timeout)
             for _ in range(setting.repeats)]
    best, size = min(lines, key=lambda line: line["seconds"]), path.stat().st_size
    seconds = best["seconds"]
    wrong = [f"{line['count']} x {line['dim']} read of {count} x 3" for line in lines
             if (line["count"], line["dim"]) != (count, 3)]
    return record("read-csv", f"reading {count:,} x 3 CSV, {size / 1e6:.0f} MB", size / seconds / 1e6, "MB/s", 300,
                  size / seconds > 300e6, wrong[0] if wrong else None, seconds=seconds, cpu_s=best["cpu_s"])


CHECKS = {"stream": stream, "equal": equal, "read-csv": read_csv}


def fastest(records, case, mode, contender="adjoin"):
    """A contender's summary of one case and mode; None when it was not run or failed."""
    for r in records:
        if (r["case"], r["mode"]) == (case, mode):
            found = r["contenders"].get(contender)
            return found if found and found.get("min_s") else None
    return None


def growth(records, small_name, large_name, mode, bar):
    """From 1 M to 10 M uniform points in one mode: time against n log n, and memory beyond points and result."""
    out = []
    small, large = fastest(records, small_name, mode), fastest(records, large_name, mode)
    case = next(case for case in CASES if case.name == large_name)
    if small and large:
        ratio = large["min_s"] / small["min_s"]
        out.append(record("scaling", f"time of 10 M over 1 M points, {mode}", ratio, "x", 11.7, ratio < 11.7))
    if large and large.get("peak_bytes"):
        n = case.count
        # adj_count's caller owns the counts, so they are not part of what the context held.
        result = 4 * n if mode == "count" else 8 * (n + 1) + (8 if case.k else 4) * large["pairs"]
        held = large["peak_bytes"] - (0 if mode == "count" else result)
        resident = large["rss_peak"] - large["rss_before"] - result
        out.append(record("memory", f"held beyond points and result, 10 M points, {mode}", held / n, "bytes/point",
                          bar, held / n <= bar, resident=resident / n))
    return out


def scaling(records):
    """How time and memory grow with the points."""
    return (growth(records, "unif2d-10", "unif2d10m-10", "csr", 40)
            + growth(records, "unif2d-10", "unif2d10m-10", "count", 40)
            + growth(records, "knn-unif2d-8", "knn-unif2d10m-8", "knn", 48))


def spread(records):
    """What an outlier or a sentinel costs: the time of a case of the group spread-* over that of the case itself."""
    out = []
    for case in CASES:
        plain = case.name.removeprefix("spread-").removesuffix(f"-{case.spread}")
        for mode in case.modes if case.spread in ("1e6", "1e30", "-9999") else ():
            with_it, without = fastest(records, case.name, mode), fastest(records, plain, mode)
            if with_it and without:
                ratio = with_it["min_s"] / without["min_s"]
                out.append(record("spread", f"time with {case.spread} over time without, {plain} {mode}", ratio, "x", 1.1,
                                  ratio <= 1.1))
    return out


def planner(records):
    """The planner's choice against the better of tree and brute force, where both took part."""
    out = []
    for r in records:
        chosen, *each = (fastest(records, r["case"], "knn", name) for name in ("adjoin", "adjoin/kdtree", "adjoin/brute"))
        if chosen and all(each):
            ratio = chosen["min_s"] / min(line["min_s"] for line in each)
            out.append(record("planner", f"time of the planner's choice over the better one, {r['case']}", ratio, "x", 1.3,
                              ratio <= 1.3))
    return out


def estimates(records):
    """The planner's guess of the pairs, and what planning costs."""
    out = []
    for r in records:
        line = fastest(records, r["case"], r["mode"])
        if r["mode"] != "csr" or not line or not line.get("pairs") or not line.get("estimated_pairs"):
            continue
        off = line["estimated_pairs"] / line["pairs"] - 1
        share = line["plan_s"] / line["min_s"]
        out.append(record("estimate", f"pairs estimated, {r['case']} (planning {100 * share:.1f} % of the time)",
                          100 * off, "% off", 20, abs(off) <= 0.2 and share <= 0.02, plan_share=share))
    return out
