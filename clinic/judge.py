"""Comparing a report with the truth of a case."""

from __future__ import annotations

from typing import Any

from clinic.case import HEALTHY, Case

from traindx.diagnosis.posterior import POSSIBLE

ORDER = ("info", "warning", "critical")
ALARMS = ("warning", "critical")


def judge(case: Case, examined: dict[str, Any]) -> dict[str, Any]:
    """One line of the score: what was expected, what was said, and whether it is right."""
    report = examined.get("report")
    line: dict[str, Any] = {
        "name": case.name,
        "group": case.group,
        "kind": case.kind,
        "condition": case.condition,
        "base": case.base,
        "operator": case.operator,
        "level": case.level,
        "seed": case.seed,
        "exit": examined.get("exit"),
        "seconds": examined.get("seconds"),
        "cpu_s": examined.get("cpu_s"),
    }
    if report is None:
        return line | {"error": _last_error(examined.get("stderr") or "")}
    findings, said = report["findings"], report["diagnosis"]
    causes = [c["cause"] for c in said["causes"]]
    worst = {f["code"]: f["severity"] for f in sorted(findings, key=lambda f: ORDER.index(f["severity"]))}
    line |= {
        "found": worst,
        "messages": {f["code"]: f["message"] for f in findings if f["severity"] in ALARMS},
        "causes": causes[:3],
        "probabilities": [c.get("probability") for c in said["causes"]][:3],
        "verdict": said["verdict"],
        "broken": [o["code"] if isinstance(o, dict) else o for o in report["outcomes"].get("broken", [])],
        "blind": [o["code"] for o in report["outcomes"].get("blind", [])],
        "alarms": {s: sorted(c for c, v in worst.items() if v == s) for s in ALARMS},
    }
    if case.kind == HEALTHY or case.group in ("below", "healed"):
        return line | {"tripped": sorted(set(case.quiet) & {c for c, s in worst.items() if s in ALARMS})}
    return line | _sick(case, findings, said)


def _sick(case: Case, findings: list[dict[str, Any]], said: dict[str, Any]) -> dict[str, Any]:
    causes, verdict = [c["cause"] for c in said["causes"]], said["verdict"]
    enough = ORDER.index(case.least)
    hits = [f for f in findings if f["code"] in case.codes and ORDER.index(f["severity"]) >= enough]
    onset = min((f["steps"][0] for f in hits if f.get("steps")), default=None)
    named = bool(causes) and causes[0] in case.causes
    # a remark, where no more is due, needs no cause, and one that is not even held possible is not named
    told = bool(causes) and (said["causes"][0].get("probability") or 0.0) >= POSSIBLE
    due = told or case.least != "info" or not hits
    return {
        "hit": bool(hits) or named,
        "hit_by": sorted({f["code"] for f in hits}),
        "condition_found": any(f["code"] == case.condition for f in findings),
        "top1": named if due else None,
        "top3": any(c in case.causes for c in causes[:3]) if due else None,
        "verdict_right": verdict in case.verdicts,
        "delay": None if onset is None else onset - case.from_step,
        "where_right": _where(case, hits),
        "expected": {"codes": list(case.codes), "causes": list(case.causes), "verdicts": list(case.verdicts)},
    }


def _where(case: Case, hits: list[dict[str, Any]]) -> bool | None:
    """Whether a finding names the guilty layer or line; None where the truth names neither or nothing was said."""
    places = [str(w) for f in hits for w in f.get("where", ())]
    if not places or not (case.layer or case.line):
        return None
    line = case.guilty_line
    by_line = line is not None and any(p.endswith(f":{line}") for p in places)
    return by_line or (bool(case.layer) and any(p == case.layer or p.startswith(case.layer) for p in places))


def _last_error(said: str) -> str:
    """The line of a traceback that names the error: paths of the machine do not belong into a result file."""
    lines = [line.strip() for line in said.splitlines()]
    named = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception", "Interrupt"))]
    return (named or lines or ["no report"])[-1][:200]
