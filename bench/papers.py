#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The papers' tables and figures, each by one command.

    papers.py list                        every experiment, its runs and the seconds it may take here
    papers.py run 002:T4                  one table or figure
    papers.py run 000                     all of a paper
    papers.py run --all --machine h200    everything, within the time of this machine's size
    papers.py run --all --missing         what is not there yet
    papers.py run --all --quick           tiny points: shows that every command works
    papers.py report                      docs/papers, from results/*.jsonl of all machines (needs matplotlib)
"""
import argparse
import os
import pathlib
import platform
import sys
import tempfile

import papers
from papers import model, run
from papers.contenders import CONTENDERS
from papers.driver import Driver
from papers.store import RESULTS, Store

BENCH = pathlib.Path(__file__).resolve().parent


def find_program(name, builds):
    for build in builds:
        for folder in ("bench", "."):
            path = BENCH.parent / "build" / build / folder / name
            if path.is_file() and os.access(path, os.X_OK):
                return path
    return None


def chosen_of(options):
    names = [paper.id for paper in papers.PAPERS] if options.all or not options.names else options.names
    try:
        return papers.find(names)
    except KeyError as error:
        sys.exit(f"papers.py: {error.args[0]}")


def size_of(options, device):
    if options.quick:
        return model.SIZES["quick"]
    return model.SIZES[options.size or ("full" if device else "small")]


def open_driver(options):
    program = options.driver or find_program("driver_papers", ("gpu", "release"))
    if not program:
        sys.exit("papers.py: driver_papers is not built (make everything)")
    return Driver(program, options.data, find_program("adjoin", ("release", "gpu")))


def list_experiments(options):
    size = size_of(options, False) if options.size or options.quick else model.SIZES["full"]
    chosen = chosen_of(options)
    counts = {(p.id, e.id): len(model.runs_of(e, size, CONTENDERS)) for p, e in chosen}
    weights = {(p.id, e.id): e.weight * counts[p.id, e.id] for p, e in chosen}
    print(f"size {size.name}: at most {size.seconds:g} s for everything\n")
    for paper, experiment in chosen:
        count = counts[paper.id, experiment.id]
        how = f"{count:4d} runs {size.seconds * weights[paper.id, experiment.id] / sum(weights.values()):6.1f} s"
        if experiment.absent:
            how = "     not repeated"
        elif experiment.uses:
            how = "     runs of " + ", ".join(experiment.uses)
        print(f"{paper.id}:{experiment.id:<6} {how:<22} {experiment.title}")
    print(f"\n{sum(counts.values())} runs")
    return 0


def run_chosen(options):
    driver = open_driver(options)
    device = driver.machine().get("device")
    size = size_of(options, device)
    name = options.machine or platform.node() or "this"
    folder = options.results
    if options.quick and not folder:
        folder = tempfile.mkdtemp(prefix="papers-")
    store = Store(folder or RESULTS, "quick" if options.quick else name)
    store.begin(run.describe(driver, size, name))
    seconds = options.seconds or size.seconds
    cores = store.machine["cores"]
    try:
        faults = run.run_experiments(chosen_of(options), size, seconds, driver, store, options.missing, cores)
    finally:
        driver.close()
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{store.path}: {sum(len(runs) for runs in store.runs.values())} runs; {len(faults)} faults")
    return 1 if faults else 0


def report(options):
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print("papers.py: matplotlib is not installed (bench/setup.sh), so no report")
        return 0
    from papers import pages
    pages.write_all(options.results or RESULTS, BENCH.parent / "docs" / "papers")
    return 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("list", "run", "report"))
    parser.add_argument("names", nargs="*", help="000, or 002:T4; none: all")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--quick", action="store_true", help="tiny points, a place of each experiment")
    parser.add_argument("--size", "--scale", choices=("full", "small"), help="by default full with a GPU, otherwise small")
    parser.add_argument("--seconds", type=float, help="for everything; runs that have no time are left out and named")
    parser.add_argument("--missing", action="store_true", help="only runs that are not there; then, in the time that is left, panels with more points")
    parser.add_argument("--machine", help="the name of the results")
    parser.add_argument("--results", help="the folder of the results")
    parser.add_argument("--data", default=str(BENCH / ".data"), help="the folder of real sets")
    parser.add_argument("--driver", help="the program driver_papers")
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parse()
    sys.exit({"list": list_experiments, "run": run_chosen, "report": report}[arguments.command](arguments))
