"""The pre-flight: every question of a good checklist answered pass, fail or cannot tell, with the evidence and the fix.

Exact facts come first (a short rehearsal on a twin, read by the ordinary rules), then cheap experiments.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from traindx.diagnosis import examine
from traindx.errors import TraindxError, TwinLeak, UsageError
from traindx.finding import Confidence, Finding, Outcome, Severity, Status
from traindx.run import Run
from traindx.trial import Progress, Result, catalogue, silent
from traindx.trials.rehearsal import rehearse
from traindx.trials.task import Task


@dataclass(frozen=True)
class Item:
    """One line of the checklist."""

    item: str
    result: str  # pass, fail, cannot-tell
    message: str
    fix: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Checked:
    """The answered checklist."""

    items: tuple[Item, ...]
    run: Run
    seconds: float
    modules: tuple[Mapping[str, Any], ...] = ()  # a row per module: shapes, dtype, device, RMS (trials/sight.py)
    sheet: Mapping[str, Any] = field(default_factory=dict)  # what the batches look like, to be looked at

    @property
    def failed(self) -> tuple[Item, ...]:
        return tuple(i for i in self.items if i.result == "fail")

    @property
    def ok(self) -> bool:
        return not self.failed


@dataclass(frozen=True)
class Question:
    """A question, and what answers it: rules that read the rehearsal, or a trial."""

    item: str
    codes: tuple[str, ...] = ()
    trial: str = ""
    level: str = "quick"  # quick, usual, full
    fix: str = ""
    needs: str = ""  # what a task lacks when nothing can be told
    watched: tuple[str, ...] = ()  # rules that answer instead of the trial where a script's own loop was watched


QUESTIONS: tuple[Question, ...] = (
    Question("output, target and loss fit together", ("WIRE006", "WIRE007", "WIRE008", "DATA003", "TUNE002", "TUNE003")),
    Question("inputs and targets are finite", ("DATA001", "NUMR001")),
    Question("inputs are scaled", ("DATA002",)),
    Question(
        "every trainable part is owned, reached and called", ("WIRE001", "WIRE002", "WIRE003", "WIRE014", "GRAD004", "OPTM010")
    ),
    Question("gradients are finite and reach the first layers", ("NUMR002", "NUMR003", "GRAD001")),
    Question("activations neither die, saturate nor explode", ("ACTV001", "ACTV003", "ACTV004", "WGHT004", "WGHT005")),
    Question(
        "the loss at the start is what it must be",
        trial="loss-at-init",
        fix="Scale the last layer down, normalise inputs, check the class count.",
    ),
    Question(
        "one step lowers the loss", trial="one-step", fix="Look for a detached part or a wrong sign between model and loss."
    ),
    Question(
        "samples of a batch do not mix", trial="dependency", fix="Look for a softmax, norm or reshape over the batch axis."
    ),
    Question(
        "one batch can be learned by heart", trial="overfit", fix="Look at head, loss and labels: this is a bug, not tuning."
    ),
    Question("train and validation do not share samples", ("DATA006",), needs="validation data"),
    Question("validation is prepared like training", ("DATA008", "DATA009"), needs="validation data"),
    Question("batches are shuffled and not repeated", ("DATA005", "DATA012")),
    Question("classes are balanced enough to be seen", ("DATA011", "EVAL004")),
    Question(
        "labels belong to the inputs",
        trial="label-info",
        level="usual",
        fix="Rebuild the pairs; a join, a sort or a shuffle went astray.",
    ),
    Question("the learning rate is in range", trial="lr-range", level="usual"),
    Question(
        "eval mode agrees with train mode",
        trial="mode-gap",
        level="usual",
        fix="Recompute BatchNorm statistics; momentum .1; larger batches.",
    ),
    Question(
        "data is not the bottleneck",
        trial="cached-batch",
        level="usual",
        fix="More workers, pin_memory, cheaper decoding.",
        watched=("PERF001",),
    ),
    Question(
        "half precision changes nothing", trial="precision", level="full", fix="Keep the named module in fp32, or use bf16."
    ),
    Question(
        "the same seed gives the same run",
        trial="determinism",
        level="full",
        fix="Seed everything: traindx.seed_everything(0).",
    ),
    Question(
        "a resumed run is the same run",
        trial="resume",
        level="full",
        fix="Save and load optimizer, scheduler, scaler and random states.",
    ),
)
_LEVELS = ("quick", "usual", "full")


def check(
    target: Any, *, level: str = "usual", progress: Progress = silent, seen: Run | None = None, blind: str = ""
) -> Checked:
    """Answer the checklist for a Task; `level` is quick (seconds), usual (under two minutes) or full.

    Where a script's own loop was watched, `seen` is that record; when its steps could not be made again, there is no task
    and `blind` says why: rules answer what they can, experiments cannot tell.
    """
    if level not in _LEVELS:
        raise UsageError(f"the level of a check is one of {', '.join(_LEVELS)}, not {level!r}")
    if not isinstance(target, Task) and not (target is None and seen is not None):
        raise UsageError(f"check wants a traindx.Task, not {type(target).__name__}")
    began = time.monotonic()
    problem: Item | None = None
    if seen is not None:
        run = seen
    else:
        assert target is not None
        run, problem = _rehearsed(target, progress)
    items = [problem] if problem else []
    items += list(_answers(target, run, level, progress, broken=problem is not None, blind=blind))
    modules, sheet = ((), {}) if problem or target is None else _sights(target)
    return Checked(tuple(items), run, time.monotonic() - began, modules, sheet)


def not_a_step(message: str, level: str = "usual") -> Checked:
    """The checklist of a program that fails before its first update."""
    first = Item("a step can be made", "fail", message, "Mend this first; the rest depends on it.")
    rest = [Item(q.item, "cannot-tell", "no step could be made") for q in _asked(level)]
    return Checked((first, *rest), Run(), 0.0)


def _sights(task: Task) -> tuple[tuple[Mapping[str, Any], ...], Mapping[str, Any]]:
    from traindx.trials.sight import contact_sheet, module_table

    try:
        return tuple(module_table(task)), contact_sheet(task)
    except Exception:  # odd batches or modules: a picture less, the answers stand
        return (), {}


def _rehearsed(task: Task, progress: Progress) -> tuple[Run, Item | None]:
    try:
        return rehearse(task, progress=progress), None
    except TraindxError:
        raise
    except Exception as error:  # device, dtype and shape errors of the user's model are findings, not crashes
        from traindx.trials.faults import located

        return Run(), Item("a step can be made", "fail", located(error), "Mend this first; the rest depends on it.")


def _asked(level: str) -> list[Question]:
    return [q for q in QUESTIONS if _LEVELS.index(q.level) <= _LEVELS.index(level)]


def _answers(task: Task | None, run: Run, level: str, progress: Progress, broken: bool, blind: str) -> Iterator[Item]:
    outcomes = {o.code: o for o in examine(run)} if not broken else {}
    asked = _asked(level)
    for i, q in enumerate(asked):
        progress(i, len(asked), q.item)
        began = time.monotonic()
        codes = q.watched if task is None or task.captured else q.codes
        if broken:
            item = Item(q.item, "cannot-tell", "no step could be made")
        elif q.trial and not (codes and q.watched):
            item = _by_trial(task, q) if task is not None else Item(q.item, "cannot-tell", f"blind: {blind}")
        else:
            item = _by_rules(q, [outcomes[c] for c in codes or q.codes if c in outcomes], task)
        yield Item(item.item, item.result, item.message, item.fix, time.monotonic() - began)


def _by_rules(q: Question, outcomes: Sequence[Outcome], task: Task | None) -> Item:
    found: list[Finding] = [f for o in outcomes for f in o.findings]
    firm = [f for f in found if f.severity > Severity.INFO and f.confidence is not Confidence.SUGGESTIVE]
    if firm:
        worst = max(firm, key=lambda f: f.severity)
        return Item(q.item, "fail", f"{worst.code}: {worst.message}", worst.fix)
    clear = [o for o in outcomes if o.status in (Status.CLEAR, Status.FOUND)]
    if not clear:
        lacks = (
            q.needs
            if q.needs and task is not None and task.val is None and not task.captured
            else next((o.reason for o in outcomes if o.reason), "nothing was seen")
        )
        return Item(q.item, "cannot-tell", f"needs {lacks}" if lacks == q.needs else lacks)
    remark = next((f"; to know: {f.message}" for f in found), "")
    return Item(q.item, "pass", f"{', '.join(o.code for o in clear)} clear{remark}")


def _by_trial(task: Task, q: Question) -> Item:
    kind = catalogue().get(q.trial)
    if kind is None:
        return Item(q.item, "cannot-tell", f"there is no trial {q.trial}")
    try:
        result: Result = kind.run(task)
    except TwinLeak:
        raise
    except UsageError as why:
        return Item(q.item, "cannot-tell", str(why))
    except Exception as error:  # a model that cannot be called the trial's way tells nothing about the question
        from traindx.trials.faults import located

        return Item(q.item, "cannot-tell", located(error))
    word = {"pass": "pass", "done": "pass", "fail": "fail"}.get(result.result, "cannot-tell")
    return Item(q.item, word, result.reason, q.fix if word == "fail" else "")
