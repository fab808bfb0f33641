# SPDX-License-Identifier: MIT
"""Runs that are killed at random moments: under its name an output is absent, as it was before, or complete."""
import json
import os
import random
import time

from program import ProgramTest, main, read_bytes, start

KILLS = int(os.environ.get("ADJOIN_KILLS", "30"))  # 300 in the long form
SEED = int(os.environ.get("ADJOIN_SEED", "1"))

JOINS = [
    (["range", "-r", 0.05, "points.npy", "--distance"], ["pairs.npz"]),
    (["range", "-r", 0.04, "points.npy"], ["pairs.csv"]),
    (["knn", "-k", 10, "points.npy", "--distances", "near.fvecs"], ["near.fvecs", "near.ivecs"]),
    (["count", "-r", 0.05, "points.npy"], ["counts.npy"]),
    (["generate", "unif", "-n", 300000, "-d", 3], ["many.csv"]),
]
OLD = b"before"


class Killed(ProgramTest):
    def setUp(self):
        super().setUp()
        self.generate("unif", 40000, 3, "points.npy")
        self.random = random.Random(SEED)
        self.complete, self.seconds = {}, {}
        for number, (arguments, outputs) in enumerate(JOINS):
            began = time.monotonic()
            self.adjoin(*arguments, "-o", outputs[-1])
            self.seconds[number] = time.monotonic() - began
            for name in outputs:
                self.complete[name] = read_bytes(name)

    def parts(self):
        return [name for name in os.listdir(".") if ".part" in name]

    def kill_once(self, number, replace):
        """Returns the state of the last output, which gets its name last."""
        arguments, outputs = JOINS[number]
        for name in outputs:
            if os.path.exists(name):
                os.remove(name)
            if replace:
                with open(name, "wb") as file:
                    file.write(OLD)
        program = start(*arguments, "-o", outputs[-1], "-q",
                        *([] if arguments[0] == "generate" else ["--stats", "stats.json"]))
        after = self.random.uniform(0, 1.2 * self.seconds[number])
        time.sleep(after)
        program.kill()
        program.communicate()
        states = [self.state_of(name, after) for name in outputs]
        if states[-1] == "complete":
            self.assertEqual(set(states), {"complete"})
        self.check_stats()
        return states[-1]

    def state_of(self, name, after):
        if not os.path.exists(name):
            return "absent"
        data = read_bytes(name)
        if data == OLD:
            return "old"
        self.assertTrue(data == self.complete[name], f"{name}: {len(data)} bytes, killed after {after} s, seed {SEED}")
        return "complete"

    def check_stats(self):
        """A report is whole, too."""
        if os.path.exists("stats.json"):
            with open("stats.json", encoding="utf-8") as file:
                json.load(file)
            os.remove("stats.json")

    def test_at_any_moment(self):
        seen = {}
        for i in range(KILLS):
            number, replace = i % len(JOINS), bool(i // len(JOINS) % 2)
            with self.subTest(number=number, replace=replace):
                state = self.kill_once(number, replace)
                self.assertIn(state, ("complete", "old" if replace else "absent"))
                seen[state] = seen.get(state, 0) + 1
        print(f"{KILLS} runs killed: {seen}, {len(self.parts())} temporary files left")
        self.assertGreater(seen.get("absent", 0) + seen.get("old", 0), 0, "every run was over before it was killed")
        arguments, outputs = JOINS[0]
        self.adjoin(*arguments, "-o", outputs[0])
        self.assertTrue(read_bytes(outputs[0]) == self.complete[outputs[0]])
        self.assertEqual(self.parts(), [])


main()
