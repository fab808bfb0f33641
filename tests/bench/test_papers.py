# SPDX-License-Identifier: MIT
"""The papers' experiments without running one: definitions, transcribed numbers, sizes, judgement, storage."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
sys.dont_write_bytecode = True

import papers  # noqa: E402
from papers import claims, driver, model, run  # noqa: E402
from papers.contenders import CONTENDERS  # noqa: E402
from papers.metrics import METRICS, measure  # noqa: E402

ALL = [(p, e) for p in papers.PAPERS for e in p.experiments]


def ok(seconds=1.0, **more):
    return {"status": "ok", "seconds": seconds, "queries": 10, "points": 10, "request": [], **more}


class Definitions(unittest.TestCase):
    def test_names_are_unique(self):
        names = [f"{p.id}:{e.id}".lower() for p, e in ALL]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(len(papers.find(["002"])), len(papers.PAPERS[2].experiments))
        self.assertEqual(papers.find(["002:t4"])[0][1].id, "T4")
        with self.assertRaises(KeyError):
            papers.find(["002:T99"])

    def test_every_experiment_has_claims_and_runs(self):
        for paper, e in ALL:
            with self.subTest(f"{paper.id}:{e.id}"):
                self.assertTrue(e.claims)
                self.assertTrue(all(claim.text for claim in e.claims))
                self.assertTrue(e.absent or e.uses or e.panels)
                for name in e.uses:
                    self.assertTrue(paper.get(name).panels)
                if e.panels:
                    self.assertIn(e.axis, model.AXES)
                    self.assertTrue(e.contenders)
                    self.assertEqual(len(e.panels), len({p.name for p in e.panels}))
                for metric in e.metrics:
                    self.assertIn(metric, METRICS)

    def test_contenders_have_colours_of_their_own(self):
        for paper, e in ALL:
            colours = [CONTENDERS[who].colour for who in e.contenders]
            self.assertEqual(len(colours), len(set(colours)), f"{paper.id}:{e.id}")

    def test_published_numbers_have_a_place(self):
        for paper, e in ALL:
            sources = [paper.get(name) for name in e.uses] or [e]
            places = {(p.name, float(x)) for s in sources for p in s.panels for x in p.xs}
            for told in e.published:
                with self.subTest(f"{paper.id}:{e.id} {told}"):
                    self.assertIn(told.contender, CONTENDERS)
                    if told.x is not None and e.panels + e.uses:
                        self.assertIn((told.panel, told.x), places)

    def test_claims_name_what_is_measured(self):
        for paper, e in ALL:
            for claim in e.claims:
                for name in getattr(claim, "at", ()):
                    source = paper.get(name)
                    panels = {p.name: p for p in source.panels}
                    for who in ("a", "b", "who"):
                        if getattr(claim, who, ""):
                            with self.subTest(f"{paper.id}:{e.id} {claim.text}"):
                                self.assertTrue(any(getattr(claim, who) in paper.get(n).contenders for n in claim.at))
                    for panel in getattr(claim, "panels", ()):
                        self.assertIn(panel, panels)
                    for x in getattr(claim, "xs", ()):
                        self.assertTrue(any(x in p.xs for p in source.panels), f"{paper.id}:{e.id} {claim.text} {x}")


class Transcription(unittest.TestCase):
    def test_tables_parse(self):
        rows = model.published_table("seconds", ("lbjoin", "lbjoin/warp"), "A 1 2.5 -\nB - 3 40")
        self.assertEqual([(r.panel, r.x, r.metric, r.value) for r in rows],
                         [("A", 1, "seconds", 2.5), ("B", None, "seconds", 3), ("B", None, "warp", 40)])
        with self.assertRaises(ValueError):
            model.published_table("seconds", ("lbjoin",), "A 1 2 3")

    def test_tables_have_all_their_rows(self):
        count = {f"{p.id}:{e.id}": len(e.published) for p, e in ALL}
        self.assertEqual(count["000:T7"], 48)
        self.assertEqual(count["000:T8"], 24)
        self.assertEqual(count["000:T9"], 48)
        self.assertEqual(count["001:T2"], 36)
        self.assertEqual(count["002:T6"], 30)
        self.assertEqual(count["003:T3"], 16)


class Sizes(unittest.TestCase):
    def test_runs_fit_the_machine(self):
        for size in model.SIZES.values():
            for paper, e in ALL:
                for r in model.runs_of(e, size, CONTENDERS):
                    words = dict(r.request)
                    with self.subTest(f"{size.name} {paper.id}:{e.id} {r.key}"):
                        self.assertLessEqual(words["count"], size.points)
                        if "mean" in words:
                            self.assertLessEqual(words["mean"] * words["count"], 1.001 * size.pairs)
                            self.assertLess(words["mean"], words["count"])
                        if "queries" in words:
                            self.assertLessEqual(words["queries"] * words["count"], max(size.cells, words["count"]))
                        if words["kind"] != "range":
                            self.assertGreater(words["k"], 0)
                            self.assertLess(words["k"], words["count"])

    def test_selectivities_keep_their_ratios(self):
        panel = model.Panel("p", "Expo2D2M", 1000, (1.0, 10.0, 100.0))
        e = model.Experiment("F1", "", [], axis="S", panels=(panel,), contenders=("auto",))
        means = [dict(r.request)["mean"] for r in model.runs_of(e, model.Size("s", 1, 5e4, 1e9, 1e9), CONTENDERS)]
        self.assertEqual(means, [0.5, 5.0, 50.0])

    def test_threads_beyond_the_cores_are_left_out(self):
        f7 = papers.find(["000:F7"])[0][1]
        some = model.runs_of(f7, model.SIZES["small"], CONTENDERS, cores=2)
        self.assertEqual({r.x for r in some}, {1, 2})


class Judgement(unittest.TestCase):
    def view(self, **runs):
        return claims.View({"F1": {("p", 1, who): record for who, record in runs.items()}})

    def test_faster(self):
        claim = claims.Faster("t", a="lbjoin", b="global", at=("F1",), by=1.5)
        self.assertEqual(claim.judge(self.view(lbjoin=ok(1), **{"global": ok(2)})).word, claims.HOLDS)
        self.assertEqual(claim.judge(self.view(lbjoin=ok(1), **{"global": ok(1.2)})).word, claims.FAILS)
        absent = self.view(lbjoin=ok(1), **{"global": driver.not_available("no GPU")})
        self.assertEqual(claim.judge(absent).word, claims.UNKNOWN)
        self.assertIn("no GPU", claim.judge(absent).sentence)

    def test_places_without_a_time_are_told(self):
        view = self.view(lbjoin=ok(1), **{"global": ok(2)})
        view.runs["F1"]["q", 1, "lbjoin"] = ok(1)
        view.runs["F1"]["q", 1, "global"] = driver.not_available("more than 2 s")
        claim = claims.Faster("t", a="lbjoin", b="global", at=("F1",))
        self.assertIn("1 places have no time", claim.judge(view).sentence)

    def test_more_throughput_is_faster(self):
        claim = claims.Faster("t", a="lbjoin", b="global", at=("F1",), metric="giga_s")
        self.assertEqual(claim.judge(self.view(lbjoin=ok(1), **{"global": ok(2)})).word, claims.HOLDS)

    def test_within_and_higher(self):
        view = self.view(lbjoin=ok(warp_efficiency=0.9), **{"global": ok(warp_efficiency=0.3)})
        self.assertEqual(claims.Within("t", who="lbjoin", metric="warp", at=("F1",), most=80).judge(view).word, claims.FAILS)
        self.assertEqual(claims.Higher("t", a="lbjoin", b="global", at=("F1",)).judge(view).word, claims.HOLDS)

    def test_best_place(self):
        view = claims.View({"F1": {("p", x, "auto"): ok(s) for x, s in ((1, 2.0), (8, 1.0), (32, 1.5))}})
        self.assertEqual(claims.Best("t", who="auto", x=8, at=("F1",)).judge(view).word, claims.HOLDS)
        self.assertEqual(claims.Best("t", who="auto", x=1, at=("F1",)).judge(view).word, claims.FAILS)
        self.assertEqual(claims.Speedup("t", who="auto", start=1, end=8, least=1.9, at=("F1",)).judge(view).word, claims.HOLDS)

    def test_every_claim_can_be_judged_without_runs(self):
        for _, e in ALL:
            for claim in e.claims:
                self.assertEqual(claim.judge(claims.View({})).word, claims.UNKNOWN)

    def test_failed_runs_have_no_numbers(self):
        self.assertIsNone(measure("seconds", driver.not_available("x")))
        self.assertIsNone(measure("failed", ok()))


class FakeDriver:
    """Answers with the digest of the contender's system."""

    def __init__(self, digests):
        self.digests = digests

    def run(self, request, limit):
        return {"status": "ok", "seconds": 1.0, "digest": self.digests.get(dict(request).get("system"), "right")}


class Answers(unittest.TestCase):
    def test_same_answer(self):
        self.assertTrue(driver.same_answer({"digest": "a"}, {"digest": "a"}))
        self.assertFalse(driver.same_answer({"digest": "a"}, {"digest": "b"}))
        self.assertTrue(driver.same_answer({"digest": "a", "distances": 1.0}, {"distances": 1.00001}))
        self.assertFalse(driver.same_answer({"digest": "a", "distances": 1.0}, {"distances": 1.1}))

    def measure(self, digests, keys):
        e = model.Experiment("F1", "", [], axis="S", panels=(model.Panel("p", "Expo2D2M", 1000, (1.0,)),), contenders=keys)
        runs = model.runs_of(e, model.SIZES["small"], CONTENDERS)
        return run.measure_experiment("x:F1", runs, FakeDriver(digests), driver.Clock(100, 10))

    def test_wrong_answers_have_no_time(self):
        records, faults = self.measure({"lbjoin": "wrong"}, ("auto", "lbjoin"))
        self.assertEqual(len(faults), 1)
        self.assertEqual(records["p", 1.0, "lbjoin"]["status"], "not available")
        self.assertEqual(records["p", 1.0, "auto"]["status"], "ok")

    def test_one_alone_is_checked_too(self):
        records, faults = self.measure({"lbjoin": "wrong"}, ("lbjoin",))
        self.assertEqual(len(faults), 1)
        self.assertEqual(self.measure({}, ("lbjoin",))[1], [])

    def test_clock(self):
        self.assertEqual(driver.Clock(-1, 3).limit(3, 1), 0)
        clock = driver.Clock(100, 10)
        clock.begin(2)
        self.assertGreater(clock.limit(2, 1), 10)
        self.assertGreater(clock.limit(2, 2), clock.limit(2, 1))
        self.assertAlmostEqual(clock.until - driver.time.monotonic(), 50, delta=1)  # 2.5 times a fifth
        clock.begin(8)
        self.assertLessEqual(clock.until, clock.end)


class Storage(unittest.TestCase):
    def test_runs_come_back_and_are_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            e = papers.find(["002:F9"])[0][1]
            runs = model.runs_of(e, model.SIZES["quick"], CONTENDERS)
            store = run.Store(folder, "m")
            store.runs["002:F9"], _ = run.measure_experiment("002:F9", runs, FakeDriver({}), driver.Clock(100, 10))
            store.write()
            again = run.Store(folder, "m")
            without = {key: {n: v for n, v in r.items() if n != "commit"} for key, r in again.runs["002:F9"].items()}
            self.assertEqual(without, store.runs["002:F9"])
            self.assertEqual(again.lacking("002:F9", runs), [])
            others = model.runs_of(e, model.SIZES["small"], CONTENDERS)
            self.assertEqual(again.lacking("002:F9", others), others)
            self.assertEqual(again.lacking("002:F10", runs), runs)
            again.runs["002:F9"][runs[0].key].update(driver.not_available(driver.NO_TIME))
            self.assertEqual(again.lacking("002:F9", runs), runs)  # another run has time

    def test_only_places_that_lack_a_run_are_measured_again(self):
        with tempfile.TemporaryDirectory() as folder:
            e = papers.find(["002:F9"])[0][1]
            runs = model.runs_of(e, model.SIZES["small"], CONTENDERS)
            store = run.Store(folder, "m")
            store.runs["002:F9"], _ = run.measure_experiment("002:F9", runs, FakeDriver({}), driver.Clock(100, 100))
            store.runs["002:F9"][runs[0].key].update(driver.not_available(driver.NO_TIME))
            lacking = store.lacking("002:F9", runs)
            self.assertEqual({(r.panel, r.x) for r in lacking}, {(runs[0].panel, runs[0].x)})
            store.put("002:F9", runs, {lacking[0].key: {"status": "new"}})
            self.assertEqual(len(store.runs["002:F9"]), len(runs))
            self.assertEqual(store.runs["002:F9"][lacking[0].key]["status"], "new")

    def test_time_is_kept_for_what_the_machine_can_do(self):
        e = papers.find(["002:F12"])[0][1]
        runs = model.runs_of(e, model.SIZES["quick"], CONTENDERS)
        self.assertEqual({r.contender for r in runs if run.takes_time(r, device=False)}, {"super-ego", "auto"})
        self.assertTrue(all(run.takes_time(r, device=True) for r in runs))


if __name__ == "__main__":
    unittest.main()
