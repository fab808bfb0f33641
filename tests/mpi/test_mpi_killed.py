#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A rank that is killed, or calls MPI_Abort, ends the whole job within seconds.
  test_mpi_killed.py MPIEXEC NUMPROC_FLAG PROGRAM
"""
import subprocess
import sys
import time

mpiexec, flag, program = sys.argv[1:]
for how in ("kill", "abort"):
    for call in (2, 9, 17):
        begun = time.monotonic()
        ended = subprocess.run([mpiexec, flag, "3", program, how, str(call)], capture_output=True, timeout=60, check=False)
        seconds = time.monotonic() - begun
        print(f"{how} in call {call}: exit code {ended.returncode} after {seconds:.1f} s")
        if ended.returncode == 0 or seconds > 30:
            sys.exit(f"{how} in call {call}: the job did not end as it should")
