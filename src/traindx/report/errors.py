"""Where the last evaluation goes wrong, as tables: by class, by slice, by sample, and how far its confidence can be trusted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traindx import facts
from traindx.report.narrative import text
from traindx.report.words import number
from traindx.run import Run

MOST_CLASSES = 20  # rows of a table that a person reads


class Cell(NamedTuple):
    """One entry: what it shows, how it is set (`num`: to the right), and a tint for what stands out."""

    shown: str
    kind: str = ""


def tables(run: Run) -> Iterator[str]:
    """The confusion, errors by class, calibration, slices, the worst samples and the samples that are watched."""
    rows = _confusion(run)
    names = _names(run, len(rows))
    seen = run.matrix("eval/support/class")  # evaluations that come too often are not all described
    note = f"step {int(seen.steps[-1])}" if len(seen) else "last evaluation"
    yield _confused(rows, names, note)
    yield _by_class(run, rows, names, note)
    yield _calibration(run, note)
    yield _slices(run)
    yield _worst(run)
    yield _probes(run)


def _confusion(run: Run) -> NDArray[np.float64]:
    try:
        rows = np.asarray(run.fact("eval.confusion"), dtype=np.float64)
    except (TypeError, ValueError):
        return np.empty((0, 0))
    square = rows.ndim == 2 and rows.shape[0] == rows.shape[1] and 2 <= len(rows) <= MOST_CLASSES
    return rows if square else np.empty((0, 0))


def _names(run: Run, n: int) -> list[str]:
    named = run.matrix("eval/support/class").names
    return [text(name, 20) for name in named] if len(named) == n else [str(i) for i in range(n)]


def _confused(rows: NDArray[np.float64], names: Sequence[str], note: str) -> str:
    if not len(rows):
        return ""
    share = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1)
    head = "".join(f"<th scope=col>{name}</th>" for name in names)
    body = "".join(
        f"<tr><th scope=row>{name}</th>{''.join(_tinted(rows[i, j], share[i, j], i == j) for j in range(len(rows)))}</tr>"
        for i, name in enumerate(names)
    )
    return _figure(
        "confusion",
        f'<table class="confusion"><tr><th></th>{head}</tr>{body}</table>',
        f"{note} · rows: target, columns: predicted",
    )


def _tinted(count: float, share: float, right: bool) -> str:
    level = min(4, math.ceil(share * 4)) if count else 0
    kind = f"{'right' if right else 'wrong'}{level}" if level else "none"
    return f'<td class="{kind}">{int(count) if math.isfinite(count) else "–"}</td>'


def _by_class(run: Run, rows: NDArray[np.float64], names: Sequence[str], note: str) -> str:
    """A row per class: how many, precision, recall, how well its scores rank, and what it is most often taken for."""
    if not len(rows):
        return ""
    auroc, ap = facts.table(run, "eval.auroc"), facts.table(run, "eval.ap")
    with np.errstate(all="ignore"):
        recall, precision = np.diag(rows) / rows.sum(axis=1), np.diag(rows) / rows.sum(axis=0)
    body = []
    for i, name in enumerate(names):
        wrong = rows[i].copy()
        wrong[i] = 0
        other = int(wrong.argmax())
        taken = f"{names[other]} ({int(wrong[other])})" if wrong[other] > 0 else "–"
        ranked = [_share(facts.number(t.get(str(i))), low=0.5 if t is auroc else 0.0) for t in (auroc, ap) if t]
        cells = [Cell(name), Cell(str(int(rows[i].sum())), "num"), _share(precision[i]), _share(recall[i]), *ranked]
        body.append([*cells, Cell(taken, "num")])
    head = ["class", "n", "precision", "recall", *(["AUROC"] if auroc else []), *(["AP"] if ap else []), "taken for"]
    return _table("errors by class", head, body, note)


def _share(value: float, low: float = 0.0) -> Cell:
    """A share in percent, tinted where it is poor: in the lower half of what it may be."""
    if not math.isfinite(value):
        return Cell("–", "num")
    poor = (value - low) / (1 - low)
    return Cell(f"{value:.1%}", "num wrong2" if poor < 0.25 else "num wrong1" if poor < 0.5 else "num")


def _calibration(run: Run, note: str) -> str:
    sure, right = run.series("confidence/val").finite().last, facts.accuracy(run).last
    ece, heat = facts.number(run.fact("eval.ece")), run.series("eval/temperature").finite().last
    if not (math.isfinite(ece) and math.isfinite(sure) and math.isfinite(right)):
        return ""
    before, after = run.series("loss/val").finite().last, run.series("eval/nll_tempered").finite().last
    body = [
        [Cell("mean confidence"), Cell(f"{sure:.1%}", "num"), Cell(_word(sure - right))],
        [Cell("right answers"), Cell(f"{right:.1%}", "num"), Cell("")],
        [
            Cell("calibration error (ECE)"),
            Cell(f"{ece:.3f}", "num"),
            Cell("mean distance of the two, in 15 bins"),
        ],
    ]
    if math.isfinite(heat):
        gain = f"the loss would be {number(after)} instead of {number(before)}" if after < before else "nothing to gain"
        body.append([Cell("best temperature"), Cell(f"{heat:.2f}", "num"), Cell(gain)])
    return _table("calibration", ["", "", ""], body, note)


def _word(gap: float, close: float = 0.02) -> str:
    return "as it should be" if abs(gap) < close else f"{abs(gap):.1%} too {'sure' if gap > 0 else 'unsure'}"


def _slices(run: Run) -> str:
    """Slices that are worse than the rest, worst first; those that chance explains are shown as such."""
    body = []
    for row in facts.rows(run, "eval.slices"):
        n, loss, mean, chance = (facts.number(row.get(k)) for k in ("n", "loss", "mean_loss", "p"))
        if loss > mean > 0 and math.isfinite(n):
            ratio = loss / mean
            tint = "num wrong2" if ratio > 2 and chance < 1e-3 else "num wrong1" if chance < 0.01 else "num"
            cells = [Cell(text(row.get("slice", ""), 60)), Cell(f"{n:.0f}", "num"), Cell(number(loss), "num")]
            told = "no" if chance < 1e-3 else "perhaps" if chance >= 0.01 else "hardly"
            body.append([*cells, Cell(f"{ratio:.1f}", tint), Cell(told)])
    return _table("slices that are worse than the rest", ["slice", "n", "loss", "× mean", "chance?"], body)


def _worst(run: Run) -> str:
    body = []
    for row in facts.rows(run, "eval.worst")[:10]:
        cells = [Cell(_plain(row.get("sample")), "num"), Cell(number(facts.number(row.get("loss"))), "num")]
        body.append([*cells, *(Cell(_plain(row.get(k)), "num") for k in ("target", "predicted") if k in row)])
    head = ["sample", "loss", *(k for k in ("target", "predicted") if body and len(body[0]) == 4)]
    return _table("worst samples of the last evaluation", head, body, "by their place in its order")


def _probes(run: Run, most: int = 5) -> str:
    """A row per sample that every evaluation began with: its target, and what was predicted at some of the evaluations."""
    told = facts.table(run, "eval.probes")
    steps, predicted, targets = (told.get(k) for k in ("steps", "predicted", "targets"))
    if not all(isinstance(part, Sequence) and part for part in (steps, predicted, targets)):
        return ""
    assert steps is not None and predicted is not None and targets is not None
    chosen = sorted({int(i) for i in np.linspace(0, len(steps) - 1, min(most, len(steps)))})
    classes = all(float(v).is_integer() for row in (targets, *predicted) for v in row)
    body = [
        [Cell(str(i), "num"), Cell(_plain(target), "num")]
        + [_answer(target, predicted[k][i], classes) for k in chosen if i < len(predicted[k])]
        for i, target in enumerate(targets)
    ]
    head = ["sample", "target", *(_plain(steps[k]) for k in chosen)]
    note = "predictions by step" + ("; tinted: wrong" if classes else "")
    return _table("the same samples, evaluation by evaluation", head, body, note)


def _answer(target: Any, guess: Any, classes: bool) -> Cell:
    return Cell(_plain(guess), "num wrong1" if classes and guess != target else "num")


def _plain(value: Any) -> str:
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        return "–"
    got = facts.number(value)
    return str(int(got)) if math.isfinite(got) and got == int(got) else number(got)


def _table(title: str, head: Sequence[str], body: Sequence[Sequence[Cell]], note: str = "") -> str:
    if not body:
        return ""
    right = [all(row[i].kind.startswith("num") for row in body if i < len(row)) for i in range(len(head))]
    names = "".join(f"<th{' class=num' if num else ''}>{name}</th>" for name, num in zip(head, right, strict=True))
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in body)
    first = f"<tr>{names}</tr>" if any(head) else ""
    return _figure(title, f'<table class="errors">{first}{rows}</table>', note)


def _cell(cell: Cell) -> str:
    return f'<td class="{cell.kind}">{cell.shown}</td>' if cell.kind else f"<td>{cell.shown}</td>"


def _figure(title: str, inside: str, note: str = "") -> str:
    beside = f'<span class="soft">{note}</span>' if note else ""
    return f'<figure class="chart"><figcaption><b>{title}</b>{beside}</figcaption><div class="scroll">{inside}</div></figure>'
