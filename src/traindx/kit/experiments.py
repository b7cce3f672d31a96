"""Single experiments on a twin of a task: your model, optimizer and random numbers are afterwards as they were, to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch  # noqa: F401 for the examples

from traindx.errors import UsageError
from traindx.kit.pictures import drawn
from traindx.report.trial import picture
from traindx.trial import Result, catalogue
from traindx.trials.task import Task


def overfit_one_batch(task: Task, *, samples: int = 32, steps: int = 300) -> Result:
    """Whether the model can memorise one small batch, judged against the floor of its loss, regularisers off.

    >>> x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    >>> task = Task(torch.nn.Linear(4, 1), torch.nn.functional.mse_loss, [(x, x.sum(1, keepdim=True))])
    >>> overfit_one_batch(task).result
    'pass'
    """
    return catalogue()["overfit"].run(task, samples=samples, steps=steps)


def two_example_check(task: Task, *, steps: int = 300) -> Result:
    """The quickest check: two examples memorised. A net that fails it has a bug in loop, loss or model.

    >>> x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    >>> task = Task(torch.nn.Linear(4, 1), torch.nn.functional.mse_loss, [(x, x.sum(1, keepdim=True))])
    >>> two_example_check(task).result
    'pass'
    """
    return catalogue()["overfit"].run(task, samples=2, steps=steps)


def lr_finder(task: Task, *, steps: int = 120) -> Result:
    """Which learning rate to start with, or a refusal with its reason; `plot_lr_finder` draws it.

    >>> model, x = torch.nn.Linear(4, 1), torch.randn(8, 64, 4)
    >>> sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> task = Task(model, torch.nn.functional.mse_loss, [(b, b.sum(1, keepdim=True).tanh()) for b in x], optimizer=sgd)
    >>> 0 < lr_finder(task).answer["start_lr"] < 10
    True
    """
    return catalogue()["lr-range"].run(task, steps=steps)


def plot_lr_finder(result: Result, path: str | Path | None = None) -> Any:
    """A plotly figure of loss against learning rate, with the rate to start at; `path` also writes it: .html, .svg, or .png
    with matplotlib.

    >>> model, x = torch.nn.Linear(4, 1), torch.randn(8, 64, 4)
    >>> sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> task = Task(model, torch.nn.functional.mse_loss, [(b, b.sum(1, keepdim=True).tanh()) for b in x], optimizer=sgd)
    >>> plot_lr_finder(lr_finder(task)).layout.xaxis.title.text
    'learning rate'
    """
    if result.trial != "lr-range":
        raise UsageError(f"this draws what lr_finder gives; got the result of '{result.trial}'")
    return drawn(picture(result), path)


def sharpness(task: Task, *, epsilon: float = 0.05, draws: int = 20, samples: int = 256) -> Result:
    """Whether this minimum is flat or sharp: how much the loss rises when every weight tensor moves by `epsilon` of its length.

    `answer` holds ratio, interval, word ("flat", "sharp", "between flat and sharp" or "not at a minimum"), lambda_max and more.

    >>> x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    >>> task = Task(torch.nn.Linear(4, 1), torch.nn.functional.mse_loss, [(x, x.sum(1, keepdim=True))])
    >>> sharpness(task).answer["word"]
    'not at a minimum'
    """
    return catalogue()["sharpness"].run(task, samples=samples, epsilon=epsilon, directions=draws)


def clip_threshold(task: Task, *, steps: int = 300, warmup: int = 100) -> Result:
    """At which norm to clip: the 95 % quantile over `steps` unclipped updates of a copy after `warmup`, with its interval.

    >>> x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    >>> task = Task(torch.nn.Linear(4, 1), torch.nn.functional.mse_loss, [(x, x.sum(1, keepdim=True))])
    >>> clip_threshold(task).answer["threshold"] > 0
    True
    """
    return catalogue()["clip-threshold"].run(task, batches=steps, warmup=warmup)


def check_determinism(task: Task, *, steps: int = 3) -> Result:
    """Whether two runs from the same state give the same bits; names the first operation that differs.

    >>> x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    >>> task = Task(torch.nn.Linear(4, 1), torch.nn.functional.mse_loss, [(x, x.sum(1, keepdim=True))])
    >>> check_determinism(task).result
    'pass'
    """
    return catalogue()["determinism"].run(task, steps=steps)
