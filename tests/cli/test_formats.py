# SPDX-License-Identifier: MIT
"""Every output format holds the same pairs, whoever reads it; and its bytes never depend on how it was made."""
import math
import struct
import unittest

from program import ProgramTest, main, read_bytes, read_npy, read_npz_pairs, read_text, usable_isas

try:
    import scipy.sparse
except ImportError:
    scipy = None


def nearby(points, radius):
    """All pairs by the definition, in double precision: for radii that no distance comes near to."""
    pairs = []
    for i, a in enumerate(points):
        for j, b in enumerate(points):
            distance = math.dist(a, b)
            assert abs(distance - radius) > 1e-6, "the test's radius is too near to a distance"
            if i != j and distance <= radius:
                pairs.append((i, j, distance))
    return pairs


class Formats(ProgramTest):
    def join(self, path, *more):
        self.adjoin("range", "-r", 0.125, "points.npy", "-o", path, "-q", *more)

    def check_all(self, *more):
        """Writes all four formats with distances; returns the pairs, which must be the same in all."""
        for ending in "npz", "csv", "tsv", "npy":
            self.join(f"pairs.{ending}", "--distance", *more)
        header, lines = read_text("pairs.csv")
        self.assertEqual(header, ["left", "right", "distance"])
        pairs = read_npz_pairs("pairs.npz")
        shape, records = read_npy("pairs.npy")
        self.assertEqual(shape, (len(pairs),))
        self.assertEqual(records, pairs)
        # A float of the file, printed in the fewest digits, is the float of the text.
        letter = "d" if "f64" in more else "f"
        exact = [(int(a), int(b), struct.unpack(letter, struct.pack(letter, float(d)))[0]) for a, b, d in lines]
        self.assertEqual(exact, pairs)
        self.assertEqual(read_text("pairs.tsv", "\t")[1], lines)
        return pairs

    def test_all_formats_hold_the_definition(self):
        self.generate("unif", 400, 2, "points.npy")
        values = read_npy("points.npy")[1]
        points = list(zip(values[0::2], values[1::2]))
        wanted = nearby(points, 0.125)
        pairs = self.check_all()
        self.assertEqual([p[:2] for p in pairs], [p[:2] for p in wanted])
        for (_, _, got), (_, _, right) in zip(pairs, wanted):
            self.assertAlmostEqual(got, right, delta=1e-6)

    def test_f64(self):
        self.generate("unif", 400, 2, "points.npy", "--type", "f64")
        self.assertGreater(len(self.check_all("--type", "f64")), 1000)

    def test_without_distances(self):
        self.generate("unif", 400, 2, "points.npy")
        for ending in "npz", "csv", "tsv", "npy":
            self.join(f"pairs.{ending}")
        pairs = [pair[:2] for pair in read_npz_pairs("pairs.npz")]
        self.assertTrue(all(value is True for _, _, value in read_npz_pairs("pairs.npz")))
        header, lines = read_text("pairs.csv")
        self.assertEqual(header, ["left", "right"])
        self.assertEqual([(int(a), int(b)) for a, b in lines], pairs)
        self.assertEqual(read_text("pairs.tsv", "\t")[1], lines)
        shape, flat = read_npy("pairs.npy")
        self.assertEqual(shape, (len(pairs), 2))
        self.assertEqual(list(zip(flat[0::2], flat[1::2])), pairs)

    def test_counts(self):
        self.generate("unif", 400, 2, "points.npy")
        self.join("pairs.npz")
        wanted = [0] * 400
        for left, _, _ in read_npz_pairs("pairs.npz"):
            wanted[left] += 1
        for ending in "npy", "csv", "tsv":
            done = self.adjoin("count", "-r", 0.125, "points.npy", "-o", f"counts.{ending}")
            self.assertEqual(done.stdout, f"{sum(wanted)}\n")
        self.assertEqual(read_npy("counts.npy"), ((400,), wanted))
        header, lines = read_text("counts.csv")
        self.assertEqual(header, ["id", "count"])
        self.assertEqual([(int(a), int(b)) for a, b in lines], list(enumerate(wanted)))
        self.assertEqual(read_text("counts.tsv", "\t")[1], lines)
        self.assertEqual(self.adjoin("range", "-r", 0.125, "points.npy").stdout, f"{sum(wanted)}\n")

    def test_two_sets_and_modes(self):
        self.generate("unif", 300, 2, "points.npy")
        self.generate("unif", 200, 2, "other.npy", "--seed", 2)
        self.adjoin("range", "-r", 0.125, "points.npy", "other.npy", "-o", "two.csv")
        self.adjoin("range", "-r", 0.125, "other.npy", "points.npy", "-o", "back.csv")
        there = {(a, b) for a, b in read_text("two.csv")[1]}
        back = {(b, a) for a, b in read_text("back.csv")[1]}
        self.assertEqual(there, back)
        self.assertGreater(len(there), 500)
        self.join("all.csv")
        self.join("once.csv", "--one-way")
        self.join("self.csv", "--self")
        all_pairs = {(int(a), int(b)) for a, b in read_text("all.csv")[1]}
        once = {(int(a), int(b)) for a, b in read_text("once.csv")[1]}
        self.assertEqual(once, {(a, b) for a, b in all_pairs if a < b})
        self.assertEqual({(int(a), int(b)) for a, b in read_text("self.csv")[1]},
                         all_pairs | {(i, i) for i in range(300)})

    def test_order_by_distance(self):
        self.generate("unif", 300, 2, "points.npy")
        self.join("near.npy", "--distance", "--order", "distance")
        records = read_npy("near.npy")[1]
        self.assertEqual(records, sorted(records, key=lambda r: (r[0], r[2], r[1])))

    def test_standard_output_and_input(self):
        self.generate("unif", 300, 2, "points.npy")
        self.join("pairs.csv", "--distance")
        self.join("pairs.npy")
        to_stdout = self.adjoin("range", "-r", 0.125, "points.npy", "--distance", "-o", "-", "-q")
        self.assertEqual(to_stdout.stdout.encode(), read_bytes("pairs.csv"))
        with open("points.npy", "rb") as points:
            piped = self.adjoin("range", "-r", 0.125, "-", "--input-format", "npy", "-o", "-", "--format", "npy",
                                stdin=points, text=False)
        self.assertEqual(piped.stdout, read_bytes("pairs.npy"))

    def test_empty_result(self):
        self.generate("unif", 50, 2, "points.npy")
        for ending in "npz", "csv", "npy":
            self.adjoin("range", "-r", 1e-9, "points.npy", "-o", f"none.{ending}", "--distance")
        self.assertEqual(read_npz_pairs("none.npz"), [])
        self.assertEqual(read_bytes("none.csv"), b"left,right,distance\n")
        self.assertEqual(read_npy("none.npy"), ((0,), []))

    def test_bytes_do_not_depend_on_how(self):
        """Threads, instruction sets, small buffers, backends: the same file."""
        self.generate("clusters", 4000, 3, "points.npy")
        ways = [["--threads", n] for n in (1, 2, 3)] + [["--isa", isa] for isa in usable_isas()]
        ways += [["--tuning", "buffer=65536"], ["--backend", "reference"]]
        for ending in "npz", "csv", "npy":
            first = None
            for way in ways:
                self.adjoin("range", "-r", 0.02, "points.npy", "--distance", "-o", f"way.{ending}", "-q", *way)
                data = read_bytes(f"way.{ending}")
                first = first or data
                self.assertEqual(data, first, f"{ending} {way}")
            self.assertGreater(len(first), 10000)


class Mapped(ProgramTest):
    def test_a_file_larger_than_the_limit(self):
        self.generate("unif", 200000, 2, "points.npy")
        self.adjoin("count", "-r", 0.01, "points.npy", "-o", "read.csv")
        self.adjoin("count", "-r", 0.01, "points.npy", "-o", "mapped.csv", "--map")
        self.assertEqual(read_bytes("read.csv"), read_bytes("mapped.csv"))
        done = self.adjoin("info", "points.npy", "--map")
        self.assertIn("200,000", done.stdout)
        done = self.adjoin("count", "-r", 0.01, "points.npy", "--memory", "1M", code=1)
        self.assertIn("adjoin: points.npy: the input: needs 1.5 MiB, but the limit is 1.0 MiB; "
                      "a mapped file takes none of it (--map,", done.stderr)

    def test_text_is_read(self):
        with open("points.csv", "w", encoding="utf-8") as file:
            file.write("0,0\n1,1\n")
        done = self.adjoin("count", "-r", 2, "points.csv", "--map")
        self.assertIn("points.csv: --map: is for regular files of binary values; this one is read", done.stderr)


class Labels(ProgramTest):
    def test_names_replace_numbers_and_are_quoted(self):
        with open("stars.csv", "w", encoding="utf-8") as file:
            file.write('name,x,y\nVega,0,0\n"Algol, the ""demon""",0,0.5\n"# 3",0,1\nfar,9,9\n')
        done = self.adjoin("range", "-r", 0.5, "stars.csv", "--id", "name", "--distance", "-o", "-", "-q")
        self.assertEqual(done.stdout,
                         'left,right,distance\n'
                         'Vega,"Algol, the ""demon""",0.5\n'
                         '"Algol, the ""demon""",Vega,0.5\n'
                         '"Algol, the ""demon""","# 3",0.5\n'
                         '"# 3","Algol, the ""demon""",0.5\n')
        counts = self.adjoin("count", "-r", 0.5, "stars.csv", "--id", "name", "-o", "-", "-q", "--format", "tsv")
        self.assertEqual(counts.stdout, 'id\tcount\nVega\t1\n"Algol, the ""demon"""\t2\n"# 3"\t1\nfar\t0\n')


class Points(ProgramTest):
    def test_every_format_reads_back(self):
        """Points written in any format join to the same file."""
        for kind in "f32", "f64":
            self.generate("clusters", 1000, 3, "points.npy", "--type", kind)
            self.adjoin("range", "-r", 0.05, "points.npy", "-o", "wanted.csv", "--distance")
            for ending in ("csv", "tsv", "raw") + (("fvecs", "fbin") if kind == "f32" else ()):
                path = f"points.{ending}"
                self.generate("clusters", 1000, 3, path, "--type", kind)
                shape = ["--shape", f"{kind}:3"] if ending == "raw" else []
                self.adjoin("range", "-r", 0.05, path, "-o", "got.csv", "--distance", "--type", kind, *shape)
                self.assertEqual(read_bytes("got.csv"), read_bytes("wanted.csv"), path)

    def test_f32_formats_refuse_f64(self):
        done = self.adjoin("generate", "unif", "-n", 10, "-d", 2, "--type", "f64", "-o", "p.fvecs", code=2)
        self.assertIn("fvecs holds f32 and the points are f64", done.stderr)


@unittest.skipIf(scipy is None, "SciPy is not installed: the .npz files were read without it")
class SciPy(ProgramTest):
    def test_load_npz(self):
        self.generate("clusters", 2000, 3, "points.npy")
        self.adjoin("range", "-r", 0.02, "points.npy", "-o", "far.npz", "--distance")
        self.adjoin("range", "-r", 0.02, "points.npy", "-o", "near.npz")
        far, near = scipy.sparse.load_npz("far.npz"), scipy.sparse.load_npz("near.npz")
        self.assertEqual((far.shape, str(far.dtype), far.format), ((2000, 2000), "float32", "csr"))
        self.assertEqual((near.shape, str(near.dtype)), ((2000, 2000), "bool"))
        self.assertTrue(far.has_canonical_format and (far.indices == near.indices).all())
        self.assertEqual(abs(far - far.T).max(), 0)
        coo = far.tocoo()
        self.assertEqual(list(zip(coo.row.tolist(), coo.col.tolist(), coo.data.tolist())), read_npz_pairs("far.npz"))


main()
