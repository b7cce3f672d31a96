"""An in-place change of what backward needs is explained with both lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.forensics.faults import net

from traindx.diagnosis import diagnose
from traindx.settings import Settings

PROGRAMS = {
    "added to": net("s = torch.sigmoid(h)  # saved\ns += 1.0  # changed\nreturn s"),
    "relu in place": net("e = torch.exp(h)  # saved\nreturn F.relu(e - 0, inplace=True) + F.relu_(e)  # changed"),
    "written into, in the loop": net("return h", "p = out.tanh()  # saved\np[:, 0] = 0.0  # changed\nloss = p.mean()"),
}


@pytest.mark.parametrize("name", PROGRAMS, ids=lambda name: name.replace(" ", "-").replace(",", ""))
def test_both_lines_are_named(name: str, observed: Callable[..., Any]) -> None:
    lines = PROGRAMS[name].splitlines()
    saved, changed = (next(i for i, t in enumerate(lines, 1) if f"# {mark}" in t) for mark in ("saved", "changed"))
    recorders: list[Any] = []
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        observed(PROGRAMS[name], recorders=recorders)
    run = recorders[0].sink.run()
    (event,) = run.events_of("inplace_error")
    assert event.data["forward"].endswith(f"program.py:{saved}")
    assert event.data["inplace"].endswith(f"program.py:{changed}")
    finding = next(f for f in diagnose(run, Settings(select=("NUMR010",))).findings if f.code == "NUMR010")
    assert "was changed in place at" in finding.message
