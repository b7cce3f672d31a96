"""Lines of the user's code: where things are made and called, and which findings point there."""

from __future__ import annotations

import torch
from torch import nn

from probes.watched import watched
from runs import a_run, steady
from traindx import diagnose
from traindx.probes import sites
from traindx.report.text import plain
from traindx.rule import catalogue


class Slower(torch.optim.SGD):
    def __init__(self, params):
        super().__init__(params, lr=0.1)


def loop():
    model = nn.Linear(3, 1)
    optimizer = Slower(model.parameters())  # made here
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)  # laid out here
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 3)).pow(2).mean().backward()  # backward here
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # clipped here
        optimizer.step()  # stepped here
        schedule.step()  # scheduled here


def line_of(mark: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(i for i, text in enumerate(file, 1) if text.rstrip().endswith(f"# {mark}"))


def test_lines_of_the_script_are_facts():
    found = watched(loop).fact("code.sites")
    marks = {"optimizer": "made here", "scheduler": "laid out here", "backward": "backward here", "clip": "clipped here"}
    marks |= {"step": "stepped here", "schedule": "scheduled here"}
    assert found == {what: f"{__file__}:{line_of(mark)}" for what, mark in marks.items()}


def test_a_line_of_a_library_is_none():
    space: dict = {"line": sites.line}
    exec(compile("def call(): return line()", "/usr/lib/python3/site-packages/lib/trainer.py", "exec"), space)
    assert space["call"]().startswith(f"{__file__}:")


def clipped(**facts):
    sites_ = {"clip": "/home/me/train.py:41", "optimizer": "/home/me/train.py:7"}
    norm, limit = steady(600, 5.0), [0.001] * 600
    facts = {"code.sites": sites_, "optimizer.name": "SGD"} | facts
    return a_run({"clip/norm": norm, "clip/threshold": limit, "loss/train": steady(600, 2.0)}, facts=facts)


def test_a_finding_ends_with_the_line_it_is_mended_at():
    found = next(catalogue()["OPTM006"].findings(clipped()))
    assert found.where[-1] == "/home/me/train.py:41"
    assert "train.py" not in found.message


def test_without_known_lines_nothing_is_added():
    found = next(catalogue()["OPTM006"].findings(clipped(**{"code.sites": None})))
    assert not any(".py" in w for w in found.where)


def test_the_line_is_printed():
    assert "at /home/me/train.py:41" in plain(diagnose(clipped()))
