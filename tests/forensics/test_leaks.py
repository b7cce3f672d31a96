"""Graphs that are kept from step to step are counted, and the line that keeps them is named; buffers are left alone."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from tests.forensics.faults import HEAD

from traindx.diagnosis import diagnose
from traindx.settings import Settings

LOOP = """
from collections import deque
net = nn.Linear(6, 4); opt = torch.optim.Adam(net.parameters())
{before}
for step in range(170):
    out = net(torch.randn(8, 6))
    loss = out.square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
    {keep}
"""
OWNER = "class Meter:\n    pass\nmeter = Meter(); meter.total = 0.0; meter.losses = []"
LEAKS = {
    "a running total": ("total = 0.0", "total += loss"),
    "a total written out": ("total = 0.0", "total = total + loss"),
    "a list of losses": ("losses = []", "losses.append(loss)"),
    "a table of outputs": ("seen = {}", "seen[step] = out"),
    "an attribute": (OWNER, "meter.total = meter.total + loss"),
    "a list of an object": (OWNER, "meter.losses.append(loss)"),
    "pairs in a list": ("rows = []", "rows.append((step, loss))"),
    "a hook": ("acts = []\ndef hook(m, i, o):\n    acts.append(o)  # here\nnet.register_forward_hook(hook)", "pass"),
}
FINE = {
    "a replay buffer": ("buffer = deque(maxlen=50)", "buffer.append(out.detach())"),
    "numbers": ("losses = []", "losses.append(loss.item())"),
    "a cache that fills up": ("cache = {}", "cache[step % 16] = out"),
    "lazy state": ("pass", "pass"),
    "an epoch's worth of losses": ("losses = []", "losses = losses + [loss] if step % 25 else []"),
}


FUNCTION = """
def main():
    net = nn.Linear(6, 4); opt = torch.optim.Adam(net.parameters())
    {before}
    for step in range(170):
        out = net(torch.randn(8, 6))
        loss = out.square().mean()
        opt.zero_grad(); loss.backward(); opt.step()
        {keep}  # here
main()
"""


@pytest.mark.parametrize(("before", "keep"), [("total = 0.0", "total = total + loss"), ("losses = []", "losses.append(loss)")])
def test_a_leak_into_a_local_variable_is_named_even_in_a_short_run_with_a_small_budget(
    before: str, keep: str, observed: Callable[..., Any]
) -> None:
    text = HEAD + FUNCTION.format(before=before, keep=keep)
    place = next(i for i, line in enumerate(text.splitlines(), 1) if "# here" in line)
    gc.collect()
    run = observed(text, probes=[], budget=0.01).sink.run()
    (row,) = run.fact("memory.growth")
    assert row["line"].endswith(f"program.py:{place}")
    (finding,) = diagnose(run, Settings(select=("PERF002",))).findings
    assert f"program.py:{place}" in finding.message


def _run(observed: Callable[..., Any], before: str, keep: str) -> tuple[Any, str]:
    text = HEAD + LOOP.format(before=before, keep=keep if "# here" in before else f"{keep}  # here")
    place = next(i for i, line in enumerate(text.splitlines(), 1) if "# here" in line)
    gc.collect()  # what earlier programs left in cycles
    return observed(text, probes=[]).sink.run(), f"program.py:{place}"


@pytest.mark.parametrize("name", LEAKS, ids=lambda name: name.replace(" ", "-"))
def test_a_leak_is_named_with_its_line(name: str, observed: Callable[..., Any]) -> None:
    run, place = _run(observed, *LEAKS[name])
    (row,) = run.fact("memory.growth")
    assert row["line"].endswith(place)
    assert row["per_step"] >= 1
    (finding,) = diagnose(run, Settings(select=("PERF002",))).findings
    assert place in finding.message


@pytest.mark.parametrize("name", FINE, ids=lambda name: name.replace(" ", "-"))
def test_what_is_kept_on_purpose_is_no_leak(name: str, observed: Callable[..., Any]) -> None:
    run, _ = _run(observed, *FINE[name])
    assert run.fact("memory.growth") is None
    assert list(diagnose(run, Settings(select=("PERF002",))).findings) == []
