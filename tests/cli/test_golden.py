# SPDX-License-Identifier: MIT
"""Golden tests: golden/NAME.sh is run by sh in an empty folder, and what it prints must be exactly NAME.out and
NAME.err, and its exit code the number in NAME.exit (0 without). Times, rates and memory are masked by #.

  test_golden.py ADJOIN             compare
  test_golden.py ADJOIN --update    write what is printed now, to be read before it is committed
"""
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent / "golden"
MASKS = [(r" in [0-9.:]+( s)?( \([a-z][^)]*\))?", " in #"), (r"[0-9.]+( [kMGTP])? (pairs|points)/s", r"# \2/s"),
         (r"peak memory .*", "peak memory #"), (r"read in( +)[0-9.]+ s", r"read in\1#"),
         (r"\.part-[0-9]+", ".part-#")]


def mask(text):
    for pattern, replacement in MASKS:
        text = re.sub(pattern, replacement, text)
    return text


def run_script(script, program):
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, PATH=f"{os.path.dirname(program)}:{os.environ['PATH']}", LC_ALL="C")
        done = subprocess.run(["sh", "-e", str(script)], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)
    return {".out": mask(done.stdout), ".err": mask(done.stderr), ".exit": f"{done.returncode}\n"}


def expected(script, ending):
    path = script.with_suffix(ending)
    return path.read_text(encoding="utf-8") if path.exists() else {".exit": "0\n"}.get(ending, "")


def update(script, results):
    for ending, text in results.items():
        path = script.with_suffix(ending)
        if text == {".exit": "0\n"}.get(ending, ""):
            path.unlink(missing_ok=True)
        else:
            path.write_text(text, encoding="utf-8")


def compare(script, results):
    good = True
    for ending, text in results.items():
        wanted = expected(script, ending)
        if text != wanted:
            good = False
            sys.stdout.writelines(line if line.endswith("\n") else line + "\n" for line in difflib.unified_diff(
                wanted.splitlines(True), text.splitlines(True), f"{script.stem}{ending}", "printed now"))
    return good


def main():
    program = os.path.realpath(sys.argv[1])
    scripts = sorted(HERE.glob("*.sh"))
    failures = 0
    for script in scripts:
        results = run_script(script, program)
        if "--update" in sys.argv:
            update(script, results)
        elif compare(script, results):
            print(f"ok      {script.stem}")
        else:
            failures += 1
            print(f"FAILED  {script.stem}")
    print(f"{len(scripts) - failures} of {len(scripts)} passed")
    return 1 if failures or not scripts else 0


sys.exit(main())
