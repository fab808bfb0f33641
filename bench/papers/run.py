# SPDX-License-Identifier: MIT
"""Measures experiments: place by place in the order of schedule.py, into a store."""
import os
import time

from report import cpu_model, memory_bytes, output_of, table

from .contenders import CONTENDERS
from .driver import not_available, same_answer
from .metrics import METRICS, measure, show
from .model import runs_of
from .schedule import Clock, groups, hopeless, in_order, larger_panels, places_of, takes_time, weight_of
from .store import NO_TIME

# These can do every join.
ABLE = ("auto", "cpu", "brute-cpu")
# What does not change the answer of a join.
HOW = ("system", "algorithm", "tuning", "backend", "repeats", "threads", "order")
WARM_UP = (("count", 20000), ("data", "Unif3D2M"), ("kind", "range"), ("mean", 8), ("type", "f32"))


def describe(driver, size, name):
    """The machine line: what figures are worth depends on it."""
    about = driver.machine()
    commit = output_of("git", "rev-parse", "--short=12", "HEAD") or "unknown"
    return {"machine": name, "cpu": cpu_model(), "cores": about.get("threads"), "memory_gb": round(memory_bytes() / 1e9),
            "device": about.get("device", ""), "size": size.name, "commit": commit,
            "load_before": round(os.getloadavg()[0], 1)}


def join_of(run):
    """What is computed, however it is done: runs of the same join have the same answer."""
    return tuple((name, value) for name, value in run.request if name not in HOW)


def measure_run(run, driver, limit):
    contender = CONTENDERS[run.contender]
    if contender.absent:
        return not_available(contender.absent)
    if contender.package:
        return driver.run_package(contender.package, run.request, limit)
    record = driver.run(run.request, limit)
    if record["status"] != "ok" and run.contender in ABLE and "more than" not in record["reason"]:
        record["fault"] = True
    return record


class Session:
    """The runs of one call: the driver, the store, and answers that were found so far."""

    def __init__(self, driver, store, device=True):
        self.driver = driver
        self.store = store
        self.device = device
        self.answers = {}  # of joins: the record that others are compared with
        self.faults = []

    def warm_up(self):
        """The first run on a device pays for opening it."""
        for backend in ("gpu", "hybrid") if self.device else ("cpu",):
            self.driver.run(WARM_UP + (("backend", backend), ("repeats", 1)), 60)

    def measure_place(self, place, limit):
        """All contenders of a place. Returns their records, compared."""
        found = []
        for run in place.runs:
            why = hopeless(self.store, place, run)
            record = not_available(why) if why else measure_run(run, self.driver, limit)
            if record.get("fault"):
                self._fault(place, run, record["reason"])
            found.append((run, record))
        self._compare(place, found, limit)
        return [{"experiment": place.name, "panel": run.panel, "x": run.x, "contender": run.contender,
                 "request": dict(run.request), **record, "commit": self.store.machine.get("commit")}
                for run, record in found]

    def _fault(self, place, run, text):
        self.faults.append(f"{place.name} {run.panel} {run.x} {run.contender}: {text}")

    def _compare(self, place, found, limit):
        """Runs of the same join must have found the same. Those without company get some."""
        for join in dict.fromkeys(join_of(run) for run, _ in found):
            done = [(run, record) for run, record in found if join_of(run) == join and record["status"] == "ok"]
            if not done:
                continue
            reference, by = self._reference(join, done, limit)
            for run, record in done:
                if not reference:
                    record.update(not_available("no other answer to compare it with"))
                elif not same_answer(reference, record):
                    record.update({**not_available("wrong answer"), "fault": True})
                    self._fault(place, run, f"another answer than {by}")

    def _reference(self, join, done, limit):
        """(record, whose) of the join: one found before, our own among several, or one more run."""
        if join in self.answers:
            return self.answers[join]
        ours = [(record, run.contender) for run, record in done if run.contender in ABLE and "digest" in record]
        others = [(record, run.contender) for run, record in done if "digest" in record]
        found = (ours or others)[:1]
        if len(done) == 1 or not found:
            backend = "cpu" if done[0][0].contender == "auto" else "auto"
            record = self.driver.run(join + (("backend", backend), ("repeats", 1)), 4 * limit)
            found = [(record, "adjoin")] if record["status"] == "ok" else []
        if not found:
            return None, ""
        self.answers[join] = found[0]
        return found[0]


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


def lacking(store, name, experiment, runs, size, cores, limit=0):
    """The runs of all places at which one of these was not made. Panels that were made with more points are complete."""
    done = {panel for _, panel, more in larger_panels(experiment, size, cores) if all(store.has(name, r) for r in more)}
    places = {(run.panel, run.x) for run in runs if run.panel not in done and not store.has(name, run, limit)}
    return [run for run in runs if (run.panel, run.x) in places]


def measure_places(session, places, clock):
    """All places while there is time; results are stored as they come. Returns those that were left out."""
    left, many = [], len(places)
    for group in groups(places):
        begin = time.monotonic()
        ahead = weight_of(group, session.device)
        clock.begin(ahead)
        for place in group:
            limit = clock.limit(ahead, place.experiment.weight)
            ahead -= weight_of([place], session.device)
            many -= 1
            if limit > 0:
                session.store.append(session.measure_place(place, limit))
            else:
                left.append(place)
        if time.monotonic() - begin > 0.01:
            print(f"{group[0].name}: wave {group[0].wave}, {len(group)} places in {time.monotonic() - begin:.1f} s; "
                  f"{many} ahead, {len(left)} left out, {max(0, clock.left):.0f} s left", flush=True)
    return left


def measure_all(session, places, clock):
    """In waves; what an experiment had no time for in its wave gets what is left in the end."""
    places = in_order(places)
    while places and clock.left > 0:
        clock.weight = weight_of(places, session.device)
        left = measure_places(session, places, clock)
        if len(left) == len(places):
            break
        places = left


def measure_larger(session, work, size, cores, clock):
    """Panels again with more points, those that are farthest from the paper's size first. A panel is replaced as a
    whole, and only if every contender that had a time before has one."""
    tasks = []
    for name, experiment in work:
        points = {panel.name: panel.points for panel in experiment.panels}
        for factor, panel, runs in larger_panels(experiment, size, cores):
            count = dict(runs[0].request)["count"]
            tasks.append((factor, count / points[panel], name, experiment, panel, count, runs))
    for factor, _, name, experiment, panel, count, runs in sorted(tasks, key=lambda task: task[:2]):
        now = {key: r for key, r in session.store.runs.get(name, {}).items() if key[0] == panel}
        took = sum(r["seconds"] * r.get("repeats", 1) for r in now.values() if r["status"] == "ok")
        if not took or any(r["request"].get("count", 0) >= count for r in now.values()) or 6 * took > clock.left:
            continue
        begin = time.monotonic()
        records = []
        for place in places_of(name, experiment, runs):
            if clock.left > 0 and not _lost(records, now):
                records += session.measure_place(place, max(1.0, 6 * took))
        kept = len(records) == len(runs) and not _lost(records, now)
        if kept:
            session.store.append(records)
        print(f"{name}: {panel}, {count:,} points {'kept' if kept else 'not kept'}, {time.monotonic() - begin:.1f} s; "
              f"{max(0, clock.left):.0f} s left", flush=True)


def _lost(records, before):
    keys = {key for key, r in before.items() if r["status"] == "ok"}
    return any(r["status"] != "ok" and (r["panel"], r["x"], r["contender"]) in keys for r in records)


def run_experiments(chosen, size, seconds, driver, store, missing=False, cores=None):
    """Runs the experiments within the time. Returns the faults. A quick check must reach all of them, whatever else the
    machine does."""
    work = [(f"{paper.id}:{experiment.id}", experiment) for paper, experiment in expand(chosen) if experiment.panels]
    session = Session(driver, store, bool(store.machine.get("device")))
    session.warm_up()
    whole = {name: runs_of(experiment, size, CONTENDERS, cores) for name, experiment in work}
    clock = Clock(seconds, 0)
    places = []
    for name, experiment in work:
        store.keep(name, [run.key for run in whole[name]])
        runs = lacking(store, name, experiment, whole[name], size, cores, Clock.LEAST) if missing else whole[name]
        places += places_of(name, experiment, runs)
    measure_all(session, places, clock)
    if missing and not size.one:
        measure_larger(session, work, size, cores, clock)
    finish(store, work, whole, session, size)
    return session.faults


def finish(store, work, whole, session, size):
    """Names what there was no time for, and prints everything."""
    for name, experiment in work:
        left = [run for run in whole[name] if run.key not in store.runs.get(name, {})]
        store.append([{"experiment": name, "panel": run.panel, "x": run.x, "contender": run.contender,
                       "request": dict(run.request), **not_available(NO_TIME)} for run in left])
        store.keep(name, [run.key for run in whole[name]])
        if size.one and left:
            session.faults.append(f"{name}: {NO_TIME}")
        print_experiment(experiment, name, store.runs[name])
    store.machine["load_after"] = round(os.getloadavg()[0], 1)
    store.write()
