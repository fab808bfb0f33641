# SPDX-License-Identifier: MIT
"""Measures experiments and keeps the runs: results/MACHINE.jsonl, one line for the machine and one for each run."""
import json
import os
import pathlib
import time

from report import cpu_model, memory_bytes, output_of, table

from . import PAPERS
from .contenders import CONTENDERS
from .driver import NO_TIME, Clock, not_available, same_answer
from .metrics import METRICS, measure, show
from .model import runs_of

RESULTS = pathlib.Path(__file__).resolve().parent / "results"


class Store:
    """The runs of one machine."""

    def __init__(self, folder, machine):
        self.path = pathlib.Path(folder) / f"{machine}.jsonl"
        self.machine = {"machine": machine}
        self.runs = {}  # "002:F9" -> {(panel, x, contender): record}
        if self.path.exists():
            self._read()

    def _read(self):
        lines = self.path.read_text(encoding="utf-8").splitlines()
        for line in map(json.loads, lines):
            if "experiment" not in line:
                self.machine = line
                continue
            line.setdefault("commit", self.machine.get("commit"))
            self.runs.setdefault(line["experiment"], {})[line["panel"], line["x"], line["contender"]] = line

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        order = {f"{p.id}:{e.id}": i for i, (p, e) in enumerate((p, e) for p in PAPERS for e in p.experiments)}
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(json.dumps(self.machine, ensure_ascii=False) + "\n")
            for name in sorted(self.runs, key=lambda n: order.get(n, len(order))):
                for record in self.runs[name].values():
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def lacking(self, name, runs):
        """The runs of all places at which one of these very runs was not made: answers of a place are compared."""
        mine = self.runs.get(name, {})
        places = {(run.panel, run.x) for run in runs
                  if run.key not in mine or mine[run.key]["request"] != [list(pair) for pair in run.request]
                  or mine[run.key].get("reason") == NO_TIME}
        return [run for run in runs if (run.panel, run.x) in places]

    def put(self, name, runs, records):
        """New records; of the old ones those stay that the experiment still has."""
        old = self.runs.get(name, {})
        self.runs[name] = {key: records.get(key) or old[key] for key in (run.key for run in runs)
                           if key in records or key in old}


def describe(store, driver, size, name):
    """The machine line: what figures are worth depends on it."""
    about = driver.machine()
    commit = output_of("git", "rev-parse", "--short=12", "HEAD") or "unknown"
    store.machine = {"machine": name, "cpu": cpu_model(), "cores": about.get("threads"),
                     "memory_gb": round(memory_bytes() / 1e9), "device": about.get("device", ""), "size": size.name,
                     "commit": commit, "load_before": round(os.getloadavg()[0], 1)}


def measure_run(run, driver, limit):
    contender = CONTENDERS[run.contender]
    if contender.absent:
        return not_available(contender.absent)
    if limit <= 0:
        return not_available(NO_TIME)
    if contender.package:
        return driver.run_package(contender.package, run.request, limit)
    record = driver.run(run.request, limit)
    if record["status"] != "ok" and run.contender in ("auto", "cpu", "brute-cpu") and "more than" not in record["reason"]:
        record["fault"] = True  # these can do every join
    return record


def type_of(run):
    return dict(run.request).get("type")


def check_answers(place, driver, limit):
    """Runs of the same join must have found the same. One that is alone with its type gets company."""
    faults = []
    for kind in {type_of(run) for run, _ in place}:
        ok = [(run, record) for run, record in place if type_of(run) == kind and record["status"] == "ok"]
        if not ok:
            continue
        words = dict(ok[0][0].request)
        reference = ok[0][1]
        if len(ok) == 1 and words["kind"] != "select" and limit > 0:
            for name in ("system", "algorithm", "tuning", "backend"):
                words.pop(name, None)
            other = driver.run(tuple(sorted({**words, "repeats": 1, "backend": "cpu"}.items())), limit)
            reference = other if other["status"] == "ok" else reference
            ok[0][1]["checked"] = other["status"] == "ok"
        for run, record in ok:
            if not same_answer(reference, record):
                record.update({**not_available("wrong answer"), "fault": True})
                faults.append(f"{run.panel} {run.x} {run.contender}: another answer than {ok[0][0].contender}")
    return faults


def takes_time(run, device):
    """Whether the machine can do it at all: the others are answered at once."""
    words = dict(run.request)
    on_device = words.get("backend") in ("gpu", "hybrid") or words["kind"] == "select"
    return not CONTENDERS[run.contender].absent and (device or not on_device)


def measure_experiment(name, runs, driver, clock, device=True, weight=1.0):
    """Records by key, and what went wrong."""
    records, faults, place = {}, [], []
    ahead = weight * sum(takes_time(run, device) for run in runs)
    clock.begin(ahead)
    for at, run in enumerate(runs):
        limit = clock.limit(ahead, weight)
        ahead -= weight * takes_time(run, device)
        record = measure_run(run, driver, limit)
        place.append((run, record))
        if record.get("fault"):
            faults.append(f"{run.panel} {run.x} {run.contender}: {record['reason']}")
        records[run.key] = record
        last = at + 1 == len(runs) or (runs[at + 1].panel, runs[at + 1].x) != (run.panel, run.x)
        if last:
            faults += check_answers(place, driver, limit)
            place = []
    for run in runs:
        about = {"experiment": name, "panel": run.panel, "x": run.x, "contender": run.contender,
                 "request": [list(pair) for pair in run.request]}
        records[run.key] = {**about, **records[run.key]}
    return records, faults


def print_experiment(experiment, name, records):
    """One table: a row for each place, a column for each contender and metric."""
    columns = [(who, metric) for who in experiment.contenders for metric in experiment.metrics]
    rows = []
    for panel, x in dict.fromkeys((panel, x) for panel, x, _ in records):
        cells = [show(metric, measure(metric, records.get((panel, x, who)))) for who, metric in columns]
        rows.append([panel, f"{x:g}", *cells])
    head = [f"{CONTENDERS[who].label}" + (f" {metric}" if len(experiment.metrics) > 1 else "") for who, metric in columns]
    print(f"\n{name}  {experiment.title}; {', '.join(METRICS[m][0] for m in experiment.metrics)}")
    print(table(["", experiment.axis, *head], rows))
    reasons = dict.fromkeys((r["contender"], r["reason"]) for r in records.values() if r["status"] != "ok")
    for who, reason in list(reasons)[:12]:
        print(f"  {CONTENDERS[who].label}: not available: {reason}")


def expand(chosen):
    """With each experiment those whose runs it uses."""
    found = []
    for paper, experiment in chosen:
        for other in [paper.get(name) for name in experiment.uses] + [experiment]:
            if (paper, other) not in found:
                found.append((paper, other))
    return found


def run_experiments(chosen, size, seconds, driver, store, missing=False, cores=None):
    """Runs the experiments within the time. Returns the faults. A quick check must reach all of them, whatever else the
    machine does."""
    work = [(f"{paper.id}:{experiment.id}", experiment, runs_of(experiment, size, CONTENDERS, cores))
            for paper, experiment in expand(chosen)]
    whole = {name: runs for name, _, runs in work}
    if missing:
        work = [(name, experiment, store.lacking(name, runs)) for name, experiment, runs in work]
    work = [(name, experiment, runs) for name, experiment, runs in work if runs]
    device = bool(store.machine.get("device"))
    clock = Clock(seconds, sum(e.weight * takes_time(run, device) for _, e, runs in work for run in runs))
    faults = []
    for at, (name, experiment, runs) in enumerate(work):
        begin = time.monotonic()
        if clock.left <= 0:
            print(f"{name}: not run, {NO_TIME}")
            faults += [f"{name}: {NO_TIME}"] if size.one else []
            continue
        records, wrong = measure_experiment(name, runs, driver, clock, device, experiment.weight)
        for record in records.values():
            record["commit"] = store.machine.get("commit")
        store.put(name, whole[name], records)
        store.machine["load_after"] = round(os.getloadavg()[0], 1)
        store.write()
        print_experiment(experiment, name, records)
        print(f"  {at + 1} of {len(work)}: {time.monotonic() - begin:.1f} s, {max(0, clock.left):.0f} s left", flush=True)
        if size.one:
            wrong += [f"{r['contender']}: {NO_TIME}" for r in records.values() if r.get("reason") == NO_TIME]
        faults += [f"{name} {text}" for text in wrong]
    return faults
