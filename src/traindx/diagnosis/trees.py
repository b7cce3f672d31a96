"""The differential trees: for every complaint, the hypotheses in order, with what confirms or refutes each.

A tree is walked from the top: exact facts first, then by prior and cheapness. A branch whose rules are *found* is confirmed,
one whose rules are all *clear* is refuted with the number that refuted it, unless it reaches beyond what they look at, and the
rest stay open with the test that would settle them. A remark confirms no fault; it is a hint.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from traindx.diagnosis import readings as r
from traindx.errors import UsageError
from traindx.finding import Confidence, Finding, Outcome, Severity, Status
from traindx.run import Run


class State(enum.Enum):
    """How a hypothesis stands after the passive tests."""

    CONFIRMED = "confirmed"
    LIKELY = "hinted at"
    OPEN = "open"
    REFUTED = "refuted"


BELIEF = {State.LIKELY: 3.0, State.OPEN: 1.0}  # how much more a hint weighs than nothing
DOUBT = 0.3  # … and how much is left of a hypothesis that the record alone refutes
FAULTS = ("fix-and-resume", "fix-evaluation", "restart")  # verdicts that say something is wrong
FADING = 0.85  # a tree names its hypotheses in order: each is this much less likely than the one before


@dataclass(frozen=True)
class Branch:
    """One hypothesis of a tree."""

    hypothesis: str
    codes: tuple[str, ...]
    verdict: str
    trial: str = ""
    cost: int = 0  # steps
    reading: r.Reading = r.nothing
    sure: Callable[[Run], bool] = r.always  # whether a finding settles it on this run, or leaves it open
    sign: r.Reading = r.nothing  # what the curves themselves show of it, where no rule says so; a hint
    beyond: bool = False  # it says more than its rules look at: only its trial can refute it
    instead: tuple[Callable[[Run], bool], str, str] | None = None  # on runs that are so: another hypothesis and verdict


@dataclass(frozen=True)
class Tree:
    """One complaint and its hypotheses, in the order they are tried."""

    code: str
    complaint: str
    presents: tuple[str, ...]  # rules whose finding is this complaint
    branches: tuple[Branch, ...]
    holds: Callable[[Run], bool] = r.always  # what the curves must show for it to be this complaint


@dataclass(frozen=True)
class Walked:
    """A branch with how it stands on a run, and why."""

    branch: Branch
    state: State
    why: str


B = Branch
TREES: tuple[Tree, ...] = (
    Tree(
        "DX-A",
        "NaN or infinity before the first successful update",
        (),
        (
            B("a batch holds invalid values", ("DATA001",), "fix-and-resume", reading=r.finite_inputs),
            B("no valid target in a batch", ("TUNE002",), "fix-and-resume"),
            B("an operation left its domain", ("NUMR001", "NUMR002"), "restart", "replay", 3, r.finite_losses),
            B("half precision overflows", ("NUMR004", "NUMR005"), "fix-and-resume", "precision", 2, r.scaler),
            B("initial weights or inputs are far too large", ("WGHT005", "DATA002", "LOSS010"), "restart", "loss-at-init", 15),
            B("the loaded weights are already broken", ("NUMR003", "WIRE015"), "restart"),
            B("the first update throws the weights away", ("OPTM002",), "restart", "lr-tenth", 2, r.update_size),
        ),
    ),
    Tree(
        "DX-B",
        "NaN or infinity after good steps",
        ("NUMR001", "NUMR002", "NUMR003"),
        (
            B("one bad batch", ("DATA001", "LOSS007"), "fix-and-resume", "replay", 5, r.finite_inputs),
            B(
                "the optimizer blew up",
                ("GRAD002", "OPTM002", "OPTM007", "LOSS006"),
                "fix-and-resume",
                "lr-tenth",
                100,
                r.gradient_size,
            ),
            B("values drifted to the dtype's limit", ("NUMR004", "ACTV006", "ACTV007"), "fix-and-resume", "precision", 1),
            B("an operation hit a singular point", ("NUMR001", "NUMR002"), "fix-and-resume", "replay", 2, r.finite_losses),
            B("the loss scaler keeps skipping", ("NUMR005",), "fix-and-resume", "precision", 2, r.scaler),
            B("weights or optimizer state are poisoned", ("NUMR003",), "restart"),
            B("one device computes wrongly", ("DIST007",), "fix-and-resume"),
        ),
    ),
    Tree(
        "DX-C",
        "the loss is flat from the first step",
        ("LOSS002",),
        (
            B(
                "no update happens",
                ("WIRE001", "WIRE002", "WIRE003", "WIRE016", "NUMR005", "OPTM003"),
                "restart",
                reading=r.update_size,
            ),
            B("gradients are exactly zero", ("GRAD004", "WGHT004", "ACTV001"), "restart", reading=r.gradient_size),
            B("an early blow-up collapsed the output", ("ACTV005", "OPTM002"), "restart", "lr-tenth", 200, r.output_spread),
            B(
                "updates are too small to matter",
                ("OPTM001", "OPTM008", "NUMR007", "WIRE006"),
                "restart",
                "lr-range",
                120,
                r.update_size,
            ),
            B("the labels carry nothing", ("DATA004", "DATA003"), "restart", "label-info", 240, beyond=True),
            B("inputs are constant or unscaled", ("DATA002", "DATA012"), "restart", "input-baseline", 200),
            B(
                "head, loss or mask do not fit",
                ("WIRE007", "WIRE008", "WIRE009", "WIRE013"),
                "restart",
                "overfit",
                300,
                beyond=True,
            ),
            B("a long plateau that ends by itself", ("GRAD001",), "wait", "fix", 400, r.gradient_size, beyond=True),
        ),
    ),
    Tree(
        "DX-D",
        "flat after a good start",
        ("LOSS003", "EVAL001"),
        (
            B("the difference is below the evaluation's resolution", ("EVAL002",), "cannot-tell", reading=r.val_spread),
            B("the evaluation is stale or broken", ("EVAL001",), "fix-evaluation", reading=r.val_spread),
            B("the schedule froze the optimizer", ("OPTM003",), "fix-and-resume", "fix", 200, r.lr_over_peak),
            B("hidden overfitting", ("LOSS008",), "stop-keep-best", reading=r.gap),
            B(
                "evaluation differs from training",
                ("ACTV008", "EVAL009", "DATA008"),
                "fix-evaluation",
                "mode-gap",
                20,
                r.evaluation_mode,
            ),
            B(
                "the noise floor of this learning rate",
                ("OPTM005", "OPTM013"),
                "wait",
                "anneal",
                200,
                r.lr_over_peak,
                beyond=True,
                instead=(
                    r.rate_never_falls,
                    "the noise floor of this learning rate, which nothing will lower: let it decay to zero, or divide it by 10",
                    "fix-and-resume",
                ),
            ),
            B(
                "generalisation is the limit",
                ("LOSS008", "EVAL005"),
                "stop-keep-best",
                "anneal",
                200,
                r.gap,
                sign=r.validation_left_behind,
            ),
            B("normal slow convergence", ("LOSS004",), "wait", reading=r.val_trend, sure=r.validation_falls),
            B("the model or the data allow no better", ("LOSS009", "LOSS011"), "stop-keep-best", "overfit", 300, beyond=True),
            B(
                "dead units or a saddle",
                ("ACTV001", "ACTV002", "WGHT003"),
                "fix-and-resume",
                "sharpness",
                20,
                r.dead_units,
                beyond=True,
            ),
        ),
    ),
    Tree(
        "DX-E",
        "the loss oscillates",
        ("LOSS005", "GRAD007"),
        (
            B("data order or mixed sources", ("DATA005", "LOSS012"), "fix-and-resume", reading=r.batch_mix),
            B(
                "the learning rate is too high",
                ("OPTM002", "OPTM005", "OPTM013"),
                "fix-and-resume",
                "lr-tenth",
                500,
                r.update_size,
                beyond=True,
            ),
            B("curvature beyond the stability limit", ("OPTM012",), "fix-and-resume", "sharpness", 10),
            B("stale second moments", ("OPTM007",), "fix-and-resume"),
            B("BatchNorm with too small batches", ("ACTV008",), "fix-and-resume", "mode-gap", 20),
        ),
    ),
    Tree(
        "DX-F",
        "the loss spikes",
        ("LOSS006", "LOSS007", "GRAD003"),
        (
            B("single bad batches", ("LOSS007", "DATA001"), "fix-and-resume", reading=r.finite_inputs),
            B("a resume without the optimizer's state", ("OPTM010", "REPR003"), "fix-and-resume"),
            B(
                "the optimizer throws the weights",
                ("GRAD003", "OPTM007", "OPTM004"),
                "fix-and-resume",
                "clip",
                200,
                r.gradient_size,
            ),
            B("slow growth of logits or weights", ("ACTV006", "ACTV007", "WGHT001"), "fix-and-resume"),
            B("one rank or a skipped step", ("DIST007", "NUMR005"), "fix-and-resume", reading=r.scaler),
        ),
    ),
    Tree(
        "DX-G",
        "training is fine, validation gets worse",
        ("LOSS008",),
        (
            B("the evaluation itself is wrong", ("EVAL001", "EVAL008", "EVAL009"), "fix-evaluation", reading=r.evaluation_mode),
            B("BatchNorm statistics", ("ACTV008",), "fix-evaluation", "mode-gap", 20),
            B("validation is prepared differently", ("DATA008", "DATA009"), "fix-evaluation"),
            B("only the confidence is off", ("EVAL005",), "fix-evaluation"),
            B("a leak that is missing in validation", ("DATA006", "DATA007"), "restart", reading=r.shared_samples),
            B("true overfitting", ("LOSS008", "LOSS012"), "stop-keep-best", reading=r.gap),
            B("fine-tuning too hot", ("TUNE006",), "restart"),
        ),
    ),
    Tree(
        "DX-H",
        "validation never moved",
        ("EVAL007",),
        (
            B("stale evaluation", ("EVAL001",), "fix-evaluation", reading=r.val_spread),
            B(
                "wrong mode or BatchNorm statistics",
                ("EVAL009", "ACTV008"),
                "fix-evaluation",
                "mode-gap",
                20,
                r.evaluation_mode,
            ),
            B("validation is prepared differently", ("DATA008",), "fix-evaluation"),
            B("label mapping differs or labels are noise", ("DATA003", "DATA004"), "restart", "label-info", 240, beyond=True),
            B("too few evaluations", ("EVAL002",), "wait", reading=r.val_spread),
        ),
    ),
    Tree(
        "DX-I",
        "both losses stay high",
        ("LOSS009", "EVAL003", "EVAL004", "EVAL010"),
        (
            B("the level has a meaning", ("LOSS011",), "restart"),
            B("it never learned", ("LOSS002", "LOSS010"), "restart"),
            B(
                "a structural bug",
                ("WIRE003", "WIRE006", "WIRE007", "WIRE008", "WIRE009"),
                "restart",
                "overfit",
                300,
                beyond=True,
            ),
            B("over-regularised", ("OPTM009", "WGHT002"), "fix-and-resume", "regularisers-off", 400, beyond=True),
            B("learning rate too low", ("OPTM001",), "fix-and-resume", "lr-range", 120, r.update_size),
            B("precision, epsilon or vanishing gradients", ("NUMR007", "OPTM008", "GRAD001"), "fix-and-resume"),
            B("label noise", ("DATA010",), "fix-and-resume", "label-info", 240, beyond=True),
        ),
        r.losses_stay_high,
    ),
    Tree(
        "DX-J",
        "validation is better than training",
        ("EVAL006",),
        (
            B("training samples in the validation set", ("DATA006",), "restart", reading=r.shared_samples),
            B("padding or averaging", ("EVAL008",), "fix-evaluation"),
            B("a tiny validation set", ("EVAL002",), "fix-evaluation", reading=r.val_spread),
            B("dropout, augmentation or epoch averages", ("EVAL006",), "healthy", "mode-gap", 20),
        ),
    ),
    Tree(
        "DX-K",
        "the metric is bad, the loss is good",
        ("EVAL003", "EVAL004", "EVAL010"),
        (
            B("the metric is computed wrongly", ("EVAL003",), "fix-evaluation"),
            B("a majority or slice hides the failure", ("EVAL004", "DATA011"), "fix-and-resume"),
            B("threshold or calibration", ("EVAL005",), "fix-evaluation"),
            B("one loss term dominates the gradient", ("GRAD006",), "fix-and-resume"),
            B("a feature gives the label away", ("DATA007",), "restart"),
            B("stop token or template", ("TUNE004", "TUNE007"), "restart"),
        ),
        lambda run: not r.losses_stay_high(run),
    ),
    Tree(
        "DX-L",
        "training is slow",
        ("PERF001", "PERF004", "PERF005", "PERF006", "PERF007", "PERF008", "PERF009", "PERF010"),
        (
            B("it waits for data", ("PERF001",), "fix-and-resume", "cached-batch", 40, r.waiting),
            B("syncs, launches or recompilation", ("PERF004", "PERF005", "PERF006"), "fix-and-resume"),
            B("it gets slower with time", ("PERF007", "PERF002"), "fix-and-resume", reading=r.memory),
            B("one rank is slow", ("DIST004",), "fix-and-resume"),
            B("evaluation and checkpoints take the time", ("PERF008",), "fix-and-resume"),
            B("padding and copies", ("PERF009", "PERF010"), "fix-and-resume"),
        ),
    ),
    Tree(
        "DX-M",
        "memory grows",
        ("PERF002", "PERF003"),
        (
            B("fragmentation or pressure", ("PERF003",), "fix-and-resume", reading=r.memory),
            B("graphs or tensors are kept", ("PERF002",), "fix-and-resume", reading=r.memory),
        ),
    ),
    Tree(
        "DX-N",
        "ranks drift, or many devices do worse than one",
        ("DIST001", "DIST002", "DIST003", "DIST004", "DIST005", "DIST006"),
        (
            B("replicas differ", ("DIST001",), "restart"),
            B("gradients are not synchronised", ("DIST003",), "restart"),
            B("ranks see the same data", ("DIST002",), "fix-and-resume"),
            B("normalisation or learning rate per world size", ("DIST006", "OPTM011"), "fix-and-resume"),
            B("uneven steps or a hang", ("DIST005",), "fix-and-resume"),
            B("a faulty device", ("DIST007",), "fix-and-resume"),
        ),
    ),
    Tree(
        "DX-O",
        "the fine-tuned model forgets or answers badly",
        ("TUNE001", "TUNE003", "TUNE004", "TUNE005", "TUNE006", "TUNE007", "TUNE008", "TUNE009"),
        (
            B("the pretrained weights were not loaded", ("TUNE008", "WIRE015"), "restart"),
            B("template or tokenizer", ("TUNE007",), "restart", "base-eval", 1),
            B("labels, padding or end token", ("TUNE002", "TUNE003", "TUNE004"), "restart"),
            B("the adapter does nothing", ("TUNE005",), "restart"),
            B("too hot or too long", ("TUNE006", "LOSS012"), "restart"),
            B("forgetting by drift", ("TUNE001",), "restart", "base-eval", 4),
        ),
    ),
    Tree(
        "DX-P",
        "accuracy is high, deployment fails",
        ("DATA006", "DATA007"),
        (
            B("imbalance", ("DATA011", "EVAL004"), "fix-and-resume"),
            B("leakage", ("DATA006", "DATA007"), "restart", reading=r.shared_samples),
            B("an unsuited metric", ("EVAL003", "EVAL010"), "fix-evaluation"),
            B("calibration", ("EVAL005",), "fix-evaluation"),
            B("training and serving differ", ("DATA008", "DATA009"), "fix-and-resume"),
        ),
    ),
)


class Presented(NamedTuple):
    """A complaint, and what of the record shows it."""

    tree: Tree
    why: str


def presenting(run: Run, outcomes: Sequence[Outcome]) -> Presented | None:
    """The complaint that the gravest finding shows, among those the curves agree with; None when nothing complains."""
    shown = [f for o in outcomes if o.status is Status.FOUND for f in o.findings]
    broken = next((f for f in shown if f.code in ("NUMR001", "NUMR002", "NUMR003")), None)
    if broken is not None:
        loss = run.series("loss/train")
        early = len(loss) and not any(map(_finite, loss.values[:2]))
        return Presented(TREES[0] if early else TREES[1], f"{broken.code}: {broken.message}")
    told = [(t, f) for t in TREES for f in shown if f.code in t.presents and t.holds(run)]
    if not told:
        return None
    tree, gravest = max(told, key=lambda pair: (pair[1].severity, pair[1].confidence is not Confidence.SUGGESTIVE))
    return Presented(tree, f"{gravest.code}: {gravest.message}")


def by_code(code: str) -> Tree:
    """The tree of that code, `DX-D` or plain `D`."""
    wanted = code.upper().removeprefix("DX-")
    return next(t for t in TREES if t.code == f"DX-{wanted}")


def named(code: str) -> Tree:
    """The tree the user asks for."""
    try:
        return by_code(code)
    except StopIteration:
        told = "; ".join(f"{t.code} {t.complaint}" for t in TREES)
        raise UsageError(f"there is no complaint '{code}'; there are {told}") from None


def walk(tree: Tree, run: Run, outcomes: Sequence[Outcome]) -> tuple[Walked, ...]:
    """Every branch of the tree with how it stands on this run."""
    table = {o.code: o for o in outcomes}
    return tuple(_stand(b, run, [table[c] for c in b.codes if c in table]) for b in tree.branches)


def _stand(branch: Branch, run: Run, outcomes: Sequence[Outcome]) -> Walked:
    if branch.instead is not None and branch.instead[0](run):
        branch = replace(branch, hypothesis=branch.instead[1], verdict=branch.instead[2])
    number = branch.reading(run)
    found: list[Finding] = [f for o in outcomes for f in o.findings]
    fault = branch.verdict in FAULTS
    firm = [f for f in found if f.confidence is not Confidence.SUGGESTIVE and (f.severity > Severity.INFO or not fault)]
    if firm:
        told = f"{firm[0].code}: {firm[0].message}"
        return Walked(branch, State.CONFIRMED, told) if branch.sure(run) else Walked(branch, State.OPEN, f"{told}; {number}")
    if found:
        return Walked(branch, State.LIKELY, f"{found[0].code}: {found[0].message}")
    if sign := branch.sign(run):
        return Walked(branch, State.LIKELY, sign)
    looked = [o for o in outcomes if o.status is Status.CLEAR]
    if looked and len(looked) == len([o for o in outcomes if o.status is not Status.MUTED]):
        clear = f"{', '.join(o.code for o in looked)} clear"
        if branch.beyond:
            return Walked(branch, State.OPEN, f"{clear}, but they look at a part of it only")
        return Walked(branch, State.REFUTED, number or clear)
    doubt = next((o for o in outcomes if o.status is Status.UNSURE), None)
    blind = next((o for o in outcomes if o.status is Status.BLIND), None)
    reason = f"{doubt.code} unsure: {doubt.reason}" if doubt else f"{blind.code} blind: {blind.reason}" if blind else ""
    return Walked(branch, State.OPEN, "; ".join(filter(None, (number, reason))))


def shares(walked: Sequence[Walked], done: Collection[str] = ()) -> dict[str, float]:
    """Per experiment not made yet the share of belief that lies on the hypotheses it settles.

    A tree names its hypotheses in order, so each counts a little less than the one before; a hint counts more than nothing, and
    what the record alone refutes is not beyond doubt.
    """
    weights = [_belief(w, done) * FADING**i for i, w in enumerate(walked)]
    total = sum(weights)
    out: dict[str, float] = {}
    for weight, w in zip(weights, walked, strict=True):
        if w.branch.trial and w.branch.trial not in done and weight > 0:
            out[w.branch.trial] = out.get(w.branch.trial, 0.0) + weight / total
    return out


def _belief(w: Walked, done: Collection[str]) -> float:
    if w.state is State.REFUTED:
        return DOUBT if w.branch.trial and w.branch.trial not in done else 0.0
    return BELIEF.get(w.state, 0.0)


def information(p: float) -> float:
    """Bits that a yes-or-no answer of probability `p` is expected to bring.

    >>> information(0.5)
    1.0
    """
    p = min(max(p, 1e-3), 1 - 1e-3)
    return -(p * math.log2(p) + (1 - p) * math.log2(1 - p))


def next_test(walked: Sequence[Walked]) -> Branch | None:
    """The experiment with the most expected information per step; None when a fact has settled it or nothing is left to try."""
    if settled(walked) is not None:
        return None
    left = [w.branch for w in walked if w.state in (State.OPEN, State.LIKELY) and w.branch.trial]
    share = shares(walked)
    return max(left, key=lambda b: information(share[b.trial]) / max(b.cost, 1), default=None)


def settled(walked: Sequence[Walked], speaking: Sequence[str] = ()) -> Walked | None:
    """The confirmed hypothesis that says what to do; "below the resolution" is a caution, not an answer.

    Of several, the one that holds the first of the codes `speaking` for the most probable cause; else the first of the tree.
    """
    sure = [w for w in walked if w.state is State.CONFIRMED and w.branch.verdict != "cannot-tell"]
    order = {code: i for i, code in reversed(list(enumerate(speaking)))}
    return min(sure, key=lambda w: min((order.get(c, len(order)) for c in w.branch.codes), default=0), default=None)


def _finite(x: float) -> bool:
    return x == x and abs(x) != float("inf")
