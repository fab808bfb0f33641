# SPDX-License-Identifier: MIT
"""adjoin-mpi under mpirun: the same bytes as adjoin writes, for any number of ranks; and what happens when a rank fails.

Arguments: adjoin, adjoin-mpi, mpirun. More ranks than cores, so only what is needed, on few points.
"""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

import hdf5_files
from program import ProgramTest, main

MPI = [os.path.realpath(sys.argv[2]), sys.argv[3]]
del sys.argv[2:4]
os.environ.update({"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
                   "OMPI_MCA_btl": "self,vader", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"})

# MPICH's mpirun kills all ranks when one is gone, so that a part file may stay, and may return 0 after Ctrl-C.
IS_HYDRA = "HYDRA" in subprocess.run([MPI[1], "--version"], capture_output=True, text=True, check=False).stdout


def command(ranks, *arguments):
    return [MPI[1], "-n", str(ranks), MPI[0], *map(str, arguments), "--threads", "1", "--no-sync"]


def on_small_disk(arguments):
    """Runs a command with the folder "small", a file system of 256 KiB; prints what is left in it."""
    script = 'mkdir small && mount -t tmpfs -o size=256k none small && { "$@"; code=$?; ls -A small; exit $code; }'
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *arguments]


def is_running(process):
    """Not one that has ended and waits for its parent to see it."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class MpiTest(ProgramTest):
    def mpi(self, ranks, *arguments, code=0, **options):
        options.setdefault("timeout", 120)
        done = subprocess.run(command(ranks, *arguments), capture_output=True, text=True, check=False, **options)
        self.assertEqual(done.returncode, code, f"{ranks} {arguments}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
        return done

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()

    def check(self, ranks, *arguments, outputs=("-o", "out.npz")):
        """Runs both programs with these outputs (option, name, ...) and compares every byte of the files."""
        names = outputs[1::2]
        expected = []
        self.adjoin(*arguments, *outputs, "--threads", 1)
        for name in names:
            expected.append(self.read(name))
            os.remove(name)
        before = sorted(os.listdir("."))
        for many in ranks:
            with self.subTest(ranks=many, arguments=arguments, outputs=outputs):
                self.mpi(many, *arguments, *outputs, "-q")
                for name, whole in zip(names, expected):
                    self.assertTrue(self.read(name) == whole, f"{name} differs with {many} ranks")
                    os.remove(name)
                self.assertEqual(sorted(os.listdir(".")), before)


class SameBytes(MpiTest):
    def setUp(self):
        super().setUp()
        self.generate("clusters", 2003, 3, "a.npy")

    def test_rank_counts(self):
        self.check((1, 2, 3, 5, 8), "range", "-r", 0.05, "a.npy", "--distance")
        self.check((2, 5), "knn", "-k", 7, "a.npy")

    def test_distributions(self):
        for distribution in "replicated", "ring", "halo":
            self.adjoin("range", "-r", 0.05, "a.npy", "-o", "one.npz")
            self.adjoin("knn", "-k", 5, "a.npy", "-o", "near.npz")
            self.mpi(3, "range", "-r", 0.05, "a.npy", "-o", "two.npz", "--distribution", distribution, "-q")
            self.assertEqual(self.read("one.npz"), self.read("two.npz"))
            self.mpi(3, "knn", "-k", 5, "a.npy", "-o", "two.npz", "--distribution", distribution, "-q")
            self.assertEqual(self.read("near.npz"), self.read("two.npz"))

    def test_chosen_distributions(self):
        """In many dimensions a sample of the points decides."""
        self.generate("clusters", 30000, 16, "clusters.npy")
        self.generate("unif", 30000, 16, "unif.npy")
        for name, radius, distribution in ("clusters", 0.01, "halo"), ("unif", 0.5, "ring"):
            for join in ("knn", "-k", 4), ("range", "-r", radius):
                self.adjoin(*join, f"{name}.npy", "-o", "one.npz")
                done = self.mpi(4, *join, f"{name}.npy", "-o", "two.npz", "--explain")
                with self.subTest(points=name, join=join[0]):
                    self.assertEqual(self.read("one.npz"), self.read("two.npz"))
                    self.assertRegex(done.stderr + done.stdout, rf"distribution  {distribution}: by a sample")

    def test_formats_of_pairs(self):
        for name in "out.csv", "out.tsv", "out.npy":
            self.check((3,), "range", "-r", 0.05, "a.npy", outputs=("-o", name))
        self.check((3,), "range", "-r", 0.05, "a.npy", "--distance", outputs=("-o", "out.csv"))
        self.check((2,), "range", "-r", 0.05, "a.npy", "--distance", "--one-way", outputs=("-o", "out.npy"))
        self.check((2,), "range", "-r", 0.05, "a.npy", "--self", "--order", "distance")

    def test_formats_of_neighbours(self):
        for name in "out.csv", "out.npy", "out.ivecs":
            self.check((3,), "knn", "-k", 4, "a.npy", outputs=("-o", name))
        self.check((3,), "knn", "-k", 4, "a.npy", outputs=("-o", "out.ivecs", "--distances", "out.fvecs"))
        self.check((3,), "knn", "-k", 4, "-r", 0.01, "a.npy", "--format", "csr")
        self.check((3,), "knn", "-k", 4, "-r", 0.01, "a.npy")

    def test_counts(self):
        for name in "out.npy", "out.csv":
            self.check((3,), "count", "-r", 0.05, "a.npy", outputs=("-o", name))
        total = self.adjoin("count", "-r", 0.05, "a.npy").stdout
        self.assertEqual(self.mpi(3, "count", "-r", 0.05, "a.npy").stdout, total)
        self.assertEqual(self.mpi(2, "range", "-r", 0.05, "a.npy").stdout, total)

    def test_two_sets(self):
        self.generate("unif", 700, 3, "b.npy", "--type", "f64")
        self.check((3,), "knn", "-k", 3, "a.npy", "b.npy")
        self.check((2,), "range", "-r", 0.1, "b.npy", "a.npy", "--distance", outputs=("-o", "out.csv"))

    def test_streamed(self):
        """Results that do not fit the memory of the ranks."""
        self.adjoin("knn", "-k", 300, "a.npy", "-o", "one.npz")
        done = self.mpi(2, "knn", "-k", 300, "a.npy", "-o", "two.npz", "--memory", "5M")
        self.assertIn("rows are written as they are found", done.stderr)
        self.assertEqual(self.read("one.npz"), self.read("two.npz"))
        self.generate("unif", 10000, 3, "b.npy")
        self.adjoin("range", "-r", 0.2, "b.npy", "-o", "one.csv")
        done = self.mpi(2, "range", "-r", 0.2, "b.npy", "-o", "two.csv", "--memory", "10M")
        self.assertIn("rows are written as they are found", done.stderr)
        self.assertEqual(self.read("one.csv"), self.read("two.csv"))

    def test_few_points(self):
        """Ranks without points, and results without pairs."""
        self.generate("unif", 3, 2, "few.npy")
        self.check((5,), "range", "-r", 2, "few.npy", "--distance")
        self.check((5,), "range", "-r", 0, "few.npy")
        self.check((5,), "knn", "-k", 5, "few.npy")
        self.check((2,), "knn", "-k", 5, "few.npy", outputs=("-o", "out.csv"))


class Inputs(MpiTest):
    def test_read_by_rows(self):
        for name in "a.fbin", "a.fvecs", "a.npy":
            self.generate("unif", 501, 4, name)
            self.check((3,), "knn", "-k", 3, name, outputs=("-o", "out.npy"))
        self.generate("unif", 501, 4, "a.raw")
        self.check((3,), "knn", "-k", 3, "a.raw", "--shape", "f32:4", outputs=("-o", "out.npy"))

    @unittest.skipIf(hdf5_files.LIBRARY is None, "there is no HDF5 library")
    def test_hdf5(self):
        """Rows as they are in the file, and packed chunks that ranks cut through."""
        values = [(i * 7919 % 1009) / 1009 for i in range(2 * 501)]
        with hdf5_files.File("a.h5") as file:
            file.dataset("plain", (501, 2), values=values)
            file.dataset("packed", (501, 2), "d", values=values, chunk=(64, 2), deflate=3)
        for name in "plain", "packed":
            self.check((3,), "knn", "-k", 3, "a.h5", "--dataset", name, outputs=("-o", "out.npy"))

    def test_read_as_a_whole(self):
        """Text with labels, a packed file, a pipe, and points that are scaled."""
        self.generate("unif", 301, 2, "plain.csv")
        with open("plain.csv", encoding="ascii") as file:
            lines = file.read().splitlines()
        rows = lines[1:] if lines[0][0].isalpha() else lines
        with open("a.csv", "w", encoding="ascii") as file:
            file.write("name,x,y\n" + "".join(f'"p, {i}",{row}\n' for i, row in enumerate(rows)))
        self.check((3,), "range", "-r", 0.05, "a.csv", "--id", "name", "--distance", outputs=("-o", "out.csv"))
        self.check((3,), "count", "-r", 0.05, "a.csv", "--id", "name", outputs=("-o", "out.csv"))
        self.generate("unif", 301, 2, "a.npy")
        subprocess.run(["gzip", "-k", "a.npy"], check=True)
        self.check((3,), "knn", "-k", 3, "a.npy.gz", outputs=("-o", "out.npy"))
        self.check((3,), "knn", "-k", 3, "a.npy", "--normalise", outputs=("-o", "out.npy"))
        self.adjoin("knn", "-k", 3, "a.npy", "-o", "one.npy")
        with open("a.npy", "rb") as file:
            self.mpi(3, "knn", "-k", 3, "-", "-o", "two.npy", "-q", stdin=file)
        self.assertEqual(self.read("one.npy"), self.read("two.npy"))


class Split(MpiTest):
    def test_split(self):
        self.generate("unif", 1001, 2, "a.npy")
        self.adjoin("range", "-r", 0.03, "a.npy", "-o", "one.csv", "--distance")
        self.mpi(3, "range", "-r", 0.03, "a.npy", "-o", "out.csv", "--distance", "--split", "-q")
        with open("out.json", encoding="ascii") as file:
            files = json.load(file)["files"]
        self.assertEqual([f["file"] for f in files], sorted(glob.glob("out.*.csv")))
        self.assertEqual([f["first_row"] for f in files], [0, 334, 668])
        parts = [self.read(f["file"]).split(b"\n", 1) for f in files]
        self.assertEqual(parts[0][0] + b"\n" + b"".join(rows for _, rows in parts), self.read("one.csv"))
        try:
            import scipy.sparse
        except ImportError:
            return
        self.adjoin("range", "-r", 0.03, "a.npy", "-o", "one.npz", "--distance")
        self.mpi(2, "range", "-r", 0.03, "a.npy", "-o", "out.npz", "--distance", "--split", "-q")
        parts = [scipy.sparse.load_npz(f"out.0000{i}-of-00002.npz") for i in range(2)]
        self.assertEqual((scipy.sparse.vstack(parts) != scipy.sparse.load_npz("one.npz")).nnz, 0)


class Checkpoints(MpiTest):
    JOINS = (("range", "-r", 0.05, "--distance"), ("range", "-r", 0.05, "--one-way"), ("knn", "-k", 4),
             ("knn", "-k", 4, "--self", "-r", 0.02))

    def setUp(self):
        super().setUp()
        self.generate("repeats", 900, 2, "a.npy")

    def test_without_a_stop(self):
        for join in self.JOINS:
            with self.subTest(join=join):
                self.adjoin(*join, "a.npy", "-o", "one.npz")
                self.mpi(2, *join, "a.npy", "-o", "two.npz", "--checkpoint", "work", "--checkpoint-blocks", 3, "-q")
                self.assertEqual(self.read("one.npz"), self.read("two.npz"))
                self.assertFalse(os.path.exists("work"))

    def test_resume_with_other_ranks(self):
        """The run fails when its output is written; the blocks are there for the next one."""
        self.adjoin("range", "-r", 0.2, "a.npy", "-o", "one.npz")
        arguments = "range", "-r", 0.2, "a.npy", "--checkpoint", "work"
        self.mpi(3, *arguments, "--checkpoint-blocks", 5, "-o", "/dev/full", "--format", "npz", code=1)
        self.assertEqual(len(glob.glob("work/block-*.done")), 5)
        for block in 1, 4:
            os.remove(f"work/block-0000{block}.done")
        done = self.mpi(2, *arguments, "-o", "two.npz")
        self.assertIn("3 of 5 blocks were finished already in work", done.stderr)
        self.assertEqual(self.read("one.npz"), self.read("two.npz"))
        self.assertFalse(os.path.exists("work"))

    def test_of_another_run(self):
        self.mpi(2, "knn", "-k", 200, "a.npy", "--checkpoint", "work", "--checkpoint-blocks", 2, "-o", "/dev/full",
                 "--format", "npz", code=1)
        self.generate("unif", 900, 2, "b.npy")
        for what, arguments in ((r'there "-k 200", here "-k 4"', ("knn", "-k", 4, "a.npy")),
                                (r'there "command knn", here "command range"', ("range", "-r", 1, "a.npy")),
                                (r"checksum", ("knn", "-k", 200, "b.npy"))):
            said = self.mpi(3, *arguments, "--checkpoint", "work", "-o", "out.npz", code=1).stderr
            self.assertRegex(said, "work: is a checkpoint of another run: .*" + what)
        self.assertFalse(os.path.exists("out.npz"))


class Reports(MpiTest):
    def setUp(self):
        super().setUp()
        self.generate("unif", 3000, 3, "a.npy")

    def test_stats_and_trace(self):
        done = self.mpi(3, "range", "-r", 0.1, "a.npy", "-o", "out.npz", "--stats", "s.json", "--trace", "t.json",
                        "--explain")
        with open("s.json", encoding="ascii") as file:
            stats = json.load(file)
        self.assertEqual(stats["ranks"], 3)
        self.assertEqual([r["rank"] for r in stats["of_each_rank"]], [0, 1, 2])
        self.assertEqual(sum(r["rows"] for r in stats["of_each_rank"]), 3000)
        self.assertEqual(sum(r["pairs"] for r in stats["of_each_rank"]), stats["pairs"])
        self.assertEqual(stats["pairs"], int(self.adjoin("count", "-r", 0.1, "a.npy").stdout))
        for field in "halo_points", "bytes_points", "cpu_seconds", "peak_bytes":
            self.assertIn(field, stats["of_each_rank"][0])
        with open("t.json", encoding="ascii") as file:
            events = json.load(file)["traceEvents"]
        self.assertEqual({e["pid"] for e in events}, {0, 1, 2})
        self.assertIn("halo", done.stderr)
        self.assertEqual(done.stderr.count("wrote out.npz"), 1)

    def test_messages_once(self):
        said = self.mpi(3, "range", "-r", 0.1, "a.npy", "--radus", 2, code=2).stderr
        self.assertEqual(said.count("did you mean --radius?"), 1)
        said = self.mpi(3, "range", "-r", 0.1, "none.npy", code=1).stderr
        self.assertEqual(said.count("none.npy: cannot be opened"), 1)
        said = self.mpi(2, "dbscan", "-r", 0.1, "a.npy", code=2).stderr
        self.assertEqual(said.count("dbscan runs in one process: use 'adjoin dbscan'"), 1)
        help_text = self.mpi(2, "knn", "--help").stdout
        self.assertEqual(help_text.count("--distribution"), 1)
        said = self.mpi(2, "knn", "-k", 2, "a.npy", "-o", "-", code=2).stderr
        self.assertIn("must be a file", said)


class Failures(MpiTest):
    def start(self, ranks, *arguments):
        """Its messages, and those of mpirun, which MPICH's writes to standard output."""
        program = subprocess.Popen(command(ranks, *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return program

    def ranks_of(self, program):
        """The processes of adjoin-mpi that this mpirun started, itself or, as MPICH's does, through a proxy."""
        parents, ours = {}, []
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path, encoding="ascii", errors="replace") as file:
                    name, rest = file.read().rsplit(")", 1)
            except OSError:
                continue
            process = int(path.split("/")[2])
            parents[process] = int(rest.split()[1])
            if "adjoin-mpi" in name:
                ours.append(process)
        return sorted(p for p in ours if program.pid in (parents[p], parents.get(parents[p])))

    def wait_until(self, program, condition):
        until = time.monotonic() + 60
        while not condition():
            self.assertIsNone(program.poll(), "it was over too soon")
            self.assertLess(time.monotonic(), until)
            time.sleep(0.005)

    def start_and_find(self, ranks, *arguments):
        program = self.start(ranks, *arguments)
        self.wait_until(program, lambda: len(self.ranks_of(program)) == ranks)
        return program, self.ranks_of(program)

    def test_bad_rows(self):
        """The rank that has the row says so, and no rank goes on."""
        import array
        values = array.array("f", [0.5] * 3000)
        values[2 * 800 + 1] = float("nan")
        with open("bad.raw", "wb") as file:
            values.tofile(file)
        said = self.mpi(3, "range", "-r", 0.1, "bad.raw", "--shape", "f32:2", "-o", "out.npz", code=1).stderr
        self.assertIn("rank 1: bad.raw: row 801, column 2: NaN", said)
        self.assertEqual(said.count("row 801"), 1)
        self.assertFalse(glob.glob("out*"))

    def test_out_of_memory(self):
        self.generate("unif", 20000, 3, "a.npy")
        said = self.mpi(2, "knn", "-k", 10, "a.npy", "-o", "out.npz", "--memory", "100k", code=1).stderr
        self.assertRegex(said, "rank [01]: ")
        self.assertFalse(glob.glob("out*"))

    def test_full_disk(self):
        if not shutil.which("unshare") or subprocess.run(on_small_disk(["true"]), capture_output=True).returncode:
            raise unittest.SkipTest("this system does not let a test mount a file system")
        os.rmdir("small")
        self.generate("unif", 4000, 2, "a.npy")
        for output in "out.npz", "out.csv", "out.npy":
            run = command(3, "range", "-r", 0.05, "a.npy", "-o", "small/" + output)
            done = subprocess.run(on_small_disk(run), capture_output=True, text=True, timeout=60)
            os.rmdir("small")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, f"rank [012]: small/{output}: .*(No space left|its disk has [0-9]+)")
            self.assertEqual(done.stdout, "")

    def check_stopped(self, program, ranks, seconds):
        """Every rank ends soon. The launcher takes a while longer."""
        began = time.monotonic()
        limit = max(seconds, os.getloadavg()[0] / os.cpu_count())
        while any(is_running(p) for p in ranks):
            self.assertLess(time.monotonic() - began, limit, "a rank goes on")
            time.sleep(0.01)
        code = program.wait(timeout=30)
        if not IS_HYDRA:
            self.assertNotEqual(code, 0)

    def test_killed(self):
        """While ranks join, and while they write. Nothing appears, and nobody hangs."""
        self.generate("unif", 200000, 3, "a.npy")
        self.generate("unif", 150000, 16, "b.npy")
        program, ranks = self.start_and_find(3, "knn", "-k", 5, "b.npy", "--algorithm", "brute", "-o", "out.npz")
        time.sleep(0.7)
        os.kill(ranks[1], signal.SIGKILL)
        self.check_stopped(program, ranks, 5)
        self.assertIn("signal 9", program.stdout.read())
        self.assertFalse(glob.glob("out*"))
        program, ranks = self.start_and_find(2, "range", "-r", 0.05, "a.npy", "--distance", "-o", "out.csv")
        self.wait_until(program, lambda: glob.glob("out.csv.part-*"))
        os.kill(ranks[1], signal.SIGKILL)
        self.check_stopped(program, ranks, 5)
        self.assertFalse(glob.glob("out.csv" if IS_HYDRA else "out*"))

    def test_ctrl_c(self):
        """mpirun passes it on to the ranks, in its own time: so while they join, which takes long."""
        self.generate("unif", 400000, 16, "b.npy")
        program, ranks = self.start_and_find(2, "knn", "-k", 5, "b.npy", "--algorithm", "brute", "-o", "out.npz")
        time.sleep(0.5)
        program.send_signal(signal.SIGINT)
        self.check_stopped(program, ranks, 3)
        self.assertEqual(program.stdout.read().count("adjoin-mpi: stopped"), 1)
        self.assertEqual(os.listdir("."), ["b.npy"])

    def test_stopped_while_writing(self):
        self.generate("unif", 200000, 3, "a.npy")
        program, ranks = self.start_and_find(2, "range", "-r", 0.05, "a.npy", "--distance", "-o", "out.csv")
        self.wait_until(program, lambda: glob.glob("out.csv.part-*"))
        for rank in ranks:
            os.kill(rank, signal.SIGTERM)
        self.check_stopped(program, ranks, 1)
        self.assertEqual(program.stdout.read().count("adjoin-mpi: stopped"), 1)
        self.assertEqual(os.listdir("."), ["a.npy"])


main()
