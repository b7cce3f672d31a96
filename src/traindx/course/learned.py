"""Has it learned, how much of what can be had, and is it still learning? One answer per run, with its reasons in words.

The scale runs from 0 (a model that knows nothing: a constant answer, chance) to 1 (all that can be had). A metric with a known
scale is believed before a loss with a known chance level, and that before a loss of which only the start is known. What can be
had is seldom known: the best of many runs reached between 0.65 and 1 of a perfect score, so the interval reaches that far up.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field, replace

import numpy as np

from traindx import regime, stats
from traindx.course import chance, metrics
from traindx.course.ended import Ended, ended
from traindx.regime.curves import noise_of
from traindx.run import Floats, Run, Series

NOTHING = 0.05  # of what can be had: so little is no knowledge
WELL, NEARLY_ALL = 0.8, 0.9  # from here on it has learned as it should; and also if it was still getting better
REACHABLE = 0.65  # of a perfect score: what the best run of a task reaches at least
FEW_EVALUATIONS, FEW_RECORDS = 8, 100  # fewer do not show that nothing is being learned
ABSURD = math.log(300_000)  # a cross-entropy above this is worse than guessing, whatever the vocabulary
LONG_FALL = 30  # records: a constant answer is found sooner
ROOM = 0.02  # what the draw of the evaluated samples may move
LEAST_EVALUATIONS, LEAST_RECORDS = 5, 30  # fewer show nothing at all
CLEAN_EVALUATIONS = 12  # of a loss alone, without a metric


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
    lost: str = ""  # what speaks against having learned as it should: another curve that is far behind, a part lost again

    @property
    def sentence(self) -> str:
        """The answer with its first reason.

        >>> Learned(State.LEARNED, 0.9, 1.0, ("validation accuracy is 0.93",)).sentence
        'It learned 90 to 100 % of what can be learned: validation accuracy is 0.93.'
        """
        much = f"{100 * self.low:.0f} to {100 * self.high:.0f} % of what can be learned"
        head = {
            State.LEARNED: f"It learned {much}",
            State.LEARNING: f"It is learning, so far {much}",
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
    known: bool = True  # whether that place comes from what a constant answer scores, and not from the start of the curve

    @property
    def vague(self) -> bool:
        """Too few samples or too much noise to tell something from nothing."""
        return self.low <= NOTHING and self.high > 6 * NOTHING


def learned(run: Run) -> Learned:
    """The answer for this run; computed once and kept with it."""
    kept = run.__dict__.get("_learned")
    if kept is None:
        kept = run.__dict__["_learned"] = _judge(run)
    return kept


def _judge(run: Run) -> Learned:
    end = ended(run)
    if regime.reinforcement(run) or regime.adversarial(run) or run.fact("acts"):
        return _by_own_evidence(run, end)
    if told := _broken(run):
        return Learned(State.GOT_WORSE, 0.0, NOTHING, (told,), "", end)
    found = _readings(run)
    if not found:
        return Learned(State.TOO_EARLY, reasons=("no loss and no metric was recorded",), would_tell="a loss curve", ended=end)
    return _weigh(run, found, end)


def _weigh(run: Run, found: list[_Reading], end: Ended) -> Learned:
    lead = found[0]
    reasons = tuple(r.said for r in found[:3])
    low, high = _bounds(lead)
    if not _enough(run, LEAST_EVALUATIONS if lead.metric else CLEAN_EVALUATIONS, LEAST_RECORDS):
        return Learned(State.TOO_EARLY, low, high, reasons, "more epochs", end)
    if low < WELL and _enough(run, FEW_EVALUATIONS, FEW_RECORDS) and not regime.in_warmup(run) and (told := _exploded(run)):
        return Learned(State.GOT_WORSE, 0.0, high, (told, *reasons), "", end)
    if (
        not lead.metric
        and not lead.known
        and 0.0 <= lead.low <= NOTHING
        and (end.may_go_on or not chance.is_cross_entropy(run))
    ):
        return Learned(State.CANNOT_KNOW, low, high, reasons, "a metric, or the loss of a constant answer", end)
    if lead.low <= NOTHING and _disputed(lead, found):
        missing = "a metric of validation: accuracy and loss of training do not agree"
        return Learned(State.CANNOT_KNOW, low, high, reasons, missing, end)
    if lead.sure and lead.low <= NOTHING and not lead.vague:
        if lead.best > 4 * NOTHING and lead.best > 2 * max(lead.high, 0.0):
            return Learned(State.GOT_WORSE, low, high, reasons, "", end)
        if not _enough(run, FEW_EVALUATIONS, FEW_RECORDS) or regime.in_warmup(run):
            return Learned(State.TOO_EARLY, low, high, reasons, "more epochs", end)
        if lead.rising and end.may_go_on:
            return Learned(State.LEARNING, low, high, reasons, "", end)
        return Learned(State.NOT_LEARNING, low, high, reasons, "", end)
    if lead.low <= NOTHING and not (lead.rising and lead.moved and end.may_go_on):
        missing = "a metric, or the loss of a constant answer"
        return Learned(State.CANNOT_KNOW, low, high, reasons, missing, end)
    state = State.LEARNING if lead.rising or end.how == "running" else State.LEARNED
    return Learned(state, low, high, reasons, "", end, _lost(found))


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


def _exploded(run: Run) -> str:
    """The training loss ends far above where it began, and above what a constant answer costs."""
    values = regime.curve(run).values
    if len(values) < 3 or regime.curriculum(run):
        return ""
    first, (now, tail) = _start(run), _level(values)
    known = chance.chance(run)
    limit = max(first + 0.5 * abs(first), known.loss if known is not None else -math.inf)
    above = now - 3 * _noise(values) / math.sqrt(tail) > limit
    return f"the training loss rose from {first:.4g} to {now:.4g}" if above else ""


def _readings(run: Run) -> list[_Reading]:
    """Every curve that tells something, the most telling first: where ignorance has a known place, and validation."""
    out = [r for m in metrics.metrics(run) if (r := _of_metric(m)) is not None]
    losses = {name: r for name in (regime.VAL, regime.TRAIN) if (r := _of_loss(run, name)) is not None}
    if len(losses) == 2 and all(r.sure and r.low > -0.5 for r in losses.values()):
        # validation is not better than training because of what was learned
        losses[regime.VAL] = replace(losses[regime.VAL], low=min(r.low for r in losses.values()))
    if out or any(r.high > 2 * NOTHING for r in losses.values()):
        # how a loss moved says less than any metric, and two must agree, unless it is known what a constant answer costs
        losses = {name: replace(r, sure=r.sure and r.known) for name, r in losses.items()}
    out += losses.values()
    return sorted(out, key=lambda r: (r.points < LEAST_EVALUATIONS, not r.sure, r.vague, r.part == "train", not r.metric))


def _of_metric(m: metrics.Metric) -> _Reading | None:
    values = m.series.values
    if not len(values):
        return None
    now, tail = _level(values)
    noise = _noise(values)
    spread = 2 * max(noise, m.error) / math.sqrt(tail)
    late = values[-max(4, len(values) // 3) :]
    top = min(now + spread, float(np.max(late)) + m.error)  # what it never was, it is not now
    lows, highs = zip(*(m.skill(v) for v in (now - spread, top, float(values[-1]))), strict=True)
    best = float(np.max(stats.running_median(values, 3))) if len(values) >= 3 else float(np.max(values))
    first = float(np.median(values[: max(1, len(values) // 8)]))
    moved = now - first > max(3 * noise / math.sqrt(tail), 0.02)
    least = 1 if m.name == "accuracy" else 20  # a detector's score stays at nothing for long
    stands = not m.sure and not moved and len(values) >= least and _at_guessing(values)
    place = f", chance is {m.ignorant[0]:.3g}" if m.sure else ""
    said = f"{_part(m.part)} {m.name} is {now:.3g}{place}, after {first:.3g} at first"
    if stands:  # near its first value all the time, and that is low
        return _Reading(0.0, 0.0, 0.0, False, False, said, len(values), True, m.part, True)
    return _Reading(
        min(lows), max(highs) / REACHABLE, m.skill(best)[0], moved, _rises(values), said, len(values), m.sure, m.part, True
    )


def _at_guessing(values: Floats) -> bool:
    """Whether a score ends at 1/K for some K, as that of a constant answer does, or at nothing, and was never far from it.

    >>> _at_guessing(np.array([0.1, 0.104, 0.096, 0.1])), _at_guessing(np.array([0.6, 0.62, 0.61, 0.6]))
    (True, False)
    """
    late = values[-max(4, len(values) // 4) :]
    level = float(np.median(late))
    count = round(1 / level) if level > 0 else 0
    if level < 0.02 or count > 20:
        return float(np.max(values)) < 0.06
    if count < 1:
        return False
    near = float(np.max(np.abs(late - 1 / count))) < min(0.5 / count, 0.05)
    return count >= 2 and near and float(np.max(values)) < 1 / count + 0.1


def _of_loss(run: Run, name: str) -> _Reading | None:
    values = regime.curve(run, name).values
    if len(values) < 3:
        return None
    now, tail = _level(values)
    error = 2 * 1.25 * _noise(values) / math.sqrt(tail)
    first, floor = _start(run), chance.floor(run)
    lowest = float(np.min(stats.running_median(values, 5))) if len(values) >= 5 else float(np.min(values))
    late = float(np.min(values[-max(4, len(values) // 3) :]))  # lower than it ever was it is not now
    moved = first - now > max(error, 0.02 * abs(first))
    part, rising = name.removeprefix("loss/"), _rises(-values)
    known = None if regime.finetune(run) else chance.chance(run)
    if known is not None and first < 0.2 * known.loss:
        known = None  # a loss that is divided, or weights that were trained before: the level means something else
    if known is not None and known.loss > 1.05 * floor:
        scale = known.loss - floor
        low, high, best = ((known.loss - v) / scale for v in (now + error, max(now - error, late), lowest))
        said = f"{_part(part)} loss is {now:.4g}, a constant answer costs {known.loss:.4g} ({known.why})"
        if not moved and low < 4 * NOTHING:
            low = min(low, 0.0)
        return _Reading(low, high / 0.5, best, moved, rising, said, len(values), True, part)
    if regime.may_be_negative(run) or run.fact("ssl"):  # a level without a scale: falling is all it can show
        low, high = (2 * NOTHING, 1.0) if moved or first - lowest > 3 * error else (0.0, 1.0)
        said = f"{_part(part)} loss went from {first:.4g} to {now:.4g}, on a scale that has no zero"
        return _Reading(low, high, low, moved, rising, said, len(values), False, part, known=False)
    scale = max(abs(first - floor), 1e-12)
    fell, best = (first - now) / scale, (first - lowest) / scale
    said = f"{_part(part)} loss went from {first:.4g} to {now:.4g}"
    if fell < -0.02 and now - first > 3 * error:
        return _Reading(min(fell, 0.0), 0.0, max(0.0, best), False, rising, said, len(values), True, part, known=False)
    gradual = moved and _gradual(values, now, error)
    # A constant answer is found at once, and may be worth any part of the first loss; of a usual one not nearly all of it.
    entropy = chance.is_cross_entropy(run) and first < ABSURD
    shown = (gradual and fell > 2 * NOTHING) or (now < 0.05 * first < 5.0) or (entropy and fell > 0.5)
    low = max((fell - error / scale - 0.4) / 0.6, 2 * NOTHING) if shown else 0.0
    if first >= ABSURD and chance.is_cross_entropy(run):  # it exploded before its first record: the start is no measure
        low = min(0.0, ABSURD - now)
    high = max(low, (fell + error / scale) / REACHABLE)
    offset = first - min(now, lowest) > 3 * error  # a clear fall on top of a constant: no level to judge by
    sure = low < 0 or (not moved and fell < 0.03 and not offset)
    return _Reading(
        low, high if low >= 0 else 0.0, best if low >= 0 else 0.0, moved, rising, said, len(values), sure, part, known=low < 0
    )


def _gradual(values: Floats, now: float, error: float) -> bool:
    """The fall took its time, or a good part of it came after the first third: no constant answer that was found at once."""
    n = len(values)
    if n < 9:
        return False
    early, later = float(np.median(values[: max(1, n // 8)])), float(np.median(values[n // 3 - n // 12 : n // 3 + n // 12 + 1]))
    smooth = stats.running_median(values, 5)
    arrived = int(np.argmax(smooth <= now + 0.1 * (float(smooth[0]) - now)))
    return arrived >= LONG_FALL or later - now > max(2 * error, 0.1 * (early - now))


def _start(run: Run) -> float:
    """Where the loss began: the higher one of training and validation, whose first record often comes after an epoch."""
    found = [c.values for name in (regime.TRAIN, regime.VAL) if len(c := regime.curve(run, name)) >= 3]
    firsts = [max(float(v[0]), float(np.median(v[: max(1, min(5, len(v) // 20))]))) for v in found]
    alike = [f for f in firsts if f < 3 * abs(firsts[0])]  # a validation loss of another make is no measure
    return max(alike or firsts)


def _level(values: Floats) -> tuple[float, int]:
    """The level at the end, and of how many records."""
    tail = max(1, min(30, len(values) // 8))
    return float(np.median(values[-tail:])), tail


def _noise(values: Floats) -> float:
    """Of one record, in the second half: a burst at the start is no noise."""
    return noise_of(values[-max(8, len(values) // 2) :])


def _rises(values: Floats) -> bool:
    """Whether the last third still goes up, by more than its noise and by a visible part of the whole way."""
    n = len(values)
    if n < 6:
        return False
    third = values[-max(4, n // 3) :]
    half = len(third) // 2
    gain = float(np.median(third[-half:]) - np.median(third[:half]))
    return gain > max(2.5 * _noise(values) / math.sqrt(half), 0.02 * float(np.ptp(values)))


def _enough(run: Run, evaluations: int, records: int) -> bool:
    tests = max([len(m.series) for m in metrics.metrics(run) if m.part != "train"] + [len(run.series(regime.VAL).finite())])
    trained = len(run.series(regime.TRAIN).finite())
    return tests >= evaluations or trained >= (evaluations if regime.logged_by_epoch(run) else records)


def _broken(run: Run) -> str:
    """The training loss is not finite at its end, and stays so."""
    series: Series = run.series(regime.TRAIN)
    bad = ~np.isfinite(series.values[-max(1, min(5, len(series) // 20)) :])
    return "the training loss is not finite any more" if len(bad) and bool(bad.all()) else ""


def _by_own_evidence(run: Run, end: Ended) -> Learned:
    """Kinds of training whose loss is not meant to fall: the return of an agent, the balance of two players."""
    paid = run.series("rl/return").finite().values
    if len(paid) >= LEAST_EVALUATIONS:
        tenth = max(2, len(paid) // 10)
        first, now, best = (float(np.median(v)) for v in (paid[:tenth], paid[-tenth:], np.sort(paid)[-tenth:]))
        noise = 2.5 * stats.mad(np.diff(paid)) / math.sqrt(tenth)
        said = f"the return went from {first:.4g} to {now:.4g}, {best:.4g} at best"
        if now - first > noise:
            goes_on = _rises(paid) or end.how == "running"
            return Learned(State.LEARNING if goes_on else State.LEARNED, 2 * NOTHING, 1.0, (said,), "", end)
        return Learned(
            State.CANNOT_KNOW, reasons=(said,), would_tell="a longer run, or the return of a random policy", ended=end
        )
    scaled = [r for m in metrics.metrics(run) if m.part != "train" and (r := _of_metric(m)) is not None]
    if scaled and scaled[0].moved:
        return Learned(State.LEARNED, max(0.0, scaled[0].low), min(1.0, scaled[0].high), (scaled[0].said,), "", end)
    if told := _balanced(run):
        return Learned(State.LEARNING, 2 * NOTHING, 1.0, (told,), "", end)
    kind = "two players'" if regime.adversarial(run) else "an agent's"
    missing = "the return of its episodes" if kind == "an agent's" else "a measure of what the generator makes"
    return Learned(
        State.CANNOT_KNOW,
        reasons=(f"{kind} loss is not meant to fall and no other measure was recorded",),
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


def _part(part: str) -> str:
    return {"val": "validation", "test": "test", "train": "training"}[part]
