# SPDX-License-Identifier: MIT
"""HEGJoin: Heterogeneous CPU-GPU Epsilon Grids for Accelerated Distance Similarity Join (Gallet, Gowanlock)."""
from .claims import HOLDS, FAILS, UNKNOWN, Claim, Computed, Faster, Verdict, Within
from .model import Experiment, Panel, Paper, Plot, Published, published_table

M = 1_000_000
SCALED = "Selectivities are scaled by one factor in each panel where the result would not fit (docs/papers/README.md)."
F64 = "Points in 64 bits, as in the paper."


def _expo(dim, millions, *s):
    """Cores take long in eight dimensions, so these sets are smaller."""
    share = (0.25 if dim == 8 else 1.0) * (0.4 if millions == 10 else 1.0)
    return Panel(f"Expo{dim}D{millions}M", f"Expo{dim}D{millions}M", millions * M, s, share=share)


def _bound(view):
    """Rates of both alone add up to what the heterogeneous join could reach."""
    of = {who: view.values(("T2",), who, "queries_s") for who in ("lbjoin", "sego-new", "hegjoin")}
    ratios = {key: of["hegjoin"][key] / (of["lbjoin"][key] + of["sego-new"][key])
              for key in of["hegjoin"] if key in of["lbjoin"] and key in of["sego-new"]}
    if not ratios:
        return Verdict(UNKNOWN, f"Not measured on this machine ({view.reason(('T2',), 'hegjoin', 'lbjoin')}).")
    low, high = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
    return Verdict(HOLDS if ratios[low] >= 0.7 else FAILS,
                   f"HEGJoin reaches from {ratios[low]:.2f} ({low[0]}) to {ratios[high]:.2f} ({high[0]}) of the bound.")


PAPER = Paper(
    "001", "HEGJoin", "HEGJoin: Heterogeneous CPU-GPU Epsilon Grids for Accelerated Distance Similarity Join",
    "2 × Xeon E5-2620 v4 (16 cores), Quadro GP100", slug="hegjoin", experiments=[
        Experiment(
            "F5a", "Speed-up of EGO-sort by a parallel sample sort over qsort, synthetic sets", axis="S",
            panels=tuple(Panel(f"Expo{d}D{m}M", f"Expo{d}D{m}M", m * M, (4,), share=2 / m) for m in (2, 10)
                         for d in (2, 4, 6, 8)),
            contenders=("super-ego", "sego-new"), metrics=("sort_s", "seconds"), full=0.15, small=0.015, weight=2, type="f64",
            published=(Published("mean of 2M sets", None, "sego-new", "speed-up", 7.18),
                       Published("mean of 10M sets", None, "sego-new", "speed-up", 10.55)),
            claims=[Faster("The parallel sort is 7.18 times (2 M points) and 10.55 times (10 M) as fast as qsort",
                           "A sort by 16 threads cannot gain that on fewer cores. Much of the rest is that qsort calls a "
                           "function for every comparison.", a="sego-new", b="super-ego", at=("F5a",), metric="sort_s",
                           by=1.5)],
            note=F64 + " A small radius, so that the sort is a large part. Both sizes have the same number of points on a "
                 "machine that cannot do all."),
        Experiment(
            "F5b", "Speed-up of SEGO-New over Super-EGO on the SW sets", axis="S",
            panels=(Panel("SW2DA", "SW2DA", 1_860_000, (300, 1000, 5800)),
                    Panel("SW2DB", "SW2DB", 5_160_000, (100, 500, 2000)),
                    Panel("SW3DA", "SW3DA", 1_860_000, (240, 2000, 13200)),
                    Panel("SW3DB", "SW3DB", 5_160_000, (33, 300, 2130))),
            contenders=("super-ego-f32", "super-ego", "sego-new", "cpu"), type="f64", full=0.05, small=0.008, pairs=0.1, repeats=2,
            plot=Plot(kind="ratio", pairs=(("super-ego-f32", "sego-new"),), log_x=True, log_y=False),
            published=(Published("mean of all", None, "sego-new", "speed-up", 1.97),),
            claims=[Faster("SEGO-New in 64 bits is 1.97 times as fast as Super-EGO in 32 bits on average",
                           "The gain of SEGO-New is the parallel sort and the queue, so it grows with the number of "
                           "threads; 64 bits cost twice the memory.", a="sego-new", b="super-ego-f32", at=("F5b",))],
            note=SCALED + " Imitations of the sets. Super-EGO also in 64 bits."),
        Experiment(
            "F6", "Load imbalance between cores and GPU, synthetic sets", axis="S",
            panels=tuple(_expo(d, m, *((157, 1000, 9390) if m == 2 else (167, 1990))) for m in (2, 10) for d in (2, 4, 8)),
            contenders=("hegjoin",), metrics=("imbalance", "seconds"), type="f64", full=0.25, small=0.01, pairs=0.25, repeats=1,
            plot=Plot("imbalance", log_x=True, log_y=False),
            claims=[Within("The imbalance is small, and high only where the work is little",
                           "The joins are short on this machine, so the last batch of the GPU is a larger part of them.",
                           who="hegjoin", metric="imbalance", at=("F6",), most=0.3)],
            note=F64 + " " + SCALED),
        Experiment(
            "F7", "Response time over S: LBJoin, SEGO-New, HEGJoin, synthetic sets", axis="S",
            panels=(_expo(2, 2, 397, 2000, 9390), _expo(2, 10, 80, 400, 1990), _expo(8, 2, 1, 20, 157),
                    _expo(8, 10, 1, 20, 167)),
            contenders=("lbjoin", "sego-new", "hegjoin", "auto"), plot=Plot(log_x=True), type="f64", full=0.1, small=0.01,
            pairs=0.1, weight=2,
            published=(Published("Expo2D2M", None, "hegjoin", "speed-up over LBJoin, at most", 2.1),
                       Published("Expo8D10M", None, "hegjoin", "speed-up over SEGO-New, at most", 11.3)),
            claims=[Faster("HEGJoin is faster than LBJoin on all sets, by up to 2.1 times on Expo2D2M",
                           "The GPU is many times as fast as the cores, relative to the paper's machine, so cores add little "
                           "and cost the placing of rows.", a="hegjoin", b="lbjoin", at=("F7",), everywhere=True),
                    Faster("HEGJoin is faster than SEGO-New on all sets, by up to 11.3 times on Expo8D10M", "",
                           a="hegjoin", b="sego-new", at=("F7",), everywhere=True),
                    Faster("SEGO-New does badly in eight dimensions: LBJoin is far ahead", "", a="lbjoin", b="sego-new",
                           at=("F7",), panels=("Expo8D2M", "Expo8D10M"), by=2)],
            note=F64 + " " + SCALED),
        Experiment(
            "F8", "Response time over S: LBJoin, SEGO-New, HEGJoin, real sets", axis="S",
            panels=(Panel("SW2DA", "SW2DA", 1_860_000, (295, 1300, 5820)), Panel("SDSS", "SDSS", 15_230_000, (1, 6, 31), share=0.3),
                    Panel("SW3DA", "SW3DA", 1_860_000, (239, 1800, 13200)),
                    Panel("SW3DB", "SW3DB", 5_160_000, (33, 260, 2130))),
            contenders=("lbjoin", "sego-new", "hegjoin", "auto"), plot=Plot(log_x=True), type="f64", full=0.1, small=0.01,
            pairs=0.1, weight=2,
            published=(Published("SW3DA", None, "hegjoin", "speed-up over LBJoin, at most", 2.5),
                       Published("SDSS", None, "hegjoin", "speed-up over SEGO-New, at most", 2.4)),
            claims=[Faster("HEGJoin is always faster than LBJoin, by up to 2.5 times on SW3DA", "See F7.", a="hegjoin",
                           b="lbjoin", at=("F8",), everywhere=True),
                    Faster("HEGJoin is always faster than SEGO-New, by up to 2.4 times on SDSS", "", a="hegjoin",
                           b="sego-new", at=("F8",), everywhere=True),
                    Faster("SEGO-New is faster than LBJoin on SW2DA and SW3DA",
                           "On the paper's machine the GPU moved results slower than 16 cores found them.", a="sego-new",
                           b="lbjoin", at=("F8",), panels=("SW2DA", "SW3DA"))],
            note=SCALED + " Imitations of the sets."),
        Experiment(
            "T2", "Queries per second, and the share of the bound (both alone added up)", axis="S",
            panels=(_expo(2, 2, 9392), _expo(4, 2, 9262), _expo(8, 2, 157), _expo(2, 10, 1985), _expo(4, 10, 1630),
                    _expo(8, 10, 167), Panel("SW2DA", "SW2DA", 1_860_000, (5818,)),
                    Panel("SDSS", "SDSS", 15_230_000, (31,), share=0.3), Panel("SW3DA", "SW3DA", 1_860_000, (13207,))),
            contenders=("lbjoin", "sego-new", "hegjoin", "auto"), metrics=("queries_s",), type="f64", full=0.1, small=0.01,
            pairs=0.1, weight=2,
            published=published_table("queries_s", ("lbjoin", "sego-new", "hegjoin", "hegjoin/share of the bound"), """
                Expo2D2M 9392 42589 53996 87681 0.91
                Expo4D2M 9262 14745 13557 26382 0.93
                Expo8D2M 157 88968 15264 115674 1.11
                Expo2D10M 1985 340252 221288 451875 0.80
                Expo4D10M 1630 142816 49704 217297 1.13
                Expo8D10M 167 77507 8055 90654 1.06
                SW2DA 5818 88749 130942 176574 0.80
                SDSS 31 485508 314771 567086 0.71
                SW3DA 13207 20930 41143 53093 0.86"""),
            claims=[Computed("HEGJoin reaches 0.71 to 1.13 of the bound",
                             "The faster one worker is than the other, the more a queue and the shared memory cost.",
                             function=_bound),
                    Claim("On SDSS 16 % of the time is kernels, on Expo4D10M 72 %",
                          "The columns of T2 have the times; `kernel_s` in the results the share.")],
            note=SCALED),
    ])
