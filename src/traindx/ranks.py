"""Looking across the ranks of a distributed run: rows in which several ranks were heard, and who stands apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traindx.finding import Blind, Muted
from traindx.run import Floats, Ints, Matrix, Run, Series
from traindx.stats import mad

SHARDED = ("fsdp", "fsdp2", "tp", "pp", "deepspeed", "zero")  # ranks hold different parts of one model by design


@dataclass(frozen=True)
class Rows:
    """The records in which at least two ranks were heard; NaN where one was not."""

    steps: Ints  # (T,)
    names: tuple[str, ...]
    values: Floats  # (T, ranks)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def equal(self) -> NDArray[np.bool_]:
        """Which records are the same on all ranks that were heard."""
        return np.asarray(np.nanmax(self.values, axis=1) == np.nanmin(self.values, axis=1), dtype=bool)


def rows(run: Run, name: str, *, sharded: bool = True) -> Rows:
    """A rank matrix as rows; says why it cannot look when there is one process, one record, or a sharded model."""
    world = run.fact("world_size")
    if name not in run and isinstance(world, int | float) and world <= 1:
        raise Muted("a single process")
    if not sharded and str(run.fact("distributed") or "") in SHARDED:
        raise Muted(f"ranks differ by design under {run.fact('distributed')}")
    if unaligned(run):
        raise Muted("ranks that run dry early (Join) take fewer steps: the same step is another moment on each")
    matrix: Matrix = run.matrix(name)
    heard = np.count_nonzero(np.isfinite(matrix.values), axis=1) >= 2 if len(matrix) else np.empty(0, bool)
    if len(matrix.names) < 2 or not np.any(heard):
        raise Blind(f"needs '{name}' of at least two ranks at the same step", name)
    values = np.where(np.isfinite(matrix.values), matrix.values, np.nan)
    return Rows(matrix.steps[heard], matrix.names, values[heard])


def unaligned(run: Run) -> bool:
    """Whether ranks took different numbers of steps by design."""
    if not run.fact("distributed.joined"):
        return False
    losses = run.matrix("rank/loss")
    return len({int(losses.steps[np.isfinite(v)][-1]) for _, v in losses.columns() if np.isfinite(v).any()}) != 1


def apart(names: tuple[str, ...], values: Floats) -> tuple[str, ...]:
    """The ranks that differ from the majority in one record; all of them when there is no majority.

    >>> apart(("0", "1", "2"), np.array([5.0, 5.0, 7.0]))
    ('2',)
    """
    known = values[np.isfinite(values)]
    levels, counts = np.unique(known, return_counts=True)
    common = levels[np.argmax(counts)] if len(levels) else np.nan
    has_majority = len(levels) > 0 and counts.max() > len(known) / 2
    return tuple(n for n, v in zip(names, values, strict=True) if np.isfinite(v) and (not has_majority or v != common))


def parted(run: Run) -> tuple[str, int, tuple[str, ...]] | None:
    """The first record in which ranks that must agree do not: what differs, the step, and the ranks that stand apart."""
    first: tuple[str, int, tuple[str, ...]] | None = None
    for signal, what in (("rank/grads", "gradients"), ("rank/params", "parameters")):
        try:
            seen = rows(run, signal, sharded=False)
        except (Blind, Muted):
            continue
        differ = np.flatnonzero(~seen.equal)
        if len(differ) and (first is None or seen.steps[differ[0]] < first[1]):
            at = int(differ[0])
            first = what, int(seen.steps[at]), apart(seen.names, seen.values[at])
    return first


def parting(run: Run) -> str:
    """One sentence about where ranks that must agree no longer do."""
    first = parted(run)
    if first is not None:
        what, step, names = first
        who = ", ".join(label(n) for n in names[:4]) + ("…" if len(names) > 4 else "")
        if len(names) == 1:
            return f"the {what} of {who} differ from the others from step {step} on"
        return f"the {what} differ from step {step} on ({who})"
    kind = str(run.fact("distributed") or "")
    if unaligned(run):
        return "they take different numbers of steps (Join), and are not compared"
    if kind in SHARDED:
        return f"they hold different parts of one model ({kind})"
    return "their parameters agree" if len(run.matrix("rank/params")) else "their parameters were not compared"


FEW = 16  # rows that are read at a glance
COLUMNS = {"rank/loss": "loss", "rank/grad_norm": "grad norm", "rank/step_time": "median own ms"}


def table(run: Run) -> list[dict[str, str | int | None]]:
    """Each rank in a row: mean ± spread of its loss and gradient norm, its typical own time, its last step, how it ended."""
    found = [(title, run.matrix(n)) for n, title in COLUMNS.items() if len(run.matrix(n).names) > 1]
    told = run.fact("ranks")
    about = {str(r): v for r, v in told.items() if isinstance(v, Mapping)} if isinstance(told, Mapping) else {}
    names = {n for _, m in found for n in m.names} | about.keys()
    if len(names) < 2 or not found:
        return []
    first = parted(run)
    odd = set(first[2]) if first is not None and len(names) > FEW else set()  # those come first: a page shows not all of many
    order = sorted(names, key=lambda n: (n not in odd, number(n) is None, number(n) or 0, n))
    return [
        {
            "rank": n,
            **{title: (_typical_ms if title.endswith("ms") else _mean_and_spread)(m, n) for title, m in found},
            "last": _last(found, n),
            "ended": str(ended) if (ended := about.get(n, {}).get("ended")) is not None else None,
        }
        for n in order
    ]


def _last(found: list[tuple[str, Matrix]], name: str) -> int | None:
    heard = [m.column(name).finite().steps for _, m in found if name in m.names]
    return max((int(steps[-1]) for steps in heard if len(steps)), default=None)


def _mean_and_spread(matrix: Matrix, name: str) -> str:
    values = matrix.column(name).finite().values if name in matrix.place else np.empty(0)
    return f"{np.mean(values):.3g}\u00a0±\u00a0{np.std(values):.2g}" if len(values) else "–"


def _typical_ms(matrix: Matrix, name: str) -> str:
    """The median and how far half of the steps stray from it: a first step or a checkpoint takes a thousand times longer."""
    values = 1e3 * matrix.column(name).finite().values if name in matrix.place else np.empty(0)
    return f"{np.median(values):.3g}\u00a0±\u00a0{mad(values):.2g}" if len(values) else "–"


def label(name: str) -> str:
    """How a rank is called in a sentence.

    >>> label("3"), label("node-a")
    ('rank 3', 'node-a')
    """
    return f"rank {name}" if name.isdigit() else name


def number(name: str) -> int | None:
    """The rank as a number, where its name is one."""
    digits = name.removeprefix("rank").strip()
    return int(digits) if digits.isdigit() else None


def separation(many: Run, few: Run, *, z: float = 6.0, least: int = 20) -> tuple[int | None, int]:
    """The first step from which on the ranks' mean loss leaves the loss of the other launch, and how many were compared.

    Both see the same samples in a step, so that their losses differ by rounding at first and drift apart slowly; what counts
    is a distance of `z` times the scatter of the loss from step to step, at three steps in a row.
    """
    theirs = few.series("loss/train").finite()
    if "rank/loss" in many:
        table = many.matrix("rank/loss")
        whole = np.all(np.isfinite(table.values), axis=1)
        ours = Series(table.steps[whole], table.values[whole].mean(axis=1))
    else:
        ours = many.series("loss/train").finite()
    steps = np.intersect1d(ours.steps, theirs.steps)
    if len(steps) < least:
        return None, len(steps)
    a, b = ours.at(steps), theirs.at(steps)
    scatter = float(np.median(np.abs(np.diff(b)))) or float(np.finfo(float).eps)
    off = np.abs(a - b) > z * scatter
    runs_of_three = off[:-2] & off[1:-1] & off[2:]
    return (int(steps[int(np.argmax(runs_of_three))]) if runs_of_three.any() else None), len(steps)


Told = list[tuple[str, str]]


def one_process(many: Run, few: Run, found_many: Told, found_few: Told, nproc: int) -> list[str]:
    """Does it happen on one process, too? Findings (code, message) of both launches, and where their losses part."""
    name = "one process" if nproc == 1 else f"{nproc} processes"
    also = {code for code, _ in found_few}
    lines = [f"Does it happen on {name} with the same global batch?"]
    for code, message in found_many:
        lines.append(f"  {code}: {'yes, also there' if code in also else 'no, only on all ranks'} ({message})")
    here = {code for code, _ in found_many}
    lines += [f"  {code}: only on {name} ({message})" for code, message in found_few if code not in here]
    if not found_many and not found_few:
        lines.append("  nothing at warning or above in either launch")
    step, compared = separation(many, few)
    if step is not None:
        lines.append(f"  the mean loss of the ranks leaves the loss on {name} at step {step}: the fault is in the distribution")
    elif compared >= 20:
        alone = any(code not in also for code, _ in found_many)
        lines.append(f"  the losses agree over {compared} steps{'' if alone else ': what is wrong is not the distribution'}")
    else:
        lines.append(f"  too few common steps ({compared}) to compare the losses")
    return lines
