#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the linked files say about themselves, in the build and after an installation: which folders the loader searches,
and which protections they have. A library planted in the current folder is not run.
  test_binaries.py BUILD_DIR C_COMPILER PLANTED.c PROTECTIONS      (comma-separated, as in cmake/AdjoinHarden.cmake)
"""
import os
import re
import subprocess
import sys
import tempfile

build, compiler, planted_source, protections = sys.argv[1:]
protections = set(protections.split(",")) - {""}
errors = []


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, **more)


def expect(condition, path, text):
    if not condition:
        errors.append(f"{path}: {text}")


def is_elf(path):
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        head = file.read(18)
    return head[:4] == b"\x7fELF" and head[16] in (2, 3)  # a program or a shared library: no object file


def find_binaries(folder):
    found = []
    for at, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f not in ("CMakeFiles", "Testing")]
        found += [os.path.join(at, f) for f in files if is_elf(os.path.join(at, f))]
    return sorted(found)


def search_path(path):
    found = re.findall(r"\((?:RUNPATH|RPATH)\)\s+Library r\w+: \[(.*)\]", run("readelf", "-dW", path).stdout)
    return [entry for text in found for entry in text.split(":")]


def check_search_path(path, also_from_build):
    for entry in search_path(path):
        absolute = entry.startswith("/") or entry == "$ORIGIN" or entry.startswith("$ORIGIN/")
        expect(absolute, path, f'the loader searches "{entry}", which is the current folder or one relative to it')
        if not also_from_build:
            expect(not entry.startswith(build), path, f"is installed, and the loader searches {entry}")


def needs_canary(path):
    """Tiny test programs may have no buffer to protect, and no string function to check; what we install has both."""
    return os.path.basename(path).startswith(("adjoin", "libadjoin"))


def check_protections(path):
    dynamic = run("readelf", "-dW", path).stdout
    segments = run("readelf", "-hlW", path).stdout
    symbols = run("readelf", "--dyn-syms", "-W", path).stdout
    stack = re.search(r"GNU_STACK(?:\s+0x\w+){5}\s+(\S+)", segments)
    if "pie" in protections:
        expect("DYN (" in segments, path, "is loaded at a fixed address")
    if "relro" in protections:
        expect("GNU_RELRO" in segments, path, "has no part that becomes read-only")
    if "now" in protections:
        expect("BIND_NOW" in dynamic or re.search(r"Flags:.*\bNOW\b", dynamic), path, "binds its functions late")
    if "noexecstack" in protections:
        expect(stack and "E" not in stack.group(1), path, "wants an executable stack")
    if "stack-protector" in protections and needs_canary(path):
        expect("__stack_chk_fail" in symbols, path, "has no stack protector")
    if protections & {"fortify-2", "fortify-3"} and needs_canary(path):
        expect(re.search(r"__\w+_chk\b", symbols.replace("__stack_chk", "")), path, "has no checked string functions")
    expect(not re.search(r"\bTEXTREL\b", dynamic), path, "has relocations in its code")


def check_objects(archive):
    """Marks of the processor's control-flow protection. A linked file has them only if the C library's own objects do."""
    notes = run("readelf", "-nW", archive).stdout.split("\nFile: ")[1:]
    expect(len(notes) > 20, archive, "has no objects")
    for object_notes in notes:
        name = object_notes.splitlines()[0]
        if "cet" in protections:
            expect("IBT" in object_notes and "SHSTK" in object_notes, name, "is compiled without -fcf-protection")
        if "branch-protection" in protections:
            expect("BTI" in object_notes, name, "is compiled without -mbranch-protection")


def make_library(folder, name, source):
    made = run(compiler, "-shared", "-fPIC", "-nostartfiles", "-o", os.path.join(folder, name), "-Wl,-soname," + name, source)
    assert not made.returncode, made.stderr


def check_planted(program, work):
    """Every library that the program needs is in the current folder. With one of these it ends at once: it is run, or
    lacks what the program needs. As a control, the loader is told to look there."""
    needed = re.findall(r"=> (\S+)", run("ldd", program).stdout)
    names = {os.path.basename(path) for path in needed} | {"libm.so.6", "libc.so.6", "libz.so.1", "libhdf5.so", "libadjoin.so"}
    shelf = tempfile.mkdtemp(dir=work)
    make_library(shelf, "libm.so.6", planted_source)
    for name in names - {"libm.so.6"}:
        os.link(os.path.join(shelf, "libm.so.6"), os.path.join(shelf, name))
    clean = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}
    result = run(program, "info", cwd=shelf, env=clean)
    expect(not result.returncode, program, f"takes a library of the current folder: {result.stdout}{result.stderr}")
    result = run(program, "info", cwd=shelf, env={**clean, "LD_LIBRARY_PATH": ":"})
    expect(result.returncode, program, "the planted libraries do no harm, so this test shows nothing")


with tempfile.TemporaryDirectory() as work:
    installed = run("cmake", "--install", build, "--prefix", "/usr", env={**os.environ, "DESTDIR": work + "/root"})
    assert not installed.returncode, installed.stdout + installed.stderr
    here, there = find_binaries(build), find_binaries(work + "/root")
    print(f"{len(here)} linked files in the build, {len(there)} installed; expecting {', '.join(sorted(protections))}")
    expect(len(here) >= 2 and there, build, "has too few linked files")
    for each in here + there:
        check_search_path(each, each in here)
        check_protections(each)
    check_objects(os.path.join(build, "src", "libadjoin.a"))
    for each in here + there:
        if os.path.basename(each) == "adjoin":
            if not each.startswith(build + "/installed"):  # whose library is found after the installation only
                check_planted(each, work)
if errors:
    sys.exit("\n".join(errors))
