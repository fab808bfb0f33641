# SPDX-License-Identifier: MIT
"""The runs of one machine: results/MACHINE.jsonl, a line for the machine and one for each run.

A run is appended as soon as its answer was compared, so that nothing is lost when the program is killed. The last line of
a run counts; write() leaves one of each, in the order of the papers, with the members that reports use."""
import json
import pathlib

from . import PAPERS

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
NO_TIME = "no time was left"
TOO_LONG = "more than "
# Members that only comparisons and warnings need while runs are made, or that the request tells.
DROPPED = ("same", "threads", "isa", "batches", "imbalance", "peak_bytes", "plan_s", "place_s", "bytes_up", "bytes_down", "dim",
           "k", "distances", "checked", "seconds_min", "ego_reorder_s", "ego_workload_s", "fault")
DIGITS = 4


def too_long(seconds):
    return f"{TOO_LONG}{seconds:.2g} s"


def allowed(record):
    """The seconds after which a run was ended; None: it was not."""
    reason = record.get("reason") or ""
    return float(reason[len(TOO_LONG):].split()[0]) if reason.startswith(TOO_LONG) else None


def _short(value):
    if isinstance(value, float):
        value = float(f"{value:.{DIGITS}g}")
        return int(value) if value.is_integer() else value
    return value


def compact(record):
    """Without what reports do not use: a number that is not there is 0, the backend is the requested one."""
    told = record.get("request", {})
    kept = {name: _short(value) for name, value in record.items() if name not in DROPPED}
    return {name: value for name, value in kept.items()
            if (value or name in ("panel", "x")) and (name != "backend" or value != told.get(name))}


def _line(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


class Store:
    def __init__(self, folder, machine):
        self.path = pathlib.Path(folder) / f"{machine}.jsonl"
        self.machine = {"machine": machine}
        self.runs = {}  # "002:F9" -> {(panel, x, contender): record}
        if self.path.exists():
            self._read()

    def _read(self):
        lines = self.path.read_text(encoding="utf-8").splitlines()
        for at, text in enumerate(lines):
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                if at + 1 < len(lines):
                    raise
                break  # killed while it was written
            if "experiment" not in line:
                self.machine = line
                continue
            line["request"] = dict(line["request"])
            line.setdefault("commit", self.machine.get("commit"))
            self.runs.setdefault(line["experiment"], {})[line["panel"], line["x"], line["contender"]] = line

    def _stored(self, record):
        record = compact(record)
        if record.get("commit") == self.machine.get("commit"):
            record.pop("commit", None)
        return _line(record)

    def begin(self, machine):
        """From now on runs are of this machine, and of this commit."""
        self.machine = machine
        self.write()

    def append(self, records):
        with open(self.path, "a", encoding="utf-8") as file:
            file.writelines(self._stored(record) for record in records)
        for r in records:
            self.runs.setdefault(r["experiment"], {})[r["panel"], r["x"], r["contender"]] = r

    def write(self):
        """The whole file anew, the old one stays until it is complete."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        order = {f"{p.id}:{e.id}": i for i, (p, e) in enumerate((p, e) for p in PAPERS for e in p.experiments)}
        partial = self.path.with_suffix(".partial")
        with open(partial, "w", encoding="utf-8") as file:
            file.write(_line(self.machine))
            for name in sorted(self.runs, key=lambda n: order.get(n, len(order))):
                file.writelines(self._stored(record) for record in self.runs[name].values())
        partial.rename(self.path)

    def keep(self, name, keys):
        """Of an experiment only the runs of these places and contenders, in this order."""
        mine = self.runs.get(name, {})
        if mine:
            self.runs[name] = {key: mine[key] for key in keys if key in mine}

    def has(self, name, run, limit=0):
        """Whether this very run was made. One that was ended before `limit` seconds was not."""
        record = self.runs.get(name, {}).get(run.key)
        if not record or record["request"] != dict(run.request) or record.get("reason") == NO_TIME:
            return False
        seconds = allowed(record)
        return seconds is None or seconds >= limit
