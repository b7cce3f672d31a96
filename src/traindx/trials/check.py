"""The pre-flight: every question of a good checklist answered pass, fail or cannot tell, with the evidence and the fix.

Exact facts come first (a short rehearsal on a twin, read by the ordinary rules), then cheap experiments.
"""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from traindx.diagnosis import examine
from traindx.errors import TraindxError, TwinLeak, UsageError
from traindx.finding import Confidence, Finding, Outcome, Severity, Status
from traindx.rule import catalogue as rules
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
    lists: tuple[str, ...] = ()  # the lines of well-known checklists it answers


LOGGED = "the learning rate is logged"
RATES = {"lr", "learning", "rate"}


@dataclass(frozen=True, repr=False)
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

    def __str__(self) -> str:
        return str(importlib.import_module("traindx.report.preflight").text(self))

    __repr__ = __str__  # what an interactive session shows

    def _repr_html_(self) -> str:
        """The page, in a notebook."""
        return str(importlib.import_module("traindx.report.preflight").fragment(self))


LISTS = {  # the checklists people work with; every line of theirs is a question of ours
    "ten points": (
        "model outputs the correct shape", "loss decreases on step 1", "overfit-one-batch succeeds", "no NaN in inputs",
        "normalization applied", "train/val splits are disjoint", "augmentation not on val", "model.train() before training",
        "scheduler state saved in checkpoint", "LR is logged every step",
    ),
    "seven questions": (
        "can the model overfit one minibatch", "labels, loss and output activations are compatible",
        "gradient norms are finite and nontrivial", "activations neither saturate, collapse nor explode",
        "the validation split is clean and processed identically", "per-class metrics hide no failure",
        "the bottleneck: model, data or throughput",
    ),
    "five minutes": (
        "a tenth of the learning rate", "gradient clipping", "fp32", "two examples overfit", "the data looked at",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Question:
    """A question, and what answers it: rules that read the rehearsal, or a trial."""

    item: str
    codes: tuple[str, ...] = ()
    trial: str = ""
    level: str = "quick"  # quick, usual, full
    fix: str = ""
    needs: str = ""  # what a task lacks when nothing can be told
    lacks: str = ""  # what was not to be seen when its rules are blind
    event: str = ""  # what must have happened for its rules to have seen anything
    watched: tuple[str, ...] = ()  # rules that answer instead of the trial where a script's own loop was watched
    limits: Mapping[str, Any] = field(default_factory=dict)  # of the trial
    cure: bool = False  # the trial tries a change: that it helps is the bad news
    strict: bool = False  # a remark of the rule is already a "no"
    early: bool = False  # the first steps can say "yes"; what is wrong there may still come right
    loop: bool = False  # only a loop that was watched can answer; a factory has none
    lists: tuple[tuple[str, int], ...] = ()  # the lines of LISTS it answers, from 1


TEN, SEVEN, FIVE = LISTS
BRIEF = {"orders": 3, "horizons": (50,)}  # a first look; `traindx trial` looks longer

QUESTIONS: tuple[Question, ...] = (
    Question(
        "output, target and loss fit together",
        ("WIRE006", "WIRE007", "WIRE008", "DATA003", "TUNE002", "TUNE003"),
        lacks="the loss is written by hand, so which outputs and targets it wants is not known",
        lists=((TEN, 1), (SEVEN, 2)),
    ),
    Question("inputs and targets are finite", ("DATA001", "NUMR001"), lists=((TEN, 4), (FIVE, 5))),
    Question(
        "inputs are scaled", ("DATA002",), lacks="no inputs with a scale were seen: ids have none", lists=((TEN, 5), (FIVE, 5))
    ),
    Question(
        "every trainable part is owned, reached and called", ("WIRE001", "WIRE002", "WIRE003", "WIRE014", "GRAD004", "OPTM010")
    ),
    Question("gradients are finite and reach the first layers", ("NUMR002", "NUMR003", "GRAD001"), lists=((SEVEN, 3),)),
    Question(
        "activations neither die, saturate nor explode",
        ("ACTV001", "ACTV003", "ACTV004", "WGHT004", "WGHT005"),
        lists=((SEVEN, 4),),
    ),
    Question(
        "the loss at the start is what it must be",
        trial="loss-at-init",
        fix="Scale the last layer down, normalise inputs, check the class count.",
    ),
    Question(
        "one step lowers the loss",
        trial="one-step",
        fix="Look for a detached part or a wrong sign between model and loss.",
        lists=((TEN, 2),),
    ),
    Question(
        "samples of a batch do not mix", trial="dependency", fix="Look for a softmax, norm or reshape over the batch axis."
    ),
    Question(
        "the model can memorise one batch",
        trial="overfit",
        fix="Look at the head, the loss, the labels and the first weights. No learning rate helps while one of them is wrong.",
        lists=((TEN, 3), (SEVEN, 1), (FIVE, 4)),
    ),
    Question("train and validation do not share samples", ("DATA006",), needs="validation data", lists=((TEN, 6), (SEVEN, 5))),
    Question(
        "validation is prepared like training",
        ("DATA008",),
        needs="validation data",
        lacks="ids have no scale, and too few class labels were seen, to compare training and validation by",
        lists=((SEVEN, 5),),
    ),
    Question(
        "validation is not augmented",
        ("DATA009",),
        needs="validation data",
        lacks="the same validation samples must be seen twice, and were not",
        lists=((TEN, 7),),
    ),
    Question("batches are shuffled and not repeated", ("DATA005", "DATA012")),
    Question("classes are balanced enough to be seen", ("DATA011",), lacks="no class label per sample was seen"),
    Question("no class hides behind the average", ("EVAL004",), needs="validation data", early=True, lists=((SEVEN, 6),)),
    Question("the model trains in train mode", ("WIRE005",), loop=True, lists=((TEN, 8),)),
    Question(
        "gradients are cleared, updates made and the schedule stepped in order",
        ("WIRE004", "WIRE010", "WIRE011", "WIRE016"),
        loop=True,
    ),
    Question(
        "checkpoints hold scheduler and optimizer",
        ("REPR005",),
        strict=True,
        loop=True,
        event="checkpoint",
        lacks="no checkpoint was written in the steps that were watched",
        lists=((TEN, 9),),
    ),
    Question(LOGGED, loop=True, lists=((TEN, 10),)),
    Question(
        "labels belong to the inputs",
        trial="label-info",
        level="usual",
        fix="Rebuild the pairs; a join, a sort or a shuffle went astray.",
        lists=((FIVE, 5),),
    ),
    Question("the learning rate is in range", trial="lr-range", level="usual"),
    Question(
        "a tenth of the learning rate does no better",
        trial="lr-tenth",
        level="usual",
        limits=BRIEF,
        cure=True,
        fix="Lower the learning rate; `traindx trial lr-range` names one.",
        lists=((FIVE, 1),),
    ),
    Question(
        "clipping the gradient does no better",
        trial="clip",
        level="usual",
        limits=BRIEF,
        cure=True,
        fix="Clip: `traindx trial clip-threshold` names the norm.",
        lists=((FIVE, 2),),
    ),
    Question(
        "half precision changes nothing",
        trial="precision",
        level="usual",
        fix="Keep the named module in fp32, or use bf16.",
        lists=((FIVE, 3),),
    ),
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
        lists=((SEVEN, 7),),
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
        lists=((TEN, 9),),
    ),
)
_LEVELS = ("quick", "usual", "full")
PLAIN = {"pass": "pass", "done": "pass", "fail": "fail"}  # from a trial's result to an answer
CURED = {"pass": "fail", "fail": "pass", "undecided": "pass"}  # where the trial tries a change


def check(
    target: Any,
    *,
    level: str = "usual",
    progress: Progress = silent,
    fresh: bool = False,
    seen: Run | None = None,
    blind: str = "",
) -> Checked:
    """Answer the checklist for a Task; `level` is quick (seconds), usual (under two minutes) or full.

    The model is measured as it is given; `fresh` measures the loss at the start on newly drawn weights.

    Where a script's own loop was watched, `seen` is that record. When its steps could not be made again, there is no
    task and `blind` says why: rules answer what they can, experiments cannot tell.
    """
    if level not in _LEVELS:
        raise UsageError(f"the level of a check is one of {', '.join(_LEVELS)}, not {level!r}")
    if not isinstance(target, Task) and not (target is None and seen is not None):
        raise UsageError(
            f"check takes a traindx.Task, or a model with loss and data: check(model, loss_fn, loader); got {type(target).__name__}"
        )
    began = time.monotonic()
    problem: Item | None = None
    if seen is not None:
        run = seen
    else:
        assert target is not None
        run, problem = _rehearsed(target, progress, 60 if level == "quick" else 120)
    items = [problem] if problem else []
    items += list(_answers(target, run, level, progress, problem is not None, blind, fresh))
    modules, sheet = ((), {}) if problem or target is None else _sights(target)
    return Checked(tuple(items), run, time.monotonic() - began, modules, sheet)


def not_a_step(message: str, level: str = "usual") -> Checked:
    """The checklist of a program that fails before its first update."""
    first = Item("a step can be made", "fail", message, "Fix this first; the rest depends on it.")
    rest = [Item(q.item, "cannot-tell", "no step could be made", lists=_lines(q)) for q in _asked(level)]
    return Checked((first, *rest), Run(), 0.0)


def _sights(task: Task) -> tuple[tuple[Mapping[str, Any], ...], Mapping[str, Any]]:
    from traindx.trials.sight import contact_sheet, module_table

    try:
        return tuple(module_table(task)), contact_sheet(task)
    except Exception:  # odd batches or modules: a picture less, the answers stand
        return (), {}


def _rehearsed(task: Task, progress: Progress, steps: int) -> tuple[Run, Item | None]:
    try:
        return rehearse(task, steps, progress), None
    except TraindxError:
        raise
    except Exception as error:  # device, dtype and shape errors of the user's model are findings, not crashes
        from traindx.trials.faults import located

        return Run(), Item("a step can be made", "fail", located(error), "Fix this first; the rest depends on it.")


def _asked(level: str) -> list[Question]:
    return [q for q in QUESTIONS if _LEVELS.index(q.level) <= _LEVELS.index(level)]


def _answers(
    task: Task | None, run: Run, level: str, progress: Progress, broken: bool, blind: str, fresh: bool
) -> Iterator[Item]:
    outcomes = {o.code: o for o in examine(run)} if not broken else {}
    asked = _asked(level)

    def on_twin(name: str, limits: Mapping[str, Any]) -> Result:
        anew: dict[str, Any] = {"fresh": True} if fresh and name == "loss-at-init" else {}
        return catalogue()[name].run(task, **limits, **anew)

    for i, q in enumerate(asked):
        progress(i, len(asked), q.item)
        began = time.monotonic()
        seen = task is None or task.captured
        codes = q.watched if seen else q.codes
        if broken:
            item = Item(q.item, "cannot-tell", "no step could be made")
        elif q.loop and not seen:
            item = Item(q.item, "cannot-tell", "a factory shows no loop; `traindx check train.py` watches the script's own")
        elif q.needs and not seen and task is not None and task.val is None:
            item = Item(q.item, "cannot-tell", f"needs {q.needs}")
        elif q.item == LOGGED:
            item = _logged(run)
        elif q.trial and not (codes and q.watched):
            item = _by_trial(q, on_twin) if task is not None else Item(q.item, "cannot-tell", f"blind: {blind}")
        else:
            item = _by_rules(q, [outcomes[c] for c in codes or q.codes if c in outcomes], task, run)
        yield replace(item, seconds=time.monotonic() - began, lists=_lines(q))


def _lines(q: Question) -> tuple[str, ...]:
    """The lines of the lists a question answers, in their own words."""
    return tuple(f"{name}, {i}: {LISTS[name][i - 1]}" for name, i in q.lists)


def _logged(run: Run) -> Item:
    """Whether the script gives its learning rate to a tracker; ours has it anyway."""
    words = [n for n in run.signals if n.startswith("metric/") and set(re.findall("[a-z]+", n.lower())) & RATES]
    if words:
        return Item(LOGGED, "pass", f"the script logs {words[0].rpartition('/')[2]}")
    said = "no tracker logged it in the watched steps; `traindx run` records it at every step"
    return Item(LOGGED, "cannot-tell", said)


def _by_rules(q: Question, outcomes: Sequence[Outcome], task: Task | None, run: Run) -> Item:
    found: list[Finding] = [f for o in outcomes for f in o.findings]
    sure = [f for f in found if f.confidence is not Confidence.SUGGESTIVE]
    firm = [f for f in sure if q.strict or f.severity > Severity.INFO]
    if firm:
        worst = max(firm, key=lambda f: f.severity)
        if q.early:
            return Item(q.item, "cannot-tell", f"too early to tell: in the first steps {worst.message} ({worst.code})")
        return Item(q.item, "fail", f"{worst.code}: {worst.message}", worst.fix)
    clear = [o for o in outcomes if o.status in (Status.CLEAR, Status.FOUND)]
    if not clear or (q.event and not run.events_of(q.event)):
        return Item(q.item, "cannot-tell", _lacking(q, outcomes, task))
    remark = next((f"; to know: {f.message}" for f in found), "")
    names = rules()
    looked = ", ".join(f"{names[o.code].name.replace('-', ' ')} ({o.code})" for o in clear if o.status is Status.CLEAR)
    return Item(q.item, "pass", f"{f'not found: {looked}' if looked else 'nothing serious'}{remark}")


def _lacking(q: Question, outcomes: Sequence[Outcome], task: Task | None) -> str:
    if q.needs and task is not None and task.val is None:
        return task.no_val or f"needs {q.needs}"
    return q.lacks or next((o.reason for o in outcomes if o.reason), "nothing was seen")


def answered(
    items: Sequence[Item], level: str, run: Callable[[str, Mapping[str, Any]], Result], able: Container[str]
) -> list[Item]:
    """The checklist with the questions answered that trials in the script's own loop can answer: those `able` to."""
    asked = {q.item: q for q in _asked(level) if q.trial in able}
    found = []
    for item in items:
        q = asked.get(item.item)
        if q is not None and item.result == "cannot-tell":
            began = time.monotonic()
            item = replace(_by_trial(q, run), seconds=time.monotonic() - began, lists=item.lists)
        found.append(item)
    return found


def _by_trial(q: Question, run: Callable[[str, Mapping[str, Any]], Result]) -> Item:
    try:
        result = run(q.trial, q.limits)
    except TwinLeak:
        raise
    except UsageError as why:
        return Item(q.item, "cannot-tell", str(why))
    except Exception as error:  # a model that cannot be called the trial's way tells nothing about the question
        from traindx.trials.faults import located

        return Item(q.item, "cannot-tell", f"the trial {q.trial} does not fit this task ({located(error)})")
    words = CURED if q.cure else PLAIN
    word = words.get(result.result, "cannot-tell")
    if q.trial == "lr-range" and word == "pass":
        return _rate(q.item, result)
    if result.answer.get("blind"):
        word = "cannot-tell"
    return Item(q.item, word, result.reason, q.fix if word == "fail" else "")


TOO_HOT, TOO_COLD = 0.5, 0.1  # shares of what the best rate learns in the race, below which the task's own rate is out of range


def _rate(item: str, result: Result) -> Item:
    """Whether the task's own rate is in range: it took part in the race. A low one may be the first of a warm-up."""
    now, learned, won = (result.answer.get(k) for k in ("now", "now_learned", "won"))
    if now is None or learned is None or won is None:
        return Item(item, "cannot-tell", result.reason)
    if now > won and learned < TOO_HOT:
        return Item(item, "fail", result.reason, f"Start with a learning rate of {result.answer['start_lr']:.2g}.")
    if now < won and learned < TOO_COLD:
        return Item(item, "cannot-tell", f"{result.reason}: far too low, unless a warm-up is still to raise it")
    return Item(item, "pass", result.reason)
