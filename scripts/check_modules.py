#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the module graph of src/. Prints what is wrong and fails.

A module is a .c or .cu file and the headers of the same stem in the same folder, or a header alone. Its parts belong to
it: X_private.h, other headers X_* that only files of X include, and sources X_* without a header of their own.

Wrong are: a cycle between modules; an include of an upper folder; a function that is declared in the header of one
module and defined in another; a source of src/ that does not include core/exact.h, itself or through others.
"""
import re
import sys
from pathlib import Path

# Folders from below. A folder includes those above it in this list, and those of its own line.
ORDER = [
    ["core"],
    ["data", "distance"],
    ["index", "result"],
    ["queue"],
    ["cpu"],
    ["gpu/device"],
    ["gpu/shared"],
    ["gpu/index"],
    ["gpu/select"],
    ["gpu/brute"],
    ["gpu/range", "gpu/knn", "gpu/papers"],  # papers has other kernels for the two, built on parts of theirs
    ["gpu/worker"],
    ["plan"],
    ["cluster"],
    ["io"],
    ["mpi"],  # libadjoin_mpi
    ["apps"],  # which joins by adjoin.h alone, and has memory, threads and messages from core
    ["cli"],  # which includes no file of src/
    ["cli/mpi"],
]

# KNOWN: findings that wait to be mended, by how their lines begin. Delete what is no longer found.
KNOWN = []

ROOT = Path(__file__).resolve().parent.parent
HEADERS, SOURCES = (".h", ".cuh"), (".c", ".cu")
NOT_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
# A function that begins a line and is not static: its name, and whether a body follows.
FUNCTION = re.compile(r"^(?!static\b|typedef\b|return\b|else\b)[A-Za-z_][\w \t*]*?\b(adji_\w+)\(([^;{}]*)\)\s*([;{])",
                      re.MULTILINE)


def read_files():
    """{path: text} of src/ and cli/, where src/index/grid.c is index/grid.c."""
    files = {}
    for top, prefix in ((ROOT / "src", ""), (ROOT / "cli", "cli/")):
        for file in sorted(top.rglob("*")):
            if file.suffix in HEADERS + SOURCES:
                files[prefix + file.relative_to(top).as_posix()] = file.read_text(encoding="utf-8")
    return files


def includes(path, text, files):
    """Our files that a file includes, by their path from src/ or from its own folder."""
    folder = path.rsplit("/", 1)[0]
    for name in INCLUDE.findall(text):
        found = [file for file in (name, f"{folder}/{name}") if file in files]
        yield from found[:1]


def owner_of(stem, stems):
    """X of the longest X_ that the stem begins with and that has a header; None: there is none."""
    folder, name = stem.rsplit("/", 1)
    while "_" in name:
        name = name.rsplit("_", 1)[0]
        if stems.get(f"{folder}/{name}", set()) & set(HEADERS):
            return f"{folder}/{name}"
    return None


def find_modules(files):
    """{path: module}."""
    stems, includers = {}, {}
    for path, text in files.items():
        stem, suffix = path.rsplit(".", 1)
        stems.setdefault(stem, set()).add("." + suffix)
        for target in includes(path, text, files):
            includers.setdefault(target.rsplit(".", 1)[0], set()).add(stem)
    owners = {stem: owner_of(stem, stems) for stem, suffixes in stems.items()
              if suffixes <= set(HEADERS) or suffixes <= set(SOURCES)}

    def module(stem):
        return module(owners[stem]) if owners.get(stem) else stem

    def is_foreign(stem):
        return not stem.endswith("_private") and any(module(other) != module(stem) for other in includers.get(stem, ()))

    while foreign := [stem for stem in owners if owners[stem] and is_foreign(stem)]:
        for stem in foreign:
            owners[stem] = None
    return {path: module(path.rsplit(".", 1)[0]) for path in files}


def build_graph(files, modules):
    """{module: the modules that it includes}."""
    graph = {module: set() for module in modules.values()}
    for path, text in files.items():
        graph[modules[path]] |= {modules[target] for target in includes(path, text, files)} - {modules[path]}
    return graph


def components(graph):
    """Sets of modules that reach each other (Tarjan), those of one module left out."""
    number, low, stack, found = {}, {}, [], []

    def visit(module):
        number[module] = low[module] = len(number)
        stack.append(module)
        for target in graph[module]:
            if target not in number:
                visit(target)
            if target in stack:
                low[module] = min(low[module], low[target])
        if low[module] == number[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(set(stack[at:]))
            del stack[at:]

    for module in graph:
        if module not in number:
            visit(module)
    return found


def shortest_cycle(graph, members):
    """A shortest cycle through the first of the modules."""
    start = min(members)
    paths = [[start]]
    for path in paths:
        for target in sorted(graph[path[-1]] & members):
            if target == start:
                return path + [start]
            if not any(target in p for p in paths):
                paths.append(path + [target])
    raise AssertionError("no cycle")


def check_cycles(graph):
    for members in components(graph):
        cycle = shortest_cycle(graph, members)
        yield f"cycle: {' -> '.join(cycle)} ({len(members)} modules reach each other)"


def level_of(path):
    folder = path.rsplit("/", 1)[0]
    for level, folders in enumerate(ORDER):
        if folder in folders:
            return level
    sys.exit(f"check_modules: the folder of {path} is not in ORDER")


def check_folders(files):
    for path, text in files.items():
        for target in includes(path, text, files):
            above = level_of(target) > level_of(path)
            public = path.startswith("apps/") and not target.startswith(("apps/", "core/"))  # by adjoin.h alone
            if above or public or (path.startswith("cli/") and not target.startswith("cli/")):
                yield f"upward: {path} includes {target}"


def functions(files, suffixes, end):
    for path, text in files.items():
        if path.endswith(suffixes):
            for name, _, last in FUNCTION.findall(NOT_CODE.sub(" ", text)):
                if last == end:
                    yield name, path


def check_functions(files, modules):
    declared = dict(functions(files, HEADERS, ";"))
    for name, path in functions(files, SOURCES, "{"):
        header = declared.get(name)
        if header and modules[header] != modules[path]:
            yield f"elsewhere: {name} is declared in {header} and defined in {path}"


def check_exact(files):
    reached = {path: set(includes(path, text, files)) for path, text in files.items()}
    for path in files:
        if path.startswith("cli/") or not path.endswith(SOURCES):
            continue
        found, new = set(), {path}
        while new:
            found |= new
            new = set().union(*(reached[file] for file in new)) - found
        if "core/exact.h" not in found:
            yield f"flags: {path} does not include core/exact.h"


def main():
    files = read_files()
    modules = find_modules(files)
    graph = build_graph(files, modules)
    findings = [*check_cycles(graph), *check_folders(files), *check_functions(files, modules),
                *check_exact(files)]
    wrong = [finding for finding in findings if not finding.startswith(tuple(KNOWN))]
    gone = [known for known in KNOWN if not any(finding.startswith(known) for finding in findings)]
    for line in wrong:
        print(line)
    for line in gone:
        print(f"note: KNOWN, but no longer found: {line}")
    if wrong:
        return 1
    print(f"modules: {len(graph)} in order, {len(findings)} known findings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
