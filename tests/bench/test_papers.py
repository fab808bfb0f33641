# SPDX-License-Identifier: MIT
"""The papers' experiments without running one: definitions, transcribed numbers, sizes, judgement, storage."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
sys.dont_write_bytecode = True

import papers  # noqa: E402
from papers import claims, driver, model, run, schedule, store  # noqa: E402
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
        found = self.digests.get(dict(request).get("system"), "right")
        return found.copy() if isinstance(found, dict) else {"status": "ok", "seconds": 1.0, "digest": found}


class Answers(unittest.TestCase):
    def test_same_answer(self):
        self.assertTrue(driver.same_answer({"digest": "a"}, {"digest": "a"}))
        self.assertFalse(driver.same_answer({"digest": "a"}, {"digest": "b"}))
        self.assertTrue(driver.same_answer({"digest": "a", "distances": 1.0}, {"distances": 1.00001}))
        self.assertFalse(driver.same_answer({"digest": "a", "distances": 1.0}, {"distances": 1.1}))

    def measure(self, digests, keys):
        e = model.Experiment("F1", "", [], axis="S", panels=(model.Panel("p", "Expo2D2M", 1000, (1.0,)),), contenders=keys)
        places = schedule.places_of("x:F1", e, model.runs_of(e, model.SIZES["small"], CONTENDERS))
        session = run.Session(FakeDriver(digests), store.Store("/nowhere", "m"))
        return {r["contender"]: r for place in places for r in session.measure_place(place, 1)}, session.faults

    def test_wrong_answers_have_no_time(self):
        records, faults = self.measure({"lbjoin": "wrong"}, ("lbjoin", "auto", "super-ego"))
        self.assertEqual(len(faults), 1)
        self.assertEqual([records[who]["status"] for who in ("lbjoin", "auto", "super-ego")], ["not available", "ok", "ok"])

    def test_one_alone_is_checked_too(self):
        self.assertEqual(len(self.measure({"lbjoin": "wrong"}, ("lbjoin",))[1]), 1)
        self.assertEqual(self.measure({}, ("lbjoin",))[1], [])

    def test_without_company_there_is_no_time(self):
        records, faults = self.measure({None: driver.not_available("more than 1 s")}, ("lbjoin",))
        self.assertEqual((records["lbjoin"]["status"], faults), ("not available", []))


class Schedule(unittest.TestCase):
    def places(self, *names):
        work = [(f"{p.id}:{e.id}", e) for p, e in papers.find(names)]
        size = model.SIZES["full"]
        return [place for n, e in work for place in schedule.places_of(n, e, model.runs_of(e, size, CONTENDERS))]

    def test_every_figure_has_its_ends_before_any_has_all(self):
        ordered = schedule.in_order(self.places("002:F9", "004:F5.1", "003:F9"))
        waves = [place.wave for place in ordered]
        self.assertEqual(waves, sorted(waves))
        first = [place for place in ordered if place.wave == 0]
        self.assertEqual([g[0].name for g in schedule.groups(first)], ["004:F5.1", "003:F9", "002:F9"])
        self.assertEqual({(p.panel, p.x) for p in first if p.name == "003:F9"},
                         {(p.name, x) for p in papers.find(["003:F9"])[0][1].panels for x in (p.xs[0], p.xs[-1])})

    def test_what_took_too_long_is_not_tried_with_more(self):
        places = self.places("002:F9")
        mine = store.Store("/nowhere", "m")
        small, large = places[0], places[1]
        key = small.runs[0].key
        mine.runs["002:F9"] = {key: {**driver.not_available(store.too_long(2)), "request": dict(small.runs[0].request)}}
        self.assertEqual(schedule.hopeless(mine, large, large.runs[0]), f"more than 2 s at {small.x:g}")
        self.assertIsNone(schedule.hopeless(mine, large, large.runs[1]))
        self.assertIsNone(schedule.hopeless(mine, small, small.runs[0]))

    def test_clock(self):
        self.assertEqual(schedule.Clock(-1, 3).limit(3, 1), 0)
        clock = schedule.Clock(100, 10)
        clock.begin(2)
        self.assertGreater(clock.limit(2, 1), 10)
        self.assertGreater(clock.limit(2, 2), clock.limit(2, 1))
        self.assertAlmostEqual(clock.until - schedule.time.monotonic(), 50, delta=1)  # 2.5 times a fifth
        clock.begin(8)
        self.assertLessEqual(clock.until, clock.end)

    def test_time_is_kept_for_what_the_machine_can_do(self):
        e = papers.find(["002:F12"])[0][1]
        runs = model.runs_of(e, model.SIZES["quick"], CONTENDERS)
        self.assertEqual({r.contender for r in runs if schedule.takes_time(r, device=False)}, {"super-ego", "auto"})
        self.assertTrue(all(schedule.takes_time(r, device=True) for r in runs))


class Storage(unittest.TestCase):
    E = papers.find(["002:F9"])[0][1]

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def measured(self, runs):
        mine = store.Store(self.folder.name, "m")
        mine.begin({"machine": "m", "commit": "c"})
        session = run.Session(FakeDriver({}), mine)
        for place in schedule.places_of("002:F9", self.E, runs):
            mine.append(session.measure_place(place, 1))
        return mine

    def lacking(self, mine, runs, size):
        return run.lacking(mine, "002:F9", self.E, runs, model.SIZES[size], 16, 1)

    def test_runs_come_back_and_are_replaced(self):
        runs = model.runs_of(self.E, model.SIZES["quick"], CONTENDERS)
        mine = self.measured(runs)
        again = store.Store(self.folder.name, "m")  # never written as a whole: as after a kill
        self.assertEqual(again.runs, mine.runs)
        mine.write()
        self.assertEqual(store.Store(self.folder.name, "m").runs, mine.runs)
        self.assertEqual(self.lacking(again, runs, "quick"), [])
        others = model.runs_of(self.E, model.SIZES["small"], CONTENDERS)
        self.assertEqual(self.lacking(again, others, "small"), others)
        for reason, lacks in ((store.NO_TIME, runs), (store.too_long(0.3), runs), (store.too_long(2), []), ("refused", [])):
            again.runs["002:F9"][runs[0].key].update(driver.not_available(reason))
            self.assertEqual(self.lacking(again, runs, "quick"), lacks, reason)

    def test_a_line_that_was_cut_off_is_left_out(self):
        runs = model.runs_of(self.E, model.SIZES["small"], CONTENDERS)
        mine = self.measured(runs)
        mine.path.write_text(mine.path.read_text(encoding="utf-8")[:-9], encoding="utf-8")
        self.assertEqual(len(store.Store(self.folder.name, "m").runs["002:F9"]), len(runs) - 1)

    def test_only_places_that_lack_a_run_are_measured_again(self):
        runs = model.runs_of(self.E, model.SIZES["small"], CONTENDERS)
        mine = self.measured(runs)
        mine.runs["002:F9"][runs[0].key].update(driver.not_available(store.NO_TIME))
        self.assertEqual({(r.panel, r.x) for r in self.lacking(mine, runs, "small")}, {(runs[0].panel, runs[0].x)})

    def test_panels_with_more_points_are_complete(self):
        size = model.SIZES["small"]
        mine = self.measured([r for _, _, more in schedule.larger_panels(self.E, size, 16)[:1] for r in more])
        panel = next(iter(mine.runs["002:F9"]))[0]
        lacks = self.lacking(mine, model.runs_of(self.E, size, CONTENDERS), "small")
        self.assertEqual({r.panel for r in lacks}, {p.name for p in self.E.panels} - {panel})

    def test_numbers_are_short(self):
        self.assertEqual(store.compact({"seconds": 0.123456789, "pairs": 123456789, "same": True, "x": 1.0}),
                         {"seconds": 0.1235, "pairs": 123456789, "x": 1})


if __name__ == "__main__":
    unittest.main()
