# SPDX-License-Identifier: MIT
"""Files that a run writes: what they replace and what they must not, who may read them, and what is left when it ends."""
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time

from program import ADJOIN, ProgramTest, main, read_bytes, run, start


def close_descriptors(*numbers):
    """For preexec_fn, as 2>&- does in a shell."""
    def close():
        for number in numbers:
            os.close(number)
    return close


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


class Outputs(ProgramTest):
    def setUp(self):
        super().setUp()
        self.generate("unif", 500, 2, "points.npy")

    def refuses(self, words, *arguments, code=2):
        """Says why, and touches nothing."""
        before = {name: read_bytes(name) for name in os.listdir(".") if os.path.isfile(name)}
        done = self.adjoin(*arguments, code=code)
        self.assertIn(words, done.stderr)
        self.assertEqual({name: read_bytes(name) for name in os.listdir(".") if os.path.isfile(name)}, before)

    def test_closed_descriptors(self):
        """Progress and messages never end up in a file, whichever of the three is closed. The result is shorter than
        these, so that it would not hide them."""
        self.generate("unif", 3000, 2, "slow.npy")
        slow = ["range", "-r", 1e-9, "slow.npy", "--backend", "reference", "--progress", "--threads", 1]
        for closed in [2], [0, 2], [0, 1, 2]:
            with self.subTest(closed=closed), open("/dev/null", "wb") as nowhere:
                with subprocess.Popen([ADJOIN, *map(str, slow), "-o", "out.csv"], stdout=nowhere,
                                      preexec_fn=close_descriptors(*closed)) as program:
                    self.assertEqual(program.wait(timeout=120), 0)
                self.assertEqual(read_bytes("out.csv"), b"left,right\n")
                os.remove("out.csv")

    def test_closed_output(self):
        for arguments in (["range", "-r", 0.1, "points.npy", "-o", "-"], ["range", "-r", 0.1, "points.npy"],
                          ["knn", "-k", 2, "points.npy", "--stats", "-"], ["--version"], ["--help"], ["info"],
                          ["generate", "unif", "-n", 5, "-d", 2, "-o", "-"]):
            with self.subTest(arguments=arguments):
                done = run(*arguments, preexec_fn=close_descriptors(1))
                self.assertEqual(done.returncode, 1)
                self.assertIn("standard output: cannot be written: Bad file descriptor", done.stderr)

    def test_closed_input(self):
        done = run("range", "-r", 0.1, "-", preexec_fn=close_descriptors(0))
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard input: cannot be read: Bad file descriptor", done.stderr)

    def test_input_as_output(self):
        os.symlink("points.npy", "soft.npy")
        os.link("points.npy", "hard.npy")
        os.mkdir("folder")
        os.symlink("folder", "other")
        for name in "points.npy", "./points.npy", "folder/../points.npy", "soft.npy", "hard.npy":
            for option in "-o", "--stats", "--trace":
                self.refuses("is the same file as the input points.npy", "range", "-r", 0.1, "points.npy", option, name)
            self.refuses("is the same file as the input", "knn", "-k", 1, name, "points.npy", "-o", "x.ivecs",
                         "--distances", "points.npy")
        with open("points.npy", "rb") as file:
            self.assertEqual(self.adjoin("range", "-r", 0.1, "-", "-o", "points.npy", "--format", "csv", stdin=file,
                                         code=2).stdout, "")
        with open("points.npy", "ab") as file:
            done = run("range", "-r", 0.1, "points.npy", "-o", "-", stdout=file)
            self.assertEqual(done.returncode, 2)
            self.assertIn("-: is the same file as the input points.npy", done.stderr)
        self.refuses("is the same file as the output", "range", "-r", 0.1, "points.npy", "-o", "folder/new.csv",
                     "--stats", "other/new.csv")
        self.refuses("is the same file as the output", "range", "-r", 0.1, "points.npy", "--trace", "t.json",
                     "--stats", "./t.json")

    def test_before_anything_runs(self):
        """The inputs do not even exist."""
        write("old.csv", "old")
        self.refuses("each needs a file of its own", "range", "-r", 0.1, "none.npy", "-o", "a.csv", "--trace", "a.csv")
        self.refuses("old.csv: exists already", "range", "-r", 0.1, "none.npy", "-o", "old.csv", "--no-clobber", code=1)
        self.refuses("none/x.csv: cannot be written", "range", "-r", 0.1, "none.npy", "-o", "none/x.csv", code=1)

    def test_no_clobber(self):
        write("old.csv", "old")
        for arguments in (["range", "-r", 0.1, "points.npy", "-o", "old.csv"],
                          ["range", "-r", 0.1, "points.npy", "-o", "new.csv", "--stats", "old.csv"],
                          ["range", "-r", 0.1, "points.npy", "-o", "new.csv", "--trace", "old.csv"],
                          ["generate", "unif", "-n", 10, "-d", 2, "-o", "old.csv"]):
            self.refuses("old.csv: exists already, and is not to be replaced", *arguments, "--no-clobber", code=1)
        self.adjoin("range", "-r", 0.1, "points.npy", "-o", "new.csv", "--no-clobber", "--stats", "new.json")
        self.adjoin("range", "-r", 0.1, "points.npy", "-o", "/dev/null", "--format", "csv", "--no-clobber")
        self.adjoin("generate", "unif", "-n", 10, "-d", 2, "-o", "new.npy", "--no-clobber", "--no-sync")
        self.assertEqual(sorted(os.listdir(".")), ["new.csv", "new.json", "new.npy", "old.csv", "points.npy"])

    def test_modes(self):
        for name, option in (("out.csv", "-o"), ("out.json", "--stats"), ("trace.json", "--trace")):
            write(name, "old")
            os.chmod(name, 0o600)
            self.adjoin("range", "-r", 0.1, "points.npy", option, name)
            self.assertNotEqual(read_bytes(name), b"old")
            self.assertEqual(mode(name), 0o600)
            os.remove(name)
            self.adjoin("range", "-r", 0.1, "points.npy", option, name, preexec_fn=lambda: os.umask(0o027))
            self.assertEqual(mode(name), 0o640)

    def test_reports_follow_no_planted_link(self):
        """Part files of reports had names that could be guessed, and were opened through links."""
        write("precious", "old")
        with subprocess.Popen(["sh", "-c", f"ln -s precious out.json.part-$$; exec '{ADJOIN}' range -r 0.1 points.npy "
                               "--stats out.json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
            self.assertEqual(program.wait(timeout=60), 0)
        self.assertEqual(read_bytes("precious"), b"old")
        self.assertTrue(read_bytes("out.json").startswith(b"{"))

    def test_dangling_links(self):
        os.mkdir("folder")
        os.symlink("folder/pairs.csv", "link.csv")
        os.symlink("folder/stats.json", "link.json")
        self.adjoin("range", "-r", 0.1, "points.npy", "-o", "link.csv", "--stats", "link.json")
        self.assertTrue(os.path.islink("link.csv") and os.path.islink("link.json"))
        self.assertEqual(sorted(os.listdir("folder")), ["pairs.csv", "stats.json"])

    def test_signal_while_nobody_reads_a_pipe(self):
        os.mkfifo("pipe.csv")
        for option, number in ("-o", signal.SIGINT), ("--stats", signal.SIGTERM), ("--trace", signal.SIGHUP):
            with self.subTest(option=option):
                program = start("range", "-r", 0.1, "points.npy", option, "pipe.csv")
                time.sleep(0.4)
                self.assertIsNone(program.poll())
                began = time.monotonic()
                program.send_signal(number)
                try:
                    self.assertEqual(program.wait(timeout=10), 128 + number)
                finally:
                    program.kill()
                self.assertLess(time.monotonic() - began, 3)
                self.assertIn("stopped", program.stderr.read())
                program.stderr.close()
        program = start("range", "-r", 0.1, "points.npy", "-o", "pipe.csv")
        time.sleep(0.2)
        self.assertTrue(read_bytes("pipe.csv").startswith(b"left,right\n"))
        self.assertEqual(program.wait(timeout=30), 0)
        program.stderr.close()

    def test_part_files_of_killed_runs(self):
        """Removed by the next run that writes to the folder; those of runs that live are not."""
        self.generate("unif", 600000, 3, "many.npy")
        programs = []
        for name in "a.csv", "b.csv":
            programs.append(start("range", "-r", 0.06, "many.npy", "--distance", "-o", name, "--no-progress"))
        def parts():
            return sorted(name for name in os.listdir(".") if ".part-" in name)
        while len(parts()) < 2:
            self.assertIsNone(programs[0].poll() or programs[1].poll())
            time.sleep(0.01)
        programs[0].kill()
        programs[0].wait()
        self.assertEqual(len(parts()), 2)
        self.adjoin("range", "-r", 0.1, "points.npy", "-o", "pairs.csv")
        self.assertEqual([name[:5] for name in parts()], ["b.csv"])
        programs[1].kill()
        programs[1].wait()
        self.adjoin("range", "-r", 0.1, "points.npy", "--stats", "stats.json")
        self.assertEqual(parts(), [])
        for program in programs:
            program.stderr.close()


class SmallDisk(ProgramTest):
    """A file system of 4 MB, in a name space of its own: what is too large for it."""

    def setUp(self):
        super().setUp()
        self.generate("unif", 20000, 2, "points.npy")
        os.mkdir("disk")
        if not shutil.which("unshare") or self.on_disk("true").returncode:
            self.skipTest("a file system cannot be mounted here")

    def on_disk(self, script):
        """Runs a shell script beside the folder disk, and lists at the end what is in that."""
        script = f"mount -t tmpfs -o size=4M none disk && echo old >disk/out && chmod 600 disk/out || exit 99\n{script}\n" \
                 "code=$?; ls -A disk; cat disk/out; exit $code"
        return subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=120,
                              check=False)

    def test_known_size(self):
        """Refused before the join: 20,000 rows of 50 neighbours are 8 MB of ids."""
        for command in (f"'{ADJOIN}' knn -k 50 points.npy -o disk/out --format npy",
                        f"'{ADJOIN}' knn -k 50 points.npy -o disk/out --format ivecs --distances disk/far.npy",
                        f"'{ADJOIN}' knn -k 50 points.npy -o disk/out --format csr",
                        f"'{ADJOIN}' range -r 0.05 points.npy -o disk/out --format npz",
                        f"'{ADJOIN}' range -r 0.05 points.npy -o disk/out --format csv",
                        f"'{ADJOIN}' generate unif -n 1M -d 2 -o disk/out --format npy"):
            with self.subTest(command=command):
                done = self.on_disk(command)
                self.assertEqual(done.returncode, 1, done.stderr)
                found = re.search(r": cannot be written: at least (\d+) bytes \([0-9.]+ .iB\) are to be "
                                  r"written, and its disk has (\d+) \([0-9.]+ .iB\) free", done.stderr)
                self.assertTrue(found, done.stderr)
                self.assertGreater(int(found[1]), int(found[2]))
                self.assertGreater(int(found[2]), 3500000)
                self.assertEqual(done.stdout, "out\nold\n")

    def test_unknown_size(self):
        """The lines of a table are not known beforehand: the disk is full in the midst of it."""
        for command in (f"'{ADJOIN}' knn -k 50 points.npy -o disk/out --format csv",
                        f"'{ADJOIN}' range -r 0.018 points.npy --distance -o disk/out --format csv",
                        f"'{ADJOIN}' range -r 0.05 points.npy --trace disk/out >/dev/null"):
            if "trace" in command:
                command = f"head -c 4190000 /dev/zero >disk/fill; {command}; code=$?; rm disk/fill; (exit $code)"
            with self.subTest(command=command):
                done = self.on_disk(command)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("disk/out: cannot be written: No space left on device", done.stderr)
                self.assertEqual(done.stdout, "out\nold\n")

    def test_what_fits(self):
        done = self.on_disk(f"'{ADJOIN}' knn -k 20 points.npy -o disk/new.npy && rm disk/new.npy")
        self.assertEqual((done.returncode, done.stdout), (0, "out\nold\n"), done.stderr)


class Planted(ProgramTest):
    """In a shared folder the superuser's run is no more dangerous than cp."""

    def test_link_of_another_user(self):
        if os.geteuid():
            self.skipTest("only the superuser can make links of others")
        self.generate("unif", 100, 2, "points.npy")
        write("precious.csv", "old")
        os.mkdir("shared")
        os.chmod("shared", 0o1777)
        for name, target in ("x.csv", "../precious.csv"), ("y.csv", "../none.csv"):
            os.symlink(target, f"shared/{name}")
            os.lchown(f"shared/{name}", 12345, 12345)
            for option in "-o", "--stats", "--trace":
                self.adjoin("range", "-r", 0.1, "points.npy", option, f"shared/{name}", code=1)
        self.assertEqual(read_bytes("precious.csv"), b"old")
        self.assertEqual(sorted(os.listdir("shared")), ["x.csv", "y.csv"])
        self.assertFalse(os.path.exists("none.csv"))


if sys.platform.startswith("linux"):
    main()
