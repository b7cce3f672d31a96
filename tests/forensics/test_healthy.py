"""Benign infinities give no finding, and runs that go NaN stay what they are."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.forensics.faults import FAULTS, HEAD, net
from tests.forensics.healthy import HEALTHY

from traindx.diagnosis import diagnose
from traindx.probes.drive.recorder import every_probe
from traindx.settings import Settings

Observed = Callable[..., Any]
BY_HAND = """
import torch
w = torch.randn(4, requires_grad=True); opt = torch.optim.SGD([w], lr=0.1)
for step in range(3):
    loss = torch.log(w * 0).sum()
    loss.backward(); opt.step()
"""
NUMERICS = Settings(select=("NUMR",))


@pytest.mark.parametrize("name", HEALTHY, ids=lambda name: name.replace(" ", "-"))
def test_benign_infinities_give_no_finding(name: str, observed: Observed) -> None:
    run = observed(HEALTHY[name], probes=every_probe()[0]).sink.run()
    assert len(run.series("loss/train")) == 3
    assert run.fact("origin") is None
    assert [f.code for f in diagnose(run, NUMERICS).findings] == []


def test_the_finding_names_the_operation_and_the_line(observed: Observed) -> None:
    run = observed(net("return torch.log(torch.relu(h))")).sink.run()
    finding = next(f for f in diagnose(run, NUMERICS).findings if f.code == "NUMR001")
    assert "log at" in finding.message
    assert "program.py:" in finding.message


@pytest.mark.parametrize(
    "name", ["log of zero", "root at zero", "log of softmax", "a NaN in the data", "half precision overflow"]
)
def test_a_run_that_goes_nan_is_bit_identical(name: str, observed: Observed, tmp_path: Any) -> None:
    text = next(f.text for f in FAULTS if f.name == name)
    seen: list[Any] = []
    tail = "\nkeep([loss.detach().clone(), *[p.detach().clone() for p in net.parameters()], torch.get_rng_state()])\n"
    observed(text + tail, keep=seen.append)
    (tmp_path / "bare.py").write_text(text + tail)
    import runpy

    runpy.run_path(str(tmp_path / "bare.py"), init_globals={"keep": seen.append})
    watched, bare = seen
    assert all(torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0)) for a, b in zip(watched, bare, strict=True))


def test_inputs_are_let_go_when_the_step_ends(observed: Observed) -> None:
    text = HEAD + (
        "net = nn.Linear(6, 4); opt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for step in range(30):\n"
        "    x = torch.randn(8, 6)\n"
        "    loss = net(x).square().mean()\n"
        "    loss.backward(); opt.step(); opt.zero_grad()\n"
        "    note(x)\n"
        "    del x, loss\n"
        "    check()\n"
    )
    alive: list[weakref.ref[Any]] = []
    worst: list[int] = []

    def check() -> None:
        gc.collect()
        worst.append(sum(r() is not None for r in alive))

    observed(text, note=lambda x: alive.append(weakref.ref(x)), check=check)
    assert max(worst) == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (net("return torch.log(torch.relu(self.body(x.clone())))", "loss = out.mean()\nx += 1.0"), "changed in place"),
        (net("return torch.log(torch.relu(h)) * TWICE.pop()", before="TWICE.append(1.0)"), "IndexError"),
        (BY_HAND, "no forward of a module"),
    ],
    ids=["input-changed", "state-of-its-own", "no-module"],
)  # fmt: skip
def test_when_the_step_cannot_be_made_again_it_says_why(text: str, why: str, observed: Observed) -> None:
    run = observed(text, TWICE=[]).sink.run()
    assert why in run.fact("replay.failed")
    assert not (run.fact("origin") or {}).get("proven")
