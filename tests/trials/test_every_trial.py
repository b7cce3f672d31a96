"""What every trial promises: the original is afterwards as it was, to the bit."""

from __future__ import annotations

import pytest
import torch

from traindx.errors import TwinLeak, UsageError
from traindx.trial import RESULTS, TrialKind, catalogue
from traindx.trials.twin import fingerprint
from trials.tasks import HEALTHY

TRIALS = list(catalogue().values())
SHORT = {
    "overfit": {"steps": 20, "rates": (1e-2,)},
    "lr-range": {"steps": 40},
    "lr-tenth": {"orders": 3, "horizons": (5,)},
    "clip": {"orders": 3, "horizons": (5,)},
    "fix": {"change": {"lr": 0.1}, "orders": 3, "horizons": (5,)},
    "regularisers-off": {"orders": 3, "horizons": (5,)},
    "clip-threshold": {"batches": 30},
    "anneal": {"steps": 10, "orders": 2},
    "input-baseline": {"steps": 5, "orders": 2},
    "label-info": {"batches": 4, "permutations": 4},
    "noise-scale": {"draws": 4},
    "sharpness": {"samples": 64, "directions": 2, "radii": (0.05,)},
    "landscape": {"points": 3, "samples": 64},
    "cached-batch": {"steps": 4},
}
every_trial = pytest.mark.parametrize("kind", TRIALS, ids=[t.name for t in TRIALS])


QUICK = ("dropout", "conv and batch norm", "dict batches")
TASKS = [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in HEALTHY]  # all twelve in the long suite


@every_trial
@pytest.mark.parametrize("name", TASKS)
def test_leaves_no_trace(kind: TrialKind, name: str) -> None:
    torch.manual_seed(1)
    task = HEALTHY[name]()
    task.model.train()
    loss = task.loss_of(task.model, task.batches(1)[0])
    loss.backward()
    assert task.optimizer is not None
    task.optimizer.step()  # moments and gradients are there to be disturbed
    before = fingerprint(task)
    result = kind.run(task, **SHORT.get(kind.name, {}))
    assert fingerprint(task) == before
    assert result.result in RESULTS and result.reason


@every_trial
def test_has_a_page_and_a_cost(kind: TrialKind) -> None:
    assert kind.summary.endswith((".", "?", ":")) or len(kind.summary) > 20
    assert kind.steps > 0


def test_a_leak_is_loud() -> None:
    task = HEALTHY["mlp"]()
    with pytest.raises(TwinLeak, match="weights"), task.twin(), torch.no_grad():
        next(task.model.parameters()).add_(1.0)


def test_random_numbers_drawn_inside_do_not_show_outside() -> None:
    task = HEALTHY["mlp"]()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with task.twin():
        torch.rand(100)
    assert torch.equal(torch.rand(3), expected)


def test_an_iterator_is_never_used_up() -> None:
    task = HEALTHY["mlp"]()
    task.train = iter([1, 2, 3])
    with pytest.raises(UsageError, match="use up"):
        task.batches(1)
    assert next(task.train) == 1
