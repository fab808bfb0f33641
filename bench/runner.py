# SPDX-License-Identifier: MIT
"""Runs one case and mode: ours and the peers in turn, then judges whether they found the same answer."""
import contextlib
import math
import pathlib
import statistics
import tempfile

from drivers import OURS, Failed, left_out
from report import memory_bytes

TOLERANCE = 1e-5   # rows of a peer's result that may differ, relative to pairs: other rounding on the boundary
HOPELESS = 4       # a peer this many times slower than the best peer is run once only


class Tally:
    """What one contender gave for a case and mode."""

    def __init__(self, contender):
        self.contender = contender
        self.lines = []
        self.problem = None    # why there is no time to report
        self.differing = None  # rows that differ from ours, about

    @property
    def best(self):
        return min(line["seconds"] for line in self.lines) if self.lines else math.inf

    @property
    def fastest_line(self):
        return min(self.lines, key=lambda line: line["seconds"])

    def summary(self):
        """For the JSON file."""
        if not self.lines:
            return {"problem": self.problem}
        out = {key: value for key, value in self.fastest_line.items() if key not in ("buckets", "seconds", "threads")}
        seconds = [line["seconds"] for line in self.lines]
        out.update(seconds=seconds, min_s=min(seconds), median_s=statistics.median(seconds),
                   differing_rows=self.differing, problem=self.problem)
        return out


def differing_rows(ours, theirs):
    """About how many rows two results differ in, from their bucket sums: exact (0) when they are the same; by
    linear counting while not every bucket differs; then all of them, that is as many as there are pairs."""
    same = all(ours[key] == theirs[key] for key in ("pairs", "degree_sum", "pair_sum", "buckets"))
    if same:
        return 0
    words = [(ours["buckets"][at:at + 16], theirs["buckets"][at:at + 16]) for at in range(0, len(ours["buckets"]), 16)]
    different = sum(a != b for a, b in words)
    if different == len(words):
        return max(ours["pairs"], theirs["pairs"], len(words))
    return max(1, round(-len(words) * math.log(1 - different / len(words))))


def far_rows(ours, theirs, case):
    """In about how many rows of a kNN join a peer has other distances than we have. Ties are broken as everyone pleases,
    so ids are not compared. The drivers compared the distances of all rows or of a sample (bench_answer in driver.h); the
    sum of all must agree as well, or all rows are taken to differ."""
    if theirs["far_rows"] < 0:
        return None
    if abs(theirs["distance_sum"] - ours["distance_sum"]) > 1e-5 * ours["distance_sum"]:
        return case.count
    return theirs["far_rows"] * (case.count * case.k // 2**24 + 1)


def worth_repeating(tally, tallies):
    """After the first round: ours always; of a peer's variants those near its best, and no hopeless peer."""
    if tally.problem:
        return False
    if tally.contender in OURS:
        return True
    peers = [t for t in tallies if t.contender not in OURS]
    family = min(t.best for t in peers if t.contender.family == tally.contender.family)
    return tally.best <= 1.1 * family and tally.best <= HOPELESS * min(t.best for t in peers)


def time_all(tallies, case, mode, path, setting, answer):
    """The rounds. Every second one goes backwards, so that nobody always runs after the same neighbour. Ours is the first
    of all: its result is the answer that those of kNN joins are compared with."""
    for repeat in range(setting.repeats):
        for tally in (tallies if repeat % 2 == 0 else tallies[::-1]):
            if tally.problem or (repeat > 0 and not worth_repeating(tally, tallies)):
                continue
            contender = tally.contender
            setting.say(f"{case.name} {mode}: {contender.name}, round {repeat + 1}")
            try:
                tally.lines.append(setting.drivers.run(contender, path, case.what, contender.modes[mode],
                                                       setting.threads, setting.timeout, answer))
            except Failed as failure:
                tally.problem = str(failure)


def rows_apart(truth, tally, case):
    """About how many rows of a contender's results differ from the truth; None when that is not known."""
    if case.k and tally.contender not in OURS:
        rows = [far_rows(truth, line, case) for line in tally.lines]
    else:
        rows = [differing_rows(truth, line) for line in tally.lines]
    return None if not rows or None in rows else max(rows)


def judge(tallies, case):
    """Compares every answer with our default one. A contender whose answer is not ours has no time to report.
    Returns what is wrong enough to fail the whole run."""
    ours = next((t for t in tallies if t.contender == OURS[0]), None)
    reference = ours if ours and ours.lines else next((t for t in tallies if t.lines), None)
    faults = [f"{ours.contender.name}: {ours.problem}"] if ours and ours.problem else []
    if reference is None:
        return faults
    truth = reference.lines[0]
    for tally in tallies:
        tally.differing = rows_apart(truth, tally, case)
        if tally.differing is None:
            continue
        allowed = 0 if tally.contender in OURS else max(2, TOLERANCE * (case.count if case.k else truth["pairs"]))
        if tally.differing > allowed:
            tally.problem = f"answer differs in about {tally.differing} rows"
            if tally.contender in OURS or (tally.contender.exact and case.contest):
                faults.append(f"{tally.contender.name}: {tally.problem} from {reference.contender.name}")
    return faults


def run_case(case, mode, path, contenders, setting):
    """The record of a case and mode, as it goes into the JSON file, with its faults."""
    tallies = [Tally(c) for c in contenders if mode in c.modes]
    for tally in tallies:
        tally.problem = left_out(tally.contender, case, memory_bytes())
    with tempfile.TemporaryDirectory() if case.k else contextlib.nullcontext() as folder:
        answer = pathlib.Path(folder) / "answer.npy" if folder else None
        time_all(tallies, case, mode, path, setting, answer)
    faults = judge(tallies, case)
    good = {t.contender.name: t for t in tallies if t.lines and not t.problem}
    peers = {name: t for name, t in good.items() if t.contender not in OURS}
    best = min(peers.values(), key=lambda t: t.best, default=None)
    ours = good.get("adjoin")
    any_line = next((t.lines[0] for t in good.values()), {})
    return {
        "case": case.name, "mode": mode, "points": case.points, "count": case.count, "dim": case.dim,
        "radius": case.radius, "k": case.k, "pairs": any_line.get("pairs"), "pair_sum": any_line.get("pair_sum"),
        "degree_sum": any_line.get("degree_sum"), "best_peer": best.contender.name if best else None,
        "ratio": best.best / ours.best if best and ours else None,
        "bar": case.bar(mode),
        "contenders": {t.contender.name: t.summary() for t in tallies}, "faults": faults,
    }


def check_modes(records):
    """Ours must find the same neighbours in every mode of a case."""
    faults = []
    for record in records:
        other = next((r for r in records if r["case"] == record["case"]), record)
        mine, theirs = record["contenders"].get("adjoin"), other["contenders"].get("adjoin")
        if mine and theirs and mine.get("degree_sum") and theirs.get("degree_sum") \
                and (mine["degree_sum"], mine["pairs"]) != (theirs["degree_sum"], theirs["pairs"]):
            faults.append(f"{record['case']}: modes {record['mode']} and {other['mode']} of adjoin differ")
    return faults
