# SPDX-License-Identifier: MIT
"""The model of bench/scaling.py, and its check against the runs in bench/scaling.json."""
import json
import os
import sys
import unittest

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.insert(0, BENCH)
import scaling  # noqa: E402  after the path


class Model(unittest.TestCase):
    def test_halo(self):
        """A cube in eight: three inner faces each, and what is within a radius of them."""
        join = scaling.Join(8e6, 3, 30)
        self.assertEqual(scaling.halo_share(join, 1), 0)
        self.assertEqual(scaling.cuts_per_axis(8, 3), [2, 2, 2])
        radius = (30 / scaling.ball(3)) ** (1 / 3)  # at one point per unit of volume, in a cube of side 200
        self.assertAlmostEqual(scaling.halo_share(join, 8), (1 + radius / 100) ** 3 - 1)

    def test_one_rank_sends_nothing(self):
        steps, sent, _ = scaling.halo_cost(scaling.Join(1e6, 3, 30), 1, scaling.GPU)
        self.assertEqual((sent, steps["network"]), (0, 0))

    def test_memory(self):
        self.assertIsNone(scaling.gpu_seconds(scaling.Join(1e11, 3, 30, "range"), 1))
        self.assertIsNotNone(scaling.gpu_seconds(scaling.Join(1e11, 3, 30, "range"), 1024))

    def test_bytes_of_measured_runs(self):
        """Bytes do not depend on the machine, so the model has to meet them."""
        with open(os.path.join(BENCH, "scaling.json"), encoding="ascii") as file:
            runs = json.load(file)["runs"]
        rates = scaling.fit(runs)
        compared = scaling.compare(runs, rates)
        self.assertTrue(compared)
        for run, _, sent in compared:
            measured = run["bytes_points"] + run["bytes_rows"]
            self.assertLess(abs(sent - measured), 0.2 * measured, run)


unittest.main()
