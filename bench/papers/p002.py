# SPDX-License-Identifier: MIT
"""Load Imbalance Mitigation Optimizations for GPU-Accelerated Similarity Joins (Gallet, Gowanlock): LBJoin."""
from .claims import Faster, Higher
from .model import Experiment, Panel, Paper, Plot, published_table

M = 1_000_000
NOTE = ("S is what the paper's radii give on the generated sets of its size, scaled by one factor in each panel where "
        "the result would not fit. Points in 64 bits, as in the paper. Times include the index.")

# Radii of the figures are 1/5 to 5/5 of the largest, which the tables tell; S goes with the d-th power.
EXPO2 = Panel("Expo2D2M", "Expo2D2M", 2 * M, (376, 1503, 3381, 9392))
EXPO6 = Panel("Expo6D2M", "Expo6D2M", 2 * M, (5, 40, 260, 1000))
UNIF2 = Panel("Unif2D2M", "Unif2D2M", 2 * M, (25, 100, 226, 628))
UNIF6 = Panel("Unif6D2M", "Unif6D2M", 2 * M, (0.1, 0.4, 1, 2.7))
SYNTHETIC = (EXPO2, EXPO6, UNIF2, UNIF6)
REAL = (Panel("SW2DA", "SW2DA", 1_860_000, (400, 3723)), Panel("SW2DB", "SW2DB", 5_160_000, (130, 1148)),
        Panel("SW3DA", "SW3DA", 1_860_000, (700, 7400)), Panel("SW3DB", "SW3DB", 5_160_000, (60, 500)),
        Panel("Gaia", "GAIA", 50 * M, (8, 34), share=0.1))


def _table(id, figure, title, contenders, claims, text):
    columns = tuple(c + m for c in contenders for m in ("/warp", "/seconds"))
    return Experiment(id, title, claims=claims, axis="S", uses=(figure,), contenders=contenders, type="f64",
                      metrics=("warp", "seconds"), published=published_table("seconds", columns, text),
                      note="The largest S of each panel is the paper's configuration.")


PAPER = Paper(
    "002", "LBJoin", "Load Imbalance Mitigation Optimizations for GPU-Accelerated Similarity Joins",
    "2 × Xeon E5-2620 v4 (16 cores), Quadro P100", slug="lbjoin", experiments=[
        Experiment("F9", "Cell access patterns: response time over S", axis="S", panels=SYNTHETIC,
                   contenders=("global", "unicomp", "lid-unicomp", "auto"), plot=Plot(log_x=True), note=NOTE, type="f64",
                   full=0.5, small=0.05, repeats=2, claims=[
                       Faster("Lid-Unicomp is faster than GPUCalcGlobal", "It compares half as much, but writes each pair to "
                              "two rows through counters of the rows.", a="lid-unicomp", b="global", at=("F9",)),
                       Faster("Lid-Unicomp is faster than Unicomp in most cases, except on Unif6D2M",
                              "The work of Unicomp differs from cell to cell.", a="lid-unicomp", b="unicomp", at=("F9",)),
                       Faster("Unicomp is faster than GPUCalcGlobal except on Expo2D2M", "", a="unicomp", b="global",
                              at=("F9",), panels=("Expo6D2M", "Unif2D2M", "Unif6D2M"))]),
        _table("T3", "F9", "Warp execution efficiency of the cell access patterns", ("global", "unicomp", "lid-unicomp"), [
            Higher("Warps are fuller with Lid-Unicomp than with Unicomp", "Every cell visits half of the cells around it.",
                   a="lid-unicomp", b="unicomp", at=("F9",)),
            Higher("And fuller still with GPUCalcGlobal", "", a="global", b="lid-unicomp", at=("F9",))], """
            Expo2D2M 9392 26.5 55.5 13.2 60.9 18.3 40.4
            Expo6D2M 1000 15.2 42.9 7.8 31.6 10.0 25.5
            Unif2D2M 628 75.4 5.7 48.94 4.5 69.1 4.6
            Unif6D2M 2.7 51.3 3.3 19.25 2.1 40.9 2.4"""),
        Experiment("F10", "Eight threads a point: response time over S", axis="S", panels=SYNTHETIC,
                   contenders=("global", "global-k8", "auto"), plot=Plot(log_x=True), note=NOTE, type="f64", full=0.5,
                   small=0.05, repeats=2, claims=[
                       Faster("k = 8 helps on Expo2D2M", "", a="global-k8", b="global", at=("F10",), panels=("Expo2D2M",)),
                       Faster("k = 1 is better on Unif6D2M", "Cells of Unif6D2M hold fewer points than there are threads.",
                              a="global", b="global-k8", at=("F10",), panels=("Unif6D2M",))]),
        _table("T4", "F10", "Warp execution efficiency with eight threads a point", ("global", "global-k8"), [
            Higher("Warps are fuller with k = 8", "Lanes of a point have the same work.", a="global-k8", b="global",
                   at=("F10",))], """
            Expo2D2M 9392 26.5 55.5 40.8 33.6
            Expo6D2M 1000 15.2 42.9 39.27 42.2
            Unif2D2M 628 75.4 5.7 80.3 4.4
            Unif6D2M 2.7 51.3 3.3 60.9 6.2"""),
        Experiment("F11", "Points by workload, and a work queue: response time over S", axis="S", panels=SYNTHETIC,
                   contenders=("global", "sortbywl", "workqueue", "auto"), plot=Plot(log_x=True), note=NOTE, type="f64",
                   full=0.5, small=0.05, repeats=2, claims=[
                       Faster("SortByWL is faster than GPUCalcGlobal on exponential points", "Our index already puts points of "
                              "one cell, with the same work, into one warp.", a="sortbywl", b="global", at=("F11",),
                              panels=("Expo2D2M", "Expo6D2M")),
                       Faster("WorkQueue is faster than GPUCalcGlobal on exponential points, by up to 3.3 times", "",
                              a="workqueue", b="global", at=("F11",), panels=("Expo2D2M", "Expo6D2M")),
                       Faster("On uniform points neither gains much", "", a="workqueue", b="global", at=("F11",),
                              panels=("Unif2D2M", "Unif6D2M"), by=0.8)]),
        _table("T5", "F11", "Warp execution efficiency of SortByWL and WorkQueue", ("global", "sortbywl", "workqueue"), [
            Higher("Warps are fullest with the queue", "", a="workqueue", b="global", at=("F11",),
                   panels=("Expo2D2M", "Expo6D2M"))], """
            Expo2D2M 9392 26.5 55.5 74.6 48.7 83.2 35.6
            Expo6D2M 1000 15.2 42.9 71.4 19.1 95.6 13.1
            Unif2D2M 628 75.4 5.7 75.4 5.9 83.1 5.6
            Unif6D2M 2.7 51.3 3.3 48.2 3.5 48.4 3.0"""),
        Experiment("F12", "All together on real sets: response time over S", axis="S", panels=REAL,
                   contenders=("global", "workqueue", "workqueue-lid", "workqueue-k8", "lbjoin", "super-ego", "auto"),
                   plot=Plot(log_x=True), note=NOTE + " Imitations of the sets; their S is estimated from HEGJoin's text.",
                   type="f64", full=0.1, small=0.01, pairs=0.25, weight=2, repeats=2, claims=[
                       Faster("Everything together is faster than GPUCalcGlobal", "", a="lbjoin", b="global", at=("F12",)),
                       Faster("And faster than Super-EGO on 16 cores", "", a="lbjoin", b="super-ego", at=("F12",))]),
        _table("T6", "F12", "Warp execution efficiency on real sets", ("global", "workqueue-lid", "lbjoin"), [
            Higher("All variants have fuller warps than GPUCalcGlobal", "", a="lbjoin", b="global", at=("F12",))], """
            SW2DA 3723 55.2 15.1 89.1 13.0 80.7 12.5
            SW2DB 1148 54.2 13.8 83.0 13.0 79.7 12.6
            SW3DA 7400 33.7 56.8 93.4 25.2 83.2 21.6
            SW3DB 500 40.8 14.9 87.1 12.1 82.5 11.7
            Gaia 34 64.1 37.1 80.3 27.1 78.3 26.7"""),
        Experiment("F13", "Speed-up of everything together over Super-EGO and GPUCalcGlobal", axis="S",
                   panels=tuple(Panel(f"{k}{d}D2M", f"{k}{d}D2M", 2 * M, s) for k, d, s in (
                       ("Unif", 3, (10, 200)), ("Unif", 4, (5, 50)), ("Unif", 5, (2, 10)), ("Expo", 3, (100, 3000)),
                       ("Expo", 4, (50, 2000)), ("Expo", 5, (20, 1500)))) + (EXPO2, EXPO6, UNIF2, UNIF6),
                   contenders=("lbjoin", "super-ego", "global", "auto"), type="f64", full=0.1, small=0.01, pairs=0.1, repeats=1,
                   plot=Plot(kind="ratio", pairs=(("super-ego", "lbjoin"), ("global", "lbjoin")), log_x=True), note=NOTE, claims=[
                       Faster("2.5 times as fast as Super-EGO on average, at most 10.7 times", "", a="lbjoin", b="super-ego",
                              at=("F13",), by=1.5),
                       Faster("1.6 times as fast as GPUCalcGlobal on average, at most 9.7 times", "", a="lbjoin", b="global",
                              at=("F13",), by=1.3)]),
    ])
