# SPDX-License-Identifier: MIT
"""What an experiment is, and the joins it makes on a machine of a given size.

An experiment is a table or a figure of a paper: some panels (usually a set of points each), an axis along which
something changes, and contenders. Each combination is one run. Sizes are the papers'; a machine does a part of that
(Size), and selectivities are scaled so that results stay within its memory and time."""
import copy
from dataclasses import dataclass, field, replace

# Generated sets whose name does not tell their size.
POINTS = {"gaia": 25_000_000, "osm": 25_000_000, "sw2da": 1_860_000, "sw2db": 5_160_000, "sw3da": 1_860_000,
          "sw3db": 5_160_000, "sdss": 15_230_000, "cooctexture": 68_040, "colorhist": 68_040, "layouthist": 66_616,
          "susy": 5_000_000, "songs": 515_345}


@dataclass(frozen=True)
class Size:
    """What a machine can do in the time there is. Fractions of the papers' sizes are the experiments' own."""
    name: str
    seconds: float      # for all experiments together
    pairs: float        # most pairs of a range join
    cells: float        # most distances of a brute-force kNN join or a matrix
    points: float       # most points
    one: bool = False   # only the first place on the axis of the first panel
    times: float = 1    # the experiments' fractions


SIZES = {size.name: size for size in (
    Size("full", 450, 4e8, 4e9, 50e6),
    Size("small", 600, 1.5e7, 2e9, 1e6),
    Size("quick", 280, 3e3, 4e4, 400, one=True))}


MOST_PAIRS = 2e9


def larger(size, factor):
    """So many times the points, and results that grow with them."""
    return replace(size, times=factor, pairs=min(size.pairs * factor, MOST_PAIRS), cells=size.cells * factor)


@dataclass(frozen=True)
class Panel:
    name: str           # as the paper calls the set, or the configuration
    data: str           # a generator of adjoin generate
    points: int         # in the paper
    xs: tuple
    request: dict = field(default_factory=dict)   # what else the driver is told
    share: float = 1.0  # of what other panels have of their paper's size

    def count(self, size, share):
        return int(max(64, min(self.points * share * self.share, self.points, size.points)))


@dataclass(frozen=True)
class Published:
    """A figure from the paper's text or tables. x None: of the whole panel."""
    panel: str
    x: object
    contender: str
    metric: str
    value: float


@dataclass(frozen=True)
class Plot:
    """lines: a metric of each contender, a panel each. ratio: of times, one line for each panel: seconds of the first of
    a pair over those of the second, a plot for each pair. batches: queries of the batches that the device took."""
    metric: str = "seconds"
    kind: str = "lines"
    pairs: tuple = ()
    also: str = ""      # a second metric, dashed
    log_x: bool = False
    log_y: bool = True


@dataclass
class Experiment:
    id: str
    title: str
    claims: list
    axis: str = ""       # a key of AXES
    panels: tuple = ()
    contenders: tuple = ()
    metrics: tuple = ("seconds",)  # of the table
    plot: Plot = None
    published: tuple = ()
    note: str = ""       # what is different here
    absent: str = ""     # why it cannot be repeated at all
    uses: tuple = ()     # experiments whose runs it shows, in place of its own
    kind: str = "range"
    type: str = "f32"
    full: float = 1.0    # of the paper's points, on a large machine
    small: float = 0.05  # on a small one
    repeats: int = 3
    pairs: float = 1.0   # of the pairs that the machine can do: less where slow contenders take part
    weight: float = 1.0  # of the time of a run, beside those of other experiments

    def share(self, size):
        return min(1.0, size.times * {"full": self.full, "small": self.small}.get(size.name, 1.0))


@dataclass
class Paper:
    id: str
    name: str      # of the system
    title: str
    machine: str   # on which it was measured
    experiments: list
    slug: str

    def get(self, id):
        return next(e for e in self.experiments if e.id == id)


@dataclass(frozen=True)
class Run:
    panel: str
    x: object
    contender: str
    request: tuple  # of (name, value)

    @property
    def key(self):
        return self.panel, self.x, self.contender


# ---- Axes: what x changes in a request -----------------------------------------------------------------------


def _setting(name):
    def change(request, x):
        request["tuning"] = ",".join(filter(None, (request.get("tuning"), f"{name}={x}")))
    return change


def _value(name):
    def change(request, x):
        request[name] = x
    return change


def _fraction(request, x):
    request["k"] = max(1, int(x * request["count"]))


AXES = {
    "S": ("neighbours per point, S", _value("mean")),
    "k": ("neighbours, k", _value("k")),
    "K": ("neighbours, K", _value("k")),
    "threads": ("threads", _value("threads")),
    "d": ("dimensions, d", _value("dim")),
    "q": ("queries, q", _value("queries")),
    "part": ("query set", _value("part")),
    "k/n": ("selected share of the database, k/n", _fraction),
    "indexed": ("indexed dimensions, k", _setting("indexed")),
    "t": ("threads per query point, t", _setting("paper.point_threads")),
    "n_large": ("first batch of the GPU, share of the queries", _setting("paper.n_large")),
    "epsilon": ("factor of the first search distance", _setting("paper.epsilon")),
    "partitions": ("partitions of a query", _setting("paper.partitions")),
    "reads": ("values read at once by a thread", _setting("paper.reads")),
}


def selectivity_scale(most, pairs, count):
    """The factor on S, at most 1, so that a result with S = most fits."""
    return min(1.0, pairs / (count * most), 0.9 * count / most)


def _request(experiment, panel, contender, size, x):
    count = panel.count(size, experiment.share(size))
    request = {"data": panel.data, "count": count, "kind": experiment.kind, "type": experiment.type,
               "repeats": experiment.repeats if size.name != "quick" else 1}
    request.update(panel.request)
    request.update(contender.request)
    if "tuning" in panel.request and "tuning" in contender.request:
        request["tuning"] = panel.request["tuning"] + "," + contender.request["tuning"]
    if experiment.axis:
        AXES[experiment.axis][1](request, x)
    if "mean" in request:
        most = max(panel.xs) if experiment.axis == "S" else request["mean"]
        scale = selectivity_scale(most, size.pairs * experiment.pairs, count)
        request["mean"] = float(f"{request['mean'] * scale:.4g}")
    if request.get("queries"):
        request["queries"] = int(max(1, min(request["queries"], size.cells / request["count"])))
    if request["kind"] == "select":
        request.pop("data"), request.pop("type")
    if request.get("k"):
        request["k"] = int(min(request["k"], request["count"] // 2))
    return tuple(sorted(request.items()))


def runs_of(experiment, size, contenders, cores=None):
    """All runs of an experiment, those of the same place after each other. cores: of the machine, where x is threads."""
    found = []
    for panel in experiment.panels:
        xs = [x for x in panel.xs if experiment.axis != "threads" or not cores or x <= cores]
        for x in xs[:1] if size.one else xs:
            for key in experiment.contenders:
                found.append(Run(panel.name, x, key, _request(experiment, panel, contenders[key], size, x)))
        if size.one:
            break
    return found


def variant(experiment, **changes):
    """A copy with other members."""
    other = copy.copy(experiment)
    for name, value in changes.items():
        setattr(other, name, value)
    return other


def published_table(metric, columns, text):
    """Transcribed rows "panel x value value ...", a column for each contender; "-" is not told. columns "c/m": the
    value is of another metric m."""
    found = []
    for line in text.strip().splitlines():
        panel, x, *values = line.split()
        if len(values) != len(columns):
            raise ValueError(f"{line!r} has {len(values)} values for {len(columns)} columns")
        for column, value in zip(columns, values):
            contender, _, other = column.partition("/")
            if value != "-":
                found.append(Published(panel, None if x == "-" else float(x), contender, other or metric, float(value)))
    return tuple(found)
