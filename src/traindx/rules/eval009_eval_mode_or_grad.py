"""Evaluation runs in the wrong mode: in training mode, with changing statistics, or with unneeded graphs.

## What it sees

For every evaluation: the share of forwards with `model.training` true, the share that built a graph, and whether
normalisation buffers changed. These are facts. Training mode matters only where a layer behaves differently in it (dropout,
BatchNorm): without one it is a remark.

## Why it matters

With dropout on, the figure is that of a crippled network and jumps at random. With BatchNorm in training mode the answer
for one sample depends on its neighbours, and the statistics that will be used later absorb the validation data: that is a
leak. A graph per batch costs memory until evaluation runs out of it.

## What else looks like this

- `torch.no_grad()` is there and `eval()` is not: no_grad does *not* stop BatchNorm from updating. Both are needed.
- Monte-Carlo dropout by intent: only the dropout layers are in training mode, the model is not; quiet.
- ACTV008: eval mode is right and the statistics do not fit.

## What to do

`model.eval()` and `torch.inference_mode()` around the evaluation, `model.train()` after it. If buffers were changed,
recompute them over training batches before trusting old checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Event, Run

MODE_LAYERS = ("Dropout", "BatchNorm", "SyncBatchNorm", "InstanceNorm", "RReLU", "StochasticDepth", "DropPath")


@rule(
    "EVAL009",
    subject="evaluation",
    needs={"eval/train_mode | eval/grad_enabled | eval/buffers_changed | event:eval_dropout": 1},
    says={
        "buffers": "{count} evaluations changed normalisation statistics: validation data leak into the model",
        "mode": "{count} of {evaluations} evaluations ran in training mode{layers}",
        "harmless": "{count} of {evaluations} evaluations ran in training mode; this has no effect on this model",
        "dropout": "F.dropout stays on in evaluation (p = {p:.2g}), whatever the mode: {where}",
        "grad": "{count} of {evaluations} evaluations built autograd graphs that were never used",
    },
    fix={
        "": "Wrap the evaluation in model.eval() and torch.inference_mode(), and call model.train() after it.",
        "buffers": "Call model.eval() before evaluating (no_grad alone does not stop the updates); recompute the "
        "statistics on training batches.",
        "harmless": "No action needed; call model.eval() anyway in case a later model needs it.",
        "dropout": "Write F.dropout(x, p, training=self.training), or use nn.Dropout.",
        "grad": "Evaluate under torch.inference_mode() (or no_grad): it saves memory and time, and the numbers stay the same.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    explains=("EVAL002", "ACTV008", "EVAL007", "PERF003"),
    at="evaluate",
)
def eval_mode_or_grad(
    run: Run,
    *,
    share: float = 0.5,  # of an evaluation's forwards; a stray forward in train mode is not an evaluation
) -> Iterator[Evidence]:
    if run.events_of("detached_loss") and not len(run.series("loss/train")):
        return  # a forward under no_grad whose loss was to be trained on is no evaluation
    mode, grad, buffers = (run.series(f"eval/{n}").finite() for n in ("train_mode", "grad_enabled", "buffers_changed"))
    dirty = buffers.where(buffers.values > 0)
    if len(dirty):
        yield Evidence({"count": len(dirty)}, (), (int(dirty.steps[0]), int(dirty.steps[-1])), "buffers", Severity.CRITICAL)
    minds = _minding(run)
    wrong = mode.where(mode.values > share)
    if minds:
        spared = run.series("eval/minds_mode")  # of several models in one program some have no such layer
        wrong = wrong.where(~np.isin(wrong.steps, spared.steps[spared.values == 0]))
    if len(wrong):
        values = {
            "count": len(wrong),
            "evaluations": len(mode),
            "layers": f", in which {', '.join(minds)} layers act differently" if minds else "",
        }
        known = "model.outline" in run.facts  # an empty outline is a model of one layer
        say, severity = ("harmless", Severity.INFO) if known and not minds else ("mode", Severity.WARNING)
        if not (len(dirty) and say == "mode"):  # the graver half of the same mistake has been said
            yield Evidence(values, tuple(minds), (int(wrong.steps[0]), int(wrong.steps[-1])), say, severity)
    for event in _left_on(run):
        where = (str(event.data["site"]),) if event.data.get("site") else ()
        yield Evidence({"p": facts.number(event.data.get("p"), 0.5)}, where, (event.step, event.step), "dropout")
    graphs = grad.where(grad.values > share)
    if len(graphs):
        values = {"count": len(graphs), "evaluations": len(grad)}
        yield Evidence(values, (), (int(graphs.steps[0]), int(graphs.steps[-1])), "grad", _cost(run, graphs.values))


def _left_on(run: Run, near: int = 2) -> list[Event]:
    """The first dropout that was on in an evaluation; other forwards may be a teacher's, or sampling on purpose."""
    at = [e.step for e in run.events_of("evaluation")]
    return [e for e in run.events_of("eval_dropout") if any(abs(e.step - step) <= near for step in at)][:1]


def _minding(run: Run) -> list[str]:
    rows = facts.rows(run, "model.outline")  # a dropout of zero minds no mode
    kinds = {str(row.get("class", "")) for row in rows if not row.get("inert")} | {str(run.fact("model.class"))}
    return sorted(k for k in kinds if any(word in k for word in MODE_LAYERS))


def _cost(run: Run, shares: np.ndarray) -> Severity:
    """A graph per batch is waste; it is worth acting on when every evaluation does it."""
    return Severity.WARNING if len(shares) >= 1 and float(np.median(shares)) > 0.9 else Severity.INFO
