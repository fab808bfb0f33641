# SPDX-License-Identifier: MIT
"""Runs that are stopped, killed, or out of disk: they end soon, say why, and leave no half file under its name."""
import os
import resource
import signal
import subprocess
import time

from program import ADJOIN, ProgramTest, main, read_text, run, start


def limit_file_size(size):
    """For preexec_fn: writing beyond size fails with EFBIG, as on a full disk, instead of a signal."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return limit


def allowed_seconds():
    """A second to stop in; more where other programs keep the cores busy."""
    return max(1.0, os.getloadavg()[0] / os.cpu_count())


class Stopped(ProgramTest):
    """A join of 300 million pairs, which takes many seconds to write."""
    BIG = ("range", "-r", 0.06, "points.npy", "--distance", "--no-progress")

    def setUp(self):
        super().setUp()
        self.generate("unif", 600000, 3, "points.npy")

    def start_big(self, *more):
        return self.watch(start(*self.BIG, *more))

    def watch(self, program):
        self.addCleanup(program.stderr.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return program

    def stop(self, program, number, after):
        time.sleep(after)
        self.assertIsNone(program.poll(), "the join was over before it could be stopped")
        began = time.monotonic()
        program.send_signal(number)
        code = program.wait(timeout=30)
        self.assertLess(time.monotonic() - began, allowed_seconds())
        return code

    def test_ctrl_c(self):
        for after in 0.1, 0.5, 1.5:
            for ending in "npz", "csv":
                with self.subTest(after=after, ending=ending):
                    program = self.start_big("-o", f"pairs.{ending}")
                    self.assertEqual(self.stop(program, signal.SIGINT, after), 130)
                    self.assertIn("stopped", program.stderr.read())
                    self.assertEqual(os.listdir("."), ["points.npy"])

    def test_ctrl_c_at_any_moment(self):
        """Also between two steps of the program. Before it handles signals the signal itself ends it."""
        for i in range(1, 11):
            with self.subTest(after=i / 50):
                program = self.watch(start("count", "-r", 0.4, "points.npy", "--no-progress"))
                self.assertIn(self.stop(program, signal.SIGINT, i / 50), (130, -signal.SIGINT))

    def test_terminate(self):
        program = self.watch(start("count", "-r", 0.4, "points.npy", "--no-progress"))
        self.assertEqual(self.stop(program, signal.SIGTERM, 0.5), 143)
        self.assertEqual(os.listdir("."), ["points.npy"])

    def test_reference(self):
        """It has no batches to speak of: every row takes long."""
        for join in (["count", "-r", 0.4], ["knn", "-k", 3]):
            with self.subTest(join=join):
                program = self.watch(start(*join, "points.npy", "--backend", "reference", "--no-progress"))
                self.assertEqual(self.stop(program, signal.SIGINT, 0.5), 130)

    def wait_for_part(self, program):
        while not any(".part-" in name and os.path.getsize(name) > 1 << 20 for name in os.listdir(".")):
            self.assertIsNone(program.poll(), "the join was over before anything was written")
            time.sleep(0.01)

    def test_ctrl_c_in_the_midst_of_writing(self):
        program = self.start_big("-o", "pairs.csv")
        self.wait_for_part(program)
        self.assertEqual(self.stop(program, signal.SIGINT, 0), 130)
        self.assertEqual(os.listdir("."), ["points.npy"])

    def test_killed(self):
        """What was there before stays; the name never belongs to half a result."""
        with open("pairs.csv", "w", encoding="utf-8") as file:
            file.write("before")
        program = self.start_big("-o", "pairs.csv")
        self.wait_for_part(program)
        program.kill()
        program.wait()
        with open("pairs.csv", encoding="utf-8") as file:
            self.assertEqual(file.read(), "before")

    def test_ctrl_c_while_nobody_reads(self):
        """The reader of the pipe has stopped reading."""
        with subprocess.Popen([ADJOIN, *map(str, self.BIG), "-o", "-"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as program:
            program.stdout.read(1000)
            self.assertEqual(self.stop(program, signal.SIGINT, 0.3), 130)

    def test_ctrl_c_while_nobody_writes(self):
        with subprocess.Popen([ADJOIN, "range", "-r", "1", "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as program:
            self.assertEqual(self.stop(program, signal.SIGINT, 0.3), 130)


class Waiting(ProgramTest):
    """An input that never comes."""

    def stop(self, arguments, number, **options):
        with start(*arguments, **options) as program:
            time.sleep(0.5)
            self.assertIsNone(program.poll(), "the program did not wait for its input")
            began = time.monotonic()
            program.send_signal(number)
            code = program.wait(timeout=30)
            self.assertLess(time.monotonic() - began, allowed_seconds())
            self.assertEqual(program.stderr.read(), "adjoin: stopped\n")
        return code

    def test_fifo_without_writer(self):
        os.mkfifo("waiting")
        self.generate("unif", 100, 2, "points.npy")
        for arguments in (["range", "-r", 1, "waiting"], ["knn", "-k", 1, "points.npy", "waiting"], ["info", "waiting"]):
            for number, code in (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129):
                with self.subTest(arguments=arguments, number=number):
                    self.assertEqual(self.stop(arguments, number), code)

    def test_fifo_whose_writer_writes_nothing(self):
        os.mkfifo("waiting")
        keep = os.open("waiting", os.O_RDWR)
        self.addCleanup(os.close, keep)
        self.assertEqual(self.stop(["count", "-r", 1, "waiting"], signal.SIGINT), 130)

    def test_standard_input(self):
        for path in "-", "/dev/stdin":
            with self.subTest(path=path):
                reads, writes = os.pipe()
                self.addCleanup(os.close, writes)
                self.assertEqual(self.stop(["count", "-r", 1, path], signal.SIGTERM, stdin=reads), 143)
                os.close(reads)

    def test_late_writer(self):
        os.mkfifo("waiting")
        with start("count", "-r", 2, "waiting", "-o", "counts.csv") as program:
            time.sleep(0.3)
            with open("waiting", "w", encoding="utf-8") as file:
                file.write("0,0\n1,1\n9,9\n")
            self.assertEqual(program.wait(timeout=30), 0)
            program.stderr.close()
        self.assertEqual(read_text("counts.csv")[1], [["0", "1"], ["1", "1"], ["2", "0"]])


class FullDisk(ProgramTest):
    def setUp(self):
        super().setUp()
        self.generate("unif", 20000, 2, "points.npy")

    def test_file(self):
        for ending in "npz", "csv", "npy":
            for size in 0, 100, 1 << 20:
                with self.subTest(ending=ending, size=size):
                    done = run("range", "-r", 0.05, "points.npy", "--distance", "-o", f"pairs.{ending}",
                               preexec_fn=limit_file_size(size))
                    self.assertEqual(done.returncode, 1)
                    self.assertIn(f"pairs.{ending}: cannot be written: File too large", done.stderr)
                    self.assertEqual(os.listdir("."), ["points.npy"])

    def test_counts_points_and_reports(self):
        for arguments in (["count", "-r", "0.05", "points.npy", "-o", "out.csv"],
                          ["generate", "unif", "-n", "1000", "-d", "2", "-o", "out.npy"],
                          ["count", "-r", "0.05", "points.npy", "--stats", "out.json"],
                          ["count", "-r", "0.05", "points.npy", "--trace", "out.json"]):
            with self.subTest(arguments=arguments):
                done = run(*arguments, preexec_fn=limit_file_size(100))
                self.assertEqual(done.returncode, 1)
                self.assertIn("cannot be written: File too large", done.stderr)
                self.assertEqual(os.listdir("."), ["points.npy"])

    def test_standard_output(self):
        for more in ["-o", "-"], ["-o", "-", "--format", "npy"], [], ["--stats", "-"], ["--dry-run"]:
            with self.subTest(more=more), open("/dev/full", "w", encoding="utf-8") as full:
                done = run("range", "-r", 0.05, "points.npy", *more, stdout=full)
                self.assertEqual(done.returncode, 1)
                self.assertIn("cannot be written: No space left on device", done.stderr)


main()
