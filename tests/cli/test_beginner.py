# SPDX-License-Identifier: MIT
"""Files as astronomers, map makers and data engineers have them: what is read is said, what is doubtful is asked, and no
mistake of the kind that a result does not show ends with code 0 and silence."""
import gzip
import math
import random
import struct

from program import ProgramTest, main, read_text


def write(path, text, mode="w"):
    with open(path, mode, **({} if "b" in mode else {"encoding": "utf-8"})) as file:
        file.write(text)


def write_npy(path, rows, letter="f"):
    header = f"{{'descr': '<f{struct.calcsize(letter)}', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    header = header.ljust(117) + "\n"
    body = struct.pack(f"<{len(rows) * len(rows[0])}{letter}", *(x for row in rows for x in row))
    write(path, b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + body, "wb")


def arc(a, b):
    """Degrees between places (longitude, latitude) in degrees."""
    across = math.sin(math.radians(a[1] - b[1]) / 2)**2
    along = math.cos(math.radians(a[1])) * math.cos(math.radians(b[1])) * math.sin(math.radians(a[0] - b[0]) / 2)**2
    return math.degrees(2 * math.asin(math.sqrt(across + along)))


class Precision(ProgramTest):
    """Text is f64, and rounding that decides is said."""

    UTM = "easting,northing\n500000.1,4650000.2\n500000.4,4650000.2\n500000.1,4650000.35\n"

    def test_text_is_f64(self):
        """In f32, where northings are 0.5 apart, the nearest of the first point would be the second."""
        write("utm.csv", self.UTM)
        write("utm.tsv", self.UTM.replace(",", "\t"))
        with gzip.open("packed.csv.gz", "wt", encoding="utf-8") as file:
            file.write(self.UTM)
        for path in "utm.csv", "utm.tsv", "packed.csv.gz":
            done = self.adjoin("knn", "-k", 1, path, "-o", "near.csv")
            self.assertIn(f"adjoin: {path}: columns easting, northing, as f64\n", done.stderr)
            self.assertNotIn("warning", done.stderr)
            self.assertEqual([row[:3] for row in read_text("near.csv")[1]], [["0", "1", "2"], ["1", "1", "0"], ["2", "1", "0"]])
        done = self.adjoin("knn", "-k", 1, "utm.csv", "--type", "f32", "-o", "near.csv")
        self.assertIn("within 100 times the spacing of f32 at this magnitude (0.5 for coordinates near 4.65e+06)", done.stderr)
        self.assertIn("use --type f64", done.stderr)

    def test_stars(self):
        """A catalogue, and the same stars seen again 0.05 seconds of arc away: each is found within 0.1 seconds."""
        rng = random.Random(5)
        places = [(rng.uniform(0, 360), rng.uniform(-80, 80)) for _ in range(600)]
        seen = [(a, d + 0.05 / 3600) for a, d in places]
        for path, rows in ("cat.csv", places), ("obs.csv", seen):
            write(path, "dec,ra\n" + "".join(f"{d:.9f},{a:.9f}\n" for a, d in rows))
        radius = 0.1 / 3600
        wanted = [[str(i), str(j)] for i, a in enumerate(places) for j, b in enumerate(seen) if arc(a, b) <= radius]
        self.assertEqual(len(wanted), 600)
        done = self.adjoin("range", "-r", radius, "cat.csv", "obs.csv", "--metric", "haversine", "--unit", "degrees", "-o", "m.csv")
        self.assertEqual(read_text("m.csv")[1], wanted)
        self.assertIn("cat.csv: columns ra (longitude), dec (latitude), as f64", done.stderr)
        self.assertNotIn("warning", done.stderr)
        done = self.adjoin("range", "-r", radius, "cat.csv", "obs.csv", "--metric", "haversine", "--unit", "degrees", "--type", "f32")
        self.assertIn("spacing of f32", done.stderr)

    def warned(self, *arguments):
        return "spacing of" in self.adjoin(*arguments).stderr

    def test_warnings_of_the_radius(self):
        rng = random.Random(1)
        rows = [(4e6 + rng.random() * 1000, rng.random() * 1000) for _ in range(500)]
        write_npy("f32.npy", rows)
        write_npy("f64.npy", rows, "d")
        self.assertTrue(self.warned("range", "-r", 20, "f32.npy"))
        self.assertFalse(self.warned("range", "-r", 100, "f32.npy"))
        self.assertFalse(self.warned("range", "-r", 20, "f64.npy"))
        self.assertTrue(self.warned("range", "-r", 1e-8, "f64.npy"))
        self.assertTrue(self.warned("range", "-r", 20, "f64.npy", "--type", "f32"))
        self.assertTrue(self.warned("range", "-r", 20, "f32.npy", "--type", "f64"), "the file has no more digits")
        self.assertTrue(self.warned("count", "-r", 20, "f32.npy", "--box", 5e6))
        self.assertTrue(self.warned("knn", "-k", 3, "-r", 20, "f32.npy"))
        self.assertFalse(self.warned("range", "-r", 20, "f32.npy", "-q"))
        self.assertFalse(self.warned("range", "-r", 0, "f32.npy"), "equal points are equal in any type")
        self.assertTrue(self.warned("range", "-r", 0, "f32.npy", "f64.npy"), "but not in two")
        self.assertFalse(self.warned("range", "-r", 0.99, "f32.npy", "--metric", "cosine"))
        self.assertFalse(self.warned("range", "-r", 0.5, "f32.npy", "--metric", "dot", "--max-pairs", "1M"))

    def test_no_false_alarm(self):
        """Whole numbers are exact; a constant column, and one point far off, change nothing."""
        rng = random.Random(2)
        write_npy("pixels.npy", [(rng.randrange(4000000), rng.randrange(4000000)) for _ in range(500)])
        write_npy("constant.npy", [(2e6, rng.random()) for _ in range(500)])
        write_npy("outlier.npy", [(rng.random(), rng.random()) for _ in range(500)] + [(9e9, 9e9)])
        write_npy("equal.npy", [(0.1, 0.2)] * 500)
        write("whole.csv", "x,y\n" + "".join(f"{10**15 + rng.randrange(10**6)},{rng.randrange(100)}\n" for _ in range(99)))
        self.assertFalse(self.warned("range", "-r", 20, "pixels.npy"))
        self.assertFalse(self.warned("range", "-r", 0.01, "constant.npy"))
        self.assertFalse(self.warned("range", "-r", 0.01, "outlier.npy"))
        self.assertFalse(self.warned("knn", "-k", 3, "outlier.npy", "-o", "x.npz"))
        self.assertFalse(self.warned("knn", "-k", 3, "constant.npy", "-o", "x.npz"))
        self.assertFalse(self.warned("knn", "-k", 3, "equal.npy", "-o", "x.npz"))
        self.assertFalse(self.warned("range", "-r", 5, "whole.csv"))
        for kind in "unif", "expo", "clusters", "normal", "duplicates":
            self.generate(kind, 20000, 3, "p.npy")
            self.assertFalse(self.warned("knn", "-k", 1, "p.npy", "-o", "x.npz"), kind)
            self.assertFalse(self.warned("range", "-r", 0.01, "p.npy"), kind)

    def test_warnings_of_the_nearest(self):
        rng = random.Random(3)
        rows = [(4e6 + rng.random() * 100, rng.random() * 100) for _ in range(2000)]
        write_npy("f32.npy", rows)
        write_npy("f64.npy", rows, "d")
        for more in ["-o", "x.npz"], ["-o", "x.npy"], ["-o", "x.csv", "--tuning", "buffer=2000"], []:
            self.assertTrue(self.warned("knn", "-k", 2, "f32.npy", *more))
            self.assertFalse(self.warned("knn", "-k", 2, "f64.npy", *more))
        self.assertTrue(self.warned("knn", "-k", 2, "f64.npy", "f32.npy", "-o", "x.npz"), "the right set has f32's digits")
        self.assertTrue(self.warned("knn", "-k", 2, "f32.npy", "f64.npy", "-o", "x.npz"))
        # Degrees near 180 are 1.7 m apart in f32; f64 is fine.
        places = [(170 + rng.random() / 100, rng.random() / 100) for _ in range(500)]
        write_npy("w.npy", places)
        write_npy("v.npy", places, "d")
        self.assertTrue(self.warned("knn", "-k", 1, "w.npy", "--metric", "haversine", "-o", "x.npz"))
        self.assertTrue(self.warned("range", "-r", 100, "w.npy", "--metric", "haversine"))
        self.assertFalse(self.warned("range", "-r", 5000, "w.npy", "--metric", "haversine"))
        self.assertFalse(self.warned("knn", "-k", 1, "v.npy", "--metric", "haversine", "-o", "x.npz"))

    def test_two_types(self):
        """f32 joined with text is widened, which is exact, and said."""
        write_npy("a.npy", [(0.5, 0.25), (3, 4)])
        write("b.csv", "x,y\n0.5,0.25\n3,4.5\n")
        for files in ["a.npy", "b.csv"], ["b.csv", "a.npy"]:
            done = self.adjoin("range", "-r", 0.5, *files, "--distance", "-o", "p.csv")
            self.assertEqual(read_text("p.csv")[1], [["0", "0", "0"], ["1", "1", "0.5"]])
            self.assertIn("f32 is widened to f64, which is exact", done.stderr)
        done = self.adjoin("range", "-r", 0.5, "a.npy", "b.csv", "--type", "f32")
        self.assertNotIn("widened", done.stderr)
        self.adjoin("range", "-r", 0.5, "a.npy", "b.csv", "--memory", "100", code=1)


class Columns(ProgramTest):
    def asks(self, words, *arguments):
        done = self.adjoin(*arguments, code=2)
        self.assertIn("--columns", done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_columns_are_told(self):
        write("a.csv", "x,y,mag\n1,2,7\n1,2,8\n")
        done = self.adjoin("range", "-r", 1, "a.csv", "--columns", "y,x")
        self.assertIn("a.csv: line 1 is the header; not used: mag\n", done.stderr)
        self.assertIn("a.csv: columns y, x, as f64\n", done.stderr)
        write("b.csv", "1,2,7\n1,2,8\n")
        self.assertIn("b.csv: columns 1, 2, 3, as f64\n", self.adjoin("range", "-r", 1, "b.csv").stderr)
        self.assertIn("b.csv: columns 3, 1, as f64\n", self.adjoin("knn", "-k", 1, "b.csv", "--columns", "3,1").stderr)
        self.assertIn("standard input: columns 1, 2, as f64\n", self.adjoin("range", "-r", 1, "-", input="1,2\n").stderr)
        write("wide.csv", ",".join("1" * 50) + "\n")
        self.assertIn("12, ... (50 in all), as f64\n", self.adjoin("range", "-r", 1, "wide.csv").stderr)
        self.assertEqual(self.adjoin("range", "-r", 1, "b.csv", "-q").stderr, "")
        self.assertIn("dimension 1     2 to 2, column y\n", self.adjoin("info", "a.csv", "--columns", "y,x").stdout)

    def test_ids(self):
        rows = [(101, 0.5, 0.5), (102, 0.5, 0.75), (103, 9.5, 9.5), (104, 9.5, 9.75)]
        body = "".join(f"{i},{x},{y}\n" for i, x, y in rows)
        for name in "id", "ID", "source_id", "objID", "index", "", "Unnamed: 0", "name":
            write("a.csv", f"{name},x,y\n{body}")
            self.asks("give --columns x,y, or --columns ", "range", "-r", 0.5, "a.csv")
            self.assertEqual(self.adjoin("range", "-r", 0.5, "a.csv", "--columns", "x,y").stdout, "4\n")
            self.assertEqual(self.adjoin("range", "-r", 0.5, "a.csv", "--id", "1", "-o", "-").stdout,
                             "left,right\n101,102\n102,101\n103,104\n104,103\n")
        write("b.csv", body)
        self.asks("column 1 goes up by one from row to row", "range", "-r", 0.5, "b.csv")
        self.assertEqual(self.adjoin("range", "-r", 0.5, "b.csv", "--columns", "2-3").stdout, "4\n")
        self.assertEqual(self.adjoin("range", "-r", 0.5, "b.csv", "--columns", "1-3").stdout, "0\n")

    def test_one_file_twice(self):
        """A join of two sets has every point beside itself: that is said."""
        write("a.csv", "x,y\n0.5,2\n")
        done = self.adjoin("range", "-r", 1, "a.csv", "./a.csv")
        self.assertEqual(done.stdout, "1\n")
        self.assertIn("a.csv and ./a.csv are one file", done.stderr)

    def test_box_with_a_comma(self):
        write("a.csv", "x,y\n0.5,2\n")
        self.assertIn("--box: dimension 1 is not periodic", self.adjoin("range", "-r", 0.1, "a.csv", "--box", "0,5").stderr)

    def test_another_order(self):
        write("a.csv", "x,y\n1,2\n")
        write("b.csv", "y,x\n2,1\n")
        self.asks("same columns in another order", "range", "-r", 1, "a.csv", "b.csv")
        self.assertEqual(self.adjoin("range", "-r", 0, "a.csv", "b.csv", "--columns", "x,y").stdout, "1\n")


class Places(ProgramTest):
    CITIES = {"Oslo": (10.75, 59.91), "Bergen": (5.32, 60.39), "Rome": (12.5, 41.9)}

    def nearest(self, *arguments):
        done = self.adjoin("knn", "-k", 1, *arguments, "--metric", "haversine", "-o", "-")
        return [line.split(",") for line in done.stdout.splitlines()[1:]], done.stderr

    def test_any_order(self):
        for header, order in (("name,lat,lon", (1, 0)), ("name,Longitude,Latitude", (0, 1)), ("name,DEC,RA", (1, 0)),
                              ("name,RAJ2000,DEJ2000", (0, 1)), ('name,"lat (deg)","lng (deg)"', (1, 0))):
            write("c.csv", header + "\n" + "".join(f"{n},{p[order[0]]},{p[order[1]]}\n" for n, p in self.CITIES.items()))
            rows, told = self.nearest("c.csv", "--id", "name")
            self.assertEqual([row[2] for row in rows], ["Bergen", "Oslo", "Oslo"])
            self.assertAlmostEqual(float(rows[0][3]), 305135.4, delta=1)
            self.assertIn("(longitude), ", told)
        rows, told = self.nearest("c.csv", "--columns", "lat (deg),lng (deg)")
        self.assertEqual(rows[0][2], "1")
        self.assertIn('columns lng (deg) (longitude), lat (deg) (latitude), as f64', told)

    def test_asks(self):
        write("n.csv", "59.91,10.75\n60.39,5.32\n")
        write("x.csv", "x,y\n10.75,59.91\n5.32,60.39\n")
        for path, words in ("n.csv", "such as --columns 1,2"), ("x.csv", "longitude first; the file has x, y"):
            done = self.adjoin("range", "-r", 400e3, path, "--metric", "haversine", code=2)
            self.assertIn("--columns: no", done.stderr)
            self.assertIn(words, done.stderr)
        self.assertEqual(self.nearest("n.csv", "--columns", "2,1")[0][0][2], "1")
        self.assertEqual(self.nearest("x.csv", "--columns", "x,y")[0][0][2], "1")
        write_npy("b.npy", [(10.75, 59.91), (5.32, 60.39)])
        self.assertIn("b.npy: columns 1 (longitude), 2 (latitude), as f32", self.nearest("b.npy")[1])

    def test_ranges(self):
        for text, words in (("0,0\n361,0\n", "row 2, column 1: longitude 361 is beyond 360 degrees"),
                            ("0,0\n-360.5,0\n", "row 2, column 1: longitude -360.5 is beyond 360 degrees"),
                            ("500000,4650000\n", "row 1, column 1: longitude 500000 is beyond"),
                            ("0,0\n10,90.5\n", "row 2, column 2: latitude 90.5 is beyond a pole")):
            write("p.csv", "lon,lat\n" + text)
            done = self.adjoin("range", "-r", 1, "p.csv", "--metric", "haversine", code=1)
            self.assertIn("p.csv: " + words, done.stderr)
        write("p.csv", "lon,lat\n7,0\n")
        done = self.adjoin("range", "-r", 1, "p.csv", "--metric", "haversine", "--angle", "radians", code=1)
        self.assertIn("longitude 7 is beyond a turn", done.stderr)
        write("p.csv", "lon,lat\n6.2831855,0\n359,0\n-360,0\n")
        self.adjoin("range", "-r", 1, "p.csv", "--metric", "haversine")

    def test_units(self):
        write("p.csv", "lon,lat\n-3,-1.2\n3,1.5\n0.5,0.1\n")
        done = self.adjoin("range", "-r", 100, "p.csv", "--metric", "haversine")
        self.assertIn("coordinates look like radians, and are taken as degrees", done.stderr)
        self.assertIn("radius 100 metres, coordinates in degrees", done.stderr)
        done = self.adjoin("range", "-r", 0.1, "p.csv", "--metric", "haversine", "--angle", "radians", "--unit", "radians")
        self.assertNotIn("warning", done.stderr)
        self.assertIn("radius 0.1 radians, coordinates in radians", done.stderr)
        done = self.adjoin("range", "-r", 200, "p.csv", "--metric", "haversine", "--angle", "degrees", "--unit", "degrees")
        self.assertIn("reaches around the sphere", done.stderr)

    def test_degrees_on_a_plane(self):
        """Places measured by l2 are a warning, unless l2 was asked for."""
        write("p.csv", "lon,lat,h\n10,60,3\n10,60,4\n")
        self.assertIn("--metric haversine", self.adjoin("range", "-r", 1, "p.csv").stderr)
        self.assertNotIn("warning", self.adjoin("range", "-r", 1, "p.csv", "--metric", "l2").stderr)
        self.assertNotIn("warning", self.adjoin("range", "-r", 1, "p.csv", "--metric", "haversine").stderr)


class NotATable(ProgramTest):
    def test_refused(self):
        for content, words in ((b'{"x": [1, 2]}', "looks like JSON"), (b"<html>1,2</html>", "looks like HTML"),
                               (b"x,y\r1,2\r", "carriage return"), ("x,y\n1,2\n".encode("utf-16"), "looks like UTF-16"),
                               (b"%PDF-1.4\n", "looks like a PDF"), (b"PK\3\4..", "zip archive"), (b"PAR1..", "Parquet"),
                               (b"<?xml?><VOTABLE>", "looks like a VOTable"), (b"", "is empty"), (b"\n\n", "no rows"),
                               (b"x,y\n", "no rows follow: there are no points"), (b"x,y", "no rows follow"),
                               (b"404: Not Found\n", "no points")):
            for path in "a.csv", "a.txt", "a.dat":
                write(path, content, "wb")
                done = self.adjoin("range", "-r", 1, path, "-o", "out.csv", code=1)
                self.assertIn(words, done.stderr)
                self.assertIn(path + ": ", done.stderr)
        self.adjoin("range", "-r", 1, "out.csv", code=1)

    def test_no_points(self):
        """Not in a binary file either, and in neither of two files."""
        write_npy("some.npy", [(1, 2)])
        write("none.raw", b"", "wb")
        for files in ["none.raw"], ["none.raw", "some.npy"], ["some.npy", "none.raw"]:
            for join in ["range", "-r", 1], ["knn", "-k", 1], ["count", "-r", 1]:
                done = self.adjoin(*join, *files, "--shape", "f32:2", code=1)
                self.assertIn("none.raw: has no points", done.stderr)
                self.assertEqual(done.stdout, "")

    def test_numbers(self):
        for row, words in (("1,5;2,5", "a number has a decimal point"), ("12:34:56;2", "an angle or a time must be one number"),
                           ("NA;2", "missing values"), (";2", "the field is empty"), ("NaN;2", "not a finite"),
                           ("1 234;2", "no separators between thousands")):
            write("a.csv", f"x;y\n1;2\n{row}\n")
            done = self.adjoin("range", "-r", 1, "a.csv", code=1)
            self.assertIn("a.csv: line 3, column 1: ", done.stderr)
            self.assertIn(words, done.stderr)
        done = self.adjoin("range", "-r", "0,5", "a.csv", code=2)
        self.assertIn('--radius: "0,5" is not a number; decimals are written with a point', done.stderr)


main()
