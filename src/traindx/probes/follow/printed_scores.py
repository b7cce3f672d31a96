"""What the script says of its evaluations in print: an accuracy, a mean loss, and by which arithmetic it came about."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_DIGITS = 0.02  # half the last printed digit, of the number: coarser ones agree with anything
_THRICE = 3  # evaluations in which the same arithmetic gives what was printed
_ECHOES = 5  # equal figures
_FAR = 5  # updates at least between two of them
_THINGS = 20  # arguments of one print, and entries of one table, that are read
_LARGEST = 50.0  # a loss whose exponential nobody prints


class Arithmetic:
    """Printed numbers against the means that the loss calls of the evaluation under way give, rightly and wrongly taken."""

    def __init__(self) -> None:
        self._met: dict[str, list[float]] = {}  # wrong arithmetic → what it gave, as long as that was printed every time
        self._now: dict[str, float] = {}  # the same, of the evaluation under way
        self._sound = False  # it printed the mean as it is
        self._spoke = False  # it printed a number: many scripts say something every tenth time only
        self._past: dict[int, tuple[float, int]] = {}  # data → sum over samples and their number, earlier evaluations

    def hear(
        self, things: tuple[Any, ...], calls: Sequence[tuple[float, int]], targets: Sequence[tuple[int, int]], key: int
    ) -> tuple[float, str] | None:
        """The mean among what is printed, and how it was taken ("": as it should be); None where there is none, or no doubt.

        calls: loss and samples of each batch; targets: how many count in it, of how many, where that is known of every batch.
        """
        total, whole = sum(v for v, _ in calls), sum(v * n for v, n in calls)
        batches, samples = len(calls), sum(n for _, n in calls)
        plain, right = total / batches, whole / samples
        asked, places = sum(t[0] for t in targets), sum(t[1] for t in targets)
        tokens = sum(v * t[0] for (v, _), t in zip(calls, targets, strict=True)) / asked if asked else None
        said = numbers(things)
        self._spoke = self._spoke or bool(said)
        for number, half in said:
            as_plain, as_right = (_is(number, half, mean) for mean in (plain, right))
            if as_plain or as_right or _sound(number, half, right if tokens is None else tokens):
                self._sound = True
                return (plain if as_plain else right, "") if as_plain != as_right else None
        # Divided by the wrong count: a coincidence once, the script's arithmetic when it goes along with a changing loss.
        rivals = {"of means": total / samples, "undivided": total, "of sums": whole / batches}
        if key in self._past:
            past, seen = self._past[key]
            rivals["so far"] = (past + whole) / (seen + samples)
        if tokens is not None and places > asked:
            rivals["padded"] = tokens * asked / places
        for how, value in rivals.items():
            for form, words in ((value, how), (_exp(value), f"{how}, exp")):
                close = [half for number, half in said if _is(number, half, form) and half <= _DIGITS * abs(number)]
                if close and self._follows(words, form, max(close)):
                    return value, words
        return None

    def _follows(self, how: str, value: float, half: float) -> bool:
        self._now[how] = value
        met = [*self._met.get(how, ()), value]
        return len(met) >= _THRICE and max(met) - min(met) > 10 * max(half, 1e-6 * abs(value))

    def end(self, calls: Sequence[tuple[Any, int]], key: int) -> None:
        """The evaluation is over: arithmetic that did not give what was printed in it is none of the script's."""
        if self._spoke:
            self._met = {} if self._sound else {how: [*self._met.get(how, ()), value] for how, value in self._now.items()}
        self._now, self._sound, self._spoke = {}, False, False
        if calls and all(isinstance(v, float) for v, _ in calls):
            past, seen = self._past.get(key, (0.0, 0))
            self._past[key] = past + sum(v * n for v, n in calls), seen + sum(n for _, n in calls)


class Echo:
    """An accuracy that is printed again and again, to the last digit, although nothing is evaluated any more.

    Between evaluations many scripts repeat the last figure in every line of their log: those lines come much closer together
    than the first figure came after the start.
    """

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None  # step and figure of the latest evaluation, or of the first line
        self._last = 0
        self._count = 0
        self._off = False  # a figure changed although nothing was evaluated: evaluations happen where we do not look

    def measured(self, step: int, share: float | None) -> None:
        """An evaluation is over, with the accuracy that was printed in it."""
        self._first, self._last, self._count = (step, share) if share is not None else None, step, 1

    def repeated(self, step: int, share: float) -> None:
        """An accuracy was printed while nothing was evaluated."""
        if self._first is None:
            self.measured(step, share)
            return
        first, known = self._first
        if share != known or step - self._last < max(_FAR, first // 2):
            self._off = True
        self._last, self._count = step, self._count + 1

    @property
    def found(self) -> dict[str, float] | None:
        """{value, count, first, last} once it cannot be chance."""
        if self._off or self._first is None or self._count < _ECHOES or not 0 < self._first[1] < 1:
            return None
        return {"value": self._first[1], "count": self._count, "first": self._first[0], "last": self._last}


def spoken(things: tuple[Any, ...]) -> tuple[Any, ...]:
    """What is printed, with tables and tuples of numbers written out: `print(metrics)` names each of them.

    >>> spoken(("epoch", 3, {"val": {"acc": 0.5}, "done": True}, (0.25, 0.75)))
    ('epoch', 3, 'val acc 0.500000000000', 0.25, 0.75)
    """
    return tuple(part for thing in things[:_THINGS] for part in _written(thing, ""))


def _written(thing: Any, name: str, depth: int = 3) -> Iterator[Any]:
    if isinstance(thing, Mapping | list | tuple) and (not depth or len(thing) > _THINGS):
        return
    if isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from _written(value, f"{name} {key}".strip() if isinstance(key, str) else name, depth - 1)
    elif isinstance(thing, list | tuple):
        for value in thing:
            yield from _written(value, name, depth - 1)
    elif not name:
        yield thing
    elif isinstance(thing, int | float) and not isinstance(thing, bool):
        yield f"{name} {_exactly(thing)}"


def split_off(things: tuple[Any, ...], losses: Sequence[float]) -> slice | None:
    """Which of these losses are of validation, where a mean of training is printed next to that of validation: the two are
    the means of the first and of the last of them; None where that is in doubt.

    >>> split_off(("train loss 2.5000, val loss 3.0000",), [2.0, 3.0, 2.5, 3.5])
    slice(2, 4, None)
    """
    text = " ".join(str(t)[:500] for t in things if isinstance(t, str))
    said = {words.lower(): (float(number), _half(number)) for words, number in _LOSS.findall(text)}
    held = [v for w, v in said.items() if any(name in w for name in ("val", "test", "dev"))]
    trained = [v for w, v in said.items() if w.startswith("tr")]
    if len(held) != 1 or len(trained) != 1:
        return None
    n = len(losses)
    cuts = [(slice(i, n), slice(0, i)) for i in range(1, n)] + [(slice(0, i), slice(i, n)) for i in range(1, n)]
    fits = [own for own, other in cuts if _mean_is(held[0], losses[own]) and _mean_is(trained[0], losses[other])]
    return fits[0] if len(fits) == 1 else None


def _mean_is(said: tuple[float, float], losses: Sequence[float]) -> bool:
    return _is(*said, sum(losses) / len(losses))


_LOSS = re.compile(r"([A-Za-z]+)[ _/-]?loss\s*[:=]?\s*(\d+\.\d{3,})", re.IGNORECASE)


def _exactly(thing: str | int | float) -> str:
    """A number that is printed as it is, with all its digits."""
    return f"{thing:.12f}" if isinstance(thing, float) and abs(thing) < _THINGS**9 else str(thing)


def _is(number: float, half: float, mean: float) -> bool:
    """Whether a printed number, known to half its last digit, is this mean."""
    return abs(number - mean) <= max(half, 1e-6 * abs(mean))


def _sound(number: float, half: float, mean: float) -> bool:
    """Whether it is the mean over what counts, or its exponential."""
    return half <= _DIGITS * abs(number) and (_is(number, half, mean) or _is(number, half, _exp(mean)))


def _exp(value: float) -> float:
    return math.exp(value) if value < _LARGEST else math.inf


def accuracy(things: tuple[Any, ...], *, named: bool = False) -> tuple[float, float] | None:
    """The validation accuracy among what is printed, as a share, and half its last digit: a number behind a word with "acc"
    that is not of training; `named`: that is of validation by its name.

    >>> accuracy(("epoch 3 train_acc 0.9 val_acc: 0.4375",))
    (0.4375, 5e-05)
    >>> accuracy(("Accuracy = 93.5%, best acc 95.0%",))
    (0.935, 0.0005)
    >>> accuracy(("loss", 0.25, "val acc", 0))
    (0.0, 0.5)
    >>> accuracy(("train acc 0.9, best_val_acc 0.8, top5 accuracy 0.99",)) is None
    True
    """
    text = " ".join(_exactly(t)[:500] for t in things if isinstance(t, str | int | float) and not isinstance(t, bool))
    found = [(words.lower(), number, bool(percent)) for words, number, percent in _ACCURACY.findall(text)]
    other = ("train", "tr_", "tr ", "best", "max", "top", "balanced", "mean", "avg", "ema", "running", "exact")
    kept = [f for f in found if not any(word in f[0] for word in other)]
    own = [f for f in kept if any(word in f[0] for word in ("val", "test", "eval", "dev"))]
    chosen = own if named else own or kept
    if len(chosen) != 1:
        return None
    _, number, percent = chosen[0]
    scale = 100.0 if percent or float(number) > 1 else 1.0
    share, half = float(number) / scale, _half(number) / scale
    return (share, half) if 0 <= share <= 1 else None


# up to two words, the last of which begins or ends with "acc…", then a number
_ACCURACY = re.compile(
    r"((?:[A-Za-z@][\w@]*[ _/-])?[A-Za-z_@/]*[Aa][Cc][Cc]\w*)\s*[:=]?\s*\(?(\d+(?:\.\d+)?(?:[eE]-?\d+)?)\s*(%?)"
)


def numbers(things: tuple[Any, ...]) -> list[tuple[float, float]]:
    """The numbers among what is printed, each with half of its last digit.

    >>> numbers(("epoch 3", 0.25, "loss 1.250"))
    [(0.25, 0.0), (1.25, 0.0005)]
    """
    found: list[tuple[float, float]] = []
    for thing in things:
        if isinstance(thing, float):
            found.append((thing, 0.0))
        elif isinstance(thing, str):
            found += [(float(text), _half(text)) for text in _NUMBER.findall(thing[:500])]
    return found


_NUMBER = re.compile(r"-?\d+\.\d+(?:[eE][+-]?\d+)?")


def _half(text: str) -> float:
    digits, _, power = text.lower().partition("e")
    return 0.5 * 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
