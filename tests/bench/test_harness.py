#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of the benchmark's judgement, on made-up results: a wrong answer must never get a time, and a slower or
different join must never pass a comparison."""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import cases  # noqa: E402
import drivers  # noqa: E402
import points  # noqa: E402
import report  # noqa: E402
import runner  # noqa: E402

BUCKETS = 4096


def line(seconds=1.0, pairs=1_000_000, changed=()):
    """What a driver prints; changed: numbers of the buckets in which this answer is another one."""
    buckets = ["f" * 16 if b in changed else f"{b:016x}" for b in range(BUCKETS)]
    name = f"{len(changed):016x}"
    return {"seconds": seconds, "pairs": pairs, "degree_sum": name, "pair_sum": name, "buckets": "".join(buckets)}


class FakeDrivers:
    """Plays back lines by the contender's name; a text is a failure."""

    def __init__(self, lines):
        self.lines = lines
        self.calls = []

    def run(self, contender, *_):
        self.calls.append(contender.name)
        answer = self.lines[contender.name]
        if isinstance(answer, str):
            raise drivers.Failed(answer)
        return dict(answer)


def near(seconds=1.0, far=0, total=5000.0, changed=()):
    """What a driver prints of a kNN join."""
    return line(seconds, changed=changed) | {"far_rows": far, "distance_sum": total}


def run(lines, repeats=1, case=cases.CASES[0]):
    """The record of one case with these contenders, and the calls that were made."""
    fake = FakeDrivers(lines)
    setting = types.SimpleNamespace(drivers=fake, repeats=repeats, threads=1, timeout=1, say=lambda text: None)
    known = [c for c in drivers.OURS + drivers.PEERS if c.name in lines]
    return runner.run_case(case, case.modes[0], "points.npy", known, setting), fake.calls


class Agreement(unittest.TestCase):
    def test_rows_that_differ_are_estimated(self):
        self.assertEqual(runner.differing_rows(line(), line()), 0)
        self.assertEqual(runner.differing_rows(line(), line(changed=[7])), 1)
        self.assertAlmostEqual(runner.differing_rows(line(), line(changed=range(1000))), 1145, delta=5)
        self.assertEqual(runner.differing_rows(line(), line(changed=range(BUCKETS))), 1_000_000)

    def test_equal_answers_give_a_ratio(self):
        record, _ = run({"adjoin": line(0.5), "adjoin/any": line(0.4), "nanoflann/16": line(2.0)})
        self.assertEqual((record["ratio"], record["best_peer"], record["faults"]), (4.0, "nanoflann/16", []))

    def test_another_answer_of_ours_is_a_fault_however_small(self):
        record, _ = run({"adjoin": line(), "adjoin/any": line(changed=[1])})
        self.assertEqual(len(record["faults"]), 1)

    def test_a_peer_may_round_a_pair_on_the_boundary_differently(self):
        record, _ = run({"adjoin": line(), "nanoflann/16": line(2.0, changed=[1, 2, 3])})
        self.assertEqual((record["ratio"], record["faults"]), (2.0, []))
        self.assertIn("nanoflann/16 ~3 rows", report.agreement_text(record))

    def test_a_peer_with_another_answer_gets_no_time(self):
        record, _ = run({"adjoin": line(), "nanoflann/16": line(0.1, changed=range(50)), "scipy/pairs": line(3.0)})
        self.assertEqual((record["ratio"], record["best_peer"]), (3.0, "scipy/pairs"))
        self.assertEqual(len(record["faults"]), 1)

    def test_a_peer_known_to_round_is_left_out_without_a_fault(self):
        record, _ = run({"adjoin": line(), "faiss/flat": line(0.1, changed=range(50))})
        self.assertEqual((record["ratio"], record["faults"]), (None, []))

    def test_modes_of_ours_must_agree(self):
        first, _ = run({"adjoin": line()})
        second, _ = run({"adjoin": line(changed=[1])})
        second["mode"] = "count"
        self.assertEqual(runner.check_modes([first]), [])
        self.assertEqual(len(runner.check_modes([first, second])), 1)


class Nearest(unittest.TestCase):
    CASE = next(case for case in cases.CASES if case.name == "knn-unif2d-8")
    FAR = next(case for case in cases.CASES if not case.contest)

    def run_near(self, lines, case=CASE):
        return run(lines, case=case)[0]

    def test_a_peer_may_break_ties_otherwise(self):
        record = self.run_near({"adjoin": near(0.5), "nanoflann/16": near(2.0, changed=range(4000))})
        self.assertEqual((record["ratio"], record["best_peer"], record["faults"]), (4.0, "nanoflann/16", []))

    def test_our_algorithms_may_not(self):
        record = self.run_near({"adjoin": near(), "adjoin/brute": near(changed=[1])})
        self.assertEqual(len(record["faults"]), 1)

    def test_a_peer_with_other_distances_gets_no_time(self):
        for wrong in near(0.1, far=50), near(0.1, total=5001.0):
            record = self.run_near({"adjoin": near(), "nanoflann/16": wrong, "scipy/query": near(3.0)})
            self.assertEqual((record["ratio"], record["best_peer"]), (3.0, "scipy/query"))
            self.assertEqual(len(record["faults"]), 1)

    def test_where_peers_are_known_to_go_wrong_it_is_no_fault(self):
        record = self.run_near({"adjoin": near(), "sklearn/brute": near(0.1, far=9999)}, self.FAR)
        self.assertEqual((record["ratio"], record["faults"]), (None, []))
        self.assertIn("sklearn/brute ~9999 rows", report.agreement_text(record))

    def test_a_sample_stands_for_all_rows(self):
        large = next(case for case in cases.CASES if case.k == 512)
        record = self.run_near({"adjoin": near(), "nanoflann/16": near(2.0, far=2)}, large)
        self.assertEqual(record["contenders"]["nanoflann/16"]["differing_rows"], 2 * 31)

    def test_peers_that_would_take_minutes_are_left_out_and_named(self):
        large = next(case for case in cases.CASES if case.k == 512)
        record, calls = run({"adjoin": near(), "sklearn/kdtree": near()}, case=large)
        self.assertEqual(calls, ["adjoin"])
        self.assertIn("left out", report.problems([record], {})[0])
        self.assertIn("GB for its result", drivers.left_out(drivers.PEERS[0], large, memory=1e9))
        self.assertIsNone(drivers.left_out(drivers.OURS[0], large, memory=1e9))


class Rounds(unittest.TestCase):
    def test_contenders_take_turns_and_the_hopeless_run_once(self):
        _, calls = run({"adjoin": line(1.0), "nanoflann/10": line(2.0), "nanoflann/16": line(3.0),
                        "scipy/pairs": line(90.0)}, repeats=3)
        self.assertEqual(calls[:4], ["adjoin", "nanoflann/10", "nanoflann/16", "scipy/pairs"])
        self.assertEqual(calls[4:], ["nanoflann/10", "adjoin", "adjoin", "nanoflann/10"])

    def test_a_failed_peer_is_named_and_ours_failing_is_a_fault(self):
        record, _ = run({"adjoin": line(), "nanoflann/16": "over 120 s"})
        self.assertEqual(record["faults"], [])
        self.assertEqual(report.problems([record], {}), ["unif2d-10 csr: nanoflann/16: over 120 s"])
        record, _ = run({"adjoin": "out of memory", "nanoflann/16": line()})
        self.assertEqual(record["faults"], ["adjoin: out of memory"])


class Compare(unittest.TestCase):
    def compare(self, old_line, new_line):
        runs = [{"machine": {"commit": "c", "cpu": "p"}, "cases": [run({"adjoin": each})[0]]}
                for each in (old_line, new_line)]
        with contextlib.redirect_stdout(io.StringIO()):
            return report.compare(*runs, limit=1.1)

    def test_slower_and_different_are_found(self):
        self.assertEqual(self.compare(line(1.0), line(1.05)), [])
        self.assertEqual(len(self.compare(line(1.0), line(1.2))), 1)
        self.assertEqual(len(self.compare(line(1.0), line(1.0, pairs=999))), 1)

    def test_the_command_says_so_by_its_exit_status(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for seconds in (1.0, 2.0):
                path = pathlib.Path(folder) / f"{seconds}.json"
                record, _ = run({"adjoin": line(seconds)})
                path.write_text(json.dumps({"machine": {"commit": "c", "cpu": "p"}, "cases": [record]}))
                paths.append(str(path))
            for pair, status in ((paths, 1), (paths[::-1], 0)):
                done = subprocess.run([sys.executable, str(BENCH / "bench.py"), "compare", *pair], check=False,
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, status, done.stderr)


class Cases(unittest.TestCase):
    def test_names_are_unique_and_points_are_what_they_say(self):
        names = [case.name for case in cases.CASES]
        self.assertEqual(len(names), len(set(names)))
        for case in cases.CASES:
            size = f"{case.count // 10**6}M" if case.count >= 10**6 else f"{case.count // 1000}K"
            self.assertTrue(case.points.endswith(f"{case.dim}D{size}"), case.points)
            self.assertIn(case.generator, ("unif", "expo", "clusters", "codes", "normal", "far", "sphere", "repeats", "scales"))

    def test_real_sets_have_names_of_their_own(self):
        for name in "GAIA", "SW2DA", "SDSS", "SuSy":
            self.assertEqual(cases.Case("x", name, 1000, 2, 8).generator, name.lower())


class Files(unittest.TestCase):
    def test_the_file_of_a_real_set_goes_before_the_imitation(self):
        with tempfile.TemporaryDirectory() as folder:
            data = points.Points(pathlib.Path(folder) / "data", adjoin=None)
            with self.assertRaises(FileNotFoundError):
                data.generate("SW2DA", 1000, 2)  # no file, and no program to make one
            data.folder.mkdir()
            path = data.folder / "SW2DA.npy"
            path.touch()
            self.assertEqual(data.generate("sw2da", 1000, 2), path)
            (data.folder / "unif.npy").touch()
            for arguments in ("unif", 1000, 2), ("SW2DB", 1000, 2), ("SW2DA", 1000, 2, "csv"), ("SW2DA", 1000, 2, "npy", 2):
                with self.assertRaises(FileNotFoundError):
                    data.generate(*arguments)


if __name__ == "__main__":
    unittest.main()
