# SPDX-License-Identifier: MIT
"""A small file system that becomes full, or a limit on the size of files: the run fails and says so, and what was there before is all that is there.

Mounts a file system of 256 KiB in a namespace of its own. Left out where the system does not allow that.
"""
import os
import resource
import shutil
import signal
import subprocess
import unittest

from program import ADJOIN, ProgramTest, main

MOUNT = 'mkdir small && mount -t tmpfs -o size=256k none small && '


def in_namespace(script, *arguments):
    """Runs a shell script that may mount; its arguments are $1, $2, ..."""
    return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *map(str, arguments)],
                          capture_output=True, text=True, timeout=120, check=False)


class SmallFileSystem(ProgramTest):
    def setUp(self):
        super().setUp()
        if not shutil.which("unshare") or in_namespace(MOUNT + "true").returncode:
            raise unittest.SkipTest("this system does not let a test mount a file system")
        os.rmdir("small")
        self.generate("unif", 20000, 2, "points.npy")

    def fill(self, *arguments, output, before=None):
        """Runs into the full file system; returns the message and the files that are left, with their sizes."""
        put = f'printf {before} >small/{output} && ' if before else ""
        done = in_namespace(MOUNT + put + '"$@"; code=$?; cd small; stat -c "%n %s" .* * 2>/dev/null; exit $code',
                            ADJOIN, *arguments, "-o", f"small/{output}")
        os.rmdir("small")
        self.assertEqual(done.returncode, 1, done.stderr)
        sizes = dict(line.split() for line in done.stdout.splitlines() if line.split()[0] not in (".", ".."))
        return done.stderr, sizes

    def test_results(self):
        for output in "out.npz", "out.csv", "out.npy":
            for before in None, "before":
                with self.subTest(output=output, before=before):
                    said, sizes = self.fill("range", "-r", 0.05, "points.npy", "--distance", "-q", output=output,
                                            before=before)
                    self.assertRegex(said, "No space left on device|its disk has [0-9]+")
                    self.assertEqual(sizes, {output: "6"} if before else {})

    def test_points(self):
        said, sizes = self.fill("generate", "unif", "-n", 100000, "-d", 3, "-q", output="out.npy", before="before")
        self.assertRegex(said, "No space left on device|its disk has [0-9]+")
        self.assertEqual(sizes, {"out.npy": "6"})


def limit_files():
    """A new process with a limit of 100 kB for each file, and the default action for the signal that says so."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, and its children would inherit that
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


class FileSizeLimit(ProgramTest):
    def test_limit(self):
        self.generate("unif", 20000, 2, "points.npy")
        for output in "out.npz", "out.csv", "out.npy":
            with self.subTest(output=output):
                done = self.adjoin("range", "-r", 0.05, "points.npy", "-o", output, code=1, preexec_fn=limit_files)
                self.assertIn(f"{output}: cannot be written: File too large", done.stderr)
                self.assertEqual(os.listdir("."), ["points.npy"])


main()
