# SPDX-License-Identifier: MIT
"""Runs of the papers' driver, and of packages: a request in, a record out. Nothing here raises for a run that fails:
the record then has the status "not available" and the reason."""
import json
import os
import pathlib
import select
import subprocess

import drivers
from points import REAL, Points

from .store import too_long

BENCH = pathlib.Path(__file__).resolve().parent.parent
# Joins that a contender does not have, in the words of adj_status.
REFUSED = ("ADJ_E_ARGUMENT", "ADJ_E_UNSUPPORTED", "ADJ_E_NO_DEVICE")
# What most runs do not have.
DROPPED_IF_ZERO = ("kernel_s", "upload_s", "download_s", "place_s", "bytes_up", "bytes_down", "warp_efficiency",
                   "worker_imbalance", "grid_queries", "grid_failed", "grid_reindexed", "grid_epsilon", "grid_epsilon_s",
                   "grid_reindex_s", "returned", "ego_reorder_s", "ego_sort_s", "ego_workload_s", "grid_order_s", "device_batches")


def not_available(reason):
    return {"status": "not available", "reason": reason}


def _line(words):
    return " ".join(f"{name}={value}" for name, value in words.items())


class Driver:
    """One process of the driver; a new one when it has ended or does not answer."""

    def __init__(self, program, data, adjoin=None):
        self.program = str(program)
        self.points = Points(data, adjoin)
        self.process = None
        self.packages = drivers.Drivers(BENCH)

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
        self.process = None

    def _ask(self, line, patience):
        """The answer as a dict, or the reason why there is none."""
        if not self.process:
            # Kernels are loaded when the device is opened, not by the first run that needs them.
            env = {"ADJOIN_COSTS": "none", "CUDA_MODULE_LOADING": "EAGER", **os.environ}
            self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        try:
            self.process.stdin.write((line + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        ready = select.select([self.process.stdout], [], [], patience)[0]
        text = self.process.stdout.readline() if ready else b""
        if text:
            return json.loads(text)
        status = self.process.poll()
        self.close()
        return not_available(f"no answer in {patience:.0f} s" if not ready else f"the driver ended ({status})")

    def machine(self):
        """What the driver says of the machine."""
        return self._ask("kind=machine data=none", 60)

    def run(self, request, limit):
        """A join of adjoin."""
        words = dict(request)
        data = words.get("data", "").lower()
        if data in REAL and self.points.real(data):
            words["data"] = str(self.points.real(data).resolve())
        if words["kind"] != "select":  # points are made once, and not within the time of a run
            made = self._ask(_line({**words, "kind": "points"}), 120)
            if made["status"] != "ok":
                return {**not_available(made.get("message") or made.get("reason")), "fault": True}
        words["limit"] = f"{limit:.3f}"
        answer = self._ask(_line(words), 10 + 3 * limit)
        status = answer.get("status")
        if status == "ok":
            kept = {name: value for name, value in answer.items() if value or name not in DROPPED_IF_ZERO}
            return kept if kept.get("same") else {**not_available("repeats differ"), "fault": True}
        if status == "not available":
            return {**answer, "fault": True}
        if status == "ADJ_E_DEVICE":
            self.close()  # a device that has failed stays so in its process
        if status == "ADJ_CANCELLED":
            return not_available(too_long(limit))
        fault = status not in REFUSED + ("ADJ_E_MEMORY", "ADJ_E_DEVICE_MEMORY")
        return {**not_available(f"{answer.get('message') or status}"), **({"fault": True} if fault else {})}

    def run_package(self, how, request, limit):
        """The same join by a package of Python, in a process of its own."""
        words = dict(request)
        name = how.split("/")[0]
        if not self.packages.has_package(name):
            return not_available(f"the package {name} is not installed (bench/setup.sh)")
        if not self.points.adjoin:
            return not_available("the program adjoin, which makes the points, is not built")
        dim = words.get("dim") or 0
        right = self.points.generate(words["data"], words["count"], dim)
        files = str(right)
        if words.get("queries"):
            files = f"{self.points.generate(words['data'], words['queries'], dim, seed=2)},{right}"
        threads = words.get("threads") or os.cpu_count()
        contender = drivers.Contender(how, "python", how, {}, "")
        try:
            line = self.packages.run(contender, files, f"k={words['k']}", "knn", threads, 3 + 2 * limit)
        except drivers.Failed as error:
            return not_available(too_long(limit) if str(error).startswith("over ") else str(error))
        return {"status": "ok", "seconds": line["seconds"], "seconds_min": line["seconds"], "repeats": 1,
                "queries": words.get("queries") or words["count"], "points": words["count"], "k": words["k"],
                "index_s": line["index_s"], "distances": line["distance_sum"], "threads": threads}


def same_answer(reference, record):
    """Whether two runs found the same: by digest, and packages by the sum of all distances."""
    if "digest" in reference and "digest" in record:
        return reference["digest"] == record["digest"]
    a, b = reference.get("distances"), record.get("distances")
    return a is not None and b is not None and abs(a - b) <= 1e-4 * max(abs(a), 1e-30)

