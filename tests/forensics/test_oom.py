"""When memory runs out the record says where, what was alive and what to try."""

from __future__ import annotations

import doctest
import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.forensics.faults import HEAD

from traindx.diagnosis import diagnose
from traindx.forensics import leaks, oom
from traindx.probe import Scene
from traindx.settings import Settings

LOOP = """
kept = []
net = nn.Sequential(nn.Linear({width}, {width}), nn.ReLU(), nn.Linear({width}, 4))
opt = torch.optim.{optimizer}(net.parameters())
for step in range(6):
    out = net(torch.randn({batch}, {width}))
    loss = out.square().mean()
    {more}
    opt.zero_grad(); loss.backward(); opt.step()
"""
SHAPES = {
    "activations": {"width": 8, "batch": 1 << 17, "optimizer": "SGD"},
    "state": {"width": 1000, "batch": 2, "optimizer": "Adam"},
}
REAL = "if step == 4: torch.empty(1 << 50)  # here"
CUDA = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.7 GiB"
RAISED = f"if step == 4: raise torch.OutOfMemoryError({CUDA!r})  # here"


def _ends(observed: Callable[..., Any], more: str, shape: str) -> Any:
    recorders: list[Any] = []
    text = HEAD + LOOP.format(more=more, **SHAPES[shape])
    with pytest.raises(BaseException) as caught:
        observed(text, recorders=recorders, fails=True)
    place = next((i for i, line in enumerate(text.splitlines(), 1) if "# here" in line), 0)
    assert oom.ran_out(caught.value)
    caught.value.__traceback__ = None  # its frames hold the program's tensors
    gc.collect()
    return recorders[0].sink.run(), place


def test_the_examples_hold() -> None:
    assert doctest.testmod(oom).failed == 0


@pytest.mark.parametrize("more", [REAL, RAISED, "if step == 4: raise MemoryError  # here"], ids=["real", "cuda", "python"])
def test_the_line_and_what_was_alive_are_told(more: str, observed: Callable[..., Any]) -> None:
    run, place = _ends(observed, more, "activations")
    told = run.fact("memory.oom")
    assert told["where"].endswith(f"program.py:{place}") and told["phase"] == "forward"
    assert max(told["alive"], key=told["alive"].get) == "graph"
    assert run.events_of("oom")
    (finding,) = [f for f in diagnose(run, Settings(select=("PERF003",))).findings if "ran out" in f.message]
    assert f"program.py:{place}" in finding.message and "graph" in finding.message
    if more == REAL:
        assert told["asked"] == 1 << 52 and "larger than all" in told["try"][0]
    else:
        assert "half the micro-batch" in " ".join(told["try"])


def test_weights_and_their_state_are_told_apart_from_activations(observed: Callable[..., Any]) -> None:
    run, _ = _ends(observed, "if step == 4: raise MemoryError  # here", "state")
    told = run.fact("memory.oom")
    assert told["alive"]["optimizer"] == pytest.approx(2 * told["alive"]["parameters"], rel=0.1)
    own = {kind: told["alive"][kind] for kind in ("parameters", "gradients", "optimizer") if kind in told["alive"]}
    assert "optimizer's state" in " ".join(oom.advice({**told, "alive": own, "largest": []}, Scene()))


def test_tensors_that_are_kept_are_named(observed: Callable[..., Any]) -> None:
    run, _ = _ends(observed, "kept.append(torch.zeros(16000, 400))\n    if step == 4: raise MemoryError", "activations")
    told = run.fact("memory.oom")
    assert told["largest"][0]["holder"] == "kept" and "kept in kept" in told["try"][0]
    asked = {**told, "asked": 100 * sum(told["alive"].values())}  # next to that, what is kept is nothing
    assert not any("kept in" in said for said in oom.advice(asked, Scene()))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"), True),
        (OSError(12, "Cannot allocate memory"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_only_errors_of_memory_count(error: BaseException, expected: bool) -> None:
    assert oom.ran_out(error) is expected


def test_what_observes_is_never_blamed(observed: Callable[..., Any]) -> None:
    """The observer keeps references to the batch of a step: its own class is not who holds it."""
    loop = "big = torch.randn(400_000, 8); net(big)\n    if step == 4: raise MemoryError"
    told = _ends(observed, loop, "activations")[0].fact("memory.oom")
    kept = torch.zeros(64)

    class Witness:
        __module__ = "traindx.forensics.witness"

        def __init__(self) -> None:
            self.batch = kept

    ours = Witness()
    assert not (leaks._name_in(vars(ours), kept) or leaks._name_in(ours, kept))
    holders = [str(row.get("holder")) for row in told["largest"]]
    classes = {name for _, name in _classes_of_ours()}
    assert not [h for h in holders if h.partition(".")[0] in classes], holders


def _classes_of_ours() -> set[tuple[str, str]]:
    modules = [m for n, m in list(sys.modules.items()) if n.startswith("traindx.")]
    return {(m.__name__, n) for m in modules for n, v in vars(m).items() if isinstance(v, type) and v.__module__ == m.__name__}


def test_memory_that_ended_the_program_is_critical(observed: Callable[..., Any]) -> None:
    run, _ = _ends(observed, "if step == 4: raise MemoryError  # here", "activations")
    ended = run.with_(facts={**run.facts, "ended": "exception"})
    went_on = run.with_(facts={**run.facts, "ended": "closed"})
    for seen, severity in ((ended, "critical"), (went_on, "warning")):
        [found] = [f for f in diagnose(seen, Settings(select=("PERF003",))).findings if "ran out" in f.message]
        assert found.severity.value == severity
