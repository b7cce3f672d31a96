"""Figures from score lines: rates with intervals, tables in text and Markdown."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

Line = dict[str, Any]


def wilson(k: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95 % interval for k of n.

    >>> tuple(round(x, 3) for x in wilson(0, 300))
    (0.0, 0.013)
    """
    if n == 0:
        return 0.0, 1.0
    p = k / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def rate(lines: Sequence[Line], key: str) -> dict[str, Any]:
    """{k, n, share, low, high} of the lines where `key` is true."""
    known = [x for x in lines if x.get(key) is not None]
    k = sum(bool(x[key]) for x in known)
    low, high = wilson(k, len(known))
    return {"k": k, "n": len(known), "share": k / len(known) if known else None, "low": low, "high": high}


def split(lines: Iterable[Line]) -> tuple[list[Line], list[Line], list[Line], list[Line]]:
    """Sick, healthy, below-threshold and failed lines."""
    sick, healthy, below, failed = [], [], [], []
    for x in lines:
        if "error" in x:
            failed.append(x)
        elif x["group"] in ("below", "healed"):
            below.append(x)
        else:
            (healthy if x["kind"] == "healthy" else sick).append(x)
    return sick, healthy, below, failed


def summary(lines: Sequence[Line]) -> dict[str, Any]:
    """Everything the docs table and the terminal show."""
    sick, healthy, below, failed = split(lines)
    written = [x for x in sick if x["group"] in ("sick", "eleven_pm")]
    generated = [x for x in sick if x["group"] == "generated"]
    return {
        "runs": {"sick": len(sick), "healthy": len(healthy), "below": len(below), "failed": len(failed)},
        "found": rate(sick, "hit"),
        "found_written": rate(written, "hit"),
        "found_generated": rate(generated, "hit"),
        "top1": rate(sick, "top1"),
        "top3": rate(sick, "top3"),
        "verdict": rate(sick, "verdict_right"),
        "where": rate(sick, "where_right"),
        "critical": rate([{"a": bool(x["alarms"]["critical"])} for x in healthy], "a"),
        "warning": rate([{"a": bool(x["alarms"]["critical"] or x["alarms"]["warning"])} for x in healthy], "a"),
        "below_tripped": rate([{"a": bool(x.get("tripped"))} for x in below], "a"),
        "delay": _delay(sick),
        "conditions": conditions(sick, healthy, below),
        "false_alarms": false_alarms(healthy),
        "confusion": confusion(sick),
        "broken": dict(Counter(c for x in lines for c in x.get("broken", ()))),
        "cpu_s": _quantiles([x["cpu_s"] for x in lines if x.get("cpu_s")]),
    }


def _quantiles(values: list[float]) -> dict[str, float]:
    if not values:
        return {}
    v = sorted(values)
    return {"median": v[len(v) // 2], "p95": v[int(0.95 * (len(v) - 1))], "max": v[-1]}


def _delay(sick: Sequence[Line]) -> dict[str, float]:
    return _quantiles([float(x["delay"]) for x in sick if x.get("delay") is not None])


def conditions(sick: Sequence[Line], healthy: Sequence[Line], below: Sequence[Line]) -> list[dict[str, Any]]:
    """Per condition: sensitivity with interval, causes, the quiet ones, false alarms."""
    groups: dict[str, list[Line]] = defaultdict(list)
    for x in sick:
        groups[x["condition"]].append(x)
    alarms = Counter(c for x in healthy for s in ("critical", "warning") for c in x["alarms"][s])
    quiet: dict[str, list[Line]] = defaultdict(list)
    for x in below:
        quiet[x["condition"]].append(x)
    return [
        {
            "code": code,
            "found": rate(groups.get(code, []), "hit"),
            "by_its_own_rule": rate(groups.get(code, []), "condition_found"),
            "top1": rate(groups.get(code, []), "top1"),
            "quiet_below": {"k": sum(not x.get("tripped") for x in quiet.get(code, [])), "n": len(quiet.get(code, []))},
            "false_alarms": alarms.get(code, 0),
        }
        for code in sorted(set(groups) | set(quiet))
    ]


def by_rule(lines: Sequence[Line]) -> dict[str, dict[str, int]]:
    """Per rule what its page shows: found in how many sick runs made for it, alarms on how many healthy runs."""
    sick, healthy, _, _ = split(lines)
    made = Counter(x["condition"] for x in sick)
    found = Counter(x["condition"] for x in sick if x["condition_found"])
    alarms = Counter(c for x in healthy for s in ("critical", "warning") for c in x["alarms"][s])
    return {
        code: {"found": found[code], "sick": made[code], "false_alarms": alarms[code], "healthy": len(healthy)}
        for code in sorted(set(made) | set(alarms))
        if code
    }


def false_alarms(healthy: Sequence[Line]) -> list[dict[str, Any]]:
    """Which rules alarm on healthy runs, and on which."""
    where: dict[tuple[str, str], list[str]] = defaultdict(list)
    for x in healthy:
        for severity in ("critical", "warning"):
            for code in x["alarms"][severity]:
                where[code, severity].append(x["name"])
    return [
        {"code": code, "severity": severity, "n": len(names), "runs": sorted(names)[:8]}
        for (code, severity), names in sorted(where.items(), key=lambda kv: -len(kv[1]))
    ]


def confusion(sick: Sequence[Line]) -> list[dict[str, Any]]:
    """True cause against the cause named first, where they differ."""
    pairs = Counter(
        (x["expected"]["causes"][0] if x["expected"]["causes"] else "-", (x["causes"] or ["(none)"])[0])
        for x in sick
        if x["top1"] is False
    )
    return [{"true": t, "said": s, "n": n} for (t, s), n in pairs.most_common()]


def percent(r: dict[str, Any]) -> str:
    if not r["n"]:
        return "–"
    return f"{100 * r['share']:.1f} % ({r['k']}/{r['n']}, {100 * r['low']:.1f}–{100 * r['high']:.1f})"


def page(s: dict[str, Any]) -> str:
    """The score as Markdown: figures, conditions, false alarms, confusion."""
    rows = [
        ("sick runs found with an accepted diagnosis", percent(s["found"])),
        ("… of the written cases", percent(s["found_written"])),
        ("… of the generated cases", percent(s["found_generated"])),
        ("first cause accepted, where more than a remark is due", percent(s["top1"])),
        ("accepted cause among the first three", percent(s["top3"])),
        ("verdict accepted", percent(s["verdict"])),
        ("place named right, where one is named", percent(s["where"])),
        ("healthy runs with a critical finding", percent(s["critical"])),
        ("healthy runs with a warning or worse", percent(s["warning"])),
        ("below-threshold and healed twins that tripped the rule", percent(s["below_tripped"])),
    ]
    out = [
        "Runs: " + ", ".join(f"{count} {kind}" for kind, count in s["runs"].items()) + ".",
        "",
        "| figure | share (k/n, 95 % interval) |",
        "|---|---|",
        *(f"| {a} | {b} |" for a, b in rows),
    ]
    if s["delay"]:
        out += ["", f"Detection delay in steps after onset: median {s['delay']['median']:.0f}, p95 {s['delay']['p95']:.0f}."]
    out += [
        "",
        "| condition | found | by its own rule | first cause | quiet below | alarms on healthy |",
        "|---|---|---|---|---|---|",
    ]
    for c in s["conditions"]:
        q = c["quiet_below"]
        own = c["by_its_own_rule"]
        out.append(
            f"| {c['code']} | {percent(c['found'])} | {own['k']}/{own['n']} | {c['top1']['k']}/{c['top1']['n']} "
            f"| {q['k']}/{q['n']} | {c['false_alarms']} |"
        )
    out += ["", "| false alarm | severity | runs | for example |", "|---|---|---|---|"]
    out += [f"| {f['code']} | {f['severity']} | {f['n']} | {', '.join(f['runs'][:4])} |" for f in s["false_alarms"]]
    out += ["", "| true cause | named first | runs |", "|---|---|---|"]
    out += [f"| {c['true']} | {c['said']} | {c['n']} |" for c in s["confusion"][:40]]
    if s["broken"]:
        out += ["", f"Broken rules: {s['broken']}"]
    return "\n".join(out) + "\n"
