"""Lines of the user's code: where things are made and called, and which findings point there."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

from probes.watched import watched
from runs import a_run, steady
from traindx import diagnose
from traindx.finding import Evidence
from traindx.probes.read.common import sites
from traindx.report.text import plain
from traindx.rule import catalogue, site


class Slower(torch.optim.SGD):
    def __init__(self, params):
        super().__init__(params, lr=0.1)


def loop():
    model = nn.Linear(3, 1)
    optimizer = Slower(model.parameters())  # made here
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)  # laid out here
    for _ in range(4):
        optimizer.zero_grad()  # cleared here
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
    marks |= {"step": "stepped here", "schedule": "scheduled here", "zero_grad": "cleared here", "forward": "backward here"}
    assert found == {what: f"{__file__}:{line_of(mark)}" for what, mark in marks.items()}


class Rows(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):  # given here
        return torch.full((3,), float(i)), torch.tensor([i % 2.0])


def fed():
    train = DataLoader(Subset(Rows(), range(48)), batch_size=16, shuffle=True)  # fed here
    val = DataLoader(Subset(Rows(), range(48, 64)), batch_size=8)  # validated here
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for _ in range(3):
        model.train()
        for x, y in train:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        model.eval()  # put to sleep here
        with torch.no_grad():
            for x, y in val:
                out = model(x)  # evaluated here
                nn.functional.mse_loss(out, y)


def test_lines_of_loaders_data_sets_and_evaluations_are_facts():
    found = watched(fed).fact("code.sites")
    marks = {"loader": "fed here", "val_loader": "validated here", "dataset": "given here", "evaluate": "evaluated here"}
    marks |= {"eval": "put to sleep here"}
    assert found.items() >= {what: f"{__file__}:{line_of(mark)}" for what, mark in marks.items()}.items()


def test_the_nearest_line_stands_in_for_one_that_is_not_known():
    run = a_run({"loss/train": steady(60, 2.0)}, facts={"code.sites": {"loader": "/home/me/train.py:12"}})
    found = catalogue()["DATA001"]._line(run, Evidence({}, (), None, "nonfinite"))
    assert found == ("/home/me/train.py:12",)
    assert site(a_run({}, facts={"code.sites": {"forward": "/home/me/train.py:9"}}), "dataset") == "/home/me/train.py:9"


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
    assert "at /home/me/train.py:41" in " ".join(plain(diagnose(clipped())).split())
