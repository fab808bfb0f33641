# SPDX-License-Identifier: MIT
"""docs/papers: an index, and a page for each paper with its figures, its numbers beside ours, and its claims."""
import pathlib

from . import PAPERS, plots
from .claims import FAILS, HOLDS, UNKNOWN, View
from .contenders import CONTENDERS
from .metrics import METRICS, measure, show
from .store import Store

# What no paper has.
OURS = ("auto", "cpu", "gpu", "brute-cpu", "select-auto")

INTRO = """# The papers' experiments, repeated

adjoin comes from five papers. Each table and figure of their evaluation sections is an experiment here: the same sweep, the
contenders that we have, and adjoin's own choice (`auto`) beside them. All answers of one join were compared before a time
counts. `bench/papers.py list` names all experiments, `bench/papers.py run 002:T4` repeats one; bench/README.md says how.

These pages are written by `bench/papers.py report` from `bench/papers/results`. What differs from the papers:

- **Times** go from points in host memory to the whole result in host memory: plan, index, copies, join, rows. The median of
  the repeats. The papers leave out indexes and some of the copies.
- **Sizes.** A machine does as much of a paper's set as time and memory allow. Then S, the number of neighbours per point,
  is that of the paper, and the radius follows from it. Where the result would be too large, all S of a panel are scaled by one
  factor. The axes show the S that was found. Tables name places by the paper's S.
- **Real sets** are imitated unless their files are there (bench/data.md).
- **Contenders** that are not here are named with the reason, and the paper's own figures are quoted.
- **Speed-ups** are geometric means. A verdict says what was asked for; that is often less than the paper's own factor,
  which belongs to its machine.
- **Load.** A machine whose load is above its number of threads was shared with others. Its times are then good for orders of
  magnitude only, and a verdict by a small factor means little.
"""


def machine_text(store):
    machine = store.machine
    names = sorted({str(r.get("commit")) for runs in store.runs.values() for r in runs.values()})
    commits = ("commit " if len(names) == 1 else "commits ") + ", ".join(names)
    device = f", {machine['device']}" if machine.get("device") else ", no GPU"
    before, after = machine.get("load_before"), machine.get("load_after")
    load = f"; load {before} before" if before is not None else ""
    load += f" and {after} after" if after is not None else ""
    return (f"**{machine['machine']}**: {machine.get('cpu', '?')}, {machine.get('cores')} threads, "
            f"{machine.get('memory_gb')} GB{device}{load}; {commits}, size `{machine.get('size')}`")


def records_of(paper, experiment, store):
    """The runs that an experiment shows: its own, or those of others."""
    found = {}
    for name in experiment.uses or (experiment.id,):
        found.update(store.runs.get(f"{paper.id}:{name}", {}))
    return found


def scaled(paper, experiment, records):
    """What is not as in the paper, of the runs of a machine: a list of texts."""
    sources = [paper.get(name) for name in experiment.uses] or [experiment]
    panels = {panel.name: panel for source in sources for panel in source.panels}
    shares, factors = set(), set()
    for (name, x, _), record in records.items():
        request = record["request"]
        if name in panels and "count" in request:
            shares.add(request["count"] / panels[name].points)
            if "mean" in request and source_axis(sources, name) == "S":
                factors.add(request["mean"] / x)
    texts = []
    if shares and min(shares) < 0.99:
        texts.append(f"{100 * min(shares):.3g} to {100 * max(shares):.3g} % of the points"
                     if max(shares) - min(shares) > 0.01 * max(shares) else f"{100 * min(shares):.3g} % of the points")
    if factors and min(factors) < 0.99:
        texts.append(f"S times {min(factors):.2g} to {max(factors):.2g}")
    return texts


def source_axis(sources, panel):
    return next(s.axis for s in sources if any(p.name == panel for p in s.panels))


def missing(experiment, records):
    """{contender: reason} of those without any run, and how many places others lack."""
    absent, holes = {}, 0
    for who in experiment.contenders:
        mine = [r for (_, _, c), r in records.items() if c == who]
        bad = [r for r in mine if r["status"] != "ok"]
        if bad and len(bad) == len(mine):
            absent[who] = bad[0].get("reason", "")
        holes += len(bad) if len(bad) < len(mine) else 0
    return absent, holes


def state(paper, experiment, store):
    """("fully" | "partly" | "not", why)."""
    if experiment.absent:
        return "not", experiment.absent
    records = records_of(paper, experiment, store)
    if not any(r["status"] == "ok" for r in records.values()):
        reason = next((r.get("reason") for r in records.values() if r["status"] != "ok"), "not run")
        return "not", reason
    absent, holes = missing(experiment, records)
    if all(who in OURS for (_, _, who), r in records.items() if r["status"] == "ok"):
        return "not", f"none of the paper's contenders: {next(iter(absent.values()), '')}"
    why = scaled(paper, experiment, records)
    why += [f"without {CONTENDERS[who].label}" for who in absent]
    why += [f"{holes} runs without a result"] if holes else []
    return ("partly", "; ".join(why)) if why else ("fully", "")


def table_of(experiment, records):
    """Ours, and the paper's in brackets."""
    columns = [(who, metric) for who in experiment.contenders for metric in experiment.metrics
               if any(measure(metric, r) is not None for (_, _, c), r in records.items() if c == who)]
    if not columns:
        return []
    told = {(p.panel, p.x, p.contender, p.metric): p.value for p in experiment.published}
    head = [CONTENDERS[who].label + (f": {METRICS[metric][0]}" if len(experiment.metrics) > 1 else "")
            for who, metric in columns]
    lines = ["| | " + experiment.axis + " | " + " | ".join(head) + " |", "|---|---:|" + "---:|" * len(columns)]
    for panel, x in dict.fromkeys((p, x) for p, x, _ in records):
        cells = []
        for who, metric in columns:
            value = told.get((panel, float(x), who, metric))
            text = show(metric, measure(metric, records.get((panel, x, who))))
            cells.append(text + (f" ({show(metric, value)})" if value is not None else ""))
        if any(cell != "–" for cell in cells):
            lines.append(f"| {panel} | {x:g} | " + " | ".join(cells) + " |")
    return lines + [""]


def published_of(experiment):
    """What the paper tells, in words: all of it where there is no table, else what the table does not show."""
    lines = []
    for p in experiment.published:
        if p.metric in experiment.metrics and not experiment.absent and p.x is not None:
            continue
        label = METRICS[p.metric][0] if p.metric in METRICS else p.metric
        place = f" at {p.x:g}" if p.x is not None else ""
        lines.append(f"{p.panel}{place}, {CONTENDERS[p.contender].label}, {label}: {p.value:g}")
    return ["The paper reports: " + "; ".join(lines) + ".", ""] if lines else []


def claims_of(experiment, views):
    lines = []
    for claim in experiment.claims:
        lines.append(f"- **{claim.text}.**")
        for machine, view in views.items():
            verdict = claim.judge(view)
            why = f" Likely reason: {claim.why}" if claim.why and verdict.word == FAILS else ""
            word = {HOLDS: "Holds", FAILS: "Does not hold", UNKNOWN: "Open"}[verdict.word]
            lines.append(f"  - {machine}: {word}. {verdict.sentence}{why}")
    return lines + [""]


def section(paper, experiment, stores, views, folder):
    lines = [f"### {experiment.id}: {experiment.title}", ""]
    if experiment.note:
        lines += [experiment.note, ""]
    if experiment.absent:
        lines += [f"Not repeated: {experiment.absent}.", ""]
    lines += published_of(experiment)
    for store in stores:
        name = store.machine["machine"]
        records = records_of(paper, experiment, store)
        how, why = state(paper, experiment, store)
        if experiment.absent:
            continue
        file = f"{paper.slug}-{experiment.id.lower()}-{name}.svg"
        body = table_of(experiment, records)
        heading = f"**{name}**" + (f" ({why})" if why else "")
        if not any(r["status"] == "ok" for r in records.values()):
            lines += [f"{heading}: nothing was measured.", ""]
            continue
        lines += [heading + ":", ""]
        if plots.write(experiment, records, folder / file):
            lines += [f"![{experiment.title} on {name}]({file})", ""]
        lines += body
        absent = missing(experiment, records)[0]
        lines += [f"Not available: {'; '.join(f'{CONTENDERS[w].label} ({r})' for w, r in absent.items())}.", ""] if absent else []
    return lines + claims_of(experiment, views)


def page(paper, stores, folder):
    views = {s.machine["machine"]: View({e.id: s.runs.get(f"{paper.id}:{e.id}", {}) for e in paper.experiments})
             for s in stores}
    lines = [f"# {paper.name}", "", f"*{paper.title}.* Measured there on {paper.machine}.", ""]
    lines += ["Ours:", ""] + [f"- {machine_text(s)}" for s in stores] + ["", "## Claims", ""]
    counts = {}
    for experiment in paper.experiments:
        for claim in experiment.claims:
            words = {machine: claim.judge(view).word for machine, view in views.items()}
            for machine, word in words.items():
                counts.setdefault(machine, []).append(word)
            lines.append(f"- {claim.text} ([{experiment.id}](#{anchor(experiment)})): "
                         + ", ".join(f"{word} ({machine})" for machine, word in words.items()))
    lines += ["", "## Tables and figures", ""]
    for experiment in paper.experiments:
        lines += section(paper, experiment, stores, views, folder)
    (folder / f"{paper.slug}.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return counts


def anchor(experiment):
    text = f"{experiment.id}: {experiment.title}".lower()
    return "".join(c for c in text if c.isalnum() or c in " -").replace(" ", "-")


def index(stores, counts):
    lines = [INTRO, "Machines:", ""] + [f"- {machine_text(s)}" for s in stores] + [""]
    for store in stores:
        name = store.machine["machine"]
        lines += [f"## {name}", "", "| paper | tables and figures | fully | partly | not | claims that hold | do not | open |",
                  "|---|---:|---:|---:|---:|---:|---:|---:|"]
        for paper in PAPERS:
            states = [state(paper, e, store)[0] for e in paper.experiments]
            words = counts[paper.id].get(name, [])
            lines.append(f"| [{paper.name}]({paper.slug}.md) | {len(states)} | "
                         + " | ".join(str(states.count(s)) for s in ("fully", "partly", "not")) + " | "
                         + " | ".join(str(words.count(w)) for w in (HOLDS, FAILS, UNKNOWN)) + " |")
        lines += ["", "<details><summary>What is not as in the papers</summary>", "", "| | | |", "|---|---|---|"]
        for paper in PAPERS:
            for experiment in paper.experiments:
                how, why = state(paper, experiment, store)
                if how != "fully":
                    lines.append(f"| {paper.name} {experiment.id} | {how} | {why} |")
        lines += ["", "</details>", ""]
    return "\n".join(lines).rstrip() + "\n"


def write_all(results, folder):
    """All pages, from the results of all machines. Pages and figures that are no longer written go."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in list(folder.glob("*.svg")) + list(folder.glob("*.md")):
        old.unlink()
    stores = [Store(results, path.stem) for path in sorted(pathlib.Path(results).glob("*.jsonl"))]
    counts = {paper.id: page(paper, stores, folder) for paper in PAPERS}
    (folder / "README.md").write_text(index(stores, counts), encoding="utf-8")
    print(f"{folder}: {len(PAPERS) + 1} pages, {len(list(folder.glob('*.svg')))} figures")
