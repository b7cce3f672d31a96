"""What every trial promises: the original is afterwards as it was, to the bit."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from traindx.cli.trial import limits_of
from traindx.errors import TwinLeak, UsageError
from traindx.trial import RESULTS, TrialKind, catalogue
from traindx.trials.rehearsal import rehearse
from traindx.trials.task import Task, fingerprint, stated
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
    "lr-scaling": {"orders": 3, "horizons": (8,)},
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
    limits = SHORT.get(kind.name, {})
    result = kind.run(task, **limits)
    assert fingerprint(task) == before and result.steps <= kind.most(**limits)
    assert result.result in RESULTS and result.reason


@every_trial
def test_has_a_page_and_a_cost(kind: TrialKind) -> None:
    assert kind.summary.endswith((".", "?", ":")) or len(kind.summary) > 20
    limits = SHORT.get(kind.name, {})
    assert kind.steps > 0 and f"at most {kind.most(**limits)} steps" in kind.cost(0.01, 1.0, **limits)


class Interrupted:
    """Ctrl-C at a trial's third breath, or whenever it first says something."""

    def __init__(self) -> None:
        self.told = 0

    def __call__(self, done: int, total: int, what: str) -> None:
        self.told += 1
        if self.told == 3 or done >= total:
            raise KeyboardInterrupt


@every_trial
def test_ctrl_c_in_the_middle_leaves_no_trace(kind: TrialKind) -> None:
    torch.manual_seed(1)
    task = HEALTHY["dropout"]()
    task.batches(2)
    before = fingerprint(task)
    with contextlib.suppress(KeyboardInterrupt):
        kind.run(task, Interrupted(), **SHORT.get(kind.name, {}))
    assert fingerprint(task) == before


def test_what_a_step_takes_is_timed_and_a_step_that_cannot_be_made_is_told() -> None:
    task = HEALTHY["mlp"]()
    said, seconds = stated(catalogue()["overfit"], task, {"steps": 10})
    assert "at most 50 steps" in said and "Ctrl-C" in said and seconds > 0
    before = fingerprint(task)
    assert task.pace()[1] > 0 and fingerprint(task) == before
    task.model = torch.nn.Linear(3, 2)
    with pytest.raises(UsageError, match="not even one step"):
        stated(catalogue()["overfit"], task, {})


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


def test_a_loader_with_a_generator_of_its_own_goes_on_in_its_order() -> None:
    def order(tried: bool) -> list[int]:
        ids = TensorDataset(torch.arange(40.0)[:, None], torch.arange(40.0)[:, None])
        loader = DataLoader(ids, 8, shuffle=True, generator=torch.Generator().manual_seed(3))
        model = torch.nn.Linear(1, 1)
        task = Task(model, torch.nn.functional.mse_loss, loader, optimizer=torch.optim.SGD(model.parameters(), 1e-6))
        if tried:
            for name in ("one-step", "cached-batch", "determinism"):
                catalogue()[name].run(task, **SHORT.get(name, {}))
            rehearse(task, 8)
        return [int(v) for x, _ in loader for v in x[:, 0]]

    assert order(tried=True) == order(tried=False)


def test_an_iterator_is_never_used_up() -> None:
    task = HEALTHY["mlp"]()
    task.train = iter([1, 2, 3])
    with pytest.raises(UsageError, match="use up"):
        task.batches(1)
    assert next(task.train) == 1


@pytest.mark.parametrize("word", ["True", "true", "yes", "on", "1"])
def test_a_yes_or_no_is_read_as_people_write_it(word: str) -> None:
    no = {"True": "False", "true": "false", "yes": "no", "on": "Off", "1": "0"}[word]
    make = catalogue()["loss-at-init"].make
    assert limits_of(make, (f"fresh={word}",)) == {"fresh": True} and limits_of(make, (f"fresh={no}",)) == {"fresh": False}


@pytest.mark.parametrize("pair", ["fresh=perhaps", "batches=many", "batches=2.5"])
def test_a_limit_of_the_wrong_kind_is_refused(pair: str) -> None:
    with pytest.raises(UsageError, match=pair.partition("=")[0]):
        limits_of(catalogue()["loss-at-init"].make, (pair,))
