"""Faults that come late, when steps are so short that traindx only glimpses them: the forensics know as much as early on."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forensics.faults import HEAD

from traindx.forensics.arm import arm
from traindx.forensics.witness import Witness
from traindx.probes.attach import attach, detach
from traindx.probes.governor import Governor
from traindx.probes.lane import Lane
from traindx.probes.recorder import Recorder

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
    "backwards, in a loss by hand": (
        program(
            "return self.head(h)", "loss = (out - y).square().mean() + (out * x[:, :4]).square().sum(1).sqrt().mean()  # here"
        ),
        "sqrt",
    ),
}


@pytest.fixture
def glimpsing(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """After 30 steps every step is only glimpsed; gives a list that holds the step of each."""
    glimpsed: list[int] = []
    told = Lane._close

    def close(lane: Lane, optimizer: Any, now: float) -> None:
        glimpsed.append(lane._recorder.scene.step)
        told(lane, optimizer, now)

    monkeypatch.setattr(Lane, "_close", close)
    monkeypatch.setattr(Governor, "full", lambda governor, step: step < 25)
    monkeypatch.setattr(Governor, "owing", property(lambda governor: governor.steps > 30))
    return glimpsed


@pytest.mark.parametrize("name", LATE)
def test_the_line_is_named_on_a_glimpsed_step(name: str, observed: Callable[..., Any], glimpsing: list[int]) -> None:
    text, op = LATE[name]
    run = observed(text, budget=0.01).sink.run()
    assert set(range(40, 70)) <= set(glimpsing)
    assert run.fact("replay.failed") is None
    origin = run.fact("origin")
    assert origin is not None and origin["op"] == op
    assert origin["line"] == next(i for i, line in enumerate(text.splitlines(), 1) if "# here" in line)
    assert origin["proven"]
    assert len(run["loss/train"].steps) == 80


@pytest.mark.parametrize("moment", ["before_forward", "on_forward", "on_call", "on_backward"])
def test_an_error_of_the_witness_on_a_glimpsed_step_is_ours_to_keep(
    moment: str, tmp_path: Path, glimpsing: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = getattr(Witness, moment)

    def breaks(witness: Witness, scene: Any, *args: Any) -> Any:
        if scene.step == 50:
            raise ZeroDivisionError
        return sound(witness, scene, *args)

    monkeypatch.setattr(Witness, moment, breaks)
    file = tmp_path / "program.py"
    file.write_text(program("return self.head(h)"))
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
