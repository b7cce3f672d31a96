"""Has it learned, how much of what can be had, and is it still learning? One answer per run, with its reasons in words.

The scale runs from 0 (a model that knows nothing: a constant answer, chance) to 1 (all that can be had). A metric with a known
scale is believed before a loss with a known chance level, and that before a loss of which only the start is known. What can be
had is seldom known: the best of many runs reached between 0.35 and 1 of a perfect score, so the interval reaches that far up.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field, replace

import numpy as np

from traindx import regime, stats
from traindx.course import chance, metrics
from traindx.course.curves import level, noise, rises, second_fall
from traindx.course.ended import Ended, ended
from traindx.course.side_by_side import doubt, shaky
from traindx.course.troubles import (
    ABSURD,
    CLEAN_EVALUATIONS,
    FEW_EVALUATIONS,
    FEW_RECORDS,
    LEAST_EVALUATIONS,
    LEAST_RECORDS,
    absurd,
    broken,
    enough,
    exploded,
    idle,
    lost_again,
    start,
    still,
    unstable,
    words,
)
from traindx.run import Floats, Run

ALONE = "a metric such as accuracy in the log, or the loss of a constant answer"
NOTHING, SOME = 0.05, 0.2  # of what can be had: so little is no knowledge; from here on it is on its way
WELL, NEARLY_ALL = 0.8, 0.9  # from here on it has learned as it should; and also if it was still getting better
REACHABLE = 0.35  # of a perfect score: what the best run of a task reaches at least
ROOM = 0.02  # what the draw of the evaluated samples may move
FINISHED_EVALUATIONS = 3  # of a run that reached its end: there will be no more
CREDIBLE = 300.0  # times the level at the end: a start above that may be a blow-up that the first record averages over


class State(enum.StrEnum):
    """What the answer comes to in a word."""

    LEARNED = "learned"
    LEARNING = "learning"
    NOT_LEARNING = "not-learning"
    GOT_WORSE = "got-worse"
    TOO_EARLY = "too-early"
    CANNOT_KNOW = "cannot-know"


@dataclass(frozen=True)
class Learned:
    """The answer: a state, how much (between 0 and 1, at least and at most), why, and what would tell more."""

    state: State
    low: float = 0.0
    high: float = 1.0
    reasons: tuple[str, ...] = ()
    would_tell: str = ""
    ended: Ended = field(default_factory=lambda: Ended("unknown"))
    own: bool = (
        False  # judged by the evidence of its kind (an agent's return, the balance of two players): its loss says little
    )
    lost: str = ""  # what speaks against having learned as it should: another curve that is far behind, a part lost again

    settled: bool = False  # more time would not change it, though the run was cut short
    rising: bool = False  # the most telling curve still gets better

    @property
    def sentence(self) -> str:
        """The answer with its first reason.

        >>> Learned(State.LEARNED, 0.9, 1.0, ("validation accuracy is 0.93",)).sentence
        'It learned at least 90 % of what can be learned: validation accuracy is 0.93.'
        """
        least = f"at least {100 * self.low:.0f} %" if self.high > 0.99 else f"{100 * self.low:.0f} to {100 * self.high:.0f} %"
        much = f" {least} of what can be learned" if self.low >= 0.01 or self.high < 0.99 else ""
        head = {
            State.LEARNED: f"It learned{much}",
            State.LEARNING: f"It is learning{',' if much else ''}{much}",
            State.NOT_LEARNING: "It has not learned",
            State.GOT_WORSE: "It ended worse than it was before",
            State.TOO_EARLY: "It is too early to say whether it learns",
            State.CANNOT_KNOW: "Nothing shows whether it learned",
        }[self.state]
        return f"{head}: {self.reasons[0]}." if self.reasons else f"{head}."

    @property
    def yes(self) -> bool:
        """It learned or learns."""
        return self.state in (State.LEARNED, State.LEARNING)

    @property
    def no(self) -> bool:
        """It was given the time and has nothing to show for it."""
        return self.state in (State.NOT_LEARNING, State.GOT_WORSE)

    @property
    def well(self) -> bool:
        """It learned as it should: no statistic is an alarm any more."""
        return self.yes and not self.lost and self.low >= WELL


@dataclass(frozen=True)
class _Reading:
    """One curve read on the scale: where it stands, where it began, whether it still gets better."""

    low: float
    high: float
    best: float  # the highest it ever was
    moved: bool  # away from where it began, beyond its noise
    rising: bool  # still getting better at the end
    said: str
    points: int
    sure: bool  # whether ignorance has a known place on the scale
    part: str  # train, val, test
    metric: bool = False
    same: bool = False  # to the digit, at nearly every evaluation
    known: bool = True  # whether that place comes from what a constant answer scores, and not from the start of the curve
    now: float = 0.0  # the level of a metric

    @property
    def vague(self) -> bool:
        """Too few samples or too much noise to tell something from nothing."""
        return self.low <= NOTHING and self.high * REACHABLE > 4 * NOTHING


def learned(run: Run) -> Learned:
    """The answer for this run; computed once and kept with it."""
    kept = run.__dict__.get("_learned")
    if kept is None:
        kept = run.__dict__["_learned"] = _judge(run)
    return kept


def _judge(run: Run) -> Learned:
    end = ended(run)
    if told := broken(run):
        return Learned(State.GOT_WORSE, 0.0, NOTHING, (told,), "", end)
    if regime.reinforcement(run) or regime.adversarial(run) or run.fact("acts"):
        return replace(_by_own_evidence(run, end), own=True)
    found = _readings(run, FINISHED_EVALUATIONS if end.how == "finished" else LEAST_EVALUATIONS)
    if not found:
        return Learned(State.TOO_EARLY, reasons=("no loss and no metric was recorded",), would_tell="a loss curve", ended=end)
    return replace(_weigh(run, found, end), rising=found[0].rising)


def _weigh(run: Run, found: list[_Reading], end: Ended) -> Learned:
    lead = found[0]
    reasons = tuple(r.said for r in found[:3])
    low, high = _bounds(lead)
    least = FINISHED_EVALUATIONS if lead.sure and lead.moved and end.how == "finished" else LEAST_EVALUATIONS
    if not enough(run, least if lead.metric else CLEAN_EVALUATIONS, LEAST_RECORDS):
        return Learned(State.TOO_EARLY, low, high, reasons, "more epochs", end)
    if low < WELL and enough(run, FEW_EVALUATIONS, FEW_RECORDS) and not regime.in_warmup(run) and (told := exploded(run)):
        return Learned(State.GOT_WORSE, 0.0, high, (told, *reasons), "", end)
    unmoved = lead.low <= NOTHING and lead.metric and not lead.rising and (lead.same or lead.now <= 0.5)
    if unmoved and enough(run, FEW_EVALUATIONS, FEW_RECORDS) and (told := absurd(run)):
        return Learned(State.NOT_LEARNING, 0.0, high, (told, *reasons), "", end)
    if lead.metric and not lead.sure and lead.best > SOME and lead.best > 2 * max(lead.high, NOTHING) and not end.may_go_on:
        return Learned(State.GOT_WORSE, low, high, reasons, "", end)
    if low < WELL and not end.may_go_on and (told := lost_again(run)):
        return Learned(State.GOT_WORSE, 0.0, high, (told, *reasons), "", end)
    unproven = not lead.metric and not lead.known and 0.0 <= lead.low <= NOTHING
    if (unproven or (lead.low <= NOTHING and not lead.sure)) and not end.may_go_on and (told := idle(run)):
        return Learned(State.NOT_LEARNING, 0.0, high, (told, *reasons), "", end, settled=end.may_go_on)
    if unproven and (end.may_go_on or regime.finetune(run) or not chance.is_cross_entropy(run)):
        settled = end.how != "running" and bool(still(run))
        return Learned(State.CANNOT_KNOW, low, high, _unscaled(found), ALONE, end, lost=unstable(run), settled=settled)
    if (lead.low <= NOTHING and _disputed(lead, found)) or (
        not lead.metric and any(r.same and r.part != "train" for r in found)
    ):
        missing = "a metric of validation that agrees with the loss"
        return Learned(State.CANNOT_KNOW, low, high, reasons, missing, end)
    if lead.sure and lead.low <= NOTHING and not lead.vague:
        if lead.best > 4 * NOTHING and lead.best > 2 * max(lead.high, 0.0):
            return Learned(State.GOT_WORSE, low, high, reasons, "", end)
        if not enough(run, FEW_EVALUATIONS, FEW_RECORDS) or regime.in_warmup(run):
            return Learned(State.TOO_EARLY, low, high, reasons, "more epochs", end)
        if lead.rising and end.may_go_on:
            return Learned(State.LEARNING, low, high, reasons, "", end)
        return Learned(State.NOT_LEARNING, low, high, reasons, "", end)
    if lead.low <= NOTHING and not (lead.rising and lead.moved and end.may_go_on):
        return Learned(State.CANNOT_KNOW, low, high, _unscaled(found), ALONE, end, lost=unstable(run))
    if lead.points >= FEW_EVALUATIONS and low < WELL and not any(r.moved or r.rising for r in found):
        missing = "what the most frequent answer scores: no curve has moved since the first record"
        return Learned(State.CANNOT_KNOW, 0.0, high, reasons, missing, end)
    state = State.LEARNING if lead.rising or end.how == "running" else State.LEARNED
    return Learned(state, low, high, reasons, "", end, lost=_lost(found))


def _unscaled(found: list[_Reading]) -> tuple[str, ...]:
    """The reasons, where a loss alone, however far it fell, does not show that more than guessing was learned."""
    first, *more = (r.said for r in found[:3])
    return (first if found[0].metric else f"{first}, but what guessing costs is not known", *more)


def _lost(found: list[_Reading]) -> str:
    """What was not had though it could be: a loss that stays far behind the metric, a level that was left again, a slow end."""
    lead, losses = found[0], [r for r in found if not r.metric and r.sure and r.known]
    if losses and max(r.low for r in losses) < WELL:
        return losses[0].said
    if gone := [r for r in losses if r.best - r.low > max(2 * (r.high - r.low), NOTHING) and r.part == "train"]:
        return f"{gone[0].said}, and was lower"
    return f"{lead.said}, and still gets better" if lead.rising and lead.low < NEARLY_ALL else ""


def _disputed(lead: _Reading, found: list[_Reading]) -> bool:
    """A metric of training alone says that nothing was learned, and the training loss fell all the same."""
    losses = [r for r in found if r.part == "train" and not r.metric]
    return lead.metric and lead.part == "train" and any(r.moved for r in losses)


def _bounds(lead: _Reading) -> tuple[float, float]:
    """The interval, with room for the sample that was evaluated; never above what was read, never narrower than nothing."""
    low, high = max(0.0, lead.low - ROOM), min(1.0, max(NOTHING, lead.high + ROOM))
    return min(low, high), high


def _readings(run: Run, least: int) -> list[_Reading]:
    """Every curve that tells something, the most telling first: where ignorance has a known place, and validation."""
    out = [r for m in metrics.metrics(run) if (r := _of_metric(run, m)) is not None]
    losses = {name: r for name in (regime.VAL, regime.TRAIN) if (r := _of_loss(run, name)) is not None}
    if len(losses) == 2 and all(r.sure and r.low > -0.5 for r in losses.values()):
        # validation is not better than training because of what was learned
        losses[regime.VAL] = replace(losses[regime.VAL], low=min(r.low for r in losses.values()))
    elif len(losses) == 2 and losses[regime.VAL].points >= FEW_EVALUATIONS and not losses[regime.TRAIN].known:
        # a fall of training that validation does not show proves nothing
        low = max(0.0, min(r.low for r in losses.values()))
        losses[regime.TRAIN] = replace(losses[regime.TRAIN], low=min(losses[regime.TRAIN].low, low))
    if out or any(r.high > 2 * NOTHING for r in losses.values()):
        # how a loss moved says less than any metric, and two must agree, unless it is known what a constant answer costs
        losses = {name: replace(r, sure=r.sure and r.known) for name, r in losses.items()}
    out += losses.values()
    return sorted(out, key=lambda r: (r.points < least, not r.sure, r.vague, r.part == "train", not r.metric))


def _of_metric(run: Run, m: metrics.Metric) -> _Reading | None:
    values = m.series.values
    if not len(values):
        return None
    now, tail = level(values)
    scatter = noise(values)
    spread = 2 * max(scatter, m.error) / math.sqrt(tail)
    late = values[-max(4, len(values) // 3) :]
    top = min(now + spread, float(np.max(late)) + m.error)  # what it never was, it is not now
    ends = values[-2:] if tail == 1 else values[-1:]  # of a short curve the last record alone may be a stray one
    lows, highs = zip(*(m.skill(float(v)) for v in (now - spread, top, *ends)), strict=True)
    best = float(np.max(stats.running_median(values, 3))) if len(values) >= 3 else float(np.max(values))
    first = float(np.median(values[: max(1, len(values) // 8)]))  # a lone first record may be a stray one
    moved = now - first > max(3 * scatter / math.sqrt(tail), 0.02)
    least = 1 if m.name == "accuracy" else 12  # a detector's score stays at nothing for long
    stands = not m.sure and not moved and len(values) >= least and _at_guessing(values, two=chance.binary(run))
    place = f"; chance is {m.ignorant[0]:.3g}" if m.sure else ""
    said = f"{words(m.part)} {m.name} is {now:.3g} ({values[0]:.3g} at first{place})"
    if stands:  # near its first value all the time, and that is low
        least_right = 1 / max(2, round(1 / max(now, 1e-9)))
        above = max(0.0, top - least_right) / (1 - least_right) / REACHABLE if m.name == "accuracy" else top
        return _Reading(0.0, above, 0.0, False, False, said, len(values), True, m.part, True)
    same = chance.same_answer(values) is not None
    low, high = min(lows), max(highs) / REACHABLE
    goes_on = rises(values)
    return _Reading(low, high, m.skill(best)[0], moved, goes_on, said, len(values), m.sure, m.part, True, same, now=now)


def _at_guessing(values: Floats, two: bool = True) -> bool:
    """Whether a score ends at 1/K for some K, as that of a constant answer does, or at nothing, and was never far from it.

    A half counts only where there may be two answers.

    >>> _at_guessing(np.array([0.1, 0.104, 0.096, 0.1])), _at_guessing(np.array([0.6, 0.62, 0.61, 0.6]))
    (True, False)
    """
    late = values[-max(4, len(values) // 4) :]
    level = float(np.median(late))
    count = round(1 / level) if level > 0 else 0
    if chance.same_answer(values) is not None and level <= 0.5:
        return True
    if level < 0.02 or count > 20:
        return float(np.max(values)) < 0.06
    if count < 1:
        return False
    near = float(np.max(np.abs(late - 1 / count))) < min(0.5 / count, 0.05)
    return count >= (2 if two else 3) and near and float(np.max(values)) < 1 / count + 0.1


def _of_loss(run: Run, name: str) -> _Reading | None:
    values = regime.curve(run, name).values
    if len(values) < 3:
        return None
    now, tail = level(values)
    error = 2 * 1.25 * noise(values) / math.sqrt(tail)
    first, floor = start(run), chance.floor(run)
    lowest = float(np.min(stats.running_median(values, 5))) if len(values) >= 5 else float(np.min(values))
    late = float(np.min(values[-max(4, len(values) // 3) :]))  # lower than it ever was it is not now
    moved = first - now > max(error, 0.02 * abs(first))
    part, rising = name.removeprefix("loss/"), rises(-values)
    otherwise = name == regime.VAL and regime.added(run) != 1.0  # an evaluation need not add up as much
    known = None if regime.finetune(run) or otherwise else chance.chance(run)
    if known is not None and first < 0.2 * known.loss:
        known = None  # a loss that is divided, or weights that were trained before: the level means something else
    if known is not None and known.loss > 1.05 * floor:
        scale = known.loss - floor
        low, high, best = ((known.loss - v) / scale for v in (now + error, max(now - error, late), lowest))
        said = f"{words(part)} loss is about {now:.3g}, a constant answer costs {known.loss:.4g} ({known.why})"
        if not moved and low < 4 * NOTHING:
            low = min(low, 0.0)
        return _Reading(low, high / REACHABLE, best, moved, rising, said, len(values), True, part)
    if regime.may_be_negative(run) or run.fact("ssl"):  # a level without a scale: falling is all it can show
        fallen = moved or first - lowest > 3 * error
        if fallen and not run.fact("ssl"):  # the same two speeds, measured by the fall where the scale has no zero
            fallen = second_fall(values - float(values.min()) + 0.5 * abs(first - lowest)) > 0 and not doubt(run)
        low, high = (2 * NOTHING, 1.0) if fallen else (0.0, 1.0)
        said = f"{words(part)} loss went from {values[0]:.4g} to about {now:.3g}"
        return _Reading(low, high, low, moved, rising, said, len(values), False, part, known=False)
    scale = max(abs(first - floor), 1e-12)
    fell, best = (first - now) / scale, (first - lowest) / scale
    said = f"{words(part)} loss went from {values[0]:.4g} to about {now:.3g}"
    if fell < -0.02 and now - first > 3 * error:
        return _Reading(min(fell, 0.0), 0.0, max(0.0, best), False, rising, said, len(values), True, part, known=False)
    # A constant answer may be worth any part of the first loss; of a cross-entropy in its usual range not nearly all of it.
    entropy = chance.is_cross_entropy(run) and first < ABSURD and fell > 0.5
    later = second_fall(values) if moved and _credible(run, values, first, now) and not (doubt(run) or shaky(run)) else 0.0
    low = max((fell - error / scale - 0.4) / 0.6, 2 * NOTHING) if entropy else max(later / 2, 2 * NOTHING) if later else 0.0
    if first >= ABSURD and chance.is_cross_entropy(run):  # it exploded before its first record: the start is no measure
        low = min(0.0, ABSURD - now)
    high = max(low, (fell + error / scale) / REACHABLE)
    offset = first - min(now, lowest) > 3 * error  # a clear fall on top of a constant: no level to judge by
    sure = low < 0 or (not moved and fell < 0.03 and not offset)
    return _Reading(
        low, high if low >= 0 else 0.0, best if low >= 0 else 0.0, moved, rising, said, len(values), sure, part, known=low < 0
    )


def _credible(run: Run, values: Floats, first: float, now: float) -> bool:
    """Whether the start is that of untrained weights: not far above the end, or one of the first updates and the highest."""
    if first < max(CREDIBLE * abs(now), 5.0):
        return True
    early = regime.curve(run).steps[:1] <= 0.01 * (run.steps or (0, 0))[1]
    return not regime.logged_by_epoch(run) and bool(early.all()) and float(np.max(values[: len(values) // 4 + 1])) <= 2 * first


def _by_own_evidence(run: Run, end: Ended) -> Learned:
    """Kinds of training whose loss is not meant to fall: the return of an agent, the balance of two players."""
    paid = run.series("rl/return").finite().values
    if len(paid) >= LEAST_EVALUATIONS:
        tenth = max(2, len(paid) // 10)
        first, now, best = (float(np.median(v)) for v in (paid[:tenth], paid[-tenth:], np.sort(paid)[-tenth:]))
        scatter = 2.5 * stats.mad(np.diff(paid)) / math.sqrt(tenth)
        said = f"the return went from {first:.4g} to {now:.4g}, {best:.4g} at best"
        if now - first > scatter:
            goes_on = rises(paid) or end.how == "running"
            return Learned(State.LEARNING if goes_on else State.LEARNED, 2 * NOTHING, 1.0, (said,), "", end)
        return Learned(
            State.CANNOT_KNOW, reasons=(said,), would_tell="a longer run, or the return of a random policy", ended=end
        )
    scaled = [r for m in metrics.metrics(run) if m.part != "train" and (r := _of_metric(run, m)) is not None]
    if scaled and scaled[0].moved:
        return Learned(State.LEARNED, max(0.0, scaled[0].low), min(1.0, scaled[0].high), (scaled[0].said,), "", end)
    if told := _balanced(run):
        return Learned(State.LEARNING, 2 * NOTHING, 1.0, (told,), "", end)
    two = regime.adversarial(run)
    kind = "the loss of two networks that compete" if two else "the loss of an agent"
    missing = "a score of generated samples in the log" if two else "the return of its episodes in the log"
    return Learned(
        State.CANNOT_KNOW,
        reasons=(f"{kind} is not meant to fall, and nothing else that measures success was recorded",),
        would_tell=missing,
        ended=end,
    )


def _balanced(run: Run) -> str:
    """Two players that keep each other in check: the discriminator is neither blind nor always right, the fakes vary."""
    right, variety = (run.series(name).finite().values for name in ("gan/d_accuracy", "gan/fake_diversity"))
    if len(right) < 10 or len(variety) < 5:
        return ""
    now, varied = float(np.median(right[-len(right) // 3 :])), float(np.median(variety[-len(variety) // 3 :]))
    told = f"the discriminator is right in {now:.0%}, and fakes vary {varied:.2g} times as much as real samples"
    return told if 0.4 < now < 0.95 and varied > 0.3 else ""
