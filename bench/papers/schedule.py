# SPDX-License-Identifier: MIT
"""Which runs come first, and how long each may take.

A place is what one join of an experiment is: a panel and an x, with all contenders, whose answers are compared. Places
are measured in waves, so that every figure has its main lines before any has all of them:

  0  the ends of the axis, of the first panels
  1  the ends of the axis, of all panels
  2  the middle of the axis
  3  the rest

After them, while there is time, panels are measured again with more points (LARGER)."""
import time
from dataclasses import dataclass, field

from .contenders import CONTENDERS
from .model import larger, runs_of
from .store import TOO_LONG

FIRST_PANELS = 3
FIRST_PAPERS = ("004", "003")  # whose figures come first in each wave
LARGER = (4, 16)               # times the points, as far as the paper has them
# A contender that took too long at one x of these axes takes too long at a larger one.
GROWING = ("S", "k", "K", "d", "q")


@dataclass
class Place:
    name: str  # of the experiment: "002:F9"
    experiment: object
    panel: str
    x: object
    runs: list = field(default_factory=list)
    wave: int = 0


def _rank(count, at):
    """Both ends first, then the middle."""
    order = list(dict.fromkeys((0, count - 1, count // 2, *range(count))))
    return order.index(at)


def places_of(name, experiment, runs):
    """The places of an experiment, with their waves."""
    found = {}
    for run in runs:
        found.setdefault((run.panel, run.x), Place(name, experiment, run.panel, run.x)).runs.append(run)
    panels = list(dict.fromkeys(panel for panel, _ in found))
    for panel in panels:
        mine = [place for place in found.values() if place.panel == panel]
        for at, place in enumerate(mine):
            rank = _rank(len(mine), at)
            place.wave = rank if rank > 1 else 0 if panels.index(panel) < FIRST_PANELS else 1
            place.wave = min(3, place.wave)
    return list(found.values())


def in_order(places):
    """By wave; in a wave by paper and experiment, as they are given, but some papers first."""
    def first(place):
        paper = place.name.split(":")[0]
        return FIRST_PAPERS.index(paper) if paper in FIRST_PAPERS else len(FIRST_PAPERS)
    return sorted(places, key=lambda place: (place.wave, first(place)))  # stable


def groups(places):
    """Places that follow each other and belong to one experiment and wave."""
    found = []
    for place in places:
        if not found or (found[-1][0].name, found[-1][0].wave) != (place.name, place.wave):
            found.append([])
        found[-1].append(place)
    return found


def takes_time(run, device):
    """Whether the machine can do it at all: the others are answered at once."""
    words = dict(run.request)
    on_device = words.get("backend") in ("gpu", "hybrid") or words["kind"] == "select"
    return not CONTENDERS[run.contender].absent and (device or not on_device)


def weight_of(places, device):
    return sum(p.experiment.weight * sum(takes_time(run, device) for run in p.runs) for p in places)


def hopeless(store, place, run):
    """Why a run is left out: it took too long at a smaller x. None: it is not."""
    if place.experiment.axis not in GROWING:
        return None
    for (panel, x, who), record in store.runs.get(place.name, {}).items():
        reason = record.get("reason") or ""
        words = {**dict(run.request), **{n: None for n in ("mean", "k", "dim", "queries")}}
        same = {**record["request"], **{n: None for n in ("mean", "k", "dim", "queries")}} == words
        if panel == place.panel and who == run.contender and x < place.x and same and reason.startswith(TOO_LONG):
            return f"{reason.split(' at ')[0]} at {x:g}"
    return None


class Clock:
    """Shares the time that is left among the places that are left. A run counts by the weight of its experiment."""
    MOST = 2.5   # of its share that a group of places may take
    SLOW = 8     # of the mean that a run may take: most are short
    LEAST = 0.5  # seconds of a run

    def __init__(self, seconds, weight):
        self.end = self.until = time.monotonic() + seconds
        self.weight = weight

    @property
    def left(self):
        return self.end - time.monotonic()

    def begin(self, weight):
        """A group of that weight begins; what was not measured of the one before is gone."""
        self.until = min(self.end, time.monotonic() + max(2, self.MOST * self.left * weight / max(1, self.weight)))
        self.weight -= weight

    def limit(self, ahead, own):
        """Of the next run, of a group that has so much ahead; 0: there is no time."""
        if self.until <= time.monotonic():
            return 0
        return min(max(self.LEAST, self.SLOW * own * self.left / max(1, self.weight + ahead)), max(1, self.left))


def larger_panels(experiment, size, cores):
    """[(factor, panel's name, its runs)] with more points than at this size, the smaller ones first."""
    found = []
    before = runs_of(experiment, size, CONTENDERS, cores)
    for factor in LARGER:
        runs = runs_of(experiment, larger(size, factor), CONTENDERS, cores)
        for panel in experiment.panels:
            new = [run for run in runs if run.panel == panel.name]
            if new and new != [run for run in before if run.panel == panel.name]:
                found.append((factor, panel.name, new))
        before = runs
    return found
