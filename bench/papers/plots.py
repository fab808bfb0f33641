# SPDX-License-Identifier: MIT
"""Figures as SVG, the same bytes for the same results: no dates, no random ids."""
import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402  after the choice of the backend

from .contenders import CONTENDERS  # noqa: E402
from .metrics import METRICS, measure  # noqa: E402
from .model import AXES  # noqa: E402

plt.rcParams.update({"svg.hashsalt": "adjoin", "svg.fonttype": "none", "font.size": 9, "axes.grid": True,
                     "grid.alpha": 0.3, "figure.facecolor": "white", "axes.titlesize": 9})
WIDTH = 8.0  # inches: 800 px at 100 dots an inch
PANEL_COLOURS = plt.get_cmap("tab10").colors
MARKS = "osv^Dx*P<>"


def _grid(count, share_y):
    columns = 1 if count == 1 else 2 if count in (2, 4) else 3
    rows = -(-count // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(WIDTH, 0.7 + 2.3 * rows), squeeze=False, sharey=share_y,
                                layout="constrained")
    for axis in axes.flat[count:]:
        axis.set_visible(False)
    return figure, list(axes.flat[:count])


def _mark_places(axis):
    """Ticks where something was measured, if that is at few places: powers of ten are often none of them."""
    places = sorted({float(f"{x:.2g}") for line in axis.lines for x in line.get_xdata()})
    if 1 < len(places) <= 5:
        axis.set_xticks(places, [f"{x:g}" for x in places])


def _scales(axis, plot, x_label, y_label):
    if plot.log_x:
        axis.set_xscale("log")
        _mark_places(axis)
    if plot.log_y:
        axis.set_yscale("log")
    axis.minorticks_off()  # each tick is a path in the file
    axis.set_xlabel(x_label)
    axis.set_ylabel(y_label)


def _actual(record, x, axis):
    """The place of a run: neighbours per point as found, where the paper's were scaled."""
    if axis == "S" and record.get("queries"):
        return record["pairs"] / record["queries"]
    return x


def _line(axis, records, experiment, metric, panel, who, **style):
    places = sorted((_actual(r, x, experiment.axis), measure(metric, r)) for (p, x, c), r in records.items()
                    if p == panel and c == who and measure(metric, r) is not None)
    places = [(x, y) for x, y in places if y > 0 or not experiment.plot.log_y]
    if places:
        axis.plot(*zip(*places), color=CONTENDERS[who].colour, marker="o", markersize=4, **style)
    return bool(places)


def _lines(experiment, records):
    plot = experiment.plot
    panels = [p for p in dict.fromkeys(p for p, _, _ in records)
              if any(measure(plot.metric, r) is not None for (q, _, _), r in records.items() if q == p)]
    if not panels:
        return None
    figure, axes = _grid(len(panels), False)
    used = {}
    for axis, panel in zip(axes, panels):
        for who in experiment.contenders:
            if _line(axis, records, experiment, plot.metric, panel, who):
                used[CONTENDERS[who].label] = axis.lines[-1]
            if plot.also and _line(axis, records, experiment, plot.also, panel, who, linestyle="--"):
                used[METRICS[plot.also][0] + " (dashed)"] = axis.lines[-1]
        axis.set_title(panel)
        _scales(axis, plot, AXES[experiment.axis][0], METRICS[plot.metric][0])
    figure.legend(used.values(), used.keys(), loc="outside upper center", ncols=min(4, len(used)), frameon=False)
    return figure


def _ratios(experiment, records):
    plot = experiment.plot
    found = []
    for of, over in plot.pairs:
        lines = {}
        for (panel, x, who), record in records.items():
            other = records.get((panel, x, of))
            a, b = measure("seconds", other), measure("seconds", record)
            if who == over and a and b:
                lines.setdefault(panel, []).append((_actual(record, x, experiment.axis), a / b))
        if lines:
            found.append((of, over, lines))
    if not found:
        return None
    figure, axes = _grid(len(found), False)
    used = {}
    for axis, (of, over, lines) in zip(axes, found):
        for at, (panel, places) in enumerate(lines.items()):
            axis.plot(*zip(*sorted(places)), color=PANEL_COLOURS[at % 10], marker=MARKS[at % 10], markersize=4)
            used[panel] = axis.lines[-1]
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_title(f"{CONTENDERS[over].label} over {CONTENDERS[of].label}")
        _scales(axis, plot, AXES[experiment.axis][0], "speed-up, times")
    figure.legend(used.values(), used.keys(), loc="outside upper center", ncols=min(5, len(used)), frameon=False)
    return figure


def _batches(experiment, records):
    found = [(panel, who, r["device_batches"]) for (panel, _, who), r in records.items() if r.get("device_batches")]
    if not found:
        return None
    figure, axes = _grid(len(found), False)
    for axis, (panel, who, batches) in zip(axes, found):
        axis.plot(range(1, len(batches) + 1), batches, color=CONTENDERS[who].colour, marker="o", markersize=3)
        axis.set_title(panel)
        _scales(axis, experiment.plot, "batch", "queries of the batch")
    return figure


def write(experiment, records, path):
    """The figure of an experiment on a machine; False: there is nothing to show."""
    if not experiment.plot:
        return False
    figure = {"lines": _lines, "ratio": _ratios, "batches": _batches}[experiment.plot.kind](experiment, records)
    if not figure:
        return False
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return True
