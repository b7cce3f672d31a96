"""Mutants of the ward's programs, observed: is the fault found, its cause named, the verdict right, the line given?

A mutant is set aside when its program is sealed or when the coin of (program, operator) says so; those run only with
`--final`. Harm is the printed figure of the mutant against that of the original over three seeds; what neither prints nor
learns anything else than the original is no mutant and is left out.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clinic import mutate
from clinic.case import Case
from clinic.judge import judge
from clinic.patient import judge_version
from clinic.wild import ward
from clinic.wild.program import Program, choose, lay_out, programs

LOG = ward.KEPT / "mutants.jsonl"
SEEDS = (1, 2)  # besides the program's own


@dataclass(frozen=True)
class Wanted:
    """One mutant of one program."""

    program: Program
    mutant: mutate.Mutant

    @property
    def name(self) -> str:
        return f"{self.program.name}/{self.mutant.operator}"

    def change(self, folder: Path) -> None:
        (folder / self.program.main).write_text(self.mutant.text, encoding="utf-8")


def sealed(program: Program, operator: str) -> bool:
    return program.sealed or mutate.coin(program.name, operator)


def all_of(program: Program, ask: ward.Ask) -> list[Wanted]:
    """Every mutant of a program's main file that differs as meant."""
    with ward._scratch(program) as folder:
        text = lay_out(program, folder, ask.sources).read_text(encoding="utf-8")
    return [Wanted(program, m) for m in mutate.mutants(text) if not mutate.differs(m)]


def chosen(ask: ward.Ask, operator: str = "") -> list[Wanted]:
    """The mutants asked for. A sample takes every operator in turn, each on another program, always the same ones."""
    known = [p for p in choose(programs(), ask.only) if not (ask.packages and p.public)]
    known = known if ask.final else [p for p in known if not p.sealed]
    pool = [w for p in known for w in _safely(p, ask) if sealed(p, w.mutant.operator) == bool(ask.final)]
    pool = [w for w in pool if not operator or w.mutant.operator == operator]
    if ask.sample is not None and ask.sample < len(pool):
        pool = _spread(pool, ask.sample)
    if ask.final:
        ward.break_seal("mutants", [w.name for w in pool], ask.final)
    return pool


def _safely(program: Program, ask: ward.Ask) -> list[Wanted]:
    try:
        return all_of(program, ask)
    except (ward.BadProgram, OSError, SyntaxError):
        return []


def _spread(pool: Sequence[Wanted], count: int) -> list[Wanted]:
    piles: dict[str, list[Wanted]] = {}
    for w in sorted(pool, key=lambda w: mutate.hashlib.sha256(w.name.encode()).hexdigest()):
        piles.setdefault(w.mutant.operator, []).append(w)
    used: dict[str, int] = {}
    picked: list[Wanted] = []
    while len(picked) < count:
        for pile in piles.values():
            if pile and len(picked) < count:
                best = min(pile, key=lambda w: used.get(w.program.name, 0))
                pile.remove(best)
                used[best.program.name] = used.get(best.program.name, 0) + 1
                picked.append(best)
    return sorted(picked, key=lambda w: w.name)


def look(wanted: Wanted, ask: ward.Ask, *, harm: bool = False) -> dict[str, Any]:
    """One line: what the report says of the mutant, against the truth of its operator."""
    program, fault = wanted.program, mutate.fault(wanted.mutant.operator)
    original = ward.run_bare(program, ask)
    if original["exit"] != program.exit_code:
        raise ward.BadProgram(f"{program.name}: ends with {original['exit']} bare")
    seen = ward.run_observed(program, ask, change=wanted.change)
    line: dict[str, Any] = {"name": wanted.name, "program": program.name, "operator": fault.name, "line": wanted.mutant.line}
    if original["digest"] == seen["digest"] and ward.same_text(original["stdout"], seen["stdout"]):
        return line | {"same": True}
    worse = _harm(wanted, ask, original, seen, every_seed=harm)
    loud = fault.falsifies or worse is not False
    case = Case(
        wanted.name, Path(), "sick", "mutant", fault.says, fault.condition, fault.codes, fault.causes,
        fault.verdicts if loud else (*fault.verdicts, "healthy", "wait", "cannot-tell"),
        least=fault.least if loud else "info", base=program.name, operator=fault.name,
    )  # fmt: skip
    told = judge(replace(case), {**seen, "cpu_s": seen["cpu_s"]})
    if "error" in told:
        return line | {"error": told["error"]}
    hits = [f for f in seen["report"]["findings"] if f["code"] in told["hit_by"]]
    places = [str(w) for f in hits for w in f.get("where", ()) if ":" in str(w)]
    right = tuple(f"{Path(program.main).name}:{n}" for n in mutate.places(wanted.mutant))
    told["where_right"] = any(p.endswith(right) for p in places) if hits else None
    wanted_keys = ("found", "causes", "verdict", "hit", "hit_by", "top1", "top3", "verdict_right", "where_right", "exit", "cpu_s")
    return line | {k: told[k] for k in wanted_keys} | {"harm": worse, "falsifies": fault.falsifies, "places": places[:4]}


def _harm(wanted: Wanted, ask: ward.Ask, original: dict[str, Any], seen: dict[str, Any], *, every_seed: bool) -> bool | None:
    """Whether the printed figure is worse than the original's over its seeds; None where none is printed."""
    program = wanted.program
    own = [ward.metric(program, original["stdout"])]
    own += [ward.metric(program, ward.run_bare(program, ask, seed=s)["stdout"]) for s in SEEDS]
    now = [ward.metric(program, seen["stdout"])]
    if every_seed:
        now += [ward.metric(program, ward.run_bare(program, ask, seed=s, change=wanted.change)["stdout"]) for s in SEEDS]
    good = [v for v in own if v is not None and math.isfinite(v)]
    if len(good) < 2:
        return None
    if any(v is None or not math.isfinite(v) for v in now):
        return True
    middle, spread = statistics.mean(good), max(good) - min(good)
    lost = statistics.mean(v for v in now if v is not None) - middle
    lost = lost if program.better == "low" else -lost
    return lost > max(spread, 0.05 * abs(middle), 1e-9)


def run(ask: ward.Ask, operator: str = "", *, harm: bool = False) -> list[dict[str, Any]]:
    """Lines of the chosen mutants; finished ones are taken from the log."""
    done = {} if ask.fresh else ward.finished(LOG)
    LOG.parent.mkdir(parents=True, exist_ok=True)
    picked, lines = chosen(ask, operator), []
    for n, wanted in enumerate(picked, 1):
        began = time.monotonic()
        key = f"{wanted.name}:{mutate.hashlib.sha256(wanted.mutant.text.encode()).hexdigest()[:8]}:{judge_version()}"
        if key in done:
            lines.append(done[key])
            continue
        try:
            line = look(wanted, ask, harm=harm)
        except (ward.BadProgram, OSError) as why:
            line = {"name": wanted.name, "program": wanted.program.name, "operator": wanted.mutant.operator, "error": str(why)}
        lines.append(line)
        if "error" not in line:
            with LOG.open("a", encoding="utf-8") as out:
                out.write(json.dumps({"key": key, **line}) + "\n")
        if line.get("same"):
            what = "the same as the original"
        elif "error" in line:
            what = "FAILED " + line["error"][-150:]
        else:
            what = f"{'found' if line['hit'] else 'MISSED'} {' '.join(line['hit_by'])} {line['verdict']} {line['causes'][:1]} harm {line['harm']}"
        print(f"{n}/{len(picked)} {wanted.name:52s} {time.monotonic() - began:4.0f} s  {what}", file=sys.stderr, flush=True)
    return lines


def page(lines: Sequence[dict[str, Any]]) -> str:
    """Rates with intervals, and what was missed."""
    from clinic.figures import percent, rate

    judged = [x for x in lines if "hit" in x]
    due = [x for x in judged if x["falsifies"] or x["harm"] is not False]
    out = [
        f"{len(judged)} mutants of {len({x['program'] for x in judged})} programs by {len({x['operator'] for x in judged})} operators; "
        f"{sum(bool(x.get('same')) for x in lines)} behave like their original and {sum('error' in x for x in lines)} do not run.",
        "",
        "| figure | all | harmful or falsifying |",
        "|---|---|---|",
        *(
            f"| {label} | {percent(rate(judged, key))} | {percent(rate(due, key))} |"
            for label, key in (("found", "hit"), ("first cause accepted", "top1"), ("verdict accepted", "verdict_right"), ("line named right, where found", "where_right"))
        ),
        "",
        "| operator | mutants | found | first cause | verdict |",
        "|---|---|---|---|---|",
    ]
    for f in mutate.FAULTS:
        own = [x for x in judged if x["operator"] == f.name]
        if own:
            out.append(f"| {f.name} | {len(own)} | {sum(x['hit'] for x in own)} | {sum(bool(x['top1']) for x in own)} | {sum(x['verdict_right'] for x in own)} |")
    out += ["", "Missed:", *(f"- {x['name']} (harm {x['harm']}): {x['verdict']}, {x['causes'][:2]}, {x['found']}" for x in judged if not x["hit"])]
    return "\n".join(out) + "\n"
