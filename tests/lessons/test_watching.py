"""The all-in-one debugger of the lessons: alerts, skipped steps, periodic lines, a summary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import traindx
from traindx.errors import UsageError

BAD = (60, 61, 120)


def trained(
    folder: Path,
    steps: int = 150,
    clip: float | None = None,
    spoil: Callable[[int, torch.Tensor], None] | None = None,
    **how: Any,
) -> tuple[Any, list[float]]:
    """A watched loop and, in plain torch, the gradient norm of every step before clipping."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    rule = torch.randn(8, 3)
    norms = []
    with traindx.watch(model, optimizer, dir=folder, replay=False, **how) as dx:
        for step in range(steps):
            x = torch.randn(64, 8)
            y = (x @ rule).argmax(1)
            if spoil is not None:
                spoil(step, x)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            norms.append(float(nn.utils.get_total_norm([p.grad for p in model.parameters()])))
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
    assert how.get("skip_nonfinite") is None or all(bool(torch.isfinite(p).all()) for p in model.parameters())
    return dx, norms


def large(step: int, x: torch.Tensor) -> None:
    if step in (40, 41, 90):
        x.mul_(300)


def hole(step: int, x: torch.Tensor) -> None:
    if step in BAD:
        x[0, 0] = float("nan")


@pytest.mark.parametrize("clip", [None, 0.5])
def test_a_line_and_an_event_at_each_crossing_of_the_limit(
    clip: float | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dx, norms = trained(tmp_path, spoil=large, clip=clip, alert_grad_norm=20.0)
    crossings = [i for i, n in enumerate(norms) if n > 20 and (i == 0 or norms[i - 1] <= 20)]
    assert len(crossings) >= 2 and len([n for n in norms if n > 20]) > len(crossings)
    events = dx.run().events_of("grad_alert")
    assert [e.step for e in events] == crossings
    assert [e.data["norm"] for e in events] == pytest.approx([norms[i] for i in crossings], rel=1e-4)
    said = [line for line in capsys.readouterr().err.splitlines() if "is above 20" in line]
    assert len(said) == len(crossings) and f"step {crossings[0]}:" in said[0]
    kept = dx.run().series("grad_norm")
    assert len(kept) == len(norms)  # at every step, whatever the budget


def test_a_healthy_run_crosses_nothing_and_nan_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dx, _ = trained(tmp_path / "calm", steps=60, alert_grad_norm=20.0)
    assert not dx.run().events_of("grad_alert") and "gradient norm" not in capsys.readouterr().err
    trained(tmp_path / "hole", steps=70, spoil=hole, alert_grad_norm=20.0, skip_nonfinite=True)
    assert "step 60: the gradient norm is nan" in capsys.readouterr().err
    with pytest.raises(UsageError, match="above zero"):
        traindx.watch(nn.Linear(1, 1), alert_grad_norm=0.0)


def test_skipped_updates_are_counted_right_and_clean_weights_are_not_thrown_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dx, _ = trained(tmp_path, steps=200, spoil=hole, skip_nonfinite=True, log_every=50)
    assert [e.step for e in dx.run().events_of("skip_guard")] == list(BAD)
    s = dx.summary()
    assert s.skipped_updates == s.nonfinite_steps == 3 and "3 updates skipped" in str(s)
    d = dx.diagnosis
    told = str(d)
    assert "have to be repeated" not in told and "3 updates were skipped and the weights are clean" in d.verdict_.waiting
    (data,) = [f for f in d.findings if f.code == "DATA001"]
    assert data.message.startswith("NaN or infinite values in 3 batches, first at step 60") and data.variant == "guarded"
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("traindx: step")]
    assert (
        len(lines) == 4
        and " nan" not in "".join(lines)
        and "infinite losses: 2" in lines[1]
        and "infinite losses: 1" in lines[2]
    )


def test_without_the_guard_the_same_run_must_be_repeated(tmp_path: Path) -> None:
    dx, _ = trained(tmp_path, steps=150, spoil=hole)
    assert "have to be repeated" in dx.diagnosis.verdict_.waiting


def test_the_summary_has_the_numbers_of_the_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dx, norms = trained(tmp_path, clip=0.2, alert_grad_norm=1e6, log_every=75)
    s = dx.summary()
    assert s.clip_frequency == pytest.approx(
        sum(n > 0.2 for n in norms) / len(norms), abs=0.005
    ) and s.clip_threshold == pytest.approx(0.2)
    assert s.steps == 150 and s.min_loss <= s.final_loss < s.first_loss and s.nonfinite_steps == 0
    assert s.mean_grad_norm == pytest.approx(sum(norms) / len(norms), rel=0.02)
    assert s.largest_gradients[0].split()[0] in ("0.weight", "2.weight") and "largest gradients" in str(s)
    assert "[CLIPPED]" in capsys.readouterr().err
