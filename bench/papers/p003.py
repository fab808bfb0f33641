# SPDX-License-Identifier: MIT
"""GPU Accelerated Self-join for the Distance Similarity Metric, in many dimensions (Gowanlock, Karsin): GPU-Join."""
from .claims import FAILS, HOLDS, UNKNOWN, Best, Claim, Computed, Faster, Verdict, Within
from .model import Experiment, Panel, Paper, Plot, Published, published_table

M = 1_000_000
NOTE = "S is scaled by one factor in each panel where the result would not fit. Times include the index."
IMITATED = NOTE + " Imitations of the sets."
COLOR = Panel("ColorHist", "ColorHist", 68_040, (4, 300, 26000))
LAYOUT = Panel("LayoutHist", "LayoutHist", 66_616, (3, 60, 1100))
COOC = Panel("CoocTexture", "CoocTexture", 68_040, (14000, 30000, 62000))
SUSY = Panel("SuSy", "SuSy", 5 * M, (5, 80, 781))
SONGS = Panel("Songs", "Songs", 515_345, (4, 100, 1900), share=2)
SYN = (Panel("Syn16D2M", "Syn16D2M", 2 * M, (4, 80, 1200)), Panel("Syn32D2M", "Syn32D2M", 2 * M, (31, 200, 1400)),
       Panel("Syn64D2M", "Syn64D2M", 2 * M, (132, 500, 2300)))
SPEEDUPS = {"ColorHist": (1.13, 5.79), "LayoutHist": (1.36, 5.49), "CoocTexture": (3.65, 4.13), "SuSy": (1.61, 1.07),
            "Songs": (1.53, 0.92), "Syn16D2M": (1.84, 5.46), "Syn32D2M": (8.25, 7.50), "Syn64D2M": (7.86, 5.63)}
PARTS = 32


def _speedups():
    panels = {p.name: p for p in (COLOR, LAYOUT, COOC, SUSY, SONGS) + SYN}
    return tuple(Published(name, float(panels[name].xs[at]), "gpu-join", "speed-up over Super-EGO", value)
                 for name, values in SPEEDUPS.items() for at, value in zip((0, -1), values))


def _balanced(view):
    times = view.values(("F10",), "gpu-join", "compute")
    words = []
    worst = 0
    for panel in sorted({panel for panel, _ in times}):
        of = [v for (p, _), v in times.items() if p == panel]
        worst = max(worst, max(of) / min(of))
        words.append(f"{panel}: {min(of):.4f} to {max(of):.4f} s in {len(of)} sets")
    if not words:
        return Verdict(UNKNOWN, f"Not measured on this machine ({view.reason(('F10',), 'gpu-join')}).")
    return Verdict(HOLDS if worst < 1.2 else FAILS, "Seconds of kernels, " + "; ".join(words) + ".")


def _scaling(view):
    times = view.values(("F10",), "gpu-join", "compute")
    words, least = [], 1.0
    for panel in sorted({panel for panel, _ in times}):
        of = [v for (p, _), v in sorted(times.items()) if p == panel]
        for gpus in (2, 4, 8):
            shares = [sum(of[g::gpus]) for g in range(gpus)]
            share = sum(of) / max(shares) / gpus
            least = min(least, share)
            words.append(f"{panel} on {gpus}: {share:.2f}")
    if not words:
        return Verdict(UNKNOWN, f"Not measured on this machine ({view.reason(('F10',), 'gpu-join')}).")
    return Verdict(HOLDS if least > 0.9 else FAILS, "Share of the ideal speed-up, computed from F10: " + ", ".join(words) + ".")


PAPER = Paper(
    "003", "GPU-Join", "GPU Accelerated Self-join for the Distance Similarity Metric (high dimensions)",
    "2 × Xeon E5-2620 v4 (16 cores), GP100", slug="gpu-join", experiments=[
        Experiment("F5", "Response time over S on the sets of the Super-EGO paper", axis="S", panels=(COLOR, LAYOUT, COOC),
                   contenders=("gpu-join-plain", "super-ego", "auto"), plot=Plot(log_x=True), note=IMITATED, full=0.5, small=0.08,
                   pairs=0.1, weight=3, repeats=1,
                   claims=[Faster("GPU-Join is faster than Super-EGO on all of them", "", a="gpu-join-plain", b="super-ego",
                                  at=("F5",), everywhere=True)]),
        Experiment("F6", "Response time over the number of indexed dimensions, with and without reorder", axis="indexed",
                   panels=(Panel("SuSy", "SuSy", 5 * M, (1, 2, 3, 4, 5, 6, 8, 10), {"mean": 5}, share=0.2),
                           Panel("Songs", "Songs", 515_345, (1, 2, 3, 4, 5, 6, 8, 10), {"mean": 4})),
                   contenders=("gpu-join-plain", "gpu-join-reorder"), plot=Plot(), note=IMITATED, full=0.2, small=0.02,
                   repeats=1, claims=[
                       Faster("Reorder is much faster for 3 ≤ k ≤ 8", "The first dimensions of Songs vary little.",
                              a="gpu-join-reorder", b="gpu-join-plain", at=("F6",), xs=(3, 4, 5, 6, 8)),
                       Best("k = 6 is a good choice", "", who="gpu-join-reorder", x=6, at=("F6",), slack=1.5)]),
        Experiment("F7", "Memory operations of searches and comparisons over k, Syn16D2M", axis="indexed",
                   panels=(Panel("Syn16D2M", "Syn16D2M", 2 * M, (1, 2, 3, 4, 5, 6, 7, 8, 9, 10), {"mean": 4}),),
                   contenders=("gpu-join",), metrics=("searches", "comparisons", "seconds"), plot=Plot("comparisons", also="searches"),
                   full=0.05, small=0.01, repeats=1, note="Operations as section 5.6 counts them: |D| 3^k log₂|G|, and "
                   "compared candidates of all passes.", claims=[
                       Claim("Comparisons fall with k, searches grow with 3^k: k up to 10 does not cost much",
                             "Both columns are in the table.")]),
        Experiment("F8", "Response time over S: SuSy and Songs, one optimisation after the other", axis="S",
                   panels=(SUSY, SONGS),
                   contenders=("gpu-join-reorder", "gpu-join-sortidu", "gpu-join", "super-ego", "auto"),
                   plot=Plot(log_x=True), note=IMITATED, full=0.01, small=0.001, pairs=0.1, weight=3, repeats=1, claims=[
                       Faster("Sortidu makes SuSy faster, by 38 % at S = 5", "", a="gpu-join-sortidu", b="gpu-join-reorder",
                              at=("F8",), panels=("SuSy",)),
                       Faster("Shortc matters on Songs", "90 dimensions: most sums pass the radius early.", a="gpu-join",
                              b="gpu-join-sortidu", at=("F8",), panels=("Songs",)),
                       Faster("GPU-Join is faster than Super-EGO but for Songs at the largest radius", "", a="gpu-join",
                              b="super-ego", at=("F8",))]),
        Experiment("F9", "Response time over S: synthetic sets in 16, 32 and 64 dimensions", axis="S", panels=SYN,
                   contenders=("gpu-join", "super-ego", "auto"), plot=Plot(log_x=True), note=NOTE, full=0.02, small=0.002,
                   pairs=0.1, weight=3, repeats=1, claims=[Faster("GPU-Join is 1.84 to 8.25 times as fast as Super-EGO", "", a="gpu-join",
                                             b="super-ego", at=("F9",), everywhere=True, by=1.84)]),
        Experiment("T2", "Time of kernels, and of everything", axis="S",
                   panels=(Panel("Syn16D2M", "Syn16D2M", 2 * M, (1200,)), Panel("SuSy", "SuSy", 5 * M, (781,))),
                   contenders=("gpu-join",), metrics=("compute", "seconds", "overhead"), note=NOTE, full=0.1, small=0.01,
                   repeats=1, published=published_table(
                       "seconds", ("gpu-join/compute", "gpu-join", "gpu-join/overhead"), """
                       Syn16D2M 1200 460.58 469.00 0.018
                       SuSy 781 1717.26 1729.24 0.0069"""),
                   claims=[Within("Less than 2 % of the time is outside of kernels",
                                  "Kernels are tens of times as fast here, the plan and the copies are not.",
                                  who="gpu-join", metric="overhead", at=("T2",), most=0.02)]),
        Experiment("F10", "Kernel time of entity partitions", axis="part",
                   panels=(Panel("Syn16D2M", "Syn16D2M", 2 * M, tuple(range(0, PARTS, 2)), {"mean": 1200, "parts": PARTS}),
                           Panel("SuSy", "SuSy", 5 * M, tuple(range(0, PARTS, 2)), {"mean": 781, "parts": PARTS}, share=0.4)),
                   contenders=("gpu-join",), metrics=("compute",), plot=Plot("compute", log_y=False), full=0.1, small=0.005,
                   repeats=1, note="32 query sets for both, of which every second one is run; the paper has 128 of SuSy.",
                   published=(Published("Syn16D2M", None, "gpu-join", "seconds of kernels, least", 13.88),
                              Published("Syn16D2M", None, "gpu-join", "seconds of kernels, most", 14.95),
                              Published("SuSy", None, "gpu-join", "seconds of kernels, least", 13.36),
                              Published("SuSy", None, "gpu-join", "seconds of kernels, most", 14.34)),
                   claims=[Computed("All query sets take about the same time", "Each is a sample of the same points.",
                                    function=_balanced)]),
        Experiment("F11", "Expected scalability over several GPUs", axis="part", uses=("F10",), contenders=("gpu-join",),
                   metrics=("compute",), claims=[Computed("Near to ideal", "As in the paper: computed, not run on several GPUs.",
                                                          function=_scaling)]),
        Experiment("F12", "Time of communication on up to 128 nodes", absent="needs a cluster; the paper reports 0.2 s for "
                   "Syn16D2M on 128 nodes", published=(
                       Published("Syn16D2M", None, "gpu-join", "seconds of communication, 128 nodes", 0.2),),
                   claims=[Claim("Communication is negligible beside the join", "There is no cluster here.")]),
        Experiment("T3", "Speed-up over Super-EGO at the smallest and the largest radius", axis="S", uses=("F5", "F8", "F9"),
                   contenders=("gpu-join", "gpu-join-plain", "super-ego"), published=_speedups(),
                   plot=Plot(kind="ratio", pairs=(("super-ego", "gpu-join"),), log_x=True), claims=[
                       Faster("GPU-Join is faster on nearly all sets, from 0.92 to 8.25 times", "", a="gpu-join",
                              b="super-ego", at=("F8", "F9"))]),
    ])
