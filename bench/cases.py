# SPDX-License-Identifier: MIT
"""The named cases: which points, which radius, which outputs, against which peers.

Radii were found once on the points of `adjoin generate` (f32, seed 1) and are written down, so that every run
joins the same thing: with `bench.py tune` up to six dimensions, and in 16 and 32 from the distances of 2,000 of the
points to all others, which leaves the mean some per cent off. The mean really found is in the table.
"""
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Case:
    name: str
    points: str         # a name `adjoin generate` knows
    count: int
    dim: int
    mean: int           # neighbours per point the radius was tuned for
    radius: float
    modes: tuple = ("csr", "count")
    kind: str = "low"   # dimension "low" or "high": which peers make sense
    bar_csr: float = 3  # how many times faster than the best peer we mean to be, at least
    bar_count: float = 5

    @property
    def generator(self):
        """unif, expo, clusters, ...: without the dimension and size of a published name."""
        return "".join(c for c in self.points.split("D")[0] if not c.isdigit()).lower().replace("syn", "expo")


M = 1_000_000

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
]


def tiny(case, count=2000):
    """The same case on few points, the radius grown so that the mean stays about the same: for a quick check
    that everything works, not for figures."""
    grown = case.radius * (case.count / count) ** (1 / case.dim)
    return replace(case, count=count, radius=float(f"{grown:.4g}"), mean=min(case.mean, count // 20))
