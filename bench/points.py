# SPDX-License-Identifier: MIT
"""Point files for the cases, made once and kept in the data folder."""
import array
import pathlib
import struct
import subprocess


def npy_header(count, dim):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count}, {dim}), }}"
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


class Points:
    """The data folder."""

    def __init__(self, folder, adjoin):
        self.folder = pathlib.Path(folder)
        self.adjoin = adjoin  # path of the program

    def _once(self, name, make):
        """The file of this name, made by make(path) when it is not there yet."""
        path = self.folder / name
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_name("partial-" + name)
            make(partial)
            partial.rename(path)
        return path

    def generate(self, name, count, dim, ending="npy"):
        """Points of `adjoin generate`, f32, seed 1."""
        if not self.adjoin:
            raise FileNotFoundError("the program adjoin, which generates the points, is not built")
        command = [self.adjoin, "generate", name, "-n", str(count), "-d", str(dim), "--quiet", "-o"]

        def make(path):
            subprocess.run(command + [str(path)], check=True, stdout=subprocess.DEVNULL)
        return self._once(f"{name.lower()}-{dim}d-{count}.{ending}", make)

    def equal(self, count, dim):
        """count times the same point."""
        def make(path):
            with open(path, "wb") as file:
                file.write(npy_header(count, dim))
                file.write(array.array("f", [0.5] * dim).tobytes() * count)
        return self._once(f"equal-{dim}d-{count}.npy", make)
