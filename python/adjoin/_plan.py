# SPDX-License-Identifier: MIT
"""The plan of a join, which explain() returns."""

from __future__ import annotations

import ctypes
import html
from typing import TYPE_CHECKING

from . import _declarations as d
from ._join import explanation
from ._library import check, fresh, lib

if TYPE_CHECKING:
    from ._join import Job
    from ._run import Call

__all__ = ["Plan", "explained"]

_STYLE = "text-align:left;vertical-align:top;padding:0.1em 0.8em 0.1em 0;white-space:pre-wrap"


class Plan:
    """The plan of a join: how it will be computed, and its expected size and time.

    Attributes
    ----------
    text : str
        What the planner decided, and why.
    pairs : float
        The expected number of pairs in the result.
    candidates : float
        The expected number of pairs whose distance is computed.
    result_bytes : float
        The expected size of the result.
    seconds : float
        The expected time of the whole join.
    count_seconds : float
        The expected time if the join only counts.
    """

    __slots__ = ("candidates", "count_seconds", "pairs", "result_bytes", "seconds", "text")

    def __init__(self, text: str, estimate: d.adj_estimate) -> None:
        self.text = text
        self.pairs: float = estimate.pairs
        self.candidates: float = estimate.candidates
        self.result_bytes: float = estimate.result_bytes
        self.seconds: float = estimate.seconds
        self.count_seconds: float = estimate.count_seconds

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """A table for notebooks: decisions in bold, reasons below them."""
        rows = []
        for line in self.text.rstrip("\n").split("\n"):
            escaped = html.escape(line.strip())
            if line[:1] == " ":
                name, colon, rest = escaped.partition(": ")
                cells = (name, rest) if colon else ("", escaped)
                rows.append("".join(f'<td style="{_STYLE}">{cell}</td>' for cell in cells))
            else:
                rows.append(f'<th colspan="2" style="{_STYLE}">{escaped}</th>')
        return '<table class="adjoin-plan">' + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def explained(job: Job, analyze: bool) -> Plan:
    """The plan of a job. With `analyze`, the job is run first, counting only."""

    def work(plan: ctypes.c_void_p, call: Call) -> Plan:
        if analyze:
            job.controlled(call, lib.adj_count, plan, None, None)
        estimate = fresh(d.adj_estimate)
        check(lib.adj_plan_estimate(plan, ctypes.byref(estimate)))
        return Plan(explanation(plan), estimate)

    return job.run(work)
