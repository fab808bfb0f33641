# SPDX-License-Identifier: MIT
"""What papers claim, and whether it holds on a machine: a sentence computed from its runs."""
import math
from dataclasses import dataclass, field

from .contenders import CONTENDERS
from .metrics import METRICS, measure, show

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "not measured"


class View:
    """The runs of one paper on one machine: {experiment id: {(panel, x, contender): record}}."""

    def __init__(self, runs):
        self.runs = runs

    def record(self, experiment, panel, x, contender):
        return self.runs.get(experiment, {}).get((panel, x, contender))

    def values(self, experiments, contender, metric, panels=None, xs=None):
        """{(panel, x): number} of the places where it was measured."""
        found = {}
        for experiment in experiments:
            for (panel, x, who), record in self.runs.get(experiment, {}).items():
                wanted = who == contender and (not panels or panel in panels) and (not xs or x in xs)
                value = measure(metric, record) if wanted else None
                if value is not None:
                    found[panel, x] = value
        return found

    def places(self, experiments, contenders, panels=None, xs=None):
        """Where one of them was to be measured."""
        return {(panel, x) for experiment in experiments for panel, x, who in self.runs.get(experiment, {})
                if who in contenders and (not panels or panel in panels) and (not xs or x in xs)}

    def reason(self, experiments, *contenders):
        """Why one of them has no runs."""
        for experiment in experiments:
            for (_, _, who), record in self.runs.get(experiment, {}).items():
                if who in contenders and record.get("status") != "ok":
                    return f"{CONTENDERS[who].label}: {record.get('reason', 'failed')}"
        return "no runs"


@dataclass(frozen=True)
class Verdict:
    word: str
    sentence: str


def _place(key):
    panel, x = key
    return f"{panel} at {x:g}" if isinstance(x, (int, float)) else str(panel)


def _mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


@dataclass(frozen=True)
class Claim:
    """The base: a claim that only a reader can judge, or that needs what we do not have."""
    text: str
    why: str = ""

    def judge(self, view):
        return Verdict(UNKNOWN, self.why or "Nothing here can be measured.")


@dataclass(frozen=True)
class Faster(Claim):
    """`a` takes less time than `b`: on average over the places, or at all of them."""
    a: str = ""
    b: str = ""
    at: tuple = ()      # experiments
    panels: tuple = ()
    xs: tuple = ()
    by: float = 1.0     # the claimed factor
    metric: str = "seconds"
    everywhere: bool = False

    def judge(self, view):
        a, b = (view.values(self.at, who, self.metric, self.panels, self.xs) for who in (self.a, self.b))
        # The faster of throughputs is the larger one.
        sign = -1 if self.metric in ("giga_s", "kernel_giga_s", "queries_s") else 1
        ratios = {key: (b[key] / a[key]) ** sign for key in a if key in b and a[key] > 0 and b[key] > 0}
        if not ratios:
            return Verdict(UNKNOWN, f"Not measured on this machine ({view.reason(self.at, self.a, self.b)}).")
        mean, least, most = _mean(ratios.values()), min(ratios, key=ratios.get), max(ratios, key=ratios.get)
        holds = (ratios[least] if self.everywhere else mean) >= self.by
        one, other = CONTENDERS[self.a].label, CONTENDERS[self.b].label
        text = f"{one} is {mean:.2f}× as fast as {other}"
        if len(ratios) > 1:
            text += (f" on average over {len(ratios)} joins, from {ratios[least]:.2f}× ({_place(least)}) "
                     f"to {ratios[most]:.2f}× ({_place(most)})")
        places = view.places(self.at, (self.a, self.b), self.panels, self.xs)
        if len(places) > len(ratios):
            text += f"; {len(places) - len(ratios)} places have no time of both"
        rule = f"at least {self.by:g}× " + ("everywhere" if self.everywhere else "on average")
        return Verdict(HOLDS if holds else FAILS, f"{text}. Asked for: {rule}.")


@dataclass(frozen=True)
class Within(Claim):
    """A number of a contender is within bounds at all places."""
    who: str = ""
    metric: str = "seconds"
    at: tuple = ()
    panels: tuple = ()
    xs: tuple = ()
    least: float = -math.inf
    most: float = math.inf

    def judge(self, view):
        values = view.values(self.at, self.who, self.metric, self.panels, self.xs)
        if not values:
            return Verdict(UNKNOWN, f"Not measured on this machine ({view.reason(self.at, self.who)}).")
        low, high = min(values, key=values.get), max(values, key=values.get)
        holds = values[low] >= self.least and values[high] <= self.most
        return Verdict(HOLDS if holds else FAILS,
                       f"{CONTENDERS[self.who].label}, {METRICS[self.metric][0]}: from {show(self.metric, values[low])} "
                       f"({_place(low)}) to {show(self.metric, values[high])} ({_place(high)}). Asked for: "
                       + " and ".join([f"at least {self.least:g}"] * math.isfinite(self.least)
                                      + [f"at most {self.most:g}"] * math.isfinite(self.most)) + ".")


@dataclass(frozen=True)
class Higher(Claim):
    """A number of `a` is larger than that of `b` at most places."""
    a: str = ""
    b: str = ""
    metric: str = "warp"
    at: tuple = ()
    panels: tuple = ()
    xs: tuple = ()

    def judge(self, view):
        a, b = (view.values(self.at, who, self.metric, self.panels, self.xs) for who in (self.a, self.b))
        keys = [key for key in a if key in b]
        if not keys:
            return Verdict(UNKNOWN, f"Not measured on this machine ({view.reason(self.at, self.a, self.b)}).")
        more = sum(a[key] > b[key] for key in keys)
        first, second = (show(self.metric, sum(v[key] for key in keys) / len(keys)) for v in (a, b))
        return Verdict(HOLDS if more * 2 > len(keys) else FAILS,
                       f"{METRICS[self.metric][0]}: {first} with {CONTENDERS[self.a].label} and {second} with "
                       f"{CONTENDERS[self.b].label} on average; higher at {more} of {len(keys)} places. Asked for: at most of them.")


@dataclass(frozen=True)
class Best(Claim):
    """Of the places on an axis, one is within `slack` of the best on average over the panels."""
    who: str = ""
    x: float = 0
    at: tuple = ()
    panels: tuple = ()
    slack: float = 1.1
    metric: str = "seconds"

    def judge(self, view):
        values = view.values(self.at, self.who, self.metric, self.panels)
        ratios = {}
        for panel in {panel for panel, _ in values}:
            of = {x: v for (p, x), v in values.items() if p == panel}
            if self.x in of and len(of) > 1:
                best = min(of, key=of.get)
                ratios[panel, best] = of[self.x] / of[best]
        if not ratios:
            return Verdict(UNKNOWN, f"Not measured on this machine ({view.reason(self.at, self.who)}).")
        mean, worst = _mean(ratios.values()), max(ratios, key=ratios.get)
        return Verdict(HOLDS if mean <= self.slack else FAILS,
                       f"At {self.x:g} {CONTENDERS[self.who].label} takes {mean:.2f} times as long as at the best place on "
                       f"average; at most {ratios[worst]:.2f} times, on {worst[0]}, where the best place is {worst[1]:g}. "
                       f"Asked for: at most {self.slack:g} times on average.")


@dataclass(frozen=True)
class Speedup(Claim):
    """The time at one place over that at another, of one contender: how it scales."""
    who: str = ""
    start: float = 1
    end: float = 0      # 0: the largest x there is
    least: float = 1
    at: tuple = ()
    panels: tuple = ()

    def judge(self, view):
        values = view.values(self.at, self.who, "seconds", self.panels)
        found = {}
        for panel in {panel for panel, _ in values}:
            of = {x: v for (p, x), v in values.items() if p == panel}
            end = self.end or max(of)
            if self.start in of and end in of and end != self.start:
                found[panel, end] = of[self.start] / of[end]
        if not found:
            return Verdict(UNKNOWN, f"Not measured on this machine ({view.reason(self.at, self.who)}).")
        low, high = min(found, key=found.get), max(found, key=found.get)
        return Verdict(HOLDS if _mean(found.values()) >= self.least else FAILS,
                       f"{CONTENDERS[self.who].label}: from {found[low]:.2f}× ({_place(low)}) to {found[high]:.2f}× "
                       f"({_place(high)}) of the speed at {self.start:g}. Asked for: at least {self.least:g}× on average.")


@dataclass(frozen=True)
class Computed(Claim):
    """A claim with a function of its own: view -> Verdict."""
    function: object = field(default=None, compare=False)

    def judge(self, view):
        return self.function(view)
