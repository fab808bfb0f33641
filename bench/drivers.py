# SPDX-License-Identifier: MIT
"""Who takes part in a comparison, and how one run of one of them goes. Every driver speaks the protocol of
driver.h, so a new peer is a program and a line in the table below."""
import json
import math
import os
import pathlib
import subprocess
import sys
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent


@dataclass(frozen=True)
class Contender:
    name: str       # "nanoflann/16": unique; what comes before the / is its family
    program: str    # of the build folder, or "python" for driver_python.py
    variant: str
    modes: dict     # mode of the case -> mode the driver is called with
    suits: str      # of "low high wide tiny": the kinds of cases it takes part in; tiny are those of --quick
    exact: bool = True  # False: its arithmetic may move pairs on the boundary; a difference is shown, no failure
    entry_bytes: int = 8  # kNN: what it holds for each neighbour
    most: float = math.inf  # kNN: neighbours in all beyond which it takes minutes

    @property
    def family(self):
        return self.name.split("/")[0]


BOTH = {"csr": "csr", "count": "count"}
ALL = {**BOTH, "knn": "knn"}
CSR = {"csr": "csr"}
KNN = {"knn": "knn"}

OURS = [
    Contender("adjoin", "driver_adjoin", "", ALL, "low high wide"),
    Contender("adjoin/any", "driver_adjoin", "", {"csr": "csr-any"}, "low high"),
    # The algorithms that the planner chooses from, where both may win.
    Contender("adjoin/kdtree", "driver_adjoin", "kdtree", KNN, "high"),
    Contender("adjoin/brute", "driver_adjoin", "brute", KNN, "high"),
]
PEERS = [
    *(Contender(f"nanoflann/{leaf}", "driver_nanoflann", leaf, ALL, "low high") for leaf in ("10", "16", "32")),
    Contender("scipy/pairs", "python", "scipy/pairs", CSR, "low high"),
    Contender("scipy/query", "python", "scipy/query", ALL, "low high", entry_bytes=32, most=150e6),
    Contender("pykdtree/16", "python", "pykdtree/16", KNN, "low"),
    Contender("pykdtree/ordered", "python", "pykdtree/ordered", KNN, "low", entry_bytes=24),
    Contender("sklearn/kdtree", "python", "sklearn/kdtree", ALL, "low", entry_bytes=32, most=40e6),
    Contender("sklearn/balltree", "python", "sklearn/balltree", BOTH, "low"),
    Contender("sklearn/brute", "python", "sklearn/brute", ALL, "high wide", entry_bytes=16),
    Contender("numpy/brute", "python", "numpy/brute", ALL, "tiny"),
    Contender("faiss/flat", "python", "faiss/flat", ALL, "high wide", exact=False, entry_bytes=12),
]


def left_out(contender, case, memory):
    """Why a contender does not take part in a kNN case of that size; None when it does."""
    entries = case.count * (case.k + 1)
    if contender in OURS or not case.k:
        return None
    if entries > contender.most:
        return f"left out: {entries / 1e6:.0f} M neighbours take it minutes"
    needed = entries * contender.entry_bytes
    return f"left out: {needed / 1e9:.1f} GB for its result" if needed > memory / 2 else None


class Failed(Exception):
    """A run that gave no result; the text says why."""


class Drivers:
    """Finds the programs and Python packages of this machine and runs contenders."""

    def __init__(self, build, python=None):
        self.build = pathlib.Path(build).resolve()
        self.python = python or self._find_python()
        self._packages = {}

    @staticmethod
    def _find_python():
        ours = HERE / ".venv" / "bin" / "python"
        return str(ours) if ours.exists() else sys.executable

    def program(self, name):
        """The path of a program of the build, or None."""
        for path in (self.build / "bench" / name, self.build / name):
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
        return None

    def has_package(self, package):
        if package not in self._packages:
            done = subprocess.run([self.python, "-c", f"import numpy, {package}"], capture_output=True, check=False)
            self._packages[package] = done.returncode == 0
        return self._packages[package]

    def missing(self, contender):
        """Why this contender cannot run here; None when it can."""
        if contender.program == "python":
            if self.has_package(contender.family):
                return None
            return f"{self.python} has no {contender.family}; bench/setup.sh installs it"
        if self.program(contender.program):
            return None
        return f"{contender.program} is not in {self.build}"

    def command(self, contender):
        if contender.program == "python":
            return [self.python, str(HERE / "driver_python.py")]
        return [self.program(contender.program)]

    def run(self, contender, points, what, mode, threads, timeout, answer=None):
        """One repeat in a process of its own; the driver's JSON line as a dict. answer: see bench_answer in driver.h."""
        args = [str(points), what, mode, str(threads), "1", contender.variant] + ([str(answer)] if answer else [])
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
        env.setdefault("ADJOIN_COSTS", "none")  # figures of this machine would change plans
        try:
            done = subprocess.run(self.command(contender) + args, capture_output=True, text=True, timeout=timeout,
                                  check=False, env=env)
        except subprocess.TimeoutExpired:
            raise Failed(f"over {timeout:g} s") from None
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            raise Failed(lines[-1])
        return json.loads(done.stdout.splitlines()[-1])
