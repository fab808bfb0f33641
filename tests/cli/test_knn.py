# SPDX-License-Identifier: MIT
"""adjoin knn: every output format holds the same neighbours, by the definition, and its bytes never depend on how it was
made; what SciPy, scikit-learn and NumPy open, they open."""
import json
import math
import os
import struct
import unittest
import zipfile

from program import ProgramTest, main, parse_npy, read_bytes, read_npy, read_npz_pairs, read_text, usable_isas

try:
    import numpy
    import scipy.sparse
    import scipy.spatial
except ImportError:
    numpy = None
try:
    import sklearn.neighbors
except ImportError:
    sklearn = None


def nearest(left, right, k, self_join):
    """The definition, in double precision: for points without ties."""
    rows = []
    for i, a in enumerate(left):
        order = sorted((math.dist(a, b), j) for j, b in enumerate(right) if not (self_join and i == j))
        rows.append([j for _, j in order[:k]])
    return rows


def read_points(path):
    (_, dim), values = read_npy(path)
    return [tuple(values[at:at + dim]) for at in range(0, len(values), dim)]


def rows_of(shape, values):
    return [values[at * shape[1]:(at + 1) * shape[1]] for at in range(shape[0])]


def read_table(path):
    """The rows of indices and of distances of a .npz file."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        arrays = {name: parse_npy(archive.read(name)) for name in archive.namelist()}
    assert list(arrays) == ["indices.npy", "distances.npy"]
    return rows_of(*arrays["indices.npy"]), rows_of(*arrays["distances.npy"])


def read_vecs(path, letter):
    data, rows, at = read_bytes(path), [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<i", data, at)
        rows.append(list(struct.unpack_from(f"<{length}{letter}", data, at + 4)))
        at += 4 + 4 * length
    return rows


def lines_of(ids, distances):
    """What a text file says of a table: (left, rank, right, distance), no padding."""
    return [(i, rank + 1, j, d) for i, (row, far) in enumerate(zip(ids, distances))
            for rank, (j, d) in enumerate(zip(row, far)) if j >= 0]


def rounded(text, letter):
    """A number of a text file in the type it was printed from."""
    return struct.unpack(letter, struct.pack(letter, float(text)))[0]


class Formats(ProgramTest):
    def write_all(self, *arguments):
        """Every format of one join; returns ids and distances, which must be the same in all."""
        for ending in "npz", "csv", "tsv":
            self.adjoin("knn", *arguments, "-o", f"near.{ending}", "-q")
        self.adjoin("knn", *arguments, "-o", "near.npy", "--distances", "far.npy", "-q")
        self.adjoin("knn", *arguments, "-o", "graph.npz", "--format", "csr", "-q")
        ids, distances = read_table("near.npz")
        wide = "f64" in arguments
        self.assertEqual(rows_of(*read_npy("near.npy")), ids)
        self.assertEqual(rows_of(*read_npy("far.npy")), distances)
        if not wide:
            self.adjoin("knn", *arguments, "-o", "near.ivecs", "--distances", "near.fvecs", "-q")
            self.assertEqual(read_vecs("near.ivecs", "i"), ids)
            self.assertEqual(read_vecs("near.fvecs", "f"), distances)
        header, lines = read_text("near.csv")
        self.assertEqual(header, ["left", "rank", "right", "distance"])
        letter = "d" if wide else "f"
        self.assertEqual([(int(a), int(n), int(b), rounded(d, letter)) for a, n, b, d in lines],
                         lines_of(ids, distances))
        self.assertEqual(read_text("near.tsv", "\t")[1], lines)
        self.assertEqual(read_npz_pairs("graph.npz"), [(i, j, d) for i, _, j, d in lines_of(ids, distances)])
        return ids, distances

    def test_all_formats_hold_the_definition(self):
        self.generate("unif", 300, 3, "p.npy")
        points = read_points("p.npy")
        ids, distances = self.write_all("-k", 7, "p.npy")
        self.assertEqual(ids, nearest(points, points, 7, True))
        for i, (row, far) in enumerate(zip(ids, distances)):
            for j, d in zip(row, far):
                self.assertAlmostEqual(d, math.dist(points[i], points[j]), delta=1e-6)

    def test_two_sets_in_f64(self):
        self.generate("unif", 200, 2, "a.npy", "--type", "f64")
        self.generate("unif", 300, 2, "b.npy", "--type", "f64", "--seed", 2)
        ids, _ = self.write_all("-k", 4, "a.npy", "b.npy", "--type", "f64")
        self.assertEqual(ids, nearest(read_points("a.npy"), read_points("b.npy"), 4, False))

    def test_more_than_there_are(self):
        """Padding: -1 and inf where the format has a place for every entry, nothing elsewhere; and a note."""
        self.generate("unif", 5, 2, "p.npy")
        ids, distances = self.write_all("-k", 7, "p.npy")
        self.assertTrue(all(sorted(row[:4]) == [j for j in range(5) if j != i] and row[4:] == [-1] * 3
                            for i, row in enumerate(ids)))
        self.assertTrue(all(row[4:] == [math.inf] * 3 for row in distances))
        done = self.adjoin("knn", "-k", 7, "p.npy", "-o", "x.npz")
        self.assertIn("note: -k 7 is more than the 4 points available: rows are padded", done.stderr)
        self.assertNotIn("note", self.adjoin("knn", "-k", 5, "p.npy", "--self", "-o", "x.npz").stderr)

    def test_within_a_radius(self):
        self.generate("unif", 400, 2, "p.npy")
        ids, distances = self.write_all("-k", 6, "p.npy", "-r", 0.06)
        found = sum(j >= 0 for row in ids for j in row)
        self.assertTrue(400 < found < 6 * 400)
        self.assertTrue(all(d <= 0.0600001 or d == math.inf for row in distances for d in row))
        self.assertEqual(self.adjoin("knn", "-k", 6, "p.npy", "-r", 0.06).stdout, f"{found}\n")
        self.adjoin("range", "-r", 0.06, "p.npy", "-o", "pairs.npz", "--distance", "--order", "distance")
        rows = {}
        for i, j, _ in read_npz_pairs("pairs.npz"):
            rows.setdefault(i, []).append(j)
        self.assertEqual([[j for j in row if j >= 0] for row in ids], [rows.get(i, [])[:6] for i in range(400)])

    def test_ids_alone_are_planned_without_distances(self):
        self.generate("unif", 300, 3, "p.npy")
        self.adjoin("knn", "-k", 3, "p.npy", "-o", "near.npz")
        for path, *more in ["near.npy"], ["NEAR.IVECS"], ["-", "--format", "npy"]:
            self.adjoin("knn", "-k", 3, "p.npy", "-o", path, "-q", *more, text=False)
        self.assertEqual(rows_of(*read_npy("near.npy")), read_table("near.npz")[0])

    def test_names_replace_numbers(self):
        with open("a.csv", "w", encoding="utf-8") as file:
            file.write('name,x,y\nVega,0,0\n"Algol, ""the demon""",0,0.5\n')
        with open("b.csv", "w", encoding="utf-8") as file:
            file.write("name,x,y\none,0,1\ntwo,0,2\nthree,0,0.5\n")
        done = self.adjoin("knn", "-k", 2, "a.csv", "b.csv", "--id", "name", "-o", "-", "-q")
        self.assertEqual(done.stdout, 'left,rank,right,distance\n'
                                      'Vega,1,three,0.5\nVega,2,one,1\n'
                                      '"Algol, ""the demon""",1,three,0\n"Algol, ""the demon""",2,one,0.5\n')

    def test_bytes_do_not_depend_on_how(self):
        self.generate("lattice", 2000, 3, "p.npy")
        ways = [["--threads", n] for n in (1, 2, 3)] + [["--isa", isa] for isa in usable_isas()]
        ways += [["--algorithm", name] for name in ("auto", "kdtree", "brute")]
        ways += [["--tuning", "buffer=5000"], ["--backend", "reference"]]
        for ending, more in ("npz", []), ("csv", []), ("ivecs", []), ("npz", ["--format", "csr", "-r", "0.2"]):
            first = None
            for way in ways:
                self.adjoin("knn", "-k", 9, "p.npy", "-o", f"way.{ending}", "-q", *more, *way)
                data = read_bytes(f"way.{ending}")
                first = first or data
                self.assertEqual(data, first, f"{ending} {way}")
            self.assertGreater(len(first), 5000)


class Reports(ProgramTest):
    def test_stats_and_summary(self):
        self.generate("unif", 2000, 3, "p.npy")
        done = self.adjoin("knn", "-k", 8, "p.npy", "-o", "near.npz", "--stats", "s.json", "--trace", "t.json",
                           "--explain", "--progress")
        self.assertIn("adjoin: the 8 nearest of 2,000 points, in ", done.stderr)
        self.assertIn("adjoin: wrote near.npz\n", done.stderr)
        self.assertIn("kNN join, k 8", done.stderr)
        self.assertIn("run: 16000 pairs", done.stderr)
        self.assertEqual(done.stdout, "")
        with open("s.json", encoding="utf-8") as file:
            stats = json.load(file)
        self.assertEqual((stats["command"], stats["k"], stats["radius"], stats["pairs"]), ("knn", 8, None, 16000))
        self.assertTrue(os.path.getsize("t.json") > 0)
        self.assertEqual(self.adjoin("knn", "-k", 8, "p.npy", "-q").stdout, "16000\n")
        plan = self.adjoin("knn", "-k", 8, "p.npy", "--dry-run")
        self.assertTrue(plan.stdout.startswith("kNN join, k 8"))

    def test_wrong_usage(self):
        self.generate("unif", 10, 2, "p.npy")
        self.generate("unif", 10, 2, "wide.npy", "--type", "f64")
        for words, *arguments in [
                ("-k K is missing", "p.npy"),
                ("-k: must be at least 1", "-k", "0", "p.npy"),
                ("-k: 4294967296 is too large", "-k", "4294967296", "p.npy"),
                ("--distances needs -o FILE", "-k", "3", "p.npy", "--distances", "d.npy"),
                ("not a format for neighbours", "-k", "3", "p.npy", "-o", "x.fvecs"),
                ("not a format for distances", "-k", "3", "p.npy", "-o", "x.npy", "--distances", "x.csv"),
                ("needs a file of its own", "-k", "3", "p.npy", "-o", "x.npy", "--distances", "x.npy"),
                ("need a file of their own", "-k", "3", "p.npy", "-o", "x.npy", "--distances", "-"),
                ("fvecs holds f32", "-k", "3", "wide.npy", "-o", "x.ivecs", "--distances", "x.fvecs"),
                ("npz needs a file", "-k", "3", "p.npy", "-o", "-", "--format", "npz"),
                ("csr needs a file", "-k", "3", "p.npy", "-o", "-", "--format", "csr"),
                ("kdtree, grid or brute", "-k", "3", "p.npy", "--algorithm", "ego"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(words, self.adjoin("knn", *arguments, code=2).stderr)
        self.assertEqual(sorted(os.listdir(".")), ["p.npy", "wide.npy"])

    def test_both_files_appear_together_or_not_at_all(self):
        self.generate("unif", 1000, 2, "p.npy")
        self.adjoin("knn", "-k", 3, "p.npy", "-o", "x.npy", "--distances", "nowhere/x.npy", code=1)
        self.adjoin("knn", "-k", 3, "p.npy", "-o", "x.npy", "--distances", "d.npy", "--max-pairs", "10", code=1)
        self.assertEqual(os.listdir("."), ["p.npy"])


@unittest.skipIf(numpy is None, "SciPy is not installed: the files were read without it")
class SciPy(ProgramTest):
    def test_load(self):
        self.generate("clusters", 2000, 3, "p.npy", "--type", "f64")
        self.adjoin("knn", "-k", 9, "p.npy", "-o", "near.npz")
        self.adjoin("knn", "-k", 9, "p.npy", "-o", "graph.npz", "--format", "csr")
        points, near = numpy.load("p.npy"), numpy.load("near.npz")
        self.assertEqual((str(near["indices"].dtype), str(near["distances"].dtype)), ("int64", "float64"))
        distances, _ = scipy.spatial.cKDTree(points).query(points, 10)
        numpy.testing.assert_allclose(near["distances"], distances[:, 1:], rtol=1e-12)
        graph = scipy.sparse.load_npz("graph.npz")
        self.assertEqual((graph.shape, str(graph.dtype), graph.format, graph.nnz), ((2000, 2000), "float64", "csr", 18000))
        self.assertTrue((graph.indices.reshape(-1, 9) == near["indices"]).all())
        self.assertTrue((graph.data.reshape(-1, 9) == near["distances"]).all())

    @unittest.skipIf(sklearn is None, "scikit-learn is not installed: the graph was read without it")
    def test_scikit_learn_takes_the_graph(self):
        self.generate("unif", 1500, 3, "p.npy", "--type", "f64")
        self.adjoin("knn", "-k", 12, "p.npy", "--self", "-o", "graph.npz", "--format", "csr")
        graph, points = scipy.sparse.load_npz("graph.npz"), numpy.load("p.npy")
        own = sklearn.neighbors.NearestNeighbors(n_neighbors=12).fit(points).kneighbors_graph(mode="distance")
        ours = sklearn.neighbors.NearestNeighbors(n_neighbors=11, metric="precomputed").fit(graph)
        numpy.testing.assert_array_equal(ours.kneighbors()[1], own.indices.reshape(-1, 12)[:, :11])


main()
