"""A yard-stick of stored runs: what an earlier version found in them, and what the present one finds.

`clinic/yard/` holds every written case as it was recorded at one commit, thinned and packed (`clinic.store`), and `yard.json`
what the rules of that commit said of the thinned runs. Judging them all takes a minute or two and trains nothing:

    python -m clinic yard            # found lost, found gained, alarms gained, alarms gone, verdicts that changed
    python -m clinic yard --strict   # the same; exit 1 when something was lost or a healthy run is alarmed anew
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clinic import store
from clinic.case import HEALTHY, HERE, written
from clinic.judge import judge

YARD = HERE / "yard"
KEPT = ("kind", "group", "found", "causes", "verdict", "hit", "top1", "verdict_right", "where_right")


def keep(records: Path, folder: Path = YARD) -> int:
    """Pack the records of the written cases; returns the bytes."""
    from traindx.record import read

    total = 0
    for case in written():
        homes = sorted(records.glob(f"{case.key}-*/record"))
        if homes:
            total += store.save(read(homes[-1]), folder / f"{case.name}.npz")
    return total


def look(folder: Path = YARD, only: str = "*") -> dict[str, dict[str, Any]]:
    """What the present code says of every stored run."""
    from traindx.diagnosis import diagnose
    from traindx.report.json import report

    cases = {c.name: c for c in written()}
    out = {}
    for path in sorted(folder.glob(f"{only}.npz")):
        line = judge(cases[path.stem], {"report": report(diagnose(store.load(path)))})
        out[path.stem] = {k: line[k] for k in KEPT if k in line}
    return out


def write(commit: str, folder: Path = YARD) -> None:
    """Make what the present code says the yard-stick."""
    lines = look(folder)
    rows = ",\n".join(f"{json.dumps(n)}: {json.dumps(x, sort_keys=True)}" for n, x in sorted(lines.items()))
    (folder / "yard.json").write_text(f'{{"commit": "{commit}", "runs": {{\n{rows}\n}}}}\n', encoding="utf-8")


def baseline(folder: Path = YARD) -> dict[str, dict[str, Any]]:
    return json.loads((folder / "yard.json").read_text(encoding="utf-8"))["runs"]  # type: ignore[no-any-return]


def compare(before: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """What changed, in words."""
    out: dict[str, list[str]] = {"found lost": [], "found gained": [], "alarms gained": [], "alarms gone": [], "verdicts": []}
    for name in sorted(now):
        old, new = before[name], now[name]
        loud = [{c for c, s in x["found"].items() if s != "info"} for x in (old, new)]
        if new["kind"] == HEALTHY:
            out["alarms gained"] += [f"{name} {c} ({new['found'][c]})" for c in sorted(loud[1] - loud[0])]
            out["alarms gone"] += [f"{name} {c}" for c in sorted(loud[0] - loud[1])]
        elif old["hit"] != new["hit"]:
            said = ", ".join(f"{c} ({s})" for c, s in new["found"].items()) or "nothing"
            out["found lost" if old["hit"] else "found gained"].append(f"{name}: now {said}; first cause {new['causes'][:1]}")
        if old["verdict"] != new["verdict"]:
            right = "" if new["kind"] == HEALTHY else f", {'accepted' if new['verdict_right'] else 'not accepted'}"
            out["verdicts"].append(f"{name}: {old['verdict']} → {new['verdict']}{right}")
    return out


def totals(lines: Iterable[dict[str, Any]]) -> str:
    """The figures in one line."""
    sick = [x for x in lines if x["kind"] != HEALTHY]
    well = [x for x in lines if x["kind"] == HEALTHY]
    alarmed = sum(any(s != "info" for s in x["found"].values()) for x in well)
    named, right = sum(bool(x["top1"]) for x in sick), sum(x["verdict_right"] for x in sick)
    placed = [x["where_right"] for x in sick if x.get("where_right") is not None]
    told = f"found {sum(x['hit'] for x in sick)} of {len(sick)}, first cause {named}, verdict {right}, place {sum(placed)} of {len(placed)}"
    return f"{told}; alarms on {alarmed} of {len(well)} healthy"


def page(before: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> str:
    changed = compare(before, now)
    known = {n: before[n] for n in now}
    out = [f"before: {totals(known.values())}", f"now:    {totals(now.values())}"]
    for what, rows in changed.items():
        out += [f"{what}: {len(rows)}", *(f"  {row}" for row in rows)]
    return "\n".join(out)


