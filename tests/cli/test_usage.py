# SPDX-License-Identifier: MIT
"""What goes wrong, is said on standard error, and ends with the right code: 1 failed, 2 wrong usage."""
import os
import re
import subprocess

from program import ADJOIN, ProgramTest, main, read_bytes

MANUAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "man", "adjoin.1")


class Usage(ProgramTest):
    def refuses(self, words, *arguments, code=2):
        done = self.adjoin(*arguments, code=code)
        self.assertEqual(done.stdout, "")
        for word in words if isinstance(words, tuple) else (words,):
            self.assertIn(word, done.stderr)

    def test_wrong_usage(self):
        self.generate("unif", 10, 2, "p.npy")
        for words, arguments in [
                ("Commands", []),
                (('no command "rnage"', "range?"), ["rnage"]),
                (("no option --raduis", "--radius?"), ["range", "--raduis", "1", "p.npy"]),
                ("no option -x", ["range", "-x", "p.npy"]),
                ("-r RADIUS is missing", ["range", "p.npy"]),
                ("the file of points is missing", ["range", "-r", "1"]),
                ("one argument too many", ["range", "-r", "1", "a", "b", "c"]),
                ('"one" is not a number', ["range", "-r", "one", "p.npy"]),
                ("is negative", ["range", "-r", "-1", "p.npy"]),
                ("needs a value", ["range", "p.npy", "-r"]),
                ("takes no value", ["range", "-r", "1", "p.npy", "--distance=3"]),
                ("is none of l2, l1, linf", ["range", "-r", "1", "p.npy", "--metric", "euclid"]),
                ("not a size", ["range", "-r", "1", "p.npy", "--memory", "4X"]),
                ('"0,x" is not a list of GPUs', ["range", "-r", "1", "p.npy", "--devices", "0,x"]),
                ('"1," is not a list of GPUs', ["count", "-r", "1", "p.npy", "--devices", "1,"]),
                ('"-1" is not a list of GPUs', ["knn", "-k", "1", "p.npy", "--devices", "-1"]),
                ("not a count", ["range", "-r", "1", "p.npy", "--max-pairs", "-3"]),
                ("only one of", ["range", "-r", "1", "p.npy", "-o", "-", "--stats", "-"]),
                ("only one of the two", ["range", "-r", "1", "-", "-"]),
                ("--one-way is for one file", ["range", "-r", "1", "p.npy", "p.npy", "--one-way"]),
                ("cannot be combined", ["range", "-r", "1", "p.npy", "--self", "--one-way"]),
                ("--format needs -o FILE", ["range", "-r", "1", "p.npy", "--format", "csv"]),
                ("not a format for pairs", ["range", "-r", "1", "p.npy", "-o", "x.docx"]),
                ("has no ending that names a format for pairs", ["range", "-r", "1", "p.npy", "-o", "pairs"]),
                ("not a format for counts", ["count", "-r", "1", "p.npy", "-o", "x.npz"]),
                ("npz needs a file", ["range", "-r", "1", "p.npy", "-o", "-", "--format", "npz"]),
                ("kind of points is missing", ["generate", "-n", "5", "-o", "x.npy"]),
                ("-o FILE is missing", ["generate", "unif", "-n", "5", "-d", "2"]),
                ("-k K is missing", ["knn", "p.npy"]),
                (("no option --rad", "--radius?"), ["range", "--rad", "1", "p.npy"]),
                ("no option --foo\n", ["range", "--foo", "p.npy"]),
                (("--count: ", "how many points"), ["generate", "unif", "-d", "2", "-o", "x.npy"]),
                (("--dim: ", "how many dimensions"), ["generate", "unif", "-n", "5", "-o", "x.npy"]),
                ('--tuning: "colour=red": is not one of', ["range", "-r", "1", "p.npy", "--tuning", "colour=red"]),
                ('--isa: "mmx" is none of avx512, avx2, neon, scalar', ["range", "-r", "1", "p.npy", "--isa", "mmx"]),
                ('--system: "lbjoin" is for range joins', ["knn", "-k", "1", "p.npy", "--system", "lbjoin"]),
                ("--max-pairs: 0: must be at least 1", ["range", "-r", "1", "p.npy", "--max-pairs", "0"]),
                ("--memory: 0: must be at least 1", ["range", "-r", "1", "p.npy", "--memory", "0"]),
                ("--count: 0: must be at least 1", ["generate", "unif", "-n", "0", "-d", "2", "-o", "x.npy"]),
                ("--dim: 0: must be at least 1", ["generate", "unif", "-n", "5", "-d", "0", "-o", "x.npy"]),
                ("radians; give metres: kilometres times 1000", ["range", "-r", "1", "p.npy", "--unit", "km"]),
                (("no option --eps", "--radius?"), ["dbscan", "--eps", "1", "p.npy"]),
                (("no option --min-samples", "--min-points?"), ["dbscan", "--min-samples", "1", "p.npy"]),
                (("no option --radians", "--angle radians?"), ["range", "--radians", "p.npy"]),
                (("no option -k", "'adjoin knn'"), ["range", "-k", "3", "p.npy"]),
                ("is no whole number from 1 to 10", ["range", "-r", "1", "p.npy", "--tuning", "indexed=99"]),
        ]:
            with self.subTest(arguments=arguments):
                self.refuses(words, *arguments)
        self.assertEqual(os.listdir("."), ["p.npy"])

    def test_failures(self):
        self.generate("unif", 10, 2, "p.npy")
        self.generate("unif", 10, 3, "p3.npy")
        self.generate("unif", 10, 2, "wide.npy", "--type", "f64")
        os.mkdir("folder.csv")
        for words, arguments in [
                (("nosuch.npy", "No such file"), ["range", "-r", "1", "nosuch.npy"]),
                (("p.npy has 2 dimensions", "p3.npy has 3"), ["range", "-r", "1", "p.npy", "p3.npy"]),
                (("folder.csv", "Is a directory"), ["range", "-r", "1", "p.npy", "-o", "folder.csv"]),
                (("nowhere/x.csv", "its folder does not exist"), ["range", "-r", "1", "p.npy", "-o", "nowhere/x.csv"]),
                (("nowhere/x.json", "No such file"), ["range", "-r", "1", "p.npy", "--stats", "nowhere/x.json"]),
                (("nowhere/x.json", "No such file"), ["range", "-r", "1", "p.npy", "--trace", "nowhere/x.json"]),
                (("folder.csv", "Is a directory"), ["range", "-r", "1", "p.npy", "--stats", "folder.csv"]),
                ("--max-pairs: the result has more than the 50 pairs", ["range", "-r", "9", "p.npy", "--max-pairs", "50", "-o", "x.csv"]),
        ]:
            with self.subTest(arguments=arguments):
                self.refuses(words, *arguments, code=1)
        self.assertEqual(sorted(os.listdir(".")), ["folder.csv", "p.npy", "p3.npy", "wide.npy"])
        self.adjoin("range", "-r", 1, "p.npy", "wide.npy", "--type", "f64")

    def test_memory_limit(self):
        self.generate("unif", 100000, 2, "p.npy")
        self.refuses(("the limit is 4.0 KiB", "raise it"), "range", "-r", "1", "p.npy", "--memory", "4kb", code=1)

    def test_one_pair(self):
        self.generate("unif", 2, 2, "p.npy")
        self.assertIn("adjoin: 1 pair, 0.5 per point", self.adjoin("range", "-r", 9, "p.npy", "--one-way").stderr)

    def test_which_file(self):
        """What only the join finds wrong is told with the file that has it."""
        for name, text in ("good.csv", "1,1\n2,2\n"), ("zero.csv", "1,1\n0,0\n"):
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)
        for files in ["zero.csv"], ["good.csv", "zero.csv"], ["zero.csv", "good.csv"]:
            self.refuses("adjoin: zero.csv: row 2: all coordinates", "range", "-r", "0.1", *files, "--metric", "cosine",
                         code=1)
        done = self.adjoin("range", "-r", "0.1", "-", "--metric", "cosine", code=1, input="0,0\n")
        self.assertIn("adjoin: standard input: row 1: all", done.stderr)

    def test_options_without_a_meaning(self):
        self.generate("unif", 10, 2, "p.npy")
        done = self.adjoin("range", "-r", "1", "p.npy", "--columns", "1", "--id", "2")
        self.assertIn("warning: p.npy: --columns: has no meaning for npy files", done.stderr)
        self.assertIn("note: p.npy: --id: has no meaning for npy files", done.stderr)

    def test_selftest(self):
        self.adjoin("selftest", "--backend", "reference", "--case", "two points, apart")
        done = self.adjoin("selftest", "--backend", "reference", "--case", "no such case", code=2)
        self.assertIn("no case has this in its name: no such case", done.stderr)
        parts = [self.adjoin("selftest", "--backend", "reference", "--case", " points, apart", "--part", part).stdout
                 for part in ("1/2", "2/2")]
        self.assertEqual(sorted(part.splitlines()[-1] for part in parts), ["1 passed, 0 failed"] * 2)
        for part in ("0/2", "3/2", "2", "1/2/3", "-1/2"):
            self.refuses("--part: not I/N with I from 1 to N: " + part, "selftest", "--part", part)
        if "devices         none" in self.adjoin("info").stdout:
            done = self.adjoin("selftest", "--backend", "gpu", "--case", "two points", code=77)
            self.assertIn("gpu cannot run here", done.stdout)
        self.adjoin("selftest", "--backend", "cpu", "--isa", "no such set", code=1)

    def test_backends(self):
        """A GPU gives the CPU's bytes; where there is none, the reason is told."""
        self.generate("unif", 300, 3, "p.npy")
        told = self.adjoin("info").stdout
        for join in (["range", "-r", "0.2"], ["knn", "-k", "2"]):
            self.adjoin(*join, "p.npy", "-o", "cpu.npz", "--devices", "none")
            self.adjoin(*join, "p.npy", "--backend", "gpu", "--devices", "none", code=1)
            for backend in (["gpu"], ["hybrid", "--tuning", "share=rates"]):
                asked = join + ["p.npy", "-o", "gpu.npz", "--backend"] + backend
                if "devices         none" in told:
                    self.refuses("--backend: ", *asked, code=1)
                    self.assertFalse(os.path.exists("gpu.npz"))
                else:
                    self.adjoin(*asked)
                    self.assertEqual(read_bytes("gpu.npz"), read_bytes("cpu.npz"))
        self.refuses("share=fixed", "knn", "-k", "2", "p.npy", "--tuning", "paper.n_large=0.2")

    def test_ways_to_write_an_option(self):
        self.generate("unif", 100, 2, "p.npy")
        answers = {self.adjoin("range", *way, "p.npy").stdout
                   for way in (["-r", ".25"], ["-r.25"], ["--radius=0.25"], ["--radius", "2.5e-1"])}
        self.assertEqual(len(answers), 1)
        self.generate("unif", "0.1k", 2, "q.npy")
        self.assertEqual(read_bytes("p.npy"), read_bytes("q.npy"))
        self.generate("unif", "0.0001m", 2, "m.npy", "--memory", "1g")
        self.assertEqual(read_bytes("p.npy"), read_bytes("m.npy"))
        self.generate("unif", 100, 2, "f.npy", "--type", "float32", "--memory", "1GB", "--format", "NPY")
        self.assertEqual(read_bytes("p.npy"), read_bytes("f.npy"))
        for here, names in ("l2", ["L2", "euclidean"]), ("l1", ["manhattan", "CityBlock"]), ("linf", ["Chebyshev"]):
            told = {self.adjoin("range", "-r", 0.25, "p.npy", "--metric", name).stdout for name in [here, *names]}
            self.assertEqual(len(told), 1)
        for unit in "metres", "meters", "M":
            self.adjoin("range", "-r", 1, "p.npy", "--metric", "haversine", "--unit", unit, "--isa", "Scalar")
        os.rename("q.npy", "-q.npy")
        self.assertEqual({self.adjoin("range", "-r.25", "--", "-q.npy").stdout}, answers)

    def test_existing_files(self):
        """A result replaces a file, follows a link, and leaves devices alone."""
        self.generate("unif", 100, 2, "p.npy")
        with open("old.csv", "w", encoding="utf-8") as file:
            file.write("old")
        os.symlink("old.csv", "link.csv")
        self.adjoin("range", "-r", 0.1, "p.npy", "-o", "link.csv")
        self.assertTrue(os.path.islink("link.csv"))
        self.assertTrue(read_bytes("old.csv").startswith(b"left,right\n"))
        self.adjoin("range", "-r", 0.1, "p.npy", "-o", "/dev/null", "--format", "csv")
        self.adjoin("range", "-r", 0.1, "p.npy", "--stats", "/dev/null", "--trace", "/dev/null")
        self.assertFalse(os.path.isfile("/dev/null"))
        self.assertEqual(sorted(os.listdir(".")), ["link.csv", "old.csv", "p.npy"])

    def test_help_of_every_command(self):
        for command in "range", "knn", "count", "generate", "info", "selftest":
            page = self.adjoin(command, "--help")
            self.assertEqual(page.stdout, self.adjoin("help", command).stdout)
            self.assertIn(f"Usage: adjoin {command}", page.stdout)
            self.assertEqual(page.stderr, "")
            for line in page.stdout.splitlines():
                self.assertLessEqual(len(line), 100, line)

    def test_examples_of_every_command(self):
        """What --help shows can be typed as it stands, given files of these names."""
        self.generate("unif", 500, 3, "points.npy")
        self.generate("unif", 50, 8, "query.fvecs")
        self.generate("unif", 200, 8, "base.fvecs")
        for name in "stars", "radio", "shops", "homes", "fixes", "stations", "points":
            with open(f"{name}.csv", "w", encoding="utf-8") as file:
                file.write("x,y,z\n0,0,0\n1,2,2\n" if name in ("shops", "homes", "fixes", "stations", "points")
                           else "name,x,y,z\na,0,0,0\nb,1,2,2\n")
        for command in [], ["range"], ["knn"], ["count"], ["dbscan"], ["generate"], ["info"]:
            page = self.adjoin(*command, "--help").stdout.split("Usage:")[0].split("Commands")[0]
            lines = [line for line in page.splitlines() if line.startswith("  adjoin ")]
            self.assertGreaterEqual(len(lines), 2)
            for line in lines:
                example = re.split("   +", line.strip())[0].split("  ")[0]
                if "--calibrate" in example:
                    continue  # takes ten seconds, and test_costs_calibrate does it
                self.adjoin(*example.split()[1:])

    def test_examples_of_the_manual(self):
        """The same of the manual page, from an empty folder. Python's examples need SciPy and are checked elsewhere."""
        with open(MANUAL, encoding="utf-8") as file:
            examples = file.read().split(".Sh EXAMPLES")[1].split("\n.Sh ")[0]
        lines = "\n".join(re.findall(r"\.Bd -literal[^\n]*\n(.*?)\.Ed", examples, re.DOTALL)).replace("\\e", "\\")
        script = "\n".join(line for line in lines.splitlines() if not line.startswith("python3 "))
        path = os.path.dirname(ADJOIN) + os.pathsep + os.environ["PATH"]
        done = subprocess.run(["sh", "-eu", "-c", script], env={**os.environ, "PATH": path}, capture_output=True,
                              text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in "Oslo,1,Hamburg,", "Rome,Naples\n":
            self.assertIn(line, done.stdout)


main()
