# SPDX-License-Identifier: MIT
"""What the tests of the program share: running it in an empty folder, and reading what it wrote."""
import ast
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

os.environ["ADJOIN_COSTS"] = "none"  # plans must not depend on what was measured on this machine
ADJOIN = os.path.realpath(sys.argv[1]) if len(sys.argv) > 1 else "adjoin"
FORMATS = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q", "<u4": "I", "|b1": "?"}


class ProgramTest(unittest.TestCase):
    """Each test runs in an empty folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

    def adjoin(self, *arguments, code=0, **options):
        """Runs the program and checks its exit code; arguments may be numbers."""
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done

    def generate(self, kind, count, dim, path, *more):
        self.adjoin("generate", kind, "-n", count, "-d", dim, "-o", path, *more)


def run(*arguments, **options):
    options.setdefault("text", True)
    options.setdefault("timeout", 120)
    return subprocess.run([ADJOIN, *map(str, arguments)], stdout=options.pop("stdout", subprocess.PIPE),
                          stderr=subprocess.PIPE, check=False, **options)


def start(*arguments, **options):
    return subprocess.Popen([ADJOIN, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            text=True, **options)


def parse_npy(data):
    """The shape and the values (rows as tuples where there are fields) of a .npy file."""
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    length = struct.unpack("<H", data[8:10])[0]
    assert (10 + length) % 64 == 0
    header = ast.literal_eval(data[10:10 + length].decode())
    assert header["fortran_order"] is False
    descr, body = header["descr"], data[10 + length:]
    count = 1
    for extent in header["shape"]:
        count *= extent
    if descr == "|S3":
        return header["shape"], body
    if isinstance(descr, list):
        record = struct.Struct("<" + "".join(FORMATS[kind] for _, kind in descr))
        assert len(body) == count * record.size
        return header["shape"], list(record.iter_unpack(body))
    letter = FORMATS[descr]
    assert len(body) == count * struct.calcsize("<" + letter)
    return header["shape"], list(struct.unpack(f"<{count}{letter}", body))


def read_npy(path):
    with open(path, "rb") as file:
        return parse_npy(file.read())


def read_npz_pairs(path):
    """(left, right, value) of a sparse matrix, in order; zipfile checks the checksums on the way."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        arrays = {name[:-4]: parse_npy(archive.read(name)) for name in archive.namelist()}
    assert arrays["format"][1] == b"csr"
    indptr, indices, data = (arrays[name][1] for name in ("indptr", "indices", "data"))
    rows, _ = arrays["shape"][1]
    assert len(indptr) == rows + 1 and indptr[0] == 0 and indptr[-1] == len(indices) == len(data)
    return [(row, indices[at], data[at]) for row in range(rows) for at in range(indptr[row], indptr[row + 1])]


def read_text(path, separator=","):
    """The header and the rows of a file without quotes."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    assert lines[-1] == ""
    return lines[0].split(separator), [line.split(separator) for line in lines[1:-1]]


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def usable_isas():
    for line in run("info").stdout.splitlines():
        if line.startswith("instructions"):
            return line.split("(")[0].split()[1:]
    raise AssertionError("adjoin info does not list the instruction sets")


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
