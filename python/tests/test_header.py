# SPDX-License-Identifier: MIT
"""Compares the ctypes declarations with adjoin.h and adjoin_cuda.h.

A small C program prints the size of each struct, the offset and size of each member, and the values of enumerators.
Functions are compared argument by argument with the prototypes in the text of the headers.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from adjoin import _declarations as d
from adjoin import _errors

ROOT = Path(__file__).parents[2]
HEADERS = [ROOT / "include" / "adjoin.h", ROOT / "include" / "adjoin_cuda.h"]
if not HEADERS[0].exists():
    pytest.skip("the headers are not here", allow_module_level=True)
STRUCTS = [*d.SIZED, *d.PASSED]


def text() -> str:
    """Both headers without comments and directives."""
    source = "".join(header.read_text() for header in HEADERS)
    source = re.sub(r"/\*.*?\*/|//[^\n]*", " ", source, flags=re.S)
    return re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*$", "", source, flags=re.M)


def enumerators() -> list[str]:
    return [name for name in vars(d) if name.startswith("ADJ_")]


def members(struct: Any) -> list[str]:
    return [field[0] for field in struct._fields_]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The compiler's values of sizes, offsets and enumerators, by C expression."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler")
    expressions = [f"sizeof({struct.__name__})" for struct in STRUCTS]
    for struct in STRUCTS:
        for member in members(struct):
            expressions.append(f"offsetof({struct.__name__}, {member})")
            expressions.append(f"sizeof((({struct.__name__} *)0)->{member})")
    expressions += enumerators()
    folder = tmp_path_factory.mktemp("header")
    version = (ROOT / "VERSION").read_text().strip()
    (folder / "adjoin_version.h").write_text(f'#define ADJ_VERSION_STRING "{version}"\n')
    lines = "\n".join(f'  printf("%lld\\n", (long long)({expression}));' for expression in expressions)
    program = folder / "offsets.c"
    program.write_text(f"#include <stdio.h>\n#include <adjoin_cuda.h>\nint main(void) {{\n{lines}\n}}\n")
    includes = [f"-I{folder}", f"-I{ROOT / 'include'}"]
    subprocess.run([compiler, *includes, "-o", folder / "offsets", program], check=True)
    printed = subprocess.run([folder / "offsets"], check=True, capture_output=True, text=True).stdout.split()
    return dict(zip(expressions, map(int, printed), strict=True))


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_structs(struct: Any, compiled: dict[str, int]) -> None:
    name = struct.__name__
    assert ctypes.sizeof(struct) == compiled[f"sizeof({name})"]
    for member in members(struct):
        field = getattr(struct, member)
        assert field.offset == compiled[f"offsetof({name}, {member})"], member
        assert field.size == compiled[f"sizeof((({name} *)0)->{member})"], member


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_members(struct: Any) -> None:
    """Every member of a struct is declared, in the header's order and with the same kind of type."""
    body = re.search(r"typedef struct %s \{(.*?)\} %s;" % (struct.__name__, struct.__name__), text(), re.S)
    assert body is not None
    declared: list[tuple[str, str]] = []
    for statement in body[1].split(";"):
        callback = re.search(r"\(\*(\w+)\)\(", statement)
        if callback:
            declared.append((callback[1], "function"))
        elif statement.strip():
            first, *others = statement.split(",")
            words = re.match(r"\s*(.*?)(\w+)(\[\d+\])?\s*$", first, re.S)
            assert words is not None
            kind = kind_of(words[1])
            declared += [(words[2], "char[]" if words[3] else kind)]
            declared += [(name.strip(), kind) for name in others]
    assert [name for name, _ in declared] == members(struct)
    for (name, kind), field in zip(declared, struct._fields_):
        assert kind in kinds_of(field[1]), name


def kind_of(words: str) -> str:
    """The kind of a C type: a width, an enumeration, a pointer or a string."""
    words = " ".join(words.replace("const", " ").split())
    if "*" in words or words == "adj_cuda_stream":
        return "string" if words == "char *" else "pointer"
    return "enum" if words.startswith("adj_") or words == "int" else words


def kinds_of(kind: Any) -> set[str]:
    """The kinds of C types that a ctypes type may stand for."""
    table: dict[Any, set[str]] = {
        d.u32: {"uint32_t"},
        d.i32: {"int32_t", "enum"},
        d.u64: {"uint64_t"},
        d.size: {"size_t", "uint64_t"},
        d.real: {"double"},
        d.enum: {"enum", "int32_t"},
        d.text: {"string"},
        d.pointer: {"pointer", "string"},
        None: {"void"},
    }
    if kind in table:
        return table[kind]
    if issubclass(kind, ctypes.Array):
        return {"char[]"}
    return {"pointer"} if kind is ctypes.POINTER(d.i32) else {"function"}


@pytest.mark.parametrize("name", sorted(d.FUNCTIONS))
def test_functions(name: str) -> None:
    found = re.search(r"ADJ_API\s+([^;()]*?)\b%s\s*\(([^;]*)\);" % name, text(), re.S)
    assert found is not None, "the headers have no such function"
    result, *arguments = d.FUNCTIONS[name]
    assert kind_of(found[1]) in kinds_of(result)
    parameters = [] if found[2].strip() == "void" else [part.strip() for part in found[2].split(",")]
    assert len(parameters) == len(arguments)
    for parameter, argument in zip(parameters, arguments):
        words = re.match(r"(.*?)(\w+)$", parameter, re.S)
        assert words is not None
        assert kind_of(words[1]) in kinds_of(argument), parameter


def test_enumerators(compiled: dict[str, int]) -> None:
    for name in enumerators():
        assert getattr(d, name) == compiled[name], name


def test_every_status_has_an_exception() -> None:
    codes = re.findall(r"X\((ADJ_\w+), (-?\d+),", HEADERS[0].read_text())
    missing = [
        name for name, code in codes if name not in ("ADJ_OK", "ADJ_E_INTERNAL") and int(code) not in _errors._KINDS
    ]
    assert missing == []
