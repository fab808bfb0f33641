# SPDX-License-Identifier: MIT
"""How far `auto` is from the best algorithm, and its forecasts from what happens: a sweep on the cores."""
import itertools
import json
import random
import subprocess

import report

DIMS = (2, 3, 6, 10, 16, 32, 64, 128, 384, 1000)
COUNTS = (1_000, 10_000, 100_000, 1_000_000)
MEANS = (1, 10, 100, 1_000)
KS = (1, 8, 64, 1_000)
MOST_VALUES = 40_000_000    # coordinates of a set
MOST_COMPARED = 1.5e12      # coordinates of all pairs, where nothing but comparing them all may help
MOST_ENTRIES = 40_000_000   # of a result
NOISE_S = 0.002             # a join may always be this much slower: that is what waking threads takes


def generators(dim):
    return ("unif", "expo", "clusters") if dim <= 6 else ("expo", "clusters", "normal")


def feasible(count, dim):
    return count * dim <= MOST_VALUES and (dim <= 6 or float(count) * count * dim <= MOST_COMPARED)


def questions(count, dim, quick):
    """Radii from selective to all pairs, and k."""
    means = [m for m in MEANS if m < count / 4] + [count // 4, count]
    asked = [f"count:{m}" for m in means if m * count <= 4e9 / dim ** 0.5]
    asked += [f"csr:{m}" for m in means if m * count <= MOST_ENTRIES]
    asked += [f"knn:{k}" for k in KS if k < count and k * count <= MOST_ENTRIES]
    return asked[::3] if quick else asked


def cases(quick):
    """(points, count, dim, metric, questions), in an order that any beginning of it has some of everything."""
    counts = COUNTS[:2] if quick else COUNTS
    all_of_them = []
    for dim, count in itertools.product(DIMS, counts):
        if not feasible(count, dim):
            continue
        for points in generators(dim):
            all_of_them += [(points, count, dim, "l2", q) for q in questions(count, dim, quick)]
        others = ["l1", "linf", "cosine", "ip"] + (["lp"] if dim <= 128 else []) + (["haversine"] if dim == 2 else [])
        for metric in others if count <= 100_000 else ():
            points = "unif" if metric == "haversine" else "normal"
            all_of_them += [(points, count, dim, metric, q) for q in questions(count, dim, True)]
    random.Random(1).shuffle(all_of_them)
    return all_of_them[:40] if quick else all_of_them


def judge(line, clock, threads):
    """Adds the ratio of auto to the best algorithm, and that of the forecast to the time of the join."""
    seconds = "cpu_s" if clock == "cpu" else "seconds"
    share = threads if clock == "cpu" else 1
    mine = line["auto"][seconds] / share
    rivals = {name: line[name][seconds] / share for name in ("grid", "ego", "brute", "kdtree") if name in line}
    line["best"] = min(rivals, key=rivals.get) if rivals else line["auto"]["chose"]
    line["best_s"] = rivals.get(line["best"], mine)
    line["auto_s"] = mine
    line["ratio"] = max(1.0, (mine - NOISE_S) / line["best_s"]) if mine > line["best_s"] else mine / line["best_s"]
    took = line["auto"]["join_cpu_s" if clock == "cpu" else "join_s"] / share
    told = line["auto"]["forecast_s"]
    line["forecast"] = max(told, 1e-9) / max(took, 1e-9)
    line["forecast_fits"] = abs(told - took) <= NOISE_S or 0.5 <= line["forecast"] <= 2


def summary(lines):
    def share(test):
        return sum(map(test, lines)) / len(lines)
    worst = max(lines, key=lambda line: line["ratio"])
    return (f"{len(lines)} joins: worst ratio {worst['ratio']:.2f} ({name(worst)}), "
            f"within 1.15 {share(lambda line: line['ratio'] <= 1.15):.1%}, "
            f"within 1.3 {share(lambda line: line['ratio'] <= 1.3):.1%}, "
            f"forecasts within 2x {share(lambda line: line['forecast_fits']):.1%}")


def name(line):
    return f"{line['points']} {line['count']} x {line['dim']} {line['metric']} {line['question']}"


def row(line):
    ways = " ".join(f"{way} {line[way]['cpu_s']:.4f}" for way in ("grid", "ego", "brute", "kdtree") if way in line)
    return [name(line), line["auto"]["chose"], f"{line['auto_s']:.4f}", line["best"], f"{line['best_s']:.4f}",
            f"{line['ratio']:.2f}", f"{line['forecast']:.2f}", ways]


def run(program, case, args):
    points, count, dim, metric, question = case
    command = [program, points, str(count), str(dim), metric, str(args.threads), str(args.most), str(args.repeats),
               question]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=args.timeout)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    if not done.stdout.strip():
        return None  # over --most
    line = json.loads(done.stdout)
    line.update(points=points, count=count, dim=dim, metric=metric)
    judge(line, args.clock, args.threads)
    return line


def table(lines):
    heading = ["join", "auto", "s", "best", "s", "ratio", "forecast", "CPU seconds"]
    return report.table(heading, [row(line) for line in lines])
