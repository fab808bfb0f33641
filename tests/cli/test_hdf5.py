# SPDX-License-Identifier: MIT
"""HDF5 files: read by a helper process; what lies in other files, plug-ins and hostile files are refused."""
import os
import signal
import struct
import subprocess
import sys
import time
import unittest
import zlib

import hdf5_files
from hdf5_files import File, zeros_packed
from program import ADJOIN, ProgramTest, main, read_bytes, run, start

POINTS = [0, 0, 0.5, 0, 3, 4, 3, 4.5]  # four points in two dimensions: two pairs within 1, each found twice
SANITIZED = b"__asan_init" in open(ADJOIN, "rb").read()


def helper_of(process):
    """The helper process of a running program, once there is one."""
    children = f"/proc/{process.pid}/task/{process.pid}/children"
    for _ in range(2000):
        with open(children, encoding="ascii") as file:
            found = file.read().split()
        if found:
            return int(found[0])
        time.sleep(0.005)
    raise AssertionError("no helper process")


def sleeping_helper(process):
    """The same once it runs this program and waits in a system call."""
    pid = helper_of(process)
    for _ in range(2000):
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            state = file.read().rsplit(")", 1)[1].split()[0]
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            helper = b"--adjoin-helper" in file.read()
        with open(f"/proc/{pid}/maps", encoding="ascii") as file:
            loaded = "libhdf5" in file.read()
        if helper and loaded and state == "S":
            return pid
        time.sleep(0.005)
    raise AssertionError("the helper does not get there")


class Hdf5Test(ProgramTest):
    def count(self, path, *more, **options):
        return self.adjoin("count", "-r", 1, path, "-q", *more, **options)

    def refused(self, words, path, *more, code=1):
        done = self.count(path, *more, code=code)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith(f"adjoin: {path}: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        return done.stderr


class Loading(ProgramTest):
    def maps_while_waiting(self, *arguments):
        """The shared libraries of a program that waits for its input."""
        os.mkfifo("points.csv")
        process = start(*arguments)
        writer = os.open("points.csv", os.O_WRONLY)
        with open(f"/proc/{process.pid}/maps", encoding="ascii") as file:
            maps = file.read()
        os.write(writer, b"0,0\n0,1\n")
        os.close(writer)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        return maps

    def test_nothing_of_hdf5_is_loaded_without_need(self):
        maps = self.maps_while_waiting("count", "-r", "1", "points.csv", "-q")
        self.assertNotIn("libhdf5", maps)
        listed = subprocess.run(["ldd", ADJOIN], stdout=subprocess.PIPE, text=True, check=False).stdout
        self.assertNotIn("libhdf5", listed)
        self.assertLess(len(listed.splitlines()), 16, listed)

    def test_no_library(self):
        with open("a.h5", "wb") as file:
            file.write(b"\x89HDF\r\n\x1a\n" + bytes(100))
        done = run("count", "-r", 1, "a.h5", env={**os.environ, "ADJOIN_HDF5": "none"})
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr,
                         "adjoin: a.h5: is an HDF5 file, and ADJOIN_HDF5=none says not to read these; save the points as "
                         ".npy\n")
        for path, word in ("lib/libhdf5.so", "must be a path from / on"), ("/nowhere/libhdf5.so", "cannot be loaded"):
            done = run("count", "-r", 1, "a.h5", env={**os.environ, "ADJOIN_HDF5": path})
            self.assertEqual(done.returncode, 1)
            self.assertIn(word, done.stderr)

    def test_empty_search(self):
        """Where the system's folders have no HDF5, the message says what to install."""
        if subprocess.run(["unshare", "-rm", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("no rights to hide files")
        libraries = subprocess.run(["ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=False,
                                   env={**os.environ, "PATH": "/sbin:/usr/sbin:" + os.environ["PATH"]}).stdout
        hide = [os.path.realpath(line.split("=> ")[1]) for line in libraries.splitlines() if "libhdf5" in line]
        with open("a.h5", "wb") as file:
            file.write(b"\x89HDF\r\n\x1a\n" + bytes(100))
        mounts = "".join(f"mount --bind /dev/null '{path}' && " for path in sorted(set(hide)))
        plain = {name: value for name, value in os.environ.items() if name not in ("ADJOIN_HDF5", "LD_LIBRARY_PATH")}
        done = subprocess.run(["unshare", "-rm", "sh", "-c", f"{mounts} exec '{ADJOIN}' count -r 1 a.h5"], text=True, env=plain,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("a.h5: is an HDF5 file, and this machine has no HDF5 library that can be used", done.stderr)
        self.assertIn("apt-get install libhdf5-dev", done.stderr)

    def test_planted_library(self):
        """An empty entry of LD_LIBRARY_PATH stands for the current folder to others, not to us. As a control the planted
        library is asked for by its path."""
        with open("planted.c", "w", encoding="ascii") as file:
            file.write('#include <unistd.h>\n'
                       '__attribute__((constructor)) static void run(void) { _exit(write(1, "PLANTED\\n", 8) < 0 ? 67 : 66); }\n')
        compiler = os.environ.get("CC", "cc").split()[0]
        if subprocess.run([compiler, "-shared", "-fPIC", "-o", "planted.so", "planted.c"], check=False).returncode:
            self.skipTest("no compiler")
        for name in "libhdf5.so", "libhdf5_serial.so":
            for version in "", ".103", ".200", ".310":
                os.link("planted.so", name + version)
        with open("a.h5", "wb") as file:
            file.write(b"\x89HDF\r\n\x1a\n" + bytes(100))
        plain = {name: value for name, value in os.environ.items() if name != "ADJOIN_HDF5"}
        for search in ":", "", ".":
            done = run("count", "-r", 1, "a.h5", env={**plain, "LD_LIBRARY_PATH": search})
            self.assertNotIn("PLANTED", done.stdout + done.stderr, search)
            self.assertEqual(done.returncode, 1)
        done = run("count", "-r", 1, "a.h5", env={**plain, "ADJOIN_HDF5": os.path.abspath("planted.so")})
        self.assertIn("exit status 66", done.stderr)

    def test_library_of_another_kind(self):
        """A library that is no HDF5, or of a version that is not known, is refused by what it lacks or says."""
        with open("fake.c", "w", encoding="ascii") as file:
            file.write("int nothing;\n")
        compiler = os.environ.get("CC", "cc").split()[0]
        if subprocess.run([compiler, "-shared", "-fPIC", "-o", "fake.so", "fake.c"], check=False).returncode:
            self.skipTest("no compiler")
        with open("a.h5", "wb") as file:
            file.write(b"\x89HDF\r\n\x1a\n" + bytes(100))
        done = run("count", "-r", 1, "a.h5", env={**os.environ, "ADJOIN_HDF5": os.path.abspath("fake.so")})
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no H5open", done.stderr)


@unittest.skipIf(hdf5_files.LIBRARY is None, "there is no HDF5 library")
class Files(Hdf5Test):
    def test_layouts(self):
        """Every layout gives the points that were written, in one block or, with little memory, in several."""
        rows = 50000
        self.adjoin("generate", "unif", "-n", rows, "-d", 3, "-o", "p.raw")
        with open("p.raw", "rb") as file:
            values = file.read()
        self.adjoin("count", "-r", 0.05, "p.raw", "--shape", "f32:3", "-o", "wanted.npy", "-q")
        layouts = [{}, {"chunk": (999, 2)}, {"chunk": (rows, 1)}, {"chunk": (7000, 2), "deflate": 1},
                   {"chunk": (rows, 3), "deflate": 1}, {"chunk": (rows, 1), "deflate": 1}, {"chunk": (5, 1)}]
        for layout in layouts:
            with File("p.h5") as file:
                file.dataset("p", (rows, 3), values=values, **layout)
            for memory in "1G", "8M":
                self.adjoin("count", "-r", 0.05, "p.h5", "-o", "got.npy", "-q", "--memory", memory)
                self.assertEqual(read_bytes("got.npy"), read_bytes("wanted.npy"), (layout, memory))

    def test_never_written(self):
        """A dataset without values is all zeros, its fill value."""
        for layout in {}, {"chunk": (10, 2)}:
            with File("p.h5") as file:
                file.dataset("p", (20, 2), **layout)
            self.assertEqual(self.count("p.h5").stdout, f"{20 * 19}\n")
        with File("none.h5") as file:
            file.dataset("p", (0, 2))
        self.assertIn("none.h5: has no points", self.count("none.h5", code=1).stderr)

    def test_pipes_and_gzip(self):
        with File("p.h5") as file:
            file.dataset("p", (4, 2), values=POINTS)
        with open("p.h5", "rb") as file:
            data = file.read()
        with open("z.h5.gz", "wb") as file:
            packer = zlib.compressobj(wbits=31)
            file.write(packer.compress(data) + packer.flush())
        self.assertEqual(self.count("p.h5").stdout, "4\n")
        self.assertEqual(self.count("z.h5.gz").stdout, "4\n")
        done = self.adjoin("count", "-r", 1, "-", "-q", input=data, text=False)
        self.assertEqual(done.stdout, b"4\n")

    def test_long_names(self):
        deep = "/".join(["g" * 200] * 18)  # longer than a path may be
        with File("p.h5") as file:
            file.dataset(deep + "/p", (4, 2), values=POINTS)
        self.assertEqual(self.count("p.h5").stdout, "4\n")
        self.assertEqual(self.count("p.h5", "--dataset", deep + "/p").stdout, "4\n")
        folder = os.getcwd()
        for _ in range(15):
            folder = os.path.join(folder, "f" * 200)
            os.mkdir(folder)
        os.rename("p.h5", os.path.join(folder, "p.h5"))
        self.assertGreater(len(folder), 3000)
        self.assertEqual(self.count(os.path.join(folder, "p.h5")).stdout, "4\n")

    def test_messages_come_through(self):
        with File("p.h5") as file:
            file.dataset("a", (4, 2), values=POINTS)
            file.dataset("b", (4, 2), values=POINTS)
            file.dataset("cube", (2, 2, 2), values=POINTS)
        self.refused(["--dataset: the file has several; name one of: a, b"], "p.h5", code=2)
        self.refused(['--dataset: there is no "c"; datasets of points here: a, b'], "p.h5", "--dataset", "c", code=2)
        self.refused(["hdf5: the dataset has 3 dimensions"], "p.h5", "--dataset", "cube")
        with open("bad.h5", "wb") as file:
            file.write(b"\x89HDF\r\n\x1a\n and no more")
        self.refused(["hdf5: cannot be opened as an HDF5 file"], "bad.h5")

    def test_missing_filter(self):
        with File("p.h5") as file:
            file.dataset("p", (4, 2), chunk=(4, 2), filter_id=32000, packed_chunk=bytes(32))
        self.refused(["hdf5: the dataset is compressed by filter 32000", "plug-ins are not loaded"], "p.h5")


@unittest.skipIf(hdf5_files.LIBRARY is None, "there is no HDF5 library")
class OtherFiles(Hdf5Test):
    """Values in other files. The other file is a pipe that nobody writes: opening it would never end."""

    def setUp(self):
        super().setUp()
        with File("other.h5") as file:
            file.dataset("p", (4, 2), values=POINTS)
        with open("other.raw", "wb") as file:
            file.write(struct.pack("<8f", *POINTS))

    def check(self, words, other, path="p.h5", *more):
        self.assertEqual(self.count(path, "--allow-external", *more).stdout, "4\n")
        os.rename(other, "kept")
        os.mkfifo(other)
        said = self.refused(words, path, *more)
        self.assertIn("--allow-external: is needed for dataset", said)

    def test_external_storage(self):
        with File("p.h5") as file:
            file.dataset("p", (4, 2), external=("other.raw", 0))
        self.check(['"p", which has external storage'], "other.raw")
        self.refused(['"p", which has external storage'], "p.h5", "--dataset", "p")

    def test_virtual_dataset(self):
        with File("p.h5") as file:
            file.dataset("p", (4, 2), virtual=("other.h5", "p"))
        self.check(['"p", which is virtual'], "other.h5")
        self.refused(['"p", which is virtual'], "p.h5", "--dataset", "p")

    def test_virtual_dataset_without_end(self):
        """Its shape is that of the other file."""
        with File("p.h5") as file:
            file.dataset("p", (4, 2), virtual=("other.h5", "p"), most=(2 ** 64 - 1, 2))
        os.unlink("other.h5")
        os.mkfifo("other.h5")
        self.refused(['"p", which is virtual'], "p.h5")
        self.refused(['"p", which is virtual'], "p.h5", "--dataset", "p")

    def test_external_link(self):
        with File("p.h5") as file:
            file.external_link("there", "other.h5", "/")
            file.soft_link("soft", "/there/p")
        self.check(['"there/p", a link into file "other.h5"'], "other.h5", "p.h5", "--dataset", "there/p")
        self.refused(['"soft", a link into file "other.h5"'], "p.h5", "--dataset", "soft")
        self.refused(["there is no dataset of numbers in two dimensions"], "p.h5")

    def test_own_values_beside_others(self):
        """What is not asked for is not refused."""
        with File("p.h5") as file:
            file.dataset("p", (4, 2), values=POINTS)
            file.dataset("q", (4, 2), external=("other.raw", 0))
            file.external_link("there", "other.h5", "/")
        self.assertEqual(self.count("p.h5").stdout, "4\n")


@unittest.skipIf(hdf5_files.LIBRARY is None, "there is no HDF5 library")
class Hostile(Hdf5Test):
    def peak(self, *arguments, code=1):
        """Runs in a process whose children have not been measured yet; the peak of the program and its helper, in MB."""
        script = ("import resource,subprocess,sys\n"
                  "done = subprocess.run(sys.argv[1:], stderr=subprocess.PIPE, text=True)\n"
                  "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)\n"
                  "print(done.stderr)\n")
        done = subprocess.run([sys.executable, "-c", script, ADJOIN, *map(str, arguments)], stdout=subprocess.PIPE,
                              text=True, check=True)
        first, _, said = done.stdout.partition("\n")
        got, megabytes = map(int, first.split())
        self.assertEqual(got, code, said)
        return megabytes, said

    @unittest.skipIf(SANITIZED, "a sanitizer ends the process when memory ends, and starts a process to say so")
    def test_chunk_that_unpacks_to_more_than_it_states(self):
        """64 KB by the file's description, half a gigabyte in fact."""
        with File("bomb.h5") as file:
            file.dataset("p", (8192, 2), chunk=(8192, 2), deflate=9, packed_chunk=zeros_packed(1 << 29))
        megabytes, said = self.peak("count", "-r", 1, "bomb.h5", "--memory", "20M")
        self.assertIn("bomb.h5: hdf5: rows 1 to 8192 cannot be read; the file may be damaged, or unpacks to more", said)
        self.assertLess(megabytes, 400)

    def test_chunk_larger_than_the_limit(self):
        """A few kilobytes that truly hold a chunk of 400 MB, for a dataset that is small."""
        with File("large.h5") as file:
            file.dataset("p", (10, 2), chunk=(50_000_000, 2), deflate=9, most=(2 ** 64 - 1, 2),
                         packed_chunk=zeros_packed(400_000_000))
        megabytes, said = self.peak("count", "-r", 1, "large.h5", "--memory", "20M")
        self.assertIn("large.h5: chunks of an HDF5 file: needs 1.1 GiB more", said)
        if not SANITIZED:
            self.assertLess(megabytes, 200)
        self.assertEqual(self.count("large.h5", "--memory", "3G").stdout, "90\n")

    def test_dataset_larger_than_the_limit(self):
        for layout in {}, {"chunk": (1000, 20)}, {"chunk": (1000, 20), "deflate": 1}:
            with File("claims.h5") as file:
                file.dataset("p", (10 ** 9, 20), **layout)
            megabytes, said = self.peak("count", "-r", 1, "claims.h5", "--memory", "20M")
            self.assertIn("claims.h5: points: needs 74.5 GiB, but the limit is", said)
            if not SANITIZED:
                self.assertLess(megabytes, 200)

    def test_file_that_is_cut(self):
        with File("p.h5") as file:
            file.dataset("p", (100000, 2), values=bytes(800000))
        os.truncate("p.h5", 400000)
        self.refused(["hdf5: "], "p.h5")

    def test_file_that_crashes_the_library(self):
        """It crashes 1.10.8, on a heap that is not there. Other versions may see that it is damaged."""
        data = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../readers/data/crash.h5")
        with open(data, "rb") as file, open("crash.h5", "wb") as copy:
            copy.write(file.read())
        said = self.refused(["hdf5: "], "crash.h5", "-o", "counts.npy")
        if hdf5_files.version() == (1, 10, 8) and not SANITIZED:
            self.assertIn("hdf5: the HDF5 library crashed on it (segmentation fault, signal 11); the file may be damaged",
                          said)
        self.assertFalse(os.path.exists("counts.npy"))

    def test_plugins_are_not_loaded(self):
        """A planted plug-in shows that it runs by making a file."""
        with open("plugin.c", "w", encoding="ascii") as file:
            file.write('#include <stdio.h>\n'
                       '__attribute__((constructor)) static void run(void) { fclose(fopen("RAN", "w")); }\n'
                       'int H5PLget_plugin_type(void) { return 0; }\n'
                       'const void *H5PLget_plugin_info(void) { return 0; }\n')
        os.mkdir("plugins")
        compiler = os.environ.get("CC", "cc").split()[0]
        made = subprocess.run([compiler, "-shared", "-fPIC", "-o", "plugins/libplanted.so", "plugin.c"], check=False)
        if made.returncode:
            self.skipTest("no compiler")
        with File("p.h5") as file:
            file.dataset("p", (4, 2), chunk=(4, 2), filter_id=32000, packed_chunk=bytes(32))
        with File("good.h5") as file:
            file.dataset("p", (4, 2), values=POINTS)
        planted = {**os.environ, "HDF5_PLUGIN_PATH": os.path.abspath("plugins"), "HDF5_VOL_CONNECTOR": "planted",
                   "HDF5_DRIVER": "planted"}
        self.assertEqual(self.count("p.h5", code=1, env=planted).stdout, "")
        self.assertEqual(self.count("good.h5", env=planted).stdout, "4\n")
        self.assertFalse(os.path.exists("RAN"))
        # The plug-in works: the library loads it when nothing forbids that.
        script = ("import ctypes, hdf5_files\nhdf5_files.LIBRARY.H5Zfilter_avail(32000)\n")
        subprocess.run([sys.executable, "-B", "-c", script], check=True,
                       env={**os.environ, "HDF5_PLUGIN_PATH": os.path.abspath("plugins"),
                            "PYTHONPATH": os.path.dirname(os.path.abspath(hdf5_files.__file__))})
        self.assertTrue(os.path.exists("RAN"))


@unittest.skipIf(hdf5_files.LIBRARY is None, "there is no HDF5 library")
class HelperEnds(Hdf5Test):
    """A helper that waits for ever, because the file's values are in a pipe that nobody writes."""

    def begin(self):
        with File("p.h5") as file:
            file.dataset("p", (4, 2), external=("pipe", 0))
        os.mkfifo("pipe")
        process = start("count", "-r", 1, "p.h5", "--allow-external", "-o", "counts.npy", "-q")
        return process, sleeping_helper(process)

    def gone(self, pid):
        for _ in range(1000):
            if not os.path.exists(f"/proc/{pid}"):
                return True
            time.sleep(0.005)
        return False

    def test_crash(self):
        for number, words in (signal.SIGSEGV, "crashed on it (segmentation fault, signal 11)"), (
                signal.SIGKILL, "crashed on it (killed, signal 9)"), (
                signal.SIGXCPU, "does not come to an end with it"):
            process, helper = self.begin()
            os.kill(helper, number)
            said = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 1)
            if not SANITIZED or number != signal.SIGSEGV:
                self.assertEqual(said.count("\n"), 1, said)
                self.assertIn("adjoin: p.h5: hdf5: the HDF5 library " + words, said)
            self.assertFalse(os.path.exists("counts.npy"))
            os.unlink("pipe")

    def test_interrupt(self):
        for number in signal.SIGINT, signal.SIGTERM:
            process, helper = self.begin()
            os.kill(process.pid, number)
            said = process.communicate(timeout=60)[1]
            self.assertEqual((process.returncode, said), (128 + number, "adjoin: stopped\n"))
            self.assertTrue(self.gone(helper))
            os.unlink("pipe")

    def test_program_killed(self):
        process, helper = self.begin()
        process.kill()
        process.communicate()
        self.assertTrue(self.gone(helper))

    def test_limits(self):
        process, helper = self.begin()
        with open(f"/proc/{helper}/limits", encoding="ascii") as file:
            limits = {line[:26].strip(): line[26:].split()[0] for line in file}
        with open(f"/proc/{helper}/status", encoding="ascii") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        open_files = {int(name): os.readlink(f"/proc/{helper}/fd/{name}") for name in os.listdir(f"/proc/{helper}/fd")}
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual([limits[name] for name in ("Max core file size", "Max file size", "Max processes")], ["0"] * 3)
        self.assertNotEqual(limits["Max address space"], "unlimited")
        self.assertNotEqual(limits["Max cpu time"], "unlimited")
        self.assertTrue(open_files[0].startswith("socket:"), open_files)
        self.assertEqual([open_files[1], open_files[2]], ["/dev/null"] * 2)
        others = [name for number, name in open_files.items() if number > 2]
        self.assertEqual([name for name in others if not name.endswith("p.h5")], [], others)

    def test_by_hand(self):
        done = run("--adjoin-helper", "0", "1000000", "p.h5")
        self.assertEqual(done.returncode, 2)


main()
