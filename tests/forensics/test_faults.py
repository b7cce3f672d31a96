"""Planted faults are named: operation, phase, module, line and who is to blame."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forensics.faults import FAULTS, Fault
from tests.forensics.unseen import UNSEEN, WITHOUT_A_MODULE

from traindx.forensics.trace import Operand, Origin, _roots


@pytest.mark.parametrize("fault", FAULTS + UNSEEN, ids=lambda fault: fault.name.replace(" ", "-").replace(",", ""))
def test_the_operation_the_module_and_the_line_are_named(fault: Fault, observed: Callable[..., Any], tmp_path: Path) -> None:
    run = observed(fault.text).sink.run()
    assert run.fact("replay.failed") is None
    origin = run.fact("origin")
    assert origin is not None
    assert origin["op"] in fault.ops
    assert (origin["phase"], origin["module"]) == (fault.phase, fault.module)
    assert (Path(origin["file"]).name, origin["line"]) == ("program.py", fault.line)
    assert origin["proven"]
    assert origin["blame"] == fault.blame
    if fault.sample is not None:
        assert origin["sample"] == fault.sample


def test_a_loss_that_no_module_led_to_is_not_replayed_and_the_reason_is_said(observed: Callable[..., Any]) -> None:
    run = observed(WITHOUT_A_MODULE).sink.run()
    assert "no forward of a module" in run.fact("replay.failed")
    assert run.events_of("nonfinite")


def test_what_made_an_infinity_is_blamed_and_not_what_it_reached() -> None:
    def origin(call: int, value: str, high: float) -> Origin:
        seen = Operand((6, 3), "float16", 0.0, high, 0.0)
        return Origin("op", "op", "forward", "", "", 0, "", "", (seen,), (), value, (0,), 1, 18, call, "float16")

    inf = float("inf")
    assert _roots(frozenset({2}), [origin(1, "inf", 9.0), origin(2, "nan", inf)]) == {1}
    assert _roots(frozenset({2}), [origin(1, "-inf", 9.0), origin(2, "nan", 0.0)]) == {2}  # a mask, and a row without an entry
    assert _roots(frozenset({2}), [origin(2, "nan", inf)]) == {2}


def test_there_are_at_least_forty_of_them() -> None:
    assert len(FAULTS) >= 40
    assert sum(f.phase == "backward" for f in FAULTS) >= 8
