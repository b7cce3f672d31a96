"""The diagnosis grows with the layers, not with their square or cube (S5)."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from runs import learning
from traindx import signals
from traindx.diagnosis import diagnose
from traindx.report import text
from traindx.run import Run

STEPS = 40


def deep(layers: int) -> Run:
    """What an observed run of so many layers says of itself."""
    names = [f"body.{i}.fc" for i in range(layers)]
    weights = [f"{n}.weight" for n in names]
    rng = np.random.default_rng(0)
    tables = {}
    for name in signals.SIGNALS:
        of = {"param": weights, "module": names}.get(name.rpartition("/")[2], [])
        if of:
            tables[name] = dict(zip(of, 0.01 * np.exp(rng.normal(size=(layers, STEPS)))))
    outline = [{"name": "body", "class": "ModuleList", "params": 20 * layers, "order": None}]
    outline += [{"name": f"body.{i}", "class": "Block", "params": 20, "order": 2 * i} for i in range(layers)]
    outline += [{"name": n, "class": "Linear", "params": 20, "order": 2 * i + 1} for i, n in enumerate(names)]
    facts = {
        "model.outline": outline,
        "model.param_shapes": {w: [4, 4] for w in weights},
        "model.param_dtypes": dict.fromkeys(weights, "float32"),
        "model.params": 16 * layers,
        "model.init_gain": dict.fromkeys(weights, 9.0),
        "optimizer.name": "Adam",
        "ended": "closed",
    }
    return Run.of({"loss/train": learning(STEPS), "lr": [0.1] * STEPS, **tables}, facts=facts, kind="record")


@contextmanager
def counted() -> Iterator[list[int]]:
    """Lines of Python that were run: no clock of a busy machine."""
    count = [0]

    def line(frame: FrameType, event: str, arg: Any) -> Any:
        count[0] += event == "line"
        return line

    sys.settrace(line)
    try:
        yield count
    finally:
        sys.settrace(None)


def test_four_times_the_layers_take_at_most_about_four_times_the_work() -> None:
    text.plain(diagnose(deep(20)))  # what is imported and kept once
    work = []
    for layers in (60, 240):
        run = deep(layers)
        with counted() as count:
            text.plain(diagnose(run))
        work.append(count[0])
    assert work[1] < 6 * work[0], work


TRAIN = """
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad(); model(torch.ones(1, 2)).sum().backward(); optimizer.step()
raise SystemExit(7)
"""
SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts its background jobs with Ctrl-C ignored
from traindx import diagnosis
from traindx.cli import main
def waits(*_):
    print("at work", file=sys.stderr, flush=True)
    time.sleep(1000)
diagnosis.diagnose = waits
main(["run", "--no-live", "--dir", "r", "train.py"])
"""


def test_a_diagnosis_that_takes_long_says_so_and_is_skipped_by_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    with subprocess.Popen([sys.executable, "-c", SLOW], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        said: list[str] = []
        while not all(any(word in line for line in said) for word in ("working out", "at work")):  # in either order
            said.append(child.stderr.readline())
            assert said[-1], said
        child.send_signal(signal.SIGINT)
        said += child.stderr.readlines()
        assert child.wait(120) == 7, said
