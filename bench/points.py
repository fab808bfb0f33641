# SPDX-License-Identifier: MIT
"""Point files for the cases, made once and kept in the data folder."""
import array
import pathlib
import random
import struct
import subprocess


# Real sets of the papers, which adjoin only imitates: data.md.
REAL = ("gaia", "osm", "sw2da", "sw2db", "sw3da", "sw3db", "sdss", "cooctexture", "colorhist", "layouthist", "susy", "songs")


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

    def of_case(self, case):
        """The file of a case, or its two separated by a comma, as drivers take them."""
        if case.generator == "far":
            return str(self.far(case.count, case.dim))
        left = self.generate(case.generator, case.count, case.dim, seed=2 if case.two_sets else 1)
        if case.spread:
            return str(self.spread(left, case.dim, case.spread))
        return f"{left},{self.generate(case.generator, case.count, case.dim)}" if case.two_sets else str(left)

    def real(self, name):
        """The file NAME.npy of a real set, spelt in any case; None: there is none, or it is not the name of a real set."""
        if name.lower() not in REAL or not self.folder.is_dir():
            return None
        files = sorted(path for path in self.folder.glob("*.npy") if path.stem.lower() == name.lower())
        return files[0] if files else None

    def generate(self, name, count, dim, ending="npy", seed=1):
        """Points of `adjoin generate`, f32; or all points of a real set, if its file is there."""
        if ending == "npy" and seed == 1 and self.real(name):
            return self.real(name)
        if not self.adjoin:
            raise FileNotFoundError("the program adjoin, which generates the points, is not built")
        command = [self.adjoin, "generate", name, "-n", str(count), "-d", str(dim), "--seed", str(seed), "--quiet", "-o"]

        def make(path):
            subprocess.run(command + [str(path)], check=True, stdout=subprocess.DEVNULL)
        apart = f"-seed{seed}" if seed != 1 else ""
        return self._once(f"{name.lower()}-{dim}d-{count}{apart}.{ending}", make)

    def spread(self, path, dim, kind):
        """Points of a file, changed as cases.SPREADS says."""
        def make(to):
            data = path.read_bytes()
            start = 10 + struct.unpack("<H", data[8:10])[0]
            values = array.array("f", data[start:])
            count = len(values) // dim
            if kind in ("1e6", "1e30"):
                at = count // 3 * dim
                values[at:at + dim] = array.array("f", [float(kind)] * dim)
            if kind == "-9999":
                for row in range(500 % count, count, 1000):
                    values[row * dim] = -9999
            if kind == "long":
                values[::dim] = array.array("f", (1e6 * x for x in values[::dim]))
            if kind == "line":
                for j in range(1, dim):
                    values[j::dim] = values[::dim]
            to.write_bytes(data[:start] + values.tobytes())
        return self._once(f"{path.stem}-{kind}.npy", make)

    def far(self, count, dim):
        """Uniform in a box of 4 at a million from the origin, in steps of f32 there: 1/16."""
        def make(path):
            draw = random.Random(1)
            with open(path, "wb") as file:
                file.write(npy_header(count, dim))
                for _ in range(count):
                    array.array("f", [1e6 + draw.randrange(64) / 16 for _ in range(dim)]).tofile(file)
        return self._once(f"far-{dim}d-{count}.npy", make)

    def equal(self, count, dim):
        """count times the same point."""
        def make(path):
            with open(path, "wb") as file:
                file.write(npy_header(count, dim))
                file.write(array.array("f", [0.5] * dim).tobytes() * count)
        return self._once(f"equal-{dim}d-{count}.npy", make)
