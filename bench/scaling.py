#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How far joins scale: measured with ranks as processes of one machine, modelled for up to 1,024 GPUs.

    scaling.py measure --build build/release -o bench/scaling.json    run adjoin-mpi on 1 to 16 ranks
    scaling.py report bench/scaling.json --docs docs                  figures, and the tables of docs/scaling.md
    scaling.py predict --points 10G --gpus 64 --neighbours 30         one figure of the model

On one machine more ranks than cores take turns, so wall time says nothing: CPU seconds, bytes and memory of each rank do.
The model is a sum of steps, each a count times a rate. Rates of cores are fitted to the run on one rank, those of a GPU
are in docs/performance.md, those of the network are parameters. `report` compares the model with every measured run.
"""
import argparse
import dataclasses
import json
import math
import os
import subprocess
import sys
import tempfile

# ---- The model ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Machine:
    """Rates of one rank, in seconds, and of the network between ranks."""
    index_s: float  # per point that is indexed
    query_s: float  # per query
    pair_s: float  # per neighbour found
    byte_s: float  # CPU time per byte that is packed, sent and unpacked
    bandwidth: float  # bytes per second and rank; inf: what is sent costs byte_s only
    latency: float  # seconds per message
    memory: float = math.inf  # bytes of a rank


@dataclasses.dataclass
class Join:
    """A join of n uniform points in d dimensions with `neighbours` per point: within a radius, or the k nearest."""
    points: float
    dim: int
    neighbours: float
    kind: str = "range"  # "range": rows; "count": counts; "knn"
    value_bytes: int = 4


SENT_POINT = 1  # bytes that go with the coordinates of a point; its id is known from its place
SENT_ID = 4  # bytes of an id in a row on its way to its owner


def ball(dim):
    return math.pi ** (dim / 2) / math.gamma(dim / 2 + 1)


def halo_share(join, ranks):
    """Points around a cubic region, as a share of those in it. The data are a cube, so outer faces have no halo."""
    if ranks == 1:
        return 0.0
    radius = (join.neighbours / ball(join.dim)) ** (1 / join.dim)  # at one point per unit of volume
    share, cuts = 1.0, cuts_per_axis(ranks, join.dim)
    for pieces in cuts:
        side = join.points ** (1 / join.dim) / pieces
        share *= 1 + 2 * radius * (pieces - 1) / pieces / side
    return share - 1


def cuts_per_axis(ranks, dim):
    """Pieces along each axis, as even as factors allow: recursive cuts of the longest side."""
    pieces, left = [1.0] * dim, float(ranks)
    while left > 1:
        at = pieces.index(min(pieces))
        factor = 2.0 if left >= 2 else left
        pieces[at] *= factor
        left /= factor
    return pieces


def halo_cost(join, ranks, machine):
    """Seconds and bytes of one rank in the distribution `halo`, by step."""
    mine = join.points / ranks
    around = mine * halo_share(join, ranks)
    point_bytes = join.dim * join.value_bytes
    moved = mine * (1 - 1 / ranks) + around
    rows = mine * (1 - 1 / ranks)  # of other ranks: their rows return
    value = join.value_bytes if join.kind == "knn" else 0
    row_bytes = rows * (1 + (0 if join.kind == "count" else join.neighbours * (SENT_ID + value)))
    sent = moved * (point_bytes + SENT_POINT) + row_bytes
    network = sent / machine.bandwidth + machine.latency * (2 * ranks + 10 * math.log2(max(ranks, 2)))
    steps = {"index": (mine + around) * machine.index_s, "join": mine * (machine.query_s + join.neighbours * machine.pair_s),
             "pack": sent * machine.byte_s, "network": network if ranks > 1 else 0.0}
    result = mine * (8 + (0 if join.kind == "count" else join.neighbours * (8 + value)))
    memory = (mine + around) * (2 * point_bytes + 12) + result
    return steps, sent, memory


def ring_cost(join, ranks, machine, candidate_s):
    """The distribution `ring`: every query meets every point; blocks travel while the one before is joined."""
    mine = join.points / ranks
    block = mine * join.dim * join.value_bytes
    joined = mine * mine * candidate_s
    travel = block / machine.bandwidth + machine.latency
    seconds = joined + (ranks - 1) * max(joined, travel)
    return seconds, (ranks - 1) * block, 3 * block + mine * join.neighbours * 12


# An H200: docs/performance.md, uniform points in three dimensions. Index: 0.18 ms for 2 M points. Count: 0.56 - 0.18 ms
# for 2 M points with 10 neighbours, 0.87 - 0.17 with 100. Rows to host memory: 22 ms for 200 M pairs.
GPU = Machine(index_s=0.18e-3 / 2e6, query_s=0.17e-9, pair_s=1.8e-12, byte_s=1 / 50e9, bandwidth=25e9, latency=5e-6,
              memory=139 * 2**30)
ROWS_TO_HOST_S = 22e-3 / 200e6
KNN_GPU = dataclasses.replace(GPU, query_s=(6.6e-3 - 1.2e-3) / 10e6, pair_s=0.0, index_s=1.2e-3 / 10e6)


def gpu_seconds(join, gpus, machine=None):
    """Seconds of a join by so many GPUs, one rank each, result in the ranks' host memory; None: it does not fit."""
    base = machine or (KNN_GPU if join.kind == "knn" else GPU)
    steps, _, memory = halo_cost(join, gpus, base)
    if memory > base.memory * 4:  # points pass through a device in parts; a host has about four times its memory
        return None
    rows = 0 if join.kind == "count" else join.points / gpus * join.neighbours * ROWS_TO_HOST_S
    return sum(steps.values()) + rows


# ---- Measuring ------------------------------------------------------------------------------------------------------

ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl": "self,vader", "ADJOIN_COSTS": "none",
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_mpi_yield_when_idle": "1"}
SETS = {"unif": 3, "expo": 3, "clusters": 3}
RING_RADIUS = 0.74  # about 15 neighbours among 100,000 uniform points in 16-D


def run_join(build, ranks, arguments):
    with tempfile.TemporaryDirectory() as folder:
        stats = os.path.join(folder, "stats.json")
        command = ["mpirun", "-n", str(ranks), os.path.join(build, "adjoin-mpi"), *map(str, arguments), "--threads", "1",
                   "--no-sync", "-q", "--stats", stats]
        if arguments[0] != "count":
            command += ["-o", os.path.join(folder, "out.npz")]
        subprocess.run(command, check=True, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.DEVNULL)
        with open(stats, encoding="ascii") as file:
            return json.load(file)


def radius_of(build, path, mean):
    """The radius with about so many neighbours per point, by bisection of counts."""
    low, high = 0.0, 1.0
    for _ in range(24):
        middle = (low + high) / 2
        done = subprocess.run([os.path.join(build, "adjoin"), "count", "-q", "--threads", "1", "-r", repr(middle), path],
                              capture_output=True, text=True, check=True)
        points = os.path.getsize(path)
        if int(done.stdout) > mean * ((points - 128) // 12):
            high = middle
        else:
            low = middle
        if high - low < 0.01 * high:
            break
    return (low + high) / 2


def best(options, kind, job, count, ranks, arguments):
    """Of several runs the one with the fewest CPU seconds: other programs only add to them."""
    runs = [summarise(kind, job, count, ranks, run_join(options.build, ranks, arguments)) for _ in range(options.repeats)]
    record = min(runs, key=lambda r: r["cpu_s"])
    print(json.dumps(record), flush=True)
    return record


def measure(options):
    records = []
    counts = [int(r) for r in options.ranks.split(",")]
    count = int(float(options.count))
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.sets.split(","):
            path = os.path.join(folder, f"{kind}.npy")
            small = os.path.join(folder, f"{kind}.small.npy")
            generate = [os.path.join(options.build, "adjoin"), "generate", kind, "-d", "3", "-q"]
            subprocess.run([*generate, "-n", str(count), "-o", path], check=True)
            subprocess.run([*generate, "-n", str(max(count // 8, 1)), "-o", small], check=True)
            radius = radius_of(options.build, small, options.mean) / 2  # eight times as dense in three dimensions
            for job, arguments in (("count", ["count", "-r", radius, path]), ("range", ["range", "-r", radius, path]),
                                   ("knn", ["knn", "-k", 8, path])):
                for ranks in counts:
                    records.append(best(options, kind, job, count, ranks, arguments))
            os.remove(path)
        if options.ring:
            path = os.path.join(folder, "ring.npy")
            many = min(count, 100000)
            subprocess.run([os.path.join(options.build, "adjoin"), "generate", "unif", "-d", "16", "-n", str(many), "-q", "-o", path],
                           check=True)
            for job, arguments in (("ring, range", ["range", "-r", RING_RADIUS, path, "--distribution", "ring"]),
                                   ("ring", ["knn", "-k", 8, path, "--distribution", "ring"]),
                                   ("replicated", ["knn", "-k", 8, path, "--distribution", "replicated"])):
                for ranks in counts:
                    records.append(best(options, "unif16", job, many, ranks, arguments))
    with open(options.output, "w", encoding="ascii") as file:
        lines = ",\n".join("  " + json.dumps(record) for record in records)
        file.write(f'{{"mean": {options.mean}, "machine": {json.dumps(options.machine)}, "runs": [\n{lines}\n]}}\n')


def summarise(kind, job, count, ranks, stats):
    each = stats["of_each_rank"]
    return {"set": kind, "job": job, "points": count, "ranks": ranks, "pairs": stats["pairs"],
            "cpu_s": round(sum(r["cpu_seconds"] for r in each), 4), "rank_cpu_s": [round(r["cpu_seconds"], 4) for r in each],
            "rank_join_s": [round(r["seconds"]["join"], 4) for r in each],
            "bytes_points": stats["bytes_points"], "bytes_rows": stats["bytes_rows"],
            "bytes_least": sum(r["bytes_least"] for r in each), "halo_points": sum(r["halo_points"] for r in each),
            "peak_bytes": max(r["peak_bytes"] for r in each), "work_imbalance": stats["work_imbalance"]}


# ---- The model against the measurements ------------------------------------------------------------------------------

def of(runs, **wanted):
    return [r for r in runs if all(r[k] == v for k, v in wanted.items())]


def fit(runs):
    """Rates of a core from runs on one rank, and of a byte from the runs on two: what the others are predicted with."""
    rates = {}
    for job in "count", "range", "knn":
        one, two = of(runs, set="unif", job=job, ranks=1), of(runs, set="unif", job=job, ranks=2)
        if not one or not two:
            continue
        one, two = one[0], two[0]
        index = 0.25 * one["cpu_s"] / one["points"]  # of a join with few neighbours about a quarter is the index
        query = 0.75 * one["cpu_s"] / one["points"]
        machine = Machine(index_s=index, query_s=query, pair_s=0.0, byte_s=0.0, bandwidth=math.inf, latency=0.0)
        join = join_of(one, two)
        steps, sent, _ = halo_cost(join, 2, machine)
        machine.byte_s = max(two["cpu_s"] - 2 * sum(steps.values()), 0.0) / (2 * sent)
        rates[job] = machine
    return rates


def join_of(run, _=None):
    neighbours = 8 if run["job"] == "knn" else run["pairs"] / run["points"]
    return Join(run["points"], 3, neighbours, run["job"])


def compare(runs, rates):
    """Rows of measured and predicted CPU seconds and bytes."""
    rows = []
    for run in runs:
        if run["job"] not in rates or run["ranks"] == 1 or run["set"] != "unif":
            continue
        steps, sent, _ = halo_cost(join_of(run), run["ranks"], rates[run["job"]])
        rows.append((run, run["ranks"] * sum(steps.values()), run["ranks"] * sent))
    return rows


# ---- The report --------------------------------------------------------------------------------------------------------

def short(value):
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def measured_table(runs):
    rows = []
    for run in runs:
        one = of(runs, set=run["set"], job=run["job"], ranks=1)
        ratio = f"{run['cpu_s'] / one[0]['cpu_s']:.2f}" if one else ""
        rows.append((run["set"], run["job"], str(run["ranks"]), f"{run['cpu_s']:.2f}", ratio, short(run["bytes_points"]),
                     short(run["bytes_rows"]), short(run["peak_bytes"]), f"{100 * run['work_imbalance']:.1f} %"))
    return table(("points", "join", "ranks", "CPU seconds", "of one rank's", "bytes of points", "bytes of rows",
                  "memory of a rank", "imbalance of work"), rows)


def compared_table(rows):
    return table(("join", "ranks", "CPU seconds measured", "model", "ratio", "bytes measured", "model", "ratio"),
                 [(r["job"], str(r["ranks"]), f"{r['cpu_s']:.2f}", f"{cpu:.2f}", f"{cpu / r['cpu_s']:.2f}",
                   short(r["bytes_points"] + r["bytes_rows"]), short(sent),
                   f"{sent / max(r['bytes_points'] + r['bytes_rows'], 1):.2f}") for r, cpu, sent in rows])


GPUS = [2**i for i in range(11)]


def predicted_table():
    rows = []
    for kind, neighbours in (("count", 30), ("range", 30), ("knn", 8)):
        for points in 1e9, 1e10, 1e11:
            cells = []
            for gpus in 1, 4, 16, 64, 256, 1024:
                seconds = gpu_seconds(Join(points, 3, neighbours, kind), gpus)
                cells.append("does not fit" if seconds is None else f"{seconds:.3g}")
            rows.append((kind, short(points), *cells))
    return table(("join", "points", *(f"{g} GPU{'s' if g > 1 else ''}" for g in (1, 4, 16, 64, 256, 1024))), rows)


def anchors_table():
    fof = gpu_seconds(Join(44.7e9, 3, 1, "count"), 64)
    panda = gpu_seconds(Join(189e9, 3, 8, "knn"), 1024)
    return table(("who", "what", "on", "seconds", "our model, for about the same"),
                 [("ArborX", "friends-of-friends of 44.7 G points", "64 GPU ranks", "5.3",
                   f"{fof:.2g} s on 64 GPUs: counts with one neighbour per point, which is the first step of it"),
                  ("PANDA", "kd-tree of 189 G particles, then 19 G queries", "50,000 cores", "48 + 12",
                   f"{panda:.2g} s on 1,024 GPUs: the 8 nearest of all 189 G" if panda else "does not fit 1,024 GPUs")])


def plots(runs, rates, folder):
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    plt.rcParams.update({"svg.hashsalt": "adjoin", "svg.fonttype": "none", "font.size": 9, "axes.grid": True,
                         "grid.alpha": 0.3, "figure.facecolor": "white", "axes.titlesize": 9})

    def save(figure, name):
        figure.savefig(os.path.join(folder, name), metadata={"Date": None, "Creator": None})
        plt.close(figure)

    # As Figure 10 of the paper: how evenly the ranks are loaded.
    most = max(r["ranks"] for r in runs)
    cases = [(s, j) for s, j in (("unif", "knn"), ("expo", "knn"), ("clusters", "knn"), ("unif16", "ring"))
             if of(runs, set=s, job=j, ranks=most)]
    figure, axes = plt.subplots(1, len(cases), figsize=(8, 2.6), squeeze=False, layout="constrained")
    for axis, (s, j) in zip(axes.flat, cases):
        times = of(runs, set=s, job=j, ranks=most)[0]["rank_cpu_s"]
        mean = sum(times) / len(times)
        axis.hist([t / mean for t in times], bins=[0.5 + 0.05 * i for i in range(21)], color="tab:blue")
        axis.set_title(f"{s}, {'halo' if j == 'knn' else j}")
        axis.set_xlabel("CPU seconds / mean")
    axes.flat[0].set_ylabel(f"ranks of {most}")
    figure.suptitle("Measured: CPU seconds of each rank", fontsize=10)
    save(figure, "scaling-balance.svg")

    # As Figure 11: response time and speed-up.
    figure, axes = plt.subplots(1, 3, figsize=(8, 3.0), layout="constrained")
    for colour, job in zip(("tab:blue", "tab:orange", "tab:green"), rates):
        mine = sorted(of(runs, set="unif", job=job), key=lambda r: r["ranks"])
        axes[0].plot([r["ranks"] for r in mine], [r["cpu_s"] / mine[0]["cpu_s"] for r in mine], "o", color=colour)
        model = [(r["ranks"], r["ranks"] * sum(halo_cost(join_of(r), r["ranks"], rates[job])[0].values())) for r in mine]
        axes[0].plot([p for p, _ in model], [s / mine[0]["cpu_s"] for _, s in model], color=colour, label=job)
    axes[0].set_xscale("log", base=2)
    axes[0].set_ylim(bottom=0)
    axes[0].set_title("Measured (dots), model (lines)")
    axes[0].set_ylabel("CPU seconds / those of one rank")
    axes[0].set_xlabel("ranks, cores")
    axes[0].legend(frameon=False)
    for points, colour in zip((1e9, 1e10, 1e11), ("tab:blue", "tab:orange", "tab:green")):
        for kind, style in (("knn", "-"), ("count", "--")):
            join = Join(points, 3, 8 if kind == "knn" else 30, kind)
            line = [(g, gpu_seconds(join, g)) for g in GPUS]
            line = [(g, s) for g, s in line if s is not None]
            if not line:
                continue
            label = f"{short(points)} points" if kind == "knn" else None
            axes[1].plot(*zip(*line), style, color=colour, label=label)
            if kind == "knn":
                axes[2].plot([g for g, _ in line], [line[0][0] * line[0][1] / s for g, s in line], color=colour, label=label)
    for axis in axes[1:]:
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xlabel("GPUs")
    axes[1].set_title("Model: k = 8 (lines), count (dashed)")
    axes[1].set_ylabel("seconds")
    axes[2].plot(GPUS, GPUS, ":", color="grey", label="ideal")
    axes[2].legend(frameon=False, loc="upper left")
    axes[2].set_title("Model: speed-up, k = 8")
    save(figure, "scaling-time.svg")


def replace_block(text, name, body):
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    head, rest = text.split(begin, 1)
    return head + begin + body + end + rest.split(end, 1)[1]


def report(options):
    with open(options.results, encoding="ascii") as file:
        runs = json.load(file)["runs"]
    rates = fit(runs)
    compared = compare(runs, rates)
    path = os.path.join(options.docs, "scaling.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for name, body in (("measured", measured_table(runs)), ("compared", compared_table(compared)),
                       ("predicted", predicted_table()), ("anchors", anchors_table())):
        text = replace_block(text, name, body)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    if not options.no_plots:
        plots(runs, rates, options.docs)
    for run, cpu, sent in compared:
        print(f"{run['job']:6} {run['ranks']:3} ranks: CPU seconds {cpu / run['cpu_s']:.2f}, bytes "
              f"{sent / max(run['bytes_points'] + run['bytes_rows'], 1):.2f} of those measured")


def count_of(text):
    return float(text[:-1]) * {"k": 1e3, "M": 1e6, "G": 1e9}[text[-1]] if text[-1] in "kMG" else float(text)


def predict(options):
    machine = dataclasses.replace(KNN_GPU if options.kind == "knn" else GPU, bandwidth=options.bandwidth * 1e9,
                                  latency=options.latency * 1e-6)
    join = Join(count_of(options.points), options.dim, options.neighbours, options.kind)
    seconds = gpu_seconds(join, options.gpus, machine)
    if seconds is None:
        sys.exit("it does not fit the memory of so few GPUs")
    steps, sent, memory = halo_cost(join, options.gpus, machine)
    print(json.dumps({"seconds": seconds, "steps": steps, "bytes_of_a_rank": sent, "memory_of_a_rank": memory,
                      "halo_share": halo_share(join, options.gpus)}, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("measure", help="run adjoin-mpi on several numbers of ranks")
    one.add_argument("--build", default="build/release")
    one.add_argument("--ranks", default="1,2,4,8,16")
    one.add_argument("--count", default="1e6", help="points of each set")
    one.add_argument("--sets", default=",".join(SETS))
    one.add_argument("--mean", type=float, default=30, help="neighbours per point within the radius")
    one.add_argument("--repeats", type=int, default=3, help="runs of each join")
    one.add_argument("--machine", default="", help="which machine, for the report")
    one.add_argument("--ring", action=argparse.BooleanOptionalAction, default=True, help="also ring and replicated, 16-D")
    one.add_argument("-o", "--output", required=True)
    one.set_defaults(run=measure)
    one = commands.add_parser("report", help="compare, predict and plot")
    one.add_argument("results")
    one.add_argument("--docs", default="docs")
    one.add_argument("--no-plots", action="store_true")
    one.set_defaults(run=report)
    one = commands.add_parser("predict", help="one join, by the model")
    one.add_argument("--points", default="1G")
    one.add_argument("--dim", type=int, default=3)
    one.add_argument("--neighbours", type=float, default=30)
    one.add_argument("--kind", choices=("range", "count", "knn"), default="count")
    one.add_argument("--gpus", type=int, default=1)
    one.add_argument("--bandwidth", type=float, default=25, help="GB/s of a rank")
    one.add_argument("--latency", type=float, default=5, help="microseconds")
    one.set_defaults(run=predict)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
