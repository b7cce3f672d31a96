"""Root before consequence: findings gathered into stories, so that one NaN run is one story and not forty alarms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from traindx.finding import Confidence, Finding, Outcome, Severity
from traindx.rule import Rule, place

JUDGEMENT = "LOSS013"  # that it has not learned is what all other alarms account for; alone it is a story of its own


@dataclass(frozen=True)
class Story:
    """A root finding, further places where the same rule holds, and the findings it accounts for."""

    root: Finding
    more: tuple[Finding, ...] = ()
    consequences: tuple[Finding, ...] = ()

    @property
    def severity(self) -> Severity:
        return max(f.severity for f in (self.root, *self.more, *self.consequences))


def tell(outcomes: Sequence[Outcome], rules: Mapping[str, Rule]) -> tuple[Story, ...]:
    """The findings of all outcomes as stories, worst first."""
    found = {o.code: o.findings for o in outcomes if o.findings}
    under = _explained_by(found, rules)
    stories = []
    for code, findings in found.items():
        if code in under:
            continue
        ordered = sorted(findings, key=_weight)
        followers = [f for other in found if under.get(other) == code for f in sorted(found[other], key=_weight)]
        stories.append(Story(ordered[0], tuple(ordered[1:]), tuple(sorted(followers, key=_weight))))
    return tuple(sorted(stories, key=lambda s: (-list(Severity).index(s.severity), _weight(s.root))))


def _explained_by(found: Mapping[str, tuple[Finding, ...]], rules: Mapping[str, Rule]) -> dict[str, str]:
    """code → the root that explains it, through chains; a hypothesis or a remark never explains a fact or an alarm."""
    parent: dict[str, str] = {}
    for code, findings in found.items():
        if all(f.confidence is Confidence.SUGGESTIVE or f.variant == "harmless" for f in findings):
            continue
        worst = max(f.severity for f in findings)
        for child in rules[code].explains if code in rules else ():
            if child in found and child != code and child not in parent and not _above(parent, code, child):
                if worst is Severity.INFO and max(f.severity for f in found[child]) > Severity.INFO:
                    continue
                parent[child] = code
    loud = [code for code, findings in found.items() if code != JUDGEMENT and any(map(_lasting, findings))]
    if JUDGEMENT in found and JUDGEMENT not in parent and loud:
        parent[JUDGEMENT] = min((f for code in loud for f in found[code]), key=_weight).code
    return {child: _top(parent, child) for child in parent}


def _lasting(f: Finding) -> bool:
    """An alarm that may be why nothing was learned: not a loss that was infinite once."""
    return f.severity > Severity.INFO and f.variant != "passing"


def _top(parent: Mapping[str, str], code: str) -> str:
    while code in parent:
        code = parent[code]
    return code


def _above(parent: Mapping[str, str], code: str, candidate: str) -> bool:
    """Whether `candidate` already stands above `code` (a cycle otherwise)."""
    while code in parent:
        code = parent[code]
        if code == candidate:
            return True
    return False


_CONFIDENCE = [Confidence.EXACT, Confidence.STRONG, Confidence.SUGGESTIVE]


def _weight(f: Finding) -> tuple[int, int, int, str, int]:
    """Sort key: severe first, then facts before statistics, then root families, then code and onset."""
    severity = -list(Severity).index(f.severity)
    onset = f.steps[0] if f.steps else 0
    return severity, _CONFIDENCE.index(f.confidence), place(f.code), f.code, onset
