"""Scoring: every case through plain `traindx run`, in parallel, resumable, with a progress bar."""

from __future__ import annotations

import fnmatch
import itertools
import json
import multiprocessing
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clinic import calibration, figures
from clinic.case import HERE, WORK, Case, heal, written
from clinic.judge import judge
from clinic.patient import examine, judge_version, observer_version, record_dir

RESULTS = HERE / "results"
LOG = WORK / "score.jsonl"  # finished cases; a killed score goes on where it stopped


@dataclass(frozen=True)
class Ask:
    """What the user wants scored, and how."""

    only: str = "*"
    sample: int | None = None
    workers: int = 2
    fresh: bool = False
    any_observer: bool = False
    healed: bool = False
    forked: bool = False
    kept: bool = False  # only what has a record already


def all_cases(*, healed: bool = False) -> list[Case]:
    """Written and generated cases, and on request the healed twins of the written ones."""
    from clinic.generate import generated

    cases = [*written(), *generated()]
    if healed:
        cases += [twin(c) for c in written() if c.healed]
    return cases


def twin(case: Case) -> Case:
    """The healed twin as a case of its own: the codes of the fault must not be found in it."""
    path = WORK / "healed" / f"{case.name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = heal(case)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return Case(
        f"{case.name}__healed", path, "healthy", "healed", case.fault, case.condition, quiet=case.codes, covers=case.covers
    )


def choose(cases: Sequence[Case], ask: Ask) -> list[Case]:
    """The cases asked for; a sample takes every group in turn, and in it every condition, always in the same order."""
    found = [
        c for c in cases if any(fnmatch.fnmatch(t, ask.only) for t in (c.name, c.group, c.condition, f"{c.group}/{c.name}"))
    ]
    if ask.sample is None or ask.sample >= len(found):
        return found
    groups: dict[str, dict[str, list[Case]]] = defaultdict(lambda: defaultdict(list))
    for c in found:
        groups[c.group][c.condition or c.base].append(c)
    rng = random.Random(0)
    queues = [_in_turn([rng.sample(pile, len(pile)) for _, pile in sorted(group.items())]) for _, group in sorted(groups.items())]
    picked = _in_turn(queues)[: ask.sample]
    return sorted(picked, key=lambda c: (c.group, c.name))


def _in_turn(piles: Sequence[list[Case]]) -> list[Case]:
    """One of each pile, then another of each, until all are taken."""
    rounds = itertools.zip_longest(*piles)
    return [c for each in rounds for c in each if c is not None]


def run(ask: Ask, say: Callable[[str], None] = lambda text: print(text, file=sys.stderr)) -> list[dict[str, Any]]:
    """Score lines of the chosen cases; finished ones are taken from the log of an earlier, interrupted score."""
    cases = choose(all_cases(healed=ask.healed), ask)
    if ask.kept:
        cases = [c for c in cases if (record_dir(c, any_observer=ask.any_observer) / "record").exists()]
    done = {} if ask.fresh else finished()
    todo = [c for c in cases if _key(c) not in done]
    say(f"{len(cases)} cases, {len(cases) - len(todo)} already judged by this version")
    lines = [done[_key(c)] for c in cases if _key(c) in done]
    WORK.mkdir(exist_ok=True)
    with LOG.open("a", encoding="utf-8") as log:
        for n, (key, line) in enumerate(_lines(todo, ask), 1):
            lines.append(line)
            if "error" not in line:
                log.write(json.dumps({"key": key, **line}) + "\n")
                log.flush()
            _progress(n, len(todo), line)
    return sorted(lines, key=lambda x: (x["group"], x["name"]))


def _lines(todo: Sequence[Case], ask: Ask) -> Iterable[tuple[str, dict[str, Any]]]:
    jobs = [(c, ask.fresh, ask.any_observer, ask.forked) for c in todo]
    if ask.workers <= 1:
        yield from map(_one, jobs)
        return
    # An executor and not a Pool: the workers of a Pool are daemons, and a program forked from one may not have DataLoader workers.
    with ProcessPoolExecutor(ask.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_one, job) for job in jobs]):
            yield done.result()


def _one(job: tuple[Case, bool, bool, bool]) -> tuple[str, dict[str, Any]]:
    case, fresh, any_observer, forked = job
    try:
        line = judge(case, examine(case, fresh=fresh, any_observer=any_observer, forked=forked))
    except Exception as why:  # one case that cannot be judged must not end the score; it is counted as failed
        line = judge(case, {"stderr": f"{type(why).__name__}: {why}"})
    return _key(case), line


def _key(case: Case) -> str:
    return f"{case.name}:{case.key}:{judge_version()}"


def finished() -> dict[str, dict[str, Any]]:
    """Lines of the log, by key; the last one wins."""
    if not LOG.exists():
        return {}
    out = {}
    for row in LOG.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(row)
        except json.JSONDecodeError:
            continue  # the torn last line of a killed score
        out[line.pop("key")] = line
    return out


def latest() -> list[dict[str, Any]]:
    """The newest line of every case in the log, whatever version judged it."""
    by_name = {line["name"]: line for line in finished().values()}
    known = {c.name for c in all_cases(healed=True)}
    return sorted((x for n, x in by_name.items() if n in known), key=lambda x: (x["group"], x["name"]))


_began = time.monotonic()


def _progress(n: int, total: int, line: dict[str, Any]) -> None:
    if not sys.stderr.isatty():
        if n % 25 == 0 or n == total:
            print(f"{n}/{total} after {time.monotonic() - _began:.0f} s", file=sys.stderr, flush=True)
        return
    width = 30
    bar = "█" * (width * n // max(total, 1))
    print(f"\r{bar:<{width}} {n}/{total} {line['name'][:40]:<40}", end="\n" if n == total else "", file=sys.stderr, flush=True)


def write(lines: Sequence[dict[str, Any]], name: str, folder: Path = RESULTS) -> Path:
    """Keep a score: summary and one short line per case, from which the docs table is generated."""
    folder.mkdir(parents=True, exist_ok=True)
    short = [{k: v for k, v in x.items() if k not in ("messages", "blind", "probabilities")} for x in lines]
    body = {
        "schema": "traindx.clinic/1",
        "observer": observer_version(),
        "judge": judge_version(),
        "summary": {**figures.summary(lines), "calibration": calibration.summary(lines)},
        "cases": short,
    }
    path = folder / f"{name}.json"
    path.write_text(
        json.dumps(body, indent=None, separators=(",", ":"), sort_keys=True).replace('},{"', '},\n{"') + "\n", encoding="utf-8"
    )
    text = figures.page(body["summary"])
    head, mark, rest = text.partition("\n| condition |")
    text = head + calibration.page(body["summary"]["calibration"]) + mark + rest
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    rules = figures.by_rule(_published(path))
    (folder / "rules.json").write_text(json.dumps(rules, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return path


def _published(newest: Path) -> list[dict[str, Any]]:
    """The lines of all result files beside the newest, which knows best what a case that stands in several of them gave."""
    paths = sorted(newest.parent.glob("*.json"), key=lambda p: (p == newest, p.name))
    bodies = [json.loads(p.read_text(encoding="utf-8")) for p in paths]
    scores = [b for b in bodies if isinstance(b, dict) and b.get("schema") == "traindx.clinic/1"]
    return list({x["name"]: x for b in scores for x in b["cases"]}.values())


def misses(lines: Sequence[dict[str, Any]]) -> str:
    """Per case what went wrong, for the owners of rules: expected, got, what was found."""
    sick, healthy, below, failed = figures.split(lines)
    out = ["# Misses and false alarms", "", "## Sick runs without an accepted diagnosis"]
    out += [_miss(x) for x in sick if not x["hit"]]
    out += ["", "## Found, but the first cause is not accepted"]
    out += [_miss(x) for x in sick if x["hit"] and x["top1"] is False]
    out += ["", "## Right cause, verdict not accepted"]
    out += [
        f"- {x['name']}: said {x['verdict']}, accepted {', '.join(x['expected']['verdicts'])}"
        for x in sick
        if x["top1"] and not x["verdict_right"]
    ]
    out += ["", "## Healthy runs with an alarm"]
    for x in healthy:
        for severity in ("critical", "warning"):
            out += [f"- {x['name']} [{severity}] {c}: {x['messages'].get(c, '')[:200]}" for c in x["alarms"][severity]]
    out += ["", "## Below threshold or healed, yet tripped"]
    out += [f"- {x['name']} {c}: {x['messages'].get(c, '')[:200]}" for x in below for c in x.get("tripped", ())]
    out += ["", "## Failed", *(f"- {x['name']}: {x['error'][-300:]!r}" for x in failed)]
    return "\n".join(out) + "\n"


def _miss(x: dict[str, Any]) -> str:
    got = ", ".join(f"{c}({s[0]})" for c, s in x["found"].items()) or "nothing"
    blind = sorted(set(x["expected"]["codes"]) & set(x.get("blind", ())))
    hint = f"; blind: {', '.join(blind)}" if blind else ""
    want = f"{'|'.join(x['expected']['codes'][:4])} / {'|'.join(x['expected']['causes'][:3])}"
    return f"- **{x['name']}** expected {want}; got {got}; causes {x['causes'] or '–'}; verdict {x['verdict']}{hint}"
