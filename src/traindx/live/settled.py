"""When a finding is settled enough to be told while the run continues: the one policy for all rules.

An exact fact is told at once if it cannot become less than a warning later (`diagnosis/severity.py`). Everything else is told
when it has stood over several looks while the run grew, and not before the warm-up and the first epoch are over: those could
still turn it. What a success would make a remark also waits while the run still gets better. What was told is taken back when
it is gone from several looks in a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from traindx import regime
from traindx.diagnosis import Diagnosis
from traindx.diagnosis.severity import lasting
from traindx.diagnosis.story import Story
from traindx.finding import Confidence, Finding, Severity
from traindx.run import Run

LOOKS = 3  # in a row at which a statistic must have stood, or what was told must have been gone,
GROWN = 0.10  # while the run grew by this share of itself,
LEAST = 20  # and by no fewer steps than this


@dataclass(frozen=True)
class Word:
    """What is to be told: a story that is settled, or one that was told and no longer holds."""

    story: Story
    diagnosis: Diagnosis
    back: bool = False


@dataclass
class _Seen:
    story: Story
    there: bool = True
    since: int = 0  # the step since which it is there, or gone
    looks: int = 0  # at which that was so
    told: bool = False
    ever: bool = False  # told, and perhaps taken back: a story that comes and goes is told once

    def note(self, there: bool, step: int) -> None:
        if there is not self.there:
            self.there, self.since, self.looks = there, step, 0
        self.looks += 1

    def stood(self, step: int) -> bool:
        return self.looks >= LOOKS and step - self.since >= max(LEAST, GROWN * self.since)


@dataclass
class Settled:
    """Takes one look after another, and says each time what is news."""

    least: Severity = Severity.WARNING
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _causes: set[str] = field(default_factory=set)  # those that were told

    def look(self, d: Diagnosis, *, last: bool = False) -> list[Word]:
        """What this look brings; at the `last` one nothing can turn any more, so everything that stands is told."""
        step = d.run.steps[1] if d.run.steps else 0
        early = not last and beginning(d.run)
        loud = {s.root.code: s for s in d.stories if s.severity >= self.least}
        held = {f.code for f in d.findings if f.severity >= self.least}
        news: list[Word] = []
        for code, story in loud.items():
            seen = self._seen.setdefault(code, _Seen(story, since=step))
            seen.story = story
            seen.note(True, step)
            waits = early or (d.learned.rising and not lasting(story.root))
            if not seen.ever and (last or exact(story.root) or (seen.stood(step) and not waits)):
                seen.told = seen.ever = True
                if self._new(self._cause(d, code)):
                    news.append(Word(story, d))
        for code in self._seen.keys() - loud.keys():
            seen = self._seen[code]
            seen.note(code in held, step)
            if seen.told and not seen.there and (last or seen.stood(step)):
                seen.told = False
                news.append(Word(seen.story, d, back=True))
        return news

    def _new(self, cause: str) -> bool:
        new = not cause or cause not in self._causes
        self._causes.add(cause)
        return new

    @staticmethod
    def _cause(d: Diagnosis, code: str) -> str:
        return next((c.cause.name for c in d.likely if c.possible and code in c.supports), "")


def exact(finding: Finding) -> bool:
    """Whether it is a fact that was read, not a statistic, and stays an alarm whatever becomes of the run."""
    return finding.confidence is Confidence.EXACT and lasting(finding)


def beginning(run: Run) -> bool:
    """Whether the run is still in its warm-up or its first epoch, as far as either is known."""
    end = run.steps[1] if run.steps else 0
    return end < max(_beginnings(run), default=0)


def _beginnings(run: Run) -> Iterator[float]:
    per_epoch = regime.steps_per_epoch(run)
    if per_epoch:
        yield per_epoch
    yield float(regime.warmup_end(run) or 0)
