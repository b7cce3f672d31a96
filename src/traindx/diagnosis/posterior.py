"""Ranking causes: a small, readable Bayesian sum over rule outcomes.

Every cause is a rival explanation of the whole run, "nothing is wrong" among them. An outcome *found* multiplies a cause's odds
by how often that rule is found under the cause, *clear* by how often it is not; blind, unsure, muted and broken say nothing.
Findings that one cause produces together are correlated, so within a family only the first counts in full.

A run without any alarm is most likely sound. Its remarks still answer questions ("why does validation not move?"), so the
causes they point to are ranked as well, as hypotheses: how common a remark is among sound runs was measured (`rates.json`), and
a common one makes nothing probable.

Two faults do not explain each other away: what the first cause leaves out and is a fact, or critical, is ranked once more on
its own, and the cause found for it stands next to the first as a trouble apart.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from traindx import breakdown, facts, outline, regime
from traindx import cause as causes_
from traindx.cause import Cause
from traindx.diagnosis.story import JUDGEMENT
from traindx.diagnosis.trees import TREES
from traindx.finding import Confidence, Finding, Outcome, Severity, Status
from traindx.plain import in_unit
from traindx.rule import LINE, Rule, place
from traindx.run import Run

FALSE_ALARM = 0.02  # a statistic found without its cause: what the clinic's healthy runs show at most, per rule
FALSE_REMARK = 0.1  # a remark (info) found without its cause, before anything was measured
MEASURED_AGAINST = 10  # how many sound runs that guess is worth next to the measured ones
FALSE_FACT = 0.002  # an exact fact found without its cause
# Prior weight of "no cause at all" against a cause of prior 1. Set on the clinic, one base left out at a time: 1.5 gives a
# calibration error of .09 on the written cases (6: .15, 0.7: .07); the cautious side, since programs never seen go less well.
NOTHING_WRONG = 1.5
QUIET = 3.0  # how much likelier a sound run is when no alarm was raised: on the clinic five of six quiet runs are sound
CLEAR_TRUST = 0.5  # a clear outcome speaks half as loudly as a found one: rules miss more than they invent
SUGGESTIVE_TRUST = 0.4
FAMILY_DISCOUNT = 0.35  # weight of the second, third … finding of one family for the same cause
# Remarks that are a complaint of their own, or the answer to one: without any alarm they are what hypotheses have to explain.
COMPLAINTS = frozenset({c for tree in TREES for c in tree.presents} | {"LOSS001", "OPTM005", "EVAL002"})
NO_COMPLAINT = ("passed", "end", "other", "chance", "harmless")  # it is over, how runs end, meant so, or no more than chance
POSSIBLE = 0.33  # from here on a cause is called possible, below it is unlikely
WORDS = ((0.9, "very likely"), (0.66, "likely"), (POSSIBLE, "possible"))
# The same runs as plain logs (`python -m clinic logs`): what is given 95 % is right in three of four, 80 % in half.
# A log does not show wiring, data and evaluation, where most causes lie; so no number is shown.
LOG_WORDS = ((0.95, "likely"), (0.8, "possible"))
RATE = re.compile(r"(^|[._-])(lr0?|learning_?rate|eta)$", re.I)  # a setting that is the learning rate
HIGHEST_RATE = 10.0  # where `trial lr-range` ends at the latest
SHARPNESS = 0.75  # log-odds are flattened by this factor; set on the clinic together with NOTHING_WRONG


@dataclass(frozen=True)
class Suspect:
    """A cause with its probability and what speaks for and against it."""

    cause: Cause
    probability: float
    supports: tuple[str, ...]  # codes found that it explains
    against: tuple[str, ...]  # codes that refute it, or that it should have produced and that are clear
    prescription: str
    onset: int | None = None
    earned: bool = True  # whether the number may be believed on runs like this one
    apart: bool = False  # a trouble of its own next to the first cause, not a rival explanation

    @property
    def words(self) -> str:
        """The probability in words; from a log alone a notch lower, as measured."""
        for limit, word in WORDS if self.earned else LOG_WORDS:
            if self.probability >= limit:
                return word
        return "unlikely"

    @property
    def possible(self) -> bool:
        """Whether it is held possible at least."""
        return self.words != "unlikely"

    @property
    def said(self) -> str:
        """The words, with the number where calibration earned it."""
        percent = f"{100 * self.probability:.0f} %" if self.probability < 0.995 else "over 99 %"
        said = f"{self.words} ({percent})" if self.earned else self.words
        return f"separate issue, {said}" if self.apart else said


def rank(run: Run, outcomes: Sequence[Outcome], rules: Mapping[str, Rule], most: int = 5) -> tuple[Suspect, ...]:
    """The causes that explain at least one finding worth acting on, most probable first.

    Where nothing is worth acting on but a remark is a complaint or answers one (a plateau, a gap), they are hypotheses for it.
    """
    loud = any(f.severity > Severity.INFO for o in outcomes for f in o.findings if o.code != JUDGEMENT)
    by_code = {o.code: o for o in outcomes if not (loud and o.code == JUDGEMENT)}  # every alarm has its share in it
    first = _ranked(run, by_code, rules, most)
    left = _left_out(first[0].cause, by_code, rules) if first else {}
    second = _ranked(run, left, rules, 1) if left else ()
    if not second or not second[0].possible:
        return first
    lead, other = (second[0], first[0]) if _leads(second[0], first[0], by_code) else (first[0], second[0])
    others = [s for s in first[1:] if s.cause is not second[0].cause]
    left = _left_out(lead.cause, by_code, rules)
    if not any(f.severity > Severity.INFO for code in other.supports if code in left for f in left[code].findings):
        return (lead, *others)[:most]  # what leads accounts for every alarm that speaks for the other
    return (lead, replace(other, apart=True), *others)[:most]


def _ranked(run: Run, by_code: Mapping[str, Outcome], rules: Mapping[str, Rule], most: int) -> tuple[Suspect, ...]:
    """The causes as rival explanations of everything these outcomes show."""
    loud = any(f.severity > Severity.INFO for o in by_code.values() for f in o.findings)
    candidates = [c for c in causes_.catalogue().values() if _considered(c, run, by_code, loud=loud)]
    if not candidates:
        return ()
    scores = {c.name: _score(c, by_code, rules) for c in candidates}
    nothing = math.log(NOTHING_WRONG if loud else NOTHING_WRONG * QUIET) + _nothing_wrong(by_code)
    top = max(nothing, *scores.values())
    weights = {name: math.exp(s - top) for name, s in scores.items()}
    total = sum(weights.values()) + math.exp(nothing - top)
    ranked = sorted(candidates, key=lambda c: (-weights[c.name], c.name))[:most]
    return tuple(_suspect(c, weights[c.name] / total, by_code, run) for c in ranked)


def _left_out(cause: Cause, by_code: Mapping[str, Outcome], rules: Mapping[str, Rule]) -> dict[str, Outcome]:
    """The outcomes without what a cause accounts for; none when nothing that is left is a fact or critical."""
    covered = _covered(cause, by_code, rules)
    while more := {child for code in covered & by_code.keys() for child in _explained(code, by_code, rules)} - covered:
        covered |= more  # a consequence of a consequence is no trouble of its own
    left = {code: o for code, o in by_code.items() if code not in covered}

    def stands(f: Finding) -> bool:
        return f.severity is Severity.CRITICAL or (f.severity > Severity.INFO and f.confidence is Confidence.EXACT)

    return left if any(stands(f) for o in left.values() for f in o.findings) else {}


def _leads(apart: Suspect, first: Suspect, by_code: Mapping[str, Outcome]) -> bool:
    """Whether the trouble apart comes first: it is worse (or the other only concerns the evaluation), and no mere symptom."""
    here, there = _worst(apart, by_code), _worst(first, by_code)
    if here is None or there is None:
        return False
    if place(here.code) > place(there.code):
        return False
    spared = first.cause.verdict == "fix-evaluation" != apart.cause.verdict
    return here.severity > there.severity or (spared and here.severity is there.severity)


def _worst(suspect: Suspect, by_code: Mapping[str, Outcome]) -> Finding | None:
    found = [f for code in suspect.supports for f in by_code[code].findings]
    return max(found, key=lambda f: (f.severity, -place(f.code)), default=None)


def _considered(cause: Cause, run: Run, by_code: Mapping[str, Outcome], *, loud: bool = True) -> bool:
    if cause.regimes and not any(run.fact(flag) for flag in cause.regimes):
        return False
    if cause.adaptive and regime.adam_like(run) is False:
        return False
    if _beyond(cause, run):
        return False

    def counts(f: Finding) -> bool:
        # a remark or a hypothesis needs no cause: something worth acting on must be among what it explains
        return f.severity > Severity.INFO if loud else f.code in COMPLAINTS and f.variant not in NO_COMPLAINT

    def vouches(f: Finding) -> bool:
        # what sound runs show as well vouches for nothing
        rare = not loud or _remark_rate(f.code, f.variant) < FALSE_REMARK / 2
        return f.severity > Severity.INFO or (f.confidence is not Confidence.SUGGESTIVE and rare)

    if cause.witness and not any(vouches(f) for key in cause.witness for f in _found(by_code, key)):
        return False
    # … and it must speak for the cause: be commoner with it than without
    return any(counts(f) and share > _alarm_rate([f]) for key, share in cause.likely.items() for f in _found(by_code, key))


def _beyond(cause: Cause, run: Run) -> bool:
    """Whether the cure would raise the rate that a log states to one that `trial lr-range` never tries.

    A log does not show how small the updates are; where they were measured, they decide.
    """
    factor = cause.change.get("lr")
    rate = stated_rate(run)
    return isinstance(factor, float) and factor > 1 and rate is not None and not watched(run) and rate * factor >= HIGHEST_RATE


def stated_rate(run: Run) -> float | None:
    """The highest learning rate of a log, else the one in its settings."""
    if len(seen := run.series("lr").finite()):
        return float(seen.values.max())
    stated = [v for k, v in facts.table(run, "hparams").items() if RATE.search(k)]
    numbers = [float(v) for v in stated if isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v)]
    return max(numbers, default=None)


def _found(by_code: Mapping[str, Outcome], key: str) -> list[Finding]:
    """The findings a `likely` key speaks of: CODE, CODE:variant, or CODE: for the usual sentence alone."""
    code, colon, variant = key.partition(":")
    outcome = by_code.get(code)
    if outcome is None or outcome.status is not Status.FOUND:
        return []
    return [f for f in outcome.findings if not colon or f.variant == variant]


def _score(cause: Cause, by_code: Mapping[str, Outcome], rules: Mapping[str, Rule]) -> float:
    gains: dict[str, list[float]] = {}
    score = 0.0
    for key, share in cause.likely.items():
        share = min(max(share, 0.01), 0.99)
        outcome = by_code.get(key.partition(":")[0])
        if outcome is None:
            continue
        findings = _found(by_code, key)
        if findings:
            gains.setdefault(outcome.code[:4], []).append(_trust(findings) * math.log(share / _alarm_rate(findings)))
        elif outcome.status is Status.CLEAR or (outcome.status is Status.FOUND and ":" in key):
            score += CLEAR_TRUST * math.log((1 - share) / (1 - FALSE_ALARM))
    for family in gains.values():
        first, *rest = sorted(family, reverse=True)
        score += first + FAMILY_DISCOUNT * sum(rest)
    score += sum(math.log(0.05) for code in cause.refutes if _found(by_code, code))
    score += _unexplained(cause, by_code, rules)
    return SHARPNESS * score + math.log(max(cause.prior, 1e-6))


def _alarm_rate(findings: Sequence[Finding]) -> float:
    if all(f.severity is Severity.INFO for f in findings):
        return min(_remark_rate(f.code, f.variant) for f in findings)
    return FALSE_FACT if any(f.confidence is Confidence.EXACT and f.severity > Severity.INFO for f in findings) else FALSE_ALARM


@cache
def _rates() -> dict[str, dict[str, Any]]:
    """Per rule in how many sound runs it looked, and in how many it made which remark (`python -m clinic rates` counts)."""
    text = resources.files("traindx.diagnosis").joinpath("rates.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)["rules"]
    return found


def _remark_rate(code: str, variant: str) -> float:
    """How often a sound run shows this remark."""
    measured = _rates().get(code, {})
    seen = measured.get("remarks", {}).get(variant, 0)
    return float((seen + FALSE_REMARK * MEASURED_AGAINST) / (measured.get("looked", 0) + MEASURED_AGAINST))


def _trust(findings: Sequence[Finding]) -> float:
    best = min(findings, key=lambda f: list(Confidence).index(f.confidence))
    if best.confidence is Confidence.SUGGESTIVE:
        return SUGGESTIVE_TRUST
    return 1.0 if max(f.severity for f in findings) > Severity.INFO else 0.7


def _unexplained(cause: Cause, by_code: Mapping[str, Outcome], rules: Mapping[str, Rule]) -> float:
    """What the run shows and this cause leaves out: an exact fact weighs most, an alarm that a named one explains nothing."""
    covered = _covered(cause, by_code, rules)
    score = 0.0
    for o in by_code.values():
        loud = [f for f in o.findings if f.severity > Severity.INFO]
        if loud and o.code not in covered:
            score += math.log(_alarm_rate(loud)) / 2
    return max(score, -8.0)


def _covered(cause: Cause, by_code: Mapping[str, Outcome], rules: Mapping[str, Rule]) -> set[str]:
    """The codes it accounts for: those it states, and what those that were found explain."""
    stated = {key.partition(":")[0] for key in cause.likely}
    return stated.union(*(_explained(code, by_code, rules) for code in stated))


def _explained(code: str, by_code: Mapping[str, Outcome], rules: Mapping[str, Rule]) -> tuple[str, ...]:
    """What this condition accounts for, where it was found."""
    return tuple(rules[code].explains) if code in rules and _found(by_code, code) else ()


def _nothing_wrong(by_code: Mapping[str, Outcome]) -> float:
    """Log-weight of a sound run: every alarm would have to be a false one."""
    alarms = [o for o in by_code.values() if any(f.severity > Severity.INFO for f in o.findings)]
    exact = sum(any(f.confidence is Confidence.EXACT for f in o.findings) for o in alarms)
    return SHARPNESS * (-2.0 * exact)


def _known(run: Run) -> dict[str, object]:
    """Values of the run itself that prescriptions may name."""
    layers = [str(name) for name in facts.table(run, "model.recall")][:3]
    some = bool(layers) or bool(facts.counts(run.fact("model.recurrent")).get("all"))
    own: dict[str, object] = {"recurrent": ", ".join(layers) or "the recurrent layers"} if some else {}
    own["lower"] = "to a tenth"
    rate = run.series("lr").finite()
    broke = breakdown.first_break(run)
    if broke is not None and not breakdown.passed(run, broke.step):
        rate = rate.between(hi=broke.step)  # a warm-up that goes on after the NaN says nothing about the rate that made it
    if not len(rate):
        return own
    now, peak = float(rate.last), float(rate.values.max())
    return {**own, "lr": _short(now), "lr_tenfold": _short(10 * now), "lower": f"from {peak:.3g} to {peak / 10:.3g}"}


def _suspect(cause: Cause, probability: float, by_code: Mapping[str, Outcome], run: Run) -> Suspect:
    stated = sorted(cause.likely, key=lambda k: -cause.likely[k])
    supports = dict.fromkeys(k.partition(":")[0] for k in stated if _found(by_code, k))
    missing = [
        k for k in stated if ":" not in k and cause.likely[k] >= 0.6 and k in by_code and by_code[k].status is Status.CLEAR
    ]
    against = dict.fromkeys([*(k.partition(":")[0] for k in cause.refutes if _found(by_code, k)), *missing])
    seen = [f for k in stated for f in _found(by_code, k)]
    onsets = [f.steps[0] for f in seen if f.steps and f.severity > Severity.INFO]
    told = sorted(seen, key=lambda f: cause.witness.index(f.code) if f.code in cause.witness else len(cause.witness))
    return Suspect(
        cause,
        probability,
        tuple(supports),
        tuple(code for code in against if code not in supports),
        in_unit(_filled(cause.cure, told, run), str(run.fact("step_unit", "step")), measured=False),
        min(onsets, default=None),
        watched(run),
    )


def watched(run: Run) -> bool:
    """Whether traindx saw the training itself, as in the runs the probabilities were calibrated on, or reads a log of it."""
    return run.kind == "record" or run.fact("model.outline") is not None


class _Facts(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"


def _filled(template: str, findings: Sequence[Finding], run: Run) -> str:
    """The prescription with values of this run; a clause whose value is unknown is left out ({…} inside [[ ]])."""
    values: dict[str, object] = {}
    for f in findings:
        for key, value in f.facts.items():
            values.setdefault(key, _short(value))
        if places := [w for w in f.where if not LINE.search(w)]:  # a parameter; the page has a row for the line
            values.setdefault("where", ", ".join(outline.spoken(run, w) for w in places[:3]))
    values = {**_known(run), **values}
    out, rest = "", template
    while "[[" in rest:
        head, _, tail = rest.partition("[[")
        clause, _, rest = tail.partition("]]")
        keys = [part.partition("}")[0].partition(":")[0] for part in clause.split("{")[1:]]
        out += head + (clause if all(k in values for k in keys) else "")
    return (out + rest).format_map(_Facts(values))


def _short(value: object) -> object:
    return f"{value:.3g}" if isinstance(value, float) else value
