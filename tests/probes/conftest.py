"""What the tests of observation share."""

from __future__ import annotations

import random
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from traindx.probes.drive.patches import PATCHES
from traindx.probes.drive.recorder import Recorder
from traindx.probes.hear.users_line import UNSEEN
from traindx.probes.launch.attach import attach, detach
from traindx.run import Run

torch.set_num_threads(1)


class Seen:
    """A recorder under observation, and what it recorded."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    @property
    def run(self) -> Run:
        if not self.recorder._closed:
            self.recorder.flush()
        return self.recorder.sink.run()

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [dict(e.data) for e in self.run.events_of(kind)]


@contextmanager
def observing(**options: Any) -> Iterator[Seen]:
    """Observe what happens inside, in memory; fails when a probe failed."""
    options.setdefault("budget", None)
    recorder = Recorder(**options)
    observer = attach(recorder)
    try:
        yield Seen(recorder)
    finally:
        detach(observer)
        recorder.close()
    assert not recorder.failures, [(f.probe, f.moment, f.error, f.traceback) for f in recorder.failures]


@pytest.fixture
def observe() -> Callable[..., Any]:
    return observing


def patched_names() -> list[str]:
    """Everything of torch that is a wrapper of ours at the moment."""
    utils, data = torch.nn.utils, torch.utils.data
    owners = [torch, torch.Tensor, torch.nn.functional, torch.nn.Module, torch.nn.Sequential, torch.nn.Linear, torch.autograd]
    owners += [
        torch.optim.Optimizer,
        torch.optim.lr_scheduler.LRScheduler,
        utils,
        utils.clip_grad,
        torch.jit,
        torch.amp.GradScaler,
    ]
    owners += [data.DataLoader, data.dataloader._BaseDataLoaderIter, random]
    found = [(o.__name__, k, v) for o in owners for k, v in list(vars(o).items()) if type(v) is types.FunctionType]
    return [f"{o}.{k}" for o, k, v in found if v.__code__.co_filename == UNSEEN]


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    yield
    assert patched_names() == []
    assert PATCHES.observers == ()
    assert PATCHES._patches == []
