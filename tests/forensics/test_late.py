"""Faults that come late, on steps that are skipped: the forensics know as much as early on."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forensics.faults import HEAD

from traindx.forensics.arm import arm
from traindx.forensics.witness import Witness
from traindx.probes.drive.plan import Plan
from traindx.probes.drive.recorder import Recorder
from traindx.probes.follow.skipped import Skip
from traindx.probes.launch.attach import attach, detach

LOOP = """
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
x, y = torch.rand(8, 6), torch.rand(8, 4)
for step in range(80):
    if step == 70:
        x = torch.zeros(8, 6); x[3] = {bad}
    out = net(x)
    {loss}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
MODULE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 4, bias=False), nn.Linear(4, 4)
        self.drop = nn.Dropout({drop})
    def forward(self, x):
        h = self.drop(self.body(x))
        {forward}
net = Net()
"""


def program(forward: str, loss: str = "loss = F.mse_loss(out, y)", bad: str = "0.0", drop: str = "0.0") -> str:
    return HEAD + MODULE.format(forward=forward, drop=drop) + LOOP.format(loss=loss, bad=bad)


LATE = {
    "a loss by hand": (program("return self.head(h)", "loss = -(y * torch.log(out * 0 + x[:, :4])).mean()  # here"), "log"),
    "in the model": (program("return self.head(h) + 0 * torch.log(x[:, :4])  # here"), "log"),
    "with random numbers": (program("return self.head(h) + 0 * torch.log(x[:, :4])  # here", drop="0.2"), "log"),
    "only backwards": (program("return self.head(h) + 0 * h.norm(dim=1, keepdim=True).square().sqrt()  # here"), "sqrt"),
    "an index that is a range": (
        program("return self.head(h)", "loss = -torch.log((out.softmax(1) * 0 + x[:, :4])[range(8), 1]).mean()  # here"),
        "log",
    ),
    "an index that counts": (
        program("return self.head(h)", "loss = torch.log((out * 0 + x[:, :4])[torch.arange(len(x)), 0]).sum()  # here"),
        "log",
    ),
    "ones made on the way": (
        program("return self.head(h)", "loss = -(torch.ones(8, 1) * torch.log(out * 0 + x[:, :4])).mean()  # here"),
        "log",
    ),
    "backwards, in a loss by hand": (
        program(
            "return self.head(h)", "loss = (out - y).square().mean() + (out * x[:, :4]).square().sum(1).sqrt().mean()  # here"
        ),
        "sqrt",
    ),
}


@pytest.fixture
def skipping(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """After 30 steps every step is skipped; gives a list that holds the step of each."""
    skipped: list[int] = []
    told = Skip.stepped

    def stepped(skip: Skip, optimizer: Any, now: float) -> None:
        skipped.append(skip._recorder.scene.step)
        told(skip, optimizer, now)

    monkeypatch.setattr(Skip, "stepped", stepped)
    monkeypatch.setattr(Plan, "full", lambda plan, step: step < 25)
    monkeypatch.setattr(Plan, "skips", lambda plan, step: step > 30)
    return skipped


@pytest.mark.parametrize("name", LATE)
def test_the_line_is_named_on_a_skipped_step(name: str, observed: Callable[..., Any], skipping: list[int]) -> None:
    text, op = LATE[name]
    run = observed(text, budget=0.01).sink.run()
    assert set(range(40, 70)) <= set(skipping)
    assert run.fact("replay.failed") is None
    origin = run.fact("origin")
    assert origin is not None and origin["op"] == op
    assert origin["line"] == next(i for i, line in enumerate(text.splitlines(), 1) if "# here" in line)
    assert origin["proven"]
    assert len(run["loss/train"].steps) == 80


@pytest.mark.parametrize("moment", ["versions", "recall"])
def test_an_error_of_the_witness_on_a_skipped_step_is_ours_to_keep(
    moment: str, tmp_path: Path, skipping: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = getattr(Witness, moment)

    def breaks(witness: Witness, *args: Any) -> Any:
        if recorder.scene.step == 50:
            raise ZeroDivisionError
        return sound(witness, *args)

    monkeypatch.setattr(Witness, moment, breaks)
    file = tmp_path / "program.py"
    spike = "\n    if step == 50: loss = loss * 1e6" if moment == "recall" else ""
    text = program("return self.head(h)", "loss = F.mse_loss(out, y)" + spike)
    file.write_text(text.replace("net(x)", "net(x=x)") if moment == "versions" else text)
    recorder = Recorder(budget=0.01, probes=[])
    arm(recorder)
    observer = attach(recorder)
    try:
        runpy.run_path(str(file))  # the program itself hears nothing of it
    finally:
        detach(observer)
        recorder.close()
    assert {f.error for f in recorder.failures} == {"ZeroDivisionError: "}
    assert len(recorder.sink.run()["loss/train"].steps) == 80


def test_what_waits_to_be_told_is_let_go_when_the_step_ends(observed: Callable[..., Any], skipping: list[int]) -> None:
    text = program("return self.head(h)").replace(
        "    opt.step()",
        "    import weakref\n    last = weakref.ref(out)\n    opt.step()\n    del out, loss\n    assert last() is None, step",
    )
    run = observed(text, budget=0.01).sink.run()
    assert set(range(40, 80)) <= set(skipping)
    assert run["loss/train"].steps.tolist() == list(range(80))
    assert len(run["time/traindx"].steps) == 80


def test_a_second_backward_of_a_skipped_step_is_told_at_length(observed: Callable[..., Any], skipping: list[int]) -> None:
    text = program("return self.head(h)").replace(
        "    opt.step()", "    if step == 50:\n        F.mse_loss(net(x), y).backward()\n    opt.step()"
    )
    run = observed(text, budget=0.01).sink.run()
    assert 49 in skipping and 50 not in skipping
    backwards = run.series("loop/backwards")
    assert dict(zip(backwards.steps.tolist(), backwards.values.tolist(), strict=True))[50] == 2


NEW_WAYS = {
    "loss = torch.log(loss * 0 - 1)": "log",
    "loss = (loss * 0 - 1).sqrt() + 1": "sqrt",
    "loss = loss / (loss * 0)": "div",
    "loss = loss / 0.0": "div",
    "loss = 2 * (loss * 0).log()": "log",
    "loss = loss * float('nan')": "mul",
    "loss = torch.exp(loss * 0 + 1000) - 1": "exp",
}


@pytest.mark.parametrize("way", NEW_WAYS)
def test_a_loss_that_goes_a_new_way_on_a_skipped_step_is_told_by_its_graph(
    way: str, observed: Callable[..., Any], skipping: list[int]
) -> None:
    """What was learnt of other steps is not believed of this one."""
    loss = f"loss = F.mse_loss(out, y)\n    if step == 70: {way}"
    origin = observed(program("return self.head(h)", loss, bad="1.0"), budget=0.01).sink.run().fact("origin")
    assert 69 in skipping and (origin["op"], origin["line"], origin["place"], origin["proven"]) == (
        NEW_WAYS[way],
        0,
        "loss",
        False,
    )
