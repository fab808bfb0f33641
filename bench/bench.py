#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""adjoin's benchmark: named cases, ours and the peers in turn, no time without an agreed answer.

    bench.py list
    bench.py run [--case PATTERN] [--peer PATTERN] [--repeats N] [--json out.json] [--quick]
    bench.py compare old.json new.json
    bench.py tune [--case PATTERN]
    bench.py auto [--quick] [--seconds S] [--clock wall|cpu] [--json out.json]

See README.md beside it. Needs nothing but Python; peers that are not installed are left out and named.
"""
import argparse
import fnmatch
import json
import math
import os
import pathlib
import sys
import time
from dataclasses import dataclass

import auto
import cases
import checks
import report
import runner
from drivers import OURS, PEERS, Drivers, Failed
from points import Points

HERE = pathlib.Path(__file__).resolve().parent


@dataclass
class Setting:
    """Everything a run is told."""
    drivers: Drivers
    points: Points
    repeats: int
    threads: int
    timeout: float
    quick: bool
    verbose: bool

    def say(self, text):
        if self.verbose:
            print(f"  {text}", file=sys.stderr, flush=True)


def matches(name, patterns):
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns.split(","))


def default_build():
    for path in (HERE.parent / "build" / "release", HERE.parent / "build"):
        if (path / "CMakeCache.txt").exists():
            return path
    return HERE.parent / "build" / "release"


def make_setting(args):
    drivers = Drivers(args.build, args.python)
    return Setting(drivers, Points(args.data, drivers.program("adjoin")), args.repeats, args.threads, args.timeout,
                   getattr(args, "quick", False), not args.quiet)


def choose_contenders(setting, pattern):
    """Ours and the peers asked for, in two lists: those that can run, and why the others cannot."""
    wanted = OURS + [p for p in PEERS if matches(p.name, pattern)]
    absent = {c.name: why for c in wanted if (why := setting.drivers.missing(c))}
    return [c for c in wanted if c.name not in absent], absent


def run_cases(args, setting, contenders):
    records = []
    for case in cases.CASES:
        if not matches(case.name, args.case):
            continue
        if setting.quick:
            case = cases.tiny(case)
        path = setting.points.of_case(case)
        kinds = {case.kind, "tiny"} if setting.quick else {case.kind}
        fitting = [c for c in contenders if kinds & set(c.suits.split())]
        for mode in case.modes:
            if matches(mode, args.mode):
                records.append(runner.run_case(case, mode, path, fitting, setting))
    return records


def run_checks(args, setting):
    records = []
    for name, check in checks.CHECKS.items():
        if matches(name, args.case):
            setting.say(f"check {name}")
            records.append(check(setting))
    return records


def command_run(args):
    setting = make_setting(args)
    contenders, absent = choose_contenders(setting, args.peer)
    if OURS[0] not in contenders or not setting.points.adjoin:
        sys.exit(f"{args.build}: build adjoin and its benchmark drivers first (make, or cmake --build)")
    machine = report.machine(args.build, setting)
    records = run_cases(args, setting, contenders)
    checked = run_checks(args, setting)
    if not setting.quick:
        checked += checks.scaling(records) + checks.spread(records) + checks.estimates(records) + checks.planner(records)
    faults = [f"{r['case']} {r['mode']}: {fault}" for r in records for fault in r["faults"]]
    faults += runner.check_modes(records) + [f"{c['check']}: {c['fault']}" for c in checked if c["fault"]]
    done = {"machine": machine, "absent": absent, "cases": records, "checks": checked,
            "faults": faults}
    report.print_report(done)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
    if not records and not checked:
        sys.exit(f"no case is called {args.case}; bench.py list names them")
    return 1 if faults else 0


def command_list(args):
    setting = make_setting(args)
    rows = [[c.name, f"{c.count:,}", c.dim, c.what, c.mean, " ".join(c.modes), c.points] for c in cases.CASES]
    print(report.table(["case", "points", "dim", "radius or k", "mean", "modes", "data"], rows) + "\n")
    for name, check in checks.CHECKS.items():
        print(f"{name:10} {check.__doc__}")
    print()
    for contender in OURS + PEERS:
        print(f"{contender.name:18} {setting.drivers.missing(contender) or 'ready'}")
    return 0


def command_compare(args):
    old, new = (json.loads(pathlib.Path(path).read_text(encoding="utf-8")) for path in (args.old, args.new))
    slower = report.compare(old, new, args.limit)
    return 1 if slower else 0


def tuned_radius(case, path, setting):
    """The radius, to four digits, that gives the wanted mean: secant steps on log(mean) over log(radius), which is
    nearly a straight line."""
    counter = next(c for c in OURS[:1] + PEERS if "count" in c.modes and not setting.drivers.missing(c))
    radius, slope, last = case.radius, case.dim, None
    for _ in range(20):
        line = setting.drivers.run(counter, path, repr(radius), "count", setting.threads, setting.timeout)
        mean = line["pairs"] / case.count
        setting.say(f"{case.name}: radius {radius!r} gives {mean:.2f} a point")
        if abs(mean / case.mean - 1) < 0.005:
            break
        at = math.log(radius), math.log(max(mean, 1e-3))
        if last and at[0] != last[0] and at[1] > min(last[1], at[1]):
            slope = max(0.5, (at[1] - last[1]) / (at[0] - last[0]))
        last = at
        step = max(-1.0, min(1.0, (math.log(case.mean) - at[1]) / slope))
        radius = float(f"{math.exp(at[0] + step):.4g}")
    return radius, mean


def command_tune(args):
    setting = make_setting(args)
    for case in cases.CASES:
        if matches(case.name, args.case) and not case.k:
            path = setting.points.of_case(case)
            radius, mean = tuned_radius(case, path, setting)
            print(f"{case.name}: radius {radius!r}, mean {mean:.2f}", flush=True)
    return 0


def command_auto(args):
    """Exit status 1 where a bar does not hold."""
    program = Drivers(args.build, args.python).program("driver_auto")
    if not program:
        sys.exit(f"{args.build}: build driver_auto first (make, or cmake --build)")
    lines, begin = [], time.monotonic()
    for case in auto.cases(args.quick):
        if args.seconds and time.monotonic() - begin > args.seconds:
            break
        if not matches(f"{case[0]}-{case[2]}d-{case[1]}-{case[3]}-{case[4]}", args.case):
            continue
        line = auto.run(program, case, args)
        if line:
            lines.append(line)
            if not args.quiet:
                print("  " + " | ".join(map(str, auto.row(line))), file=sys.stderr, flush=True)
    if not lines:
        sys.exit("no join was timed")
    missed = [line for line in lines if line["ratio"] > 1.15 or not line["forecast_fits"]]
    if missed:
        print(auto.table(sorted(missed, key=lambda line: -line["ratio"])))
    print(auto.summary(lines))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
    return 0


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--build", default=default_build(), type=pathlib.Path, help="build folder")
    common.add_argument("--data", default=HERE / ".data", type=pathlib.Path, help="folder kept for point files")
    common.add_argument("--python", help="interpreter of the Python peers; default bench/.venv's, else this one")
    common.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    common.add_argument("--timeout", type=float, default=120, help="seconds one run of one contender may take")
    common.add_argument("--repeats", type=int, default=3, help="rounds")
    common.add_argument("--case", default="*", help="names or patterns, separated by commas")
    common.add_argument("--quiet", action="store_true", help="say nothing while running")
    run = commands.add_parser("run", parents=[common], help="run cases and print the tables")
    run.add_argument("--mode", default="*", help="csr, count, knn")
    run.add_argument("--peer", default="*", help="names or patterns; 'none' for ours alone")
    run.add_argument("--json", help="write everything measured there")
    run.add_argument("--quick", action="store_true", help="tiny inputs: shows that it works, not how fast")
    commands.add_parser("list", parents=[common], help="name cases, checks and contenders")
    commands.add_parser("tune", parents=[common], help="find the radius of cases anew")
    sweep = commands.add_parser("auto", parents=[common], help="auto beside every algorithm, on the cores")
    sweep.add_argument("--quick", action="store_true", help="40 joins of few points")
    sweep.add_argument("--seconds", type=float, help="end after so long; joins come in a mixed order")
    sweep.add_argument("--most", type=float, default=4, help="leave out joins that take auto longer than this")
    sweep.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                       help="cpu: by CPU seconds, for a machine that others use too")
    sweep.add_argument("--json", help="write everything measured there")
    compare = commands.add_parser("compare", help="ours of two runs side by side; exit 1 when something is slower")
    compare.add_argument("old")
    compare.add_argument("new")
    compare.add_argument("--limit", type=float, default=1.1, help="how many times slower counts as slower")
    return parser.parse_args()


def main():
    args = parse_args()
    command = {"run": command_run, "list": command_list, "compare": command_compare, "tune": command_tune,
               "auto": command_auto}
    try:
        return command[args.command](args)
    except (Failed, OSError, RuntimeError) as problem:
        sys.exit(f"bench.py: {problem}")


if __name__ == "__main__":
    sys.exit(main())
