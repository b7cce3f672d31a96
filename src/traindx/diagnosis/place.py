"""The line to fix: a finding without one of its own is given the line of the cause that it speaks for.

A loss that diverges has no line. The learning rate that makes it diverge has one: where the optimizer is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from traindx.cause import Cause
from traindx.diagnosis.posterior import Suspect
from traindx.diagnosis.story import JUDGEMENT
from traindx.finding import Finding, Outcome
from traindx.rule import LINE, Rule, lines
from traindx.run import Run

TELLING = 0.7  # how often a finding is there under its cause, at least, for its place to be that of the cause


def placed(run: Run, outcomes: Sequence[Outcome], causes: Sequence[Suspect], rules: Mapping[str, Rule]) -> tuple[Outcome, ...]:
    """The outcomes, with the lines of the first cause at every finding that speaks for it and names no line."""
    lead = next((c for c in causes[:1] if c.supports and c.possible), None)
    found = lines(run, mended_at(lead.cause, rules)) if lead else ()
    if lead is None or not found:
        return tuple(outcomes)
    codes = {*lead.supports, JUDGEMENT}

    def put(f: Finding) -> Finding:
        return f if f.code not in codes or any(LINE.search(w) for w in f.where) else replace(f, where=(*f.where, *found))

    return tuple(replace(o, findings=tuple(map(put, o.findings))) if o.findings else o for o in outcomes)


def mended_at(cause: Cause, rules: Mapping[str, Rule]) -> str:
    """What is fixed under a cause, by the rule that tells it best; empty where that rule has no place."""
    best, where = TELLING, ""
    for key, often in sorted(cause.likely.items()):
        code, _, variant = key.partition(":")
        at = rules[code].at if code in rules else {}
        here = at.get(variant, at.get("", ""))
        if here and often >= best:
            best, where = often, here
    return where
