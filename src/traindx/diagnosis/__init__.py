"""From a run to outcomes, ranked causes and a verdict.

>>> from traindx.run import Run
>>> diagnose(Run.of({"loss/train": [1.0]})).verdict
'cannot-tell'
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from traindx import rule as rules_
from traindx.course import Learned, ended, learned
from traindx.diagnosis.gate import Gate
from traindx.diagnosis.place import placed
from traindx.diagnosis.posterior import Suspect, rank
from traindx.diagnosis.severity import capped
from traindx.diagnosis.story import Story, tell
from traindx.diagnosis.verdict import Verdict, judge
from traindx.finding import Confidence, Finding, Outcome, Severity, Status
from traindx.plain import in_unit
from traindx.rule import Rule
from traindx.run import Run
from traindx.settings import Settings

__all__ = ["Diagnosis", "Suspect", "Verdict", "diagnose", "examine"]


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What is wrong with the run, how sure that is, and what to do. Prints as a page in a terminal and in a notebook."""

    run: Run
    outcomes: tuple[Outcome, ...]
    stories: tuple[Story, ...]  # a root finding with what it explains, worst first
    causes: tuple[Suspect, ...]  # most probable first
    verdict_: Verdict
    facts: Mapping[str, Any] = field(default_factory=dict)
    gates: tuple[Gate, ...] = ()  # how it fares against what was required of it
    known: frozenset[str] = frozenset()  # codes that its baseline has too; "restart" where that must be restarted as well

    @property
    def learned(self) -> Learned:
        """Whether it learned, how much, and why we think so."""
        return learned(self.run)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding, root cause first."""
        return tuple(f for story in self.stories for f in (story.root, *story.more, *story.consequences))

    @property
    def fresh(self) -> tuple[Finding, ...]:
        """The findings that a baseline does not have; without a baseline all of them."""
        return tuple(f for f in self.findings if f.code not in self.known)

    @property
    def verdict(self) -> str:
        return self.verdict_.name

    @property
    def summary(self) -> str:
        return self.verdict_.summary

    @property
    def worst(self) -> Severity | None:
        return max((f.severity for f in self.findings), default=None)

    @property
    def crashed(self) -> bool:
        """Whether the program ended with an error of its own, or was killed."""
        return ended(self.run).how == "crashed" or self.run.fact("ended") == "killed"

    @property
    def gravity(self) -> Severity | None:
        """What `--fail-on` looks at: the worst finding that is no mere hypothesis; a restart or a crash is critical."""
        if self.verdict == "restart" or self.crashed:
            return Severity.CRITICAL
        return max((f.severity for f in self.findings if f.confidence is not Confidence.SUGGESTIVE), default=None)

    @property
    def alarmed(self) -> bool:
        """Whether anything was found that is worth acting on."""
        return self.worst is not None and self.worst > Severity.INFO

    @property
    def likely(self) -> tuple[Suspect, ...]:
        """The causes worth acting on: without an alarm only those held possible, the rest are answers to a question."""
        return self.causes if self.alarmed else tuple(c for c in self.causes if c.possible)

    def with_status(self, status: Status) -> tuple[Outcome, ...]:
        return tuple(o for o in self.outcomes if o.status is status)

    def report(self, path: str | Path = "report.html") -> Path:
        """Write the HTML report: one file that works offline."""
        target = Path(path)
        target.write_text(str(_renderer("traindx.report.html").render([self])), encoding="utf-8")
        return target

    def __str__(self) -> str:
        return str(_renderer("traindx.report.text").plain(self))

    def __repr__(self) -> str:
        return f"<Diagnosis {self.verdict}: {self.summary}>"

    def _repr_html_(self) -> str:
        return str(_renderer("traindx.report.notebook").fragment(self))


def examine(run: Run, settings: Settings | None = None) -> tuple[Outcome, ...]:
    """How every rule fares on this run; rules the user did not select are muted."""
    settings = settings or Settings()
    every = rules_.catalogue()
    chosen = rules_.with_limits(rules_.select(every, settings.select, settings.ignore), settings.rules)
    return tuple(
        _outcome(chosen[code], run) if code in chosen else Outcome(code, Status.MUTED, reason=_why_not(code, settings))
        for code in every
    )


def _outcome(rule: Rule, run: Run) -> Outcome:
    """How a rule fares; a house rule that breaks in any way is only broken itself."""
    try:
        return rule.outcome(run)
    except Exception:
        if not rule.origin:
            raise
        return Outcome(rule.code, Status.BROKEN, reason=traceback.format_exc())


def _why_not(code: str, settings: Settings) -> str:
    return next((why for prefix, why in settings.reasons.items() if code.startswith(prefix)), "not selected")


def _as_told(outcomes: tuple[Outcome, ...], severity: Mapping[str, str]) -> tuple[Outcome, ...]:
    """The outcomes with the severities that the settings give them; what is only suggestive is never raised."""

    def told(f: Finding) -> Finding:
        word = next((w for prefix, w in severity.items() if f.code.startswith(prefix.upper())), None)
        raised = word is not None and f.confidence is Confidence.SUGGESTIVE
        return f if word is None or raised else replace(f, severity=Severity(word))

    return tuple(replace(o, findings=tuple(map(told, o.findings))) for o in outcomes) if severity else outcomes


def _in_unit(outcomes: tuple[Outcome, ...], unit: str) -> tuple[Outcome, ...]:
    """The outcomes with places in epochs, where the run is counted in epochs."""
    if not unit.startswith("epoch"):
        return outcomes

    def told(f: Finding) -> Finding:
        return replace(f, message=in_unit(f.message, unit), fix=in_unit(f.fix, unit, measured=False))

    return tuple(replace(o, findings=tuple(map(told, o.findings))) for o in outcomes)


def diagnose(run: Run, settings: Settings | None = None) -> Diagnosis:
    """The diagnosis of one run: outcomes, stories with the root first, causes, verdict."""
    outcomes = _as_told(capped(examine(run, settings), learned(run)), settings.severity if settings else {})
    outcomes = _in_unit(outcomes, str(run.fact("step_unit", "step")))
    every: Mapping[str, Rule] = rules_.catalogue()
    causes = rank(run, outcomes, every)
    outcomes = placed(run, outcomes, causes, every)
    verdict = judge(run, outcomes, tell(outcomes, every), causes)
    if verdict.name in ("restart", "fix-and-resume"):
        outcomes = tuple(map(_without_outlook, outcomes))
    outcomes = _one_course(outcomes, verdict.name)
    return Diagnosis(run, outcomes, tell(outcomes, every), causes, verdict)


def _one_course(outcomes: tuple[Outcome, ...], verdict: str) -> tuple[Outcome, ...]:
    """Of two remarks, that the loss still falls and that it has levelled off, the one that fits the verdict."""
    remarks = {o.code for o in outcomes if o.findings and all(f.severity is Severity.INFO for f in o.findings)}
    if not remarks >= {"LOSS003", "LOSS004"}:
        return outcomes
    mute = "LOSS003" if verdict == "wait" else "LOSS004"
    told = Outcome(mute, Status.MUTED, reason="another remark describes the end of the curve")
    return tuple(told if o.code == mute else o for o in outcomes)


def _without_outlook(outcome: Outcome) -> Outcome:
    """Without "let it run" and "the normal end of a run", which are wrong where the run has to be fixed first."""
    found = outcome.findings
    ends = outcome.code == "LOSS003" and all(f.variant == "end" for f in found)
    if not found or any(f.severity > Severity.INFO for f in found) or not (outcome.code == "LOSS004" or ends):
        return outcome
    return Outcome(outcome.code, Status.MUTED, reason="the run has to be fixed first; a forecast would be of something broken")


def _renderer(module: str) -> Any:
    # Loaded by name: reports stand above the diagnosis, and a diagnosis that is never shown needs none of them.
    return importlib.import_module(module)
