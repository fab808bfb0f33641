# SPDX-License-Identifier: MIT
"""The experiments of the five papers that adjoin comes from: what they measured, and the same here.

model.py says what an experiment is, contenders.py who takes part, p000.py to p004.py are the papers, claims.py judges
what they claim, run.py measures, plots.py and report.py write docs/papers."""
from . import p000, p001, p002, p003, p004

PAPERS = [p000.PAPER, p001.PAPER, p002.PAPER, p003.PAPER, p004.PAPER]


def find(names):
    """Experiments by name: "002" all of a paper, "002:T4" one. An unknown name is a KeyError with the known ones."""
    found = []
    for name in names:
        paper, _, experiment = name.partition(":")
        matching = [(p, e) for p in PAPERS for e in p.experiments
                    if p.id == paper and (not experiment or e.id.lower() == experiment.lower())]
        if not matching:
            raise KeyError(f"{name}: none of " + ", ".join(f"{p.id}:{e.id}" for p in PAPERS for e in p.experiments))
        found += [pair for pair in matching if pair not in found]
    return found
