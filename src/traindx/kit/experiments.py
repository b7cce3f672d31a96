"""Single experiments on a twin of a task: your model, optimizer and random numbers are afterwards as they were, to the bit.

>>> import torch
>>> from traindx.kit import Task
>>> _ = torch.manual_seed(0)
>>> model = torch.nn.Linear(4, 1)
>>> batches = [(x, x.sum(1, keepdim=True)) for x in torch.randn(4, 64, 4)]
>>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
>>> task = Task(model, torch.nn.functional.mse_loss, batches, optimizer=optimizer)
>>> two_example_check(task).result
'pass'
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traindx.errors import UsageError
from traindx.kit.gradients import saved
from traindx.trial import Result, catalogue
from traindx.trials.task import Task


def overfit_one_batch(task: Task, *, samples: int = 32, steps: int = 300) -> Result:
    """Whether the model can learn one small batch by heart, judged against the floor of its loss, regularisers off."""
    return catalogue()["overfit"].run(task, samples=samples, steps=steps)


def two_example_check(task: Task, *, steps: int = 300) -> Result:
    """The quickest check: two examples by heart. A net that fails it has a bug in loop, loss or model."""
    return catalogue()["overfit"].run(task, samples=2, steps=steps)


def lr_finder(task: Task, *, steps: int = 120) -> Result:
    """Which learning rate to start with, or a refusal with its reason; `plot_lr_finder` draws it."""
    return catalogue()["lr-range"].run(task, steps=steps)


def plot_lr_finder(result: Result, path: str | Path | None = None) -> Any:
    """A plotly figure of loss against learning rate, with the rate to start at; `path` (.html) also writes it."""
    import plotly.graph_objects as go

    if result.trial != "lr-range":
        raise UsageError(f"this draws what lr_finder gives; got the result of '{result.trial}'")
    rates, losses = result.run.series("trial/lr").values, result.run.series("trial/loss").values
    figure = go.Figure([go.Scatter(x=rates, y=losses, mode="lines", name="loss")])
    figure.update_xaxes(type="log", title="learning rate", exponentformat="power")
    figure.update_yaxes(title="loss")
    start = result.answer.get("start_lr")
    if start is not None:
        low, high = result.answer["interval"]
        figure.add_vrect(x0=low, x1=high, opacity=0.15, fillcolor="green", line_width=0)
        figure.add_vline(x=start, line_dash="dash", annotation_text=f"start at {start:.2g}")
    figure.update_layout(title=result.reason)
    return saved(figure, path)


def sharpness(task: Task, *, samples: int = 256) -> Result:
    """How curved the loss is here: eigenvalues of the Hessian and rises along random directions, in units of the loss."""
    return catalogue()["sharpness"].run(task, samples=samples)


def check_determinism(task: Task, *, steps: int = 3) -> Result:
    """Whether two runs from the same state give the same bits; names the first operation that differs."""
    return catalogue()["determinism"].run(task, steps=steps)
