# SPDX-License-Identifier: MIT
"""Who takes part in a comparison, and how one run of one of them goes. Every driver speaks the protocol of
driver.h, so a new peer is a program and a line in the table below."""
import json
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
    suits: str      # of "low high tiny": the kinds of cases it takes part in; tiny are those of --quick
    exact: bool = True  # False: its arithmetic may move pairs on the boundary; a difference is shown, no failure

    @property
    def family(self):
        return self.name.split("/")[0]


BOTH = {"csr": "csr", "count": "count"}
CSR = {"csr": "csr"}

OURS = [
    Contender("adjoin", "driver_adjoin", "", BOTH, "low high"),
    Contender("adjoin/any", "driver_adjoin", "", {"csr": "csr-any"}, "low high"),
]
PEERS = [
    *(Contender(f"nanoflann/{leaf}", "driver_nanoflann", leaf, BOTH, "low high") for leaf in ("10", "16", "32")),
    Contender("scipy/pairs", "python", "scipy/pairs", CSR, "low high"),
    Contender("scipy/query", "python", "scipy/query", BOTH, "low high"),
    Contender("sklearn/kdtree", "python", "sklearn/kdtree", BOTH, "low"),
    Contender("sklearn/balltree", "python", "sklearn/balltree", BOTH, "low"),
    Contender("sklearn/brute", "python", "sklearn/brute", BOTH, "high"),
    Contender("numpy/brute", "python", "numpy/brute", BOTH, "tiny"),
    Contender("faiss/flat", "python", "faiss/flat", BOTH, "high", exact=False),
]


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

    def run(self, contender, path, radius, mode, threads, timeout):
        """One repeat in a process of its own; the driver's JSON line as a dict."""
        args = [str(path), repr(radius), mode, str(threads), "1", contender.variant]
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
        try:
            done = subprocess.run(self.command(contender) + args, capture_output=True, text=True, timeout=timeout,
                                  check=False, env=env)
        except subprocess.TimeoutExpired:
            raise Failed(f"over {timeout:g} s") from None
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            raise Failed(lines[-1])
        return json.loads(done.stdout.splitlines()[-1])
