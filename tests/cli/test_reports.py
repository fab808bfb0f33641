# SPDX-License-Identifier: MIT
"""What a run tells about itself: --stats, --trace, --explain, --progress, --quiet, and adjoin info."""
import json
import os
import pty
import subprocess
import time

from program import ADJOIN, ProgramTest, main, read_npz_pairs, run


class Reports(ProgramTest):
    FIELDS = ("adjoin command seconds wall_seconds pairs candidates peak_bytes backend algorithm threads isa n_left "
              "n_right dim type metric radius pairs_per_second cells batches batches_redone imbalance "
              "estimated_pairs estimated_candidates").split()

    def setUp(self):
        super().setUp()
        self.generate("clusters", 20000, 3, "points.npy")

    def test_stats(self):
        began = time.monotonic()
        self.adjoin("range", "-r", 0.005, "points.npy", "-o", "pairs.npz", "--stats", "stats.json", "--threads", 2)
        waited = time.monotonic() - began
        with open("stats.json", encoding="utf-8") as file:
            stats = json.load(file)
        self.assertEqual(list(stats), self.FIELDS)
        self.assertEqual(list(stats["seconds"]), ["read", "plan", "index", "join", "write"])
        self.assertEqual(stats["pairs"], len(read_npz_pairs("pairs.npz")))
        self.assertEqual((stats["command"], stats["n_left"], stats["n_right"], stats["dim"], stats["type"]),
                         ("range", 20000, 20000, 3, "f32"))
        self.assertEqual((stats["metric"], stats["radius"], stats["threads"]), ("l2", 0.005, 2))
        self.assertGreaterEqual(stats["candidates"], stats["pairs"] / 2)
        self.assertGreater(stats["peak_bytes"], 0)
        # The phases add up to what was waited for, but for starting the program and the threads.
        phases = sum(stats["seconds"].values())
        self.assertTrue(all(seconds >= 0 for seconds in stats["seconds"].values()))
        self.assertLessEqual(phases, 1.001 * stats["wall_seconds"])
        self.assertGreater(phases, 0.5 * stats["wall_seconds"])
        self.assertLess(stats["wall_seconds"], waited)

    def test_stats_of_a_device(self):
        """On a GPU there are more fields; where there is none, the program says so."""
        done = run("range", "-r", 0.005, "points.npy", "-o", "pairs.npz", "--backend", "gpu", "--stats", "stats.json")
        if done.returncode:
            self.assertIn("backend", done.stderr)
            self.assertFalse(os.path.exists("stats.json"))
            return
        with open("stats.json", encoding="utf-8") as file:
            stats = json.load(file)
        self.assertEqual(list(stats), self.FIELDS + ["device_seconds", "bytes_up", "bytes_down", "warp_efficiency"])
        self.assertEqual(list(stats["device_seconds"]), ["kernels", "upload", "download", "place"])
        for phase in "kernels", "download", "place":
            self.assertGreater(stats["device_seconds"][phase], 0)
            self.assertLess(stats["device_seconds"][phase], stats["wall_seconds"])
        self.assertEqual(stats["bytes_up"], 20000 * 3 * 4)
        self.assertGreaterEqual(stats["bytes_down"], stats["pairs"] * 4)
        self.assertTrue(0 < stats["warp_efficiency"] <= 1)

    def test_stats_of_several_workers(self):
        """Where cores and a GPU share a join, each has figures, and the GPU a lane of the trace."""
        done = run("knn", "-k", 4, "points.npy", "-o", "rows.npz", "--backend", "hybrid", "--tuning", "share=rates",
                   "--stats", "stats.json", "--trace", "trace.json", "--threads", 2)
        if done.returncode:
            self.assertIn("backend", done.stderr)
            return
        with open("stats.json", encoding="utf-8") as file:
            stats = json.load(file)
        self.assertEqual((stats["backend"], stats["algorithm"]), ("hybrid", "kdtree"))
        self.assertEqual([worker["name"] for worker in stats["workers"]], ["cpu", "gpu 0"])
        self.assertEqual(sum(worker["queries"] for worker in stats["workers"]), 20000)
        self.assertTrue(0 <= stats["worker_imbalance"] <= 1)
        for worker in stats["workers"]:
            self.assertEqual(worker["failed"], 0)
            self.assertEqual(worker["queries"] > 0, worker["queries_per_second"] > 0)
        with open("trace.json", encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.assertIn("device 0", [event["args"].get("name") for event in events if event["name"] == "thread_name"])
        self.assertTrue(any(event.get("tid") == 2 and event["name"] == "join" for event in events))

    def test_stats_on_standard_output(self):
        done = self.adjoin("count", "-r", 0.02, "points.npy", "--metric", "linf", "--stats", "-")
        self.assertEqual(json.loads(done.stdout)["metric"], "linf")

    def test_trace(self):
        self.adjoin("range", "-r", 0.02, "points.npy", "-o", "pairs.csv", "--trace", "trace.json", "--threads", 2)
        with open("trace.json", encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        pieces = [event for event in events if event["ph"] == "X"]
        names = {event["name"] for event in pieces}
        self.assertLessEqual({"read", "check", "plan and index", "join and write", "write"}, names)
        named = {event["tid"] for event in events if event["name"] == "thread_name"}
        self.assertEqual(named, {event["tid"] for event in pieces})
        self.assertTrue(all(event["ts"] >= 0 and event["dur"] >= 0 for event in pieces))

    def test_quiet_and_progress(self):
        quiet = self.adjoin("range", "-r", 0.02, "points.npy", "-q")
        self.assertEqual(quiet.stderr, "")
        plain = self.adjoin("range", "-r", 0.02, "points.npy")
        self.assertNotIn("\r", plain.stderr)
        self.assertNotIn("%", plain.stderr)
        self.assertEqual(plain.stdout, quiet.stdout)

    def test_progress_without_a_terminal(self):
        self.generate("unif", 12000, 2, "slow.npy")
        shown = self.adjoin("count", "-r", 0.5, "slow.npy", "--backend", "reference", "--progress", "--threads", 1)
        lines = shown.stderr.splitlines()
        self.assertGreaterEqual(len(lines), 2)
        for line in lines[:-1]:
            self.assertRegex(line, r"^\[#*\.*\] \w+ +\d+ %  .* pairs, .*/s")

    def test_progress_on_a_terminal(self):
        """The line is drawn in place and erased: what stays on the screen is the summary."""
        screen, terminal = pty.openpty()
        self.generate("unif", 10000, 2, "slow.npy")
        with subprocess.Popen([ADJOIN, "range", "-r", "0.5", "slow.npy", "--backend", "reference"],
                              stdout=subprocess.DEVNULL, stderr=terminal) as program:
            os.close(terminal)
            text = b""
            while True:
                try:
                    more = os.read(screen, 65536)
                except OSError:  # the program has closed its end
                    break
                if not more:
                    break
                text += more
        os.close(screen)
        self.assertEqual(program.returncode, 0)
        self.assertIn(b"\r[", text)
        self.assertIn(b" pairs, ", text)
        kept = text.decode().replace("\r\n", "\n").split("\r\x1b[K")[-1]
        self.assertTrue(kept.startswith("adjoin: "), kept)

    def test_explain(self):
        plan = self.adjoin("range", "-r", 0.02, "points.npy", "--dry-run")
        self.assertEqual(plan.stderr, "")
        self.assertGreater(len(plan.stdout), 50)
        done = self.adjoin("range", "-r", 0.02, "points.npy", "--explain", "-q")
        self.assertRegex(done.stdout, r"^\d+\n$")
        first_line = plan.stdout.splitlines()[0]
        self.assertEqual(done.stderr.count(first_line), 1, "the plan is printed once")

    def test_info(self):
        machine = self.adjoin("info").stdout
        for word in "threads", "instructions", "memory", "huge pages", "built with", "devices":
            self.assertIn(word, machine)
        self.assertRegex(machine, r"\nthreads {9}\d+: (one per usable core|of \d+ usable cores [\d.]+, by /)")
        self.assertRegex(machine, r"a join may use [\d.]+ \w+: 90 % of the [\d.]+ \w+ that are (available|free of )")
        about = self.adjoin("info", "points.npy").stdout
        self.assertIn("points          20,000\n", about)
        self.assertIn("dimensions      3\n", about)
        command = next(line for line in about.splitlines() if line.startswith("Next: adjoin "))
        self.adjoin(*command.split()[2:])

    def test_costs(self):
        """Where the planner's figures come from; what is wrong with the file is told."""
        self.assertIn("costs           built in", self.adjoin("info").stdout)
        with open("costs", "w", encoding="utf-8") as file:
            file.write("not costs\n")
        told = self.adjoin("info", env=dict(os.environ, ADJOIN_COSTS="costs"))
        self.assertIn("costs           built in", told.stdout)
        self.assertIn("warning: costs: is damaged", told.stderr)
        done = self.adjoin("info", "--calibrate", code=2)
        self.assertIn("ADJOIN_COSTS", done.stderr)

    def test_info_of_a_table(self):
        """What to do next reads the file as it was read."""
        with open("room.csv", "w", encoding="utf-8") as file:
            file.write("name,x,y\nlamp,0,0\nchair,3,4\n")
        about = self.adjoin("info", "room.csv", "--id", "name", "--type", "f64").stdout
        command = next(line for line in about.splitlines() if line.startswith("Next: adjoin "))
        self.assertTrue(command.endswith("room.csv --type f64 --id name"), command)
        self.adjoin(*command.split()[2:])


main()
