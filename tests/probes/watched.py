"""A small loop, watched: `watched(loop, Contract())` gives the run it leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from traindx.probe import Probe
from traindx.probes.drive.recorder import Recorder
from traindx.probes.drive.sink import MemorySink
from traindx.probes.launch.attach import attach, detach
from traindx.run import Run

torch.set_num_threads(1)  # small loops on a shared machine: threads would only wait for each other


def watched(
    loop: Callable[[], Any],
    *probes: Probe,
    budget: float | None = None,
    seed: int = 0,
    raises: type[BaseException] | None = None,
) -> Run:
    """The run of `loop` as these probes saw it; an error of a probe is an error of the test."""
    torch.manual_seed(seed)
    sink = MemorySink()
    recorder = Recorder(sink, budget=budget, probes=list(probes))
    observer = attach(recorder)
    try:
        loop()
    except BaseException as error:
        if raises is None or not isinstance(error, raises):
            raise
    else:
        assert raises is None, "the loop was expected to raise"
    finally:
        detach(observer)
        recorder.close()
    assert not recorder.failures, recorder.failures[0].traceback
    return sink.run()


def fit(
    model: torch.nn.Module,
    loss: Callable[[Any, Any], Any],
    x: torch.Tensor,
    y: torch.Tensor,
    steps: int = 6,
    batch: int = 16,
    lr: float = 0.01,
    params: Any = None,
) -> None:
    """A plain training loop over slices of x and y."""
    optimizer = torch.optim.SGD(model.parameters() if params is None else params, lr=lr)
    for i in range(steps):
        at = slice(i * batch % len(x), i * batch % len(x) + batch)
        optimizer.zero_grad()
        loss(model(x[at]), y[at]).backward()
        optimizer.step()
