"""What the trials say about healthy tasks and planted faults."""

from __future__ import annotations

import copy
import itertools
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from traindx.finding import Confidence, Finding, Outcome, Severity, Status
from traindx.run import Run
from traindx.trial import catalogue
from traindx.trials.check import LISTS, QUESTIONS, _by_rules, check
from traindx.trials.curvature import differenced, eigenvalues, hessian_vector, product_of
from traindx.trials.fork import Comparison, compare_arms
from traindx.trials.forks import scaled_lr
from traindx.trials.task import Task
from trials.tasks import HEALTHY, SICK, digits, mlp, task


def run(name: str, on: Task, **limits: object):
    torch.manual_seed(0)
    return catalogue()[name].run(on, **limits)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_task_learns_its_batch(name: str) -> None:
    torch.manual_seed(0)
    found = run("overfit", HEALTHY[name]())
    assert found.result in ("pass", "undecided"), found.reason


@pytest.mark.parametrize("name", SICK)
def test_a_broken_task_does_not(name: str) -> None:
    torch.manual_seed(0)
    found = run("overfit", SICK[name](), steps=150)
    assert found.result == "fail", found.reason


def test_smoothing_sets_the_floor() -> None:
    found = run("overfit", HEALTHY["smoothing"]())
    assert found.answer["floor"] == pytest.approx(0.5003, abs=1e-3)


def test_the_range_test_names_a_rate_that_works_and_refuses_noise() -> None:
    torch.manual_seed(0)
    found = run("lr-range", task(mlp()))
    assert found.result == "done" and 3e-4 < found.answer["start_lr"] < 5e-2
    x, y = digits()
    shuffled = task(mlp(), x=x, y=y[torch.randperm(len(y))])
    assert run("lr-range", shuffled).result == "refused"


def test_labels_that_belong_to_nothing_are_noticed() -> None:
    torch.manual_seed(0)
    assert run("label-info", task(mlp())).result == "pass"
    x, y = digits()
    assert run("label-info", task(mlp(), x=x, y=y[torch.randperm(len(y))])).result != "pass"


def test_mixing_samples_is_noticed_and_plain_nets_are_not_accused() -> None:
    for name in ("mlp", "conv and batch norm", "attention", "log-softmax and nll"):
        assert run("dependency", HEALTHY[name]()).result == "pass"
    assert run("dependency", task(mlp(nn.Softmax(0)))).result == "fail"
    assert run("dependency", SICK["input ignored"]()).result == "fail"


def test_one_step_goes_down() -> None:
    for name in ("mlp", "regression", "binary", "recurrent"):
        assert run("one-step", HEALTHY[name]()).result == "pass"


def test_eval_mode_with_stale_statistics_is_noticed() -> None:
    sick = HEALTHY["conv and batch norm"]()
    for m in sick.model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_var.fill_(400.0)
    assert run("mode-gap", sick).result in ("fail", "pass")
    assert run("mode-gap", HEALTHY["mlp"]()).result == "pass"


def hot(model: nn.Module, times: float = 30.0) -> nn.Module:
    with torch.no_grad():
        model[2].weight.mul_(times)
    return model


def test_a_model_is_measured_with_the_weights_it_was_given() -> None:
    assert run("loss-at-init", task(mlp())).result == "pass"
    assert run("loss-at-init", task(hot(mlp()))).result == "fail"
    item = "the loss at the start is what it must be"
    [given] = [i for i in check(task(hot(mlp())), level="quick").items if i.item == item]
    assert given.result == "fail" and "nats above" in given.message


def test_fresh_weights_are_drawn_when_asked_for_and_that_is_said() -> None:
    found = run("loss-at-init", task(hot(mlp())), fresh=True)
    assert found.result == "pass" and "re-initialised" in found.reason
    item = "the loss at the start is what it must be"
    [anew] = [i for i in check(task(hot(mlp())), level="quick", fresh=True).items if i.item == item]
    assert anew.result == "pass" and "re-initialised" in anew.message


def test_a_batch_is_learned_when_its_loss_nears_the_floor_however_high_it_began() -> None:
    def wild() -> Task:
        torch.manual_seed(0)
        return task(hot(mlp(), 1000.0))

    far = run("overfit", wild(), steps=3, rates=(1e-4,))
    assert far.answer["initial"] > 30 and far.result == "fail", far.reason
    two = run("overfit", wild(), samples=2, steps=2, rates=(1e-4,))
    assert two.answer["final"] > 2.3 and two.result == "fail", two.reason
    assert run("overfit", task(mlp()), samples=2).result == "pass"


@pytest.mark.parametrize("loss", [lambda o, y: -F.cross_entropy(o, y), lambda o, y: -F.mse_loss(o, F.one_hot(y, 10).float())])
def test_a_loss_that_falls_below_every_bound_decides_nothing(loss: object) -> None:
    found = run("overfit", task(mlp(), loss), steps=60)
    assert found.answer["final"] < found.answer["initial"] and found.result == "undecided", found.reason


@pytest.mark.parametrize(
    "loss",
    [
        F.cross_entropy,
        partial(F.cross_entropy, label_smoothing=0.1),
        lambda o, y: F.cross_entropy(o, y),
        lambda o, y: F.nll_loss(F.log_softmax(o, -1), y),
        lambda o, y: 3 * F.cross_entropy(o, y) + 1,
        lambda o, y: F.binary_cross_entropy_with_logits(o, F.one_hot(y, 10).float()),
    ],
)
def test_the_floor_is_asked_of_the_loss_itself(loss: object) -> None:
    found = run("overfit", task(mlp(), loss))
    assert found.result == "pass", found.reason


def test_a_function_of_torch_is_checked_like_its_module() -> None:
    def answers(loss: object) -> dict[str, str]:
        torch.manual_seed(0)
        return {i.item: i.result for i in check(task(mlp(), loss), level="quick").items}

    assert answers(F.cross_entropy) == answers(nn.CrossEntropyLoss())


def test_the_largest_eigenvalue_is_the_dense_one() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    small = task(nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)), nn.MSELoss(), x, x[:, :1] ** 2)
    batch = small.samples(51)
    with small.twin() as twin:
        twin.model.eval()
        top, bottom, _ = eigenvalues(twin, batch)
        n = sum(p.numel() for p in twin.model.parameters())
        dense = np.stack([hessian_vector(twin, batch, torch.eye(n)[i]).numpy() for i in range(n)])
    values = np.linalg.eigvalsh((dense + dense.T) / 2)
    assert top == pytest.approx(values[-1], rel=0.01)
    assert bottom == pytest.approx(values[0], rel=0.02, abs=1e-4)


def test_differences_of_gradients_stand_in_where_nothing_can_be_differentiated_twice() -> None:
    torch.manual_seed(0)
    plain = HEALTHY["regression"]()
    batch = plain.samples(64)
    with plain.twin() as twin:
        twin.model.eval()
        v = torch.randn(sum(p.numel() for p in twin.model.parameters()))
        exact, near = hessian_vector(twin, batch, v), differenced(twin, batch, v)
        assert product_of(twin, batch) is hessian_vector
    assert float((exact - near).norm() / exact.norm()) < 0.02

    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            return grad * 2

    class Doubling(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Once.apply(x)

    odd = task(mlp(Doubling()))
    found = run("sharpness", odd, samples=32, directions=1, radii=(0.05,))
    assert found.answer["by"] == "differences" and found.answer["lambda_max"] > 0


def test_a_plateau_and_a_saddle_are_told_apart() -> None:
    x = torch.randn(64, 2)

    def at(build: nn.Module) -> Task:
        return task(build, nn.MSELoss(), x, torch.zeros(64, 1) + 1.0)

    class Product(nn.Module):  # (ab - 1)² at a = b = 0: no slope, one way up and one way down
        def __init__(self, a: float) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.full((2,), a))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.w[0] * self.w[1]).expand(len(x), 1)

    class Dead(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.full((2,), -5.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.w.sum()).expand(len(x), 1)

    short = {"samples": 32, "directions": 1, "radii": (0.05,)}
    assert run("sharpness", at(Product(0.0)), **short).answer["saddle"]
    assert run("sharpness", at(Dead()), **short).answer["plateau"]
    far = run("sharpness", at(Product(0.5)), **short).answer
    assert not far["saddle"] and not far["plateau"]


def test_every_line_of_the_checklists_is_asked_by_default() -> None:
    asked = {line for q in QUESTIONS if q.level != "full" for line in q.lists}
    assert asked == {(name, i) for name, lines in LISTS.items() for i in range(1, len(lines) + 1)}


def test_a_fork_against_itself_finds_nothing_and_a_hot_rate_is_seen() -> None:
    torch.manual_seed(0)
    base = task(mlp())
    assert compare_arms(base, lambda twin: None, horizons=(20,)).verdict == "undecided"
    assert compare_arms(base, scaled_lr(1e-3), horizons=(60,)).verdict == "worse"


def test_the_last_crumb_of_an_epoch_does_not_count_for_the_noise_scale() -> None:
    torch.manual_seed(0)
    x, y = digits(33)
    model = mlp()
    even = Task(model, nn.CrossEntropyLoss(), [(x[:16], y[:16]), (x[16:32], y[16:32])])
    crumb = Task(model, nn.CrossEntropyLoss(), [*even.train, (x[32:], y[32:])])
    found = run("noise-scale", crumb, draws=6)
    assert found.result != "refused" and found.answer["batch"] == 16
    assert found.answer == run("noise-scale", even, draws=6).answer


def test_batches_without_labels_are_not_blamed_for_them() -> None:
    torch.manual_seed(0)
    x, noise = torch.randn(8, 16, 6), torch.randn(8, 16, 2)
    single = nn.Sequential(nn.Linear(6, 1))
    one = Task(single, loss=lambda m, b: m(b[0]).square().mean(), train=[(a,) for a in x])
    constant = Task(single, nn.BCEWithLogitsLoss(), [(a, torch.ones(16, 1)) for a in x])
    both = nn.Bilinear(6, 2, 1)
    fed = Task(both, loss=lambda m, b: m(*b).square().mean(), train=list(zip(x, noise, strict=True)), output=lambda m, b: m(*b))
    for on, why in ((one, "one thing"), (constant, "the same"), (fed, "goes into the model")):
        for name in ("label-info", "input-baseline"):
            on.optimizer = torch.optim.SGD(on.model.parameters(), 0.01)
            found = run(name, on)
            assert found.result == "refused" and why in found.reason


def test_an_output_behind_a_detach_is_not_called_deaf() -> None:
    class Judged(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.maker, self.judge = nn.Linear(64, 8), nn.Linear(8, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.judge(self.maker(x).detach())

    found = run("dependency", task(Judged()))
    assert found.result == "undecided" and "detached" in found.reason
    deaf = run("dependency", SICK["input ignored"]())
    assert deaf.result == "fail" and "does not depend on its input" in deaf.reason


def test_a_class_that_is_not_learned_yet_does_not_fail_the_preflight() -> None:
    late = next(q for q in QUESTIONS if "EVAL004" in q.codes)
    said = "class 3: recall 0.0%"
    found = Finding("EVAL004", "slice", Severity.WARNING, Confidence.STRONG, said, (), None, {}, (), "")
    told = _by_rules(late, [Outcome("EVAL004", Status.FOUND, (found,))], None, Run())
    assert told.result == "cannot-tell" and "too early" in told.message and "class 3" in told.message


def test_determinism_names_what_differs() -> None:
    assert run("determinism", HEALTHY["dropout"]()).result == "pass"
    count = iter(range(10**6))

    class Moody(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x) + 1e-3 * next(count)

    found = run("determinism", task(Moody()))
    assert found.result == "fail" and "add" in found.answer["first"]["op"]


def test_the_preflight_passes_a_healthy_task_and_names_a_double_softmax() -> None:
    torch.manual_seed(0)
    good = check(task(mlp()), level="quick")
    assert not good.failed, [(i.item, i.message) for i in good.failed]
    told = {i.item: i for i in good.items}
    assert told["validation is not augmented"].result == "pass"  # the rehearsal looks twice
    assert told["the model trains in train mode"].result == "cannot-tell"  # a factory has no loop of its own
    assert "ten points, 3: overfit-one-batch succeeds" in told["the model can memorise one batch"].lists
    assert "Ready to train" in good._repr_html_() and str(good) == repr(good)
    assert "✔ the model can memorise one batch: learned the batch" in str(good) and "Ready to train: " in str(good)
    bad = check(SICK["softmax into cross-entropy"](), level="quick")
    assert any("WIRE006" in i.message for i in bad.failed)


def test_nothing_is_said_about_validation_data_that_is_not_there() -> None:
    torch.manual_seed(0)
    x = torch.randn(128, 5)
    model = nn.Linear(5, 1)
    blind = Task(
        model,
        nn.MSELoss(),
        [(p, p.sum(1, keepdim=True)) for p in x.split(32)],
        optimizer=torch.optim.SGD(model.parameters(), 0.05),
    )
    told = {i.item: i for i in check(blind, level="quick").items}
    for item in (
        "train and validation do not share samples",
        "validation is prepared like training",
        "validation is not augmented",
    ):
        assert told[item].result == "cannot-tell" and told[item].message == "needs validation data"


def test_a_shape_error_is_a_finding() -> None:
    broken = task(nn.Sequential(nn.Linear(64, 60), nn.Linear(50, 10)))
    [first, *rest] = check(broken, level="quick").items
    assert first.result == "fail" and "does not fit" in first.message
    assert {i.result for i in rest} == {"cannot-tell"}


def test_a_base_that_guesses_blames_the_pipeline_and_a_worse_model_its_drift() -> None:
    torch.manual_seed(0)
    trained = task(mlp())
    start = copy.deepcopy(trained.model.state_dict())
    assert run("base-eval", trained).result == "refused"
    for batch in trained.cycle(150):
        trained.optimizer.zero_grad()
        trained.loss_of(trained.model, batch).backward()
        trained.optimizer.step()
    trained.base = start
    assert run("base-eval", trained).result == "pass"
    good = copy.deepcopy(trained.model)
    trained.base = good
    with torch.no_grad():
        for p in trained.model.parameters():
            p.add_(0.5 * torch.randn_like(p))
    found = run("base-eval", trained)
    assert found.result == "fail" and "worse than where it started" in found.reason
    blind = task(mlp())
    blind.base = mlp()
    assert "pipeline" in run("base-eval", blind).reason


def test_a_larger_batch_is_tried_under_both_rules() -> None:
    torch.manual_seed(0)
    found = run("lr-scaling", task(mlp()), times=2, orders=3, horizons=(24,))
    assert found.result in ("done", "fail") and found.answer["law"] in ("linear", "sqrt", "neither")
    assert found.steps == 2 * 2 * 3 * 24 or found.answer["linear"]["verdict"] != "undecided"
    assert ("code" in found.answer) == (found.result == "done")


def test_a_first_batch_without_a_reward_does_not_blame_the_model() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    silent = (torch.randn(8, 4), torch.zeros(8))
    told = (torch.randn(8, 4), torch.randn(8))
    policy = Task(
        model,
        loss=lambda m, b: -(m(b[0]).log_softmax(1)[:, 0] * b[1]).sum(),
        train=[silent, told, silent],
        optimizer=torch.optim.Adam(model.parameters()),
    )
    assert catalogue()["one-step"].run(policy).result == "pass"
    assert "zero" not in catalogue()["overfit"].run(policy, steps=20, samples=8).reason
    unpaid = Task(model, loss=policy.loss, train=[silent] * 3, optimizer=policy.optimizer)
    assert catalogue()["one-step"].run(unpaid).result == "fail"


def test_a_loss_of_several_terms_may_end_above_zero() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 6))
    x = torch.rand(32, 6)

    def loss(m: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        return nn.functional.binary_cross_entropy_with_logits(m(batch), batch) + 0.5

    optimizer = torch.optim.Adam(model.parameters())

    def heavy(m: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        return loss(m, batch) + 0.1 * sum(p.square().sum() for p in m.parameters())

    entropy = float(-(torch.xlogy(x, x) + torch.xlogy(1 - x, 1 - x)).mean())
    found = catalogue()["overfit"].run(Task(model, loss=loss, train=[x], optimizer=optimizer), steps=60)
    assert found.result == "undecided" and found.answer["floor"] == pytest.approx(entropy + 0.5, abs=1e-3)
    found = catalogue()["overfit"].run(Task(model, loss=heavy, train=[x], optimizer=optimizer), steps=60)
    assert found.result == "undecided" and "not known" in found.reason
    soft = Task(model, nn.BCEWithLogitsLoss(), [(x, x)], optimizer=optimizer)
    assert catalogue()["overfit"].run(soft, steps=300, rates=(1e-2,)).answer["floor"] == pytest.approx(entropy, abs=1e-3)
    stuck = Task(
        model, loss=lambda m, b: 0.0 * m(b).sum() + m(b).detach().square().mean() + 2.0, train=[x], optimizer=optimizer
    )
    assert catalogue()["overfit"].run(stuck, steps=20).result == "fail"


def test_dependency_calls_a_model_of_several_inputs_as_its_script_does() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.head = nn.Embedding(9, 4), nn.Linear(10, 2)

        def forward(self, dense: torch.Tensor, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"logits": self.head(torch.cat([dense, self.token(tokens).mean(1)], 1))}

    model = Two()
    batch = (torch.randn(8, 6), torch.randint(9, (8, 3)), torch.randint(2, (8,)), torch.rand(8))

    def loss(m: nn.Module, b: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return (nn.functional.cross_entropy(m(b[0], b[1])["logits"], b[2], reduction="none") * b[3]).mean()

    captured = Task(model, loss=loss, train=[batch] * 3, output=lambda m, b: m(b[0], b[1]))
    assert catalogue()["dependency"].run(captured).result == "pass"


class Races:
    """Which law leads at a horizon, as given; the rest of a comparison is the same."""

    def __init__(self, leads: dict[int, str]) -> None:
        self.leads, self.laws = leads, itertools.cycle(("linear", "sqrt"))

    def __call__(self, task: Task, change: object, *, horizons: tuple[int, ...], **_: object) -> Comparison:
        effect = -0.2 if self.leads[horizons[0]] == next(self.laws) else -0.1
        return Comparison("better", effect, effect, effect, horizons[0], 3, 0, 0, 100, (1.0, 1.0), (0.9, 0.9))


@pytest.mark.parametrize(
    ("leads", "result", "said"),
    [
        ({80: "sqrt", 160: "sqrt"}, "done", "after 160 steps"),
        ({80: "sqrt", 160: "linear", 320: "linear"}, "done", "the linear rule"),
        ({80: "sqrt", 160: "linear", 320: "sqrt"}, "undecided", "turns with the horizon (sqrt at 80 steps, linear at 160"),
    ],
)
def test_a_scaling_rule_is_named_when_a_longer_race_gives_the_same(
    leads: dict[int, str], result: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traindx.trials.scaling.compare_arms", Races(leads))
    found = run("lr-scaling", task(mlp()))
    assert found.result == result and said in found.reason, found.reason


def test_a_fit_that_only_lacks_speed_gets_higher_rates() -> None:
    torch.manual_seed(0)
    x = torch.randn(32, 16)
    far = Task(nn.Linear(16, 1), nn.functional.mse_loss, [(x, 3 * x[:, :1] + 1)])
    found = catalogue()["overfit"].run(far)
    assert found.result != "fail" and found.answer["lr"] > 0.01
    stuck = Task(nn.Sequential(nn.Linear(16, 1), nn.Sigmoid()), nn.functional.mse_loss, [(x, 10 * torch.rand(32, 1))])
    assert catalogue()["overfit"].run(stuck).result == "fail"
