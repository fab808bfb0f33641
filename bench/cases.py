# SPDX-License-Identifier: MIT
"""The named cases: which points, which radius or k, which outputs, against which peers.

Radii were found once on the points of `adjoin generate` (f32, seed 1) and are written down, so that every run
joins the same thing: with `bench.py tune` up to six dimensions, and in 16 and 32 from the distances of 2,000 of the
points to all others, which leaves the mean some per cent off. The mean really found is in the table.
"""
from dataclasses import dataclass, replace

from points import REAL


@dataclass(frozen=True)
class Case:
    name: str
    points: str         # a name `adjoin generate` knows
    count: int
    dim: int
    mean: int           # neighbours per point the radius was tuned for
    radius: float = 0
    modes: tuple = ("csr", "count")
    kind: str = "low"   # dimension "low", "high" or "wide": which peers make sense
    bar_csr: float = 3  # how many times faster than the best peer we mean to be, at least
    bar_count: float = 5
    bar_knn: float = 3
    k: int = 0          # 0: a range join
    two_sets: bool = False  # of as many points each, drawn apart
    contest: bool = True    # False: made to show where peers go wrong, which is no fault of the run
    spread: str = ""        # how the points are changed: SPREADS

    @property
    def generator(self):
        """unif, expo, clusters, ...: without the dimension and size of a published name. A real set has its own name."""
        if self.points.lower() in REAL:
            return self.points.lower()
        return "".join(c for c in self.points.split("D")[0] if not c.isdigit()).lower().replace("syn", "expo")

    @property
    def what(self):
        """The radius or k, as drivers take it."""
        return f"k={self.k}" if self.k else repr(self.radius)

    def bar(self, mode):
        return {"csr": self.bar_csr, "count": self.bar_count, "knn": self.bar_knn}[mode]


def nearest(points, count, dim, ks, bar, **more):
    """A kNN case for each k."""
    name = points.split("D")[0].lower()
    return [Case(more.get("name", f"knn-{name}d") + f"-{k}", points, count, dim, k, modes=("knn",), k=k, bar_knn=bar,
                 **{key: value for key, value in more.items() if key != "name"}) for k in ks]


M = 1_000_000

# One point at 10^6 or 10^30 in all dimensions; -9999 as the first coordinate of one row in 1,000; the first axis a million
# times longer; all points on the diagonal.
SPREADS = ("1e6", "1e30", "-9999", "long", "line")


def spread(case, kinds):
    """The case with points of other spreads: the group spread-*. Nobody's distances to a point at 10^30 are finite, so
    that is no contest."""
    return [replace(case, name=f"spread-{case.name}-{kind}", spread=kind, contest=kind != "1e30") for kind in kinds]


CASES = [
    Case("unif2d-10", "Unif2D1M", M, 2, 10, 0.001784),
    Case("unif2d-100", "Unif2D1M", M, 2, 100, 0.005645),
    Case("expo2d-10", "Expo2D1M", M, 2, 10, 0.0000895),
    Case("expo2d-100", "Expo2D1M", M, 2, 100, 0.0002836),
    Case("expo3d-10", "Expo3D1M", M, 3, 10, 0.0006753),
    Case("expo3d-100", "Expo3D1M", M, 3, 100, 0.001472),
    Case("clusters3d-10", "Clusters3D1M", M, 3, 10, 0.00005149),
    Case("clusters3d-100", "Clusters3D1M", M, 3, 100, 0.0001226),
    Case("expo6d-10", "Expo6D1M", M, 6, 10, 0.005988, bar_csr=2, bar_count=2),
    Case("expo6d-100", "Expo6D1M", M, 6, 100, 0.009102, bar_csr=2, bar_count=2),
    Case("syn16d-30", "Syn16D200K", M // 5, 16, 30, 0.0434, kind="high", bar_csr=4, bar_count=4),
    Case("syn16d-300", "Syn16D200K", M // 5, 16, 300, 0.05444, kind="high", bar_csr=4, bar_count=4),
    Case("syn16d-1000", "Syn16D200K", M // 5, 16, 1000, 0.06207, kind="high", bar_csr=4, bar_count=4),
    Case("syn32d-30", "Syn32D200K", M // 5, 32, 30, 0.0909, kind="high", bar_csr=4, bar_count=4),
    Case("syn32d-300", "Syn32D200K", M // 5, 32, 300, 0.10475, kind="high", bar_csr=4, bar_count=4),
    Case("syn32d-1000", "Syn32D200K", M // 5, 32, 1000, 0.11429, kind="high", bar_csr=4, bar_count=4),
    Case("unif2d10m-10", "Unif2D10M", 10 * M, 2, 10, 0.000564),
    *nearest("Unif2D1M", M, 2, (8, 32), 3),
    *nearest("Unif3D1M", M, 3, (8, 32, 128, 512), 3),
    *nearest("Expo2D1M", M, 2, (8, 32), 3),
    *nearest("Expo3D1M", M, 3, (8, 32), 3),
    *nearest("Clusters3D1M", M, 3, (8, 32), 3),
    # Ties and duplicates: a third of the codes occur more than once; one point in ten repeats another.
    *nearest("Codes4D4M", 4 * M, 4, (8,), 3.5),
    *nearest("Repeats3D1M", M, 3, (8,), 4),
    *nearest("Unif6D1M", M, 6, (8, 32), 2),
    *nearest("Expo6D1M", M, 6, (8, 32), 2),
    *nearest("Unif3D1M", M, 3, (1,), 3, name="knn-two-unif3d", two_sets=True),
    *nearest("Expo16D100K", M // 10, 16, (8,), 5, kind="high"),
    *nearest("Expo32D100K", M // 10, 32, (8,), 5, kind="high"),
    *nearest("Normal128D100K", M // 10, 128, (10, 100), 1.3, kind="wide"),
    *nearest("Normal768D100K", M // 10, 768, (10, 100), 1, kind="wide"),
    *nearest("Unif2D10M", 10 * M, 2, (8,), 3, name="knn-unif2d10m"),
    # No contest: 64 dimensions a million from the origin, where |x|² + |y|² - 2xy loses its digits.
    *nearest("Scales2D400K", 2 * M // 5, 2, (8,), 3, name="spread-knn-scales2d"),
    *nearest("Scales3D400K", 2 * M // 5, 3, (8,), 3, name="spread-knn-scales3d"),
    Case("sphere3d-10", "Sphere3D1M", M, 3, 10, 0.00632),
    *nearest("Far64D10K", M // 100, 64, (10,), 0, name="knn-far64d", kind="wide", contest=False),
]

BY_NAME = {case.name: case for case in CASES}
for range_case in ("unif2d-10", "expo2d-10", "expo3d-10", "clusters3d-10", "sphere3d-10", "expo6d-10"):
    CASES += spread(BY_NAME[range_case], SPREADS[:3])
for knn_case in ("knn-unif2d-8", "knn-unif3d-8", "knn-clusters3d-8", "knn-unif6d-8"):
    CASES += spread(BY_NAME[knn_case], SPREADS)


def tiny(case, count=2000):
    """The same case on few points, the radius grown so that the mean stays about the same: for a quick check
    that everything works, not for figures."""
    if case.k:
        return replace(case, count=max(200, min(count, 20 * M // (case.dim * count))), k=min(case.k, 50), mean=min(case.mean, 50))
    grown = case.radius * (case.count / count) ** (1 / case.dim)
    return replace(case, count=count, radius=float(f"{grown:.4g}"), mean=min(case.mean, count // 20))
