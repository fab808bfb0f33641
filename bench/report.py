# SPDX-License-Identifier: MIT
"""What is printed and written: where it ran, tables, and the comparison of two runs."""
import datetime
import os
import pathlib
import platform
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=HERE).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def cpu_model():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def compiler_of(build):
    """The C compiler the drivers were built with, as its --version calls itself, and the build type."""
    values = {}
    try:
        for line in (pathlib.Path(build) / "CMakeCache.txt").read_text().splitlines():
            if "=" in line and ":" in line:
                values[line.split(":")[0]] = line.split("=", 1)[1]
    except OSError:
        return "unknown"
    version = output_of(values.get("CMAKE_C_COMPILER", "cc"), "--version").splitlines()
    return f"{version[0] if version else 'unknown'}, {values.get('CMAKE_BUILD_TYPE') or 'no build type'}"


def machine(build, setting):
    commit = output_of("git", "rev-parse", "--short=12", "HEAD") or "unknown"
    if output_of("git", "status", "--porcelain", "--untracked-files=no"):
        commit += " with changes"
    return {
        "commit": commit, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": cpu_model(), "cores": os.cpu_count(), "memory_gb": round(memory_bytes() / 1e9),
        "system": f"{platform.system()} {platform.release()}", "compiler": compiler_of(build),
        "load": os.getloadavg()[0], "threads": setting.threads, "repeats": setting.repeats, "quick": setting.quick,
    }


def memory_bytes():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def table(header, rows):
    """Columns as wide as they need to be, those that hold numbers to the right."""
    rows = [[str(cell) for cell in row] for row in rows]
    columns = range(len(header))
    widths = [max(len(row[c]) for row in [header] + rows) for c in columns]
    numbers = [any(row[c].replace(",", "").replace(".", "").lstrip("-").isdigit() for row in rows) for c in columns]
    lines = ["  ".join(row[c].rjust(widths[c]) if numbers[c] else row[c].ljust(widths[c]) for c in columns)
             for row in [header] + rows]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(line.rstrip() for line in lines)


def seconds_text(summary):
    if not summary:
        return "-"
    if summary.get("problem") or not summary.get("min_s"):
        return "failed"
    return f"{summary['min_s']:.3f}"


def agreement_text(record):
    """How many contenders gave our answer, and who did not."""
    checked = {name: s for name, s in record["contenders"].items() if s.get("differing_rows") is not None}
    if record["faults"]:
        return "FAULT"
    same = sum(s["differing_rows"] == 0 for s in checked.values())
    text = f"{same} of {len(checked)} equal"
    near = [f"{name} ~{s['differing_rows']} rows" for name, s in checked.items() if s["differing_rows"]]
    return text + ("" if not near else "; " + ", ".join(near))


def case_row(record):
    ours, best = record["contenders"].get("adjoin"), record["best_peer"]
    mean = record["pairs"] / record["count"] if record["pairs"] is not None else float("nan")
    return [record["case"], record["mode"], seconds_text(ours), seconds_text(record["contenders"].get("adjoin/any")),
            seconds_text(record["contenders"].get(best)) if best else "-", best or "none",
            f"{record['ratio']:.2f}" if record["ratio"] else "-", f"{record['bar']:g}" if record.get("bar") else "-",
            f"{record['pairs']:,}" if record["pairs"] is not None else "-", f"{mean:.1f}", agreement_text(record)]


def phase_row(record):
    line = record["contenders"].get("adjoin") or {}
    if not line.get("min_s") or not line.get("candidates"):
        return None
    spared = line["min_s"] - line["index_s"]
    return [record["case"], record["mode"], line["algorithm"], f"{line['plan_s']:.4f}", f"{line['index_s']:.4f}",
            f"{spared:.4f}", f"{line['candidates'] / max(1, line['pairs']):.2f}", f"{line['cells']:,}",
            f"{line['peak_bytes'] / record['count']:.1f}", f"{line['imbalance']:.3f}", f"{line['median_s']:.3f}"]


def problems(records, absent):
    lines = [f"absent: {name}: {why}" for name, why in absent.items()]
    for record in records:
        for name, summary in record["contenders"].items():
            if summary.get("problem"):
                lines.append(f"{record['case']} {record['mode']}: {name}: {summary['problem']}")
    return lines


def print_report(report):
    where = report["machine"]
    print(f"adjoin {where['commit']}, {where['date']}\n{where['cpu']}, {where['cores']} cores, "
          f"{where['memory_gb']} GB, {where['system']}\n{where['compiler']}; {where['threads']} threads, "
          f"{where['repeats']} round{'s' * (where['repeats'] > 1)}, the fastest of each\n")
    if where["load"] > 0.5:
        print(f"The load was {where['load']:.1f} before the first run: others were at work on this machine, and times "
              f"are too long.\n")
    if report["cases"]:
        header = ["case", "mode", "ours s", "any order s", "best peer s", "best peer", "ratio", "bar", "pairs", "mean",
                  "agreement"]
        print(table(header, [case_row(r) for r in report["cases"]]) + "\n")
        if where["quick"]:
            print("Tiny inputs: the answers count, the times do not.\n")
        header = ["ours", "mode", "algorithm", "plan s", "plan+index s", "join s", "cand/pair", "cells",
                  "peak bytes/point", "imbalance", "median s"]
        rows = [row for row in map(phase_row, report["cases"]) if row]
        if rows:
            print(table(header, rows) + "\n")
    if report["checks"]:
        header = ["check", "what", "value", "unit", "bar", ""]
        rows = [[c["check"], c["what"], f"{c['value']:.4g}", c["unit"], f"{c['bar']:g}",
                 "WRONG" if c["fault"] else "" if where["quick"] else "ok" if c["ok"] else "missed"]
                for c in report["checks"]]
        print(table(header, rows) + "\n")
    for line in problems(report["cases"], report["absent"]):
        print(line)
    for fault in report["faults"]:
        print(f"FAULT: {fault}")


def compare(old, new, limit):
    """Prints our times of two runs side by side; returns the cases that became slower by more than limit."""
    before = {(r["case"], r["mode"]): r for r in old["cases"]}
    rows, slower = [], []
    for record in new["cases"]:
        key = record["case"], record["mode"]
        for name in ("adjoin", "adjoin/any"):
            now = record["contenders"].get(name, {})
            then = before.get(key, {}).get("contenders", {}).get(name, {})
            if not now.get("min_s") or not then.get("min_s"):
                continue
            ratio = now["min_s"] / then["min_s"]
            same = all(record[k] == before[key].get(k, 0) for k in ("radius", "k", "count", "pairs", "degree_sum"))
            verdict = "not the same join" if not same else "slower" if ratio > limit else \
                "faster" if ratio < 1 / limit else ""
            if verdict in ("slower", "not the same join"):
                slower.append(f"{key[0]} {key[1]} {name}")
            rows.append([key[0], key[1], name, f"{then['min_s']:.4f}", f"{now['min_s']:.4f}", f"{ratio:.2f}", verdict])
    print(f"old: {old['machine']['commit']}, {old['machine']['cpu']}\n"
          f"new: {new['machine']['commit']}, {new['machine']['cpu']}\n")
    print(table(["case", "mode", "contender", "old s", "new s", "new/old", ""], rows))
    return slower
