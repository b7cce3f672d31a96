"""What is an evaluation and what is not; where one training ends and another begins."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from probes.conftest import observing
from probes.watched import watched
from traindx.probes.drive.patches import PATCHES
from traindx.probes.follow.models import SEARCH_STEPS
from traindx.probes.read.data.data import Data
from traindx.probes.read.gradient.gradients import GradNorms
from traindx.probes.read.loss.contract import Contract
from traindx.probes.read.model.wiring import Outline


def net(out: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, out))


def samples(n: int = 96, classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(n, 5), torch.randint(0, classes, (n,))


def update(optimizer, loss) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def evaluations(run) -> int:
    return len(run.events_of("evaluation"))


# -- passes without a gradient inside the training loop


def test_a_teacher_that_was_trained_before_is_not_evaluated():
    x, y = samples()

    def loop():
        teacher, student = net(), net()
        first = torch.optim.SGD(teacher.parameters(), 0.1)
        for at in torch.randperm(90)[:60].split(1):
            update(first, F.cross_entropy(teacher(x[at]), y[at]))
        teacher.eval()
        second = torch.optim.SGD(student.parameters(), 0.1)
        for i in range(40):
            at = torch.randperm(64)[:16]
            with torch.no_grad():
                soft = F.softmax(teacher(x[at]), 1)
            update(second, F.kl_div(F.log_softmax(student(x[at]), 1), soft, reduction="batchmean"))
            if i % 10 == 9:
                student.eval()
                with torch.no_grad():
                    F.cross_entropy(student(x[64:]), y[64:])
                student.train()
        assert first.param_groups  # the teacher's optimizer lives on

    run = watched(loop, Data())
    assert len(run.events_of("retrained")) == 1
    began = run.events_of("retrained")[0].step
    assert {e.data["samples"] for e in run.events_of("evaluation") if e.step > began} == {32}
    assert run.fact("data.shared") == 0 and run.fact("data.seen")["val"] == 32


def test_a_target_network_is_not_evaluated():
    x, _ = samples()

    def loop():
        online, predictor = net(), nn.Linear(3, 3)
        target = copy.deepcopy(online).requires_grad_(False)
        optimizer = torch.optim.SGD([*online.parameters(), *predictor.parameters()], 0.05)
        for i in range(12):
            a, b = (x[:32] + 0.1 * torch.randn(32, 5) for _ in range(2))
            with torch.no_grad():
                goal = target(b)
            update(optimizer, -F.cosine_similarity(predictor(online(a)), goal).mean())
            if i % 5 == 0:
                F.normalize(online(x[:20]).detach(), dim=1).std(0).mean().item()

    run = watched(loop, Data())
    assert evaluations(run) == 0 and "loss/val" not in run.signals
    assert run.fact("data.shared") is None


@pytest.mark.parametrize("graph", [False, True])
def test_a_loss_belongs_to_the_pass_it_has_its_graph_from_and_an_agent_that_acts_is_known(graph):
    x, _ = samples()

    def loop():
        policy, target = net(), net()
        optimizer = torch.optim.SGD(policy.parameters(), 0.01)
        for i in range(80):
            with torch.set_grad_enabled(graph):
                policy(x[i : i + 1]).argmax(1).item()  # what to do next
            at = torch.randperm(64)[:16]
            q = policy(x[at]).max(1).values
            with torch.no_grad():
                goal = 0.9 * target(x[at + 1]).max(1).values  # asked after the policy
            update(optimizer, F.smooth_l1_loss(q, goal))
            if i % 20 == 0:
                target.load_state_dict(policy.state_dict())

    run = watched(loop, Contract())
    assert run.fact("loss.kind") == "huber" and run.fact("acts") is True and evaluations(run) == 0
    assert [e.step for e in run.events_of("load") if "digest" in e.data] == []


def test_steps_are_counted_for_optimizers_that_are_gone():
    x, y = samples()

    def loop():
        for _ in range(4):
            model = net()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(301):
                update(optimizer, F.cross_entropy(model(x), y))

    run = watched(loop, budget=1e-4)  # most steps are but glimpsed
    assert run.fact("optimizer.steps") == [301] * 4


def test_of_two_models_only_the_one_with_dropout_minds_training_mode():
    x, y = samples()

    def loop():
        for model in (net(), nn.Sequential(net(8), nn.Dropout(0.5), nn.Linear(8, 3))):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(2):
                for at in torch.randperm(64).split(16):
                    update(optimizer, F.cross_entropy(model(x[at]), y[at]))
                with torch.no_grad():
                    F.cross_entropy(model(x[64:]), y[64:])

    run = watched(loop)
    assert run["eval/train_mode"].values.tolist() == [1, 1, 1, 1] and run["eval/minds_mode"].values.tolist() == [0, 0, 1, 1]


def test_of_several_numbers_on_one_line_the_loss_is_the_one_like_the_training_loss():
    x, _ = samples()

    def loop():
        model = net(1)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)

        def loss_of(part):
            return (model(part)[:, 0] - part[:, 0] - 3).abs().mean()

        for _ in range(4):
            for part in x[:64].split(16):
                update(optimizer, loss_of(part))
            with torch.no_grad():
                loss, spread = loss_of(x[64:]), model(x[64:]).std()
                lines.append((spread.item(), loss.item()))

    lines: list[tuple[float, float]] = []
    run = watched(loop, Data())
    assert list(run["loss/val"].values) == [loss for _, loss in lines]


def test_a_policy_at_work_is_not_evaluated():
    x, _ = samples()

    def loop():
        q = net(2)
        goal_net, optimizer = copy.deepcopy(q), torch.optim.SGD(q.parameters(), 0.05)
        for i in range(12):
            q.eval()
            with torch.no_grad():
                int(q(x[i]).argmax())
                q(x[i]).amax().item()
            q.train()
            with torch.no_grad():
                goal = goal_net(x[:16]).amax(1)
            update(optimizer, F.smooth_l1_loss(q(x[16:32]).amax(1), goal))

    run = watched(loop, Data())
    assert evaluations(run) == 0 and "loss/val" not in run.signals


def test_fakes_made_without_a_gradient_are_no_evaluation():
    x, _ = samples()

    def loop():
        generator, judge = net(5), net(1)
        a, b = torch.optim.SGD(judge.parameters(), 0.05), torch.optim.SGD(generator.parameters(), 0.05)
        bce = F.binary_cross_entropy_with_logits
        for _ in range(12):
            with torch.no_grad():
                fake = generator(torch.randn(16, 5))
            update(a, bce(judge(x[:16]), torch.ones(16, 1)) + bce(judge(fake), torch.zeros(16, 1)))
            update(b, bce(judge(generator(torch.randn(16, 5))), torch.ones(16, 1)))

    assert evaluations(watched(loop, Data())) == 0


def test_a_teacher_on_the_batches_of_the_loader_is_not_evaluated():
    x, y = samples()

    def loop():
        teacher, student = net().eval(), net()
        optimizer = torch.optim.SGD(student.parameters(), 0.1)
        for xb, _ in DataLoader(TensorDataset(x, y), 8):
            with torch.no_grad():
                soft = teacher(xb).softmax(1)
            update(optimizer, F.kl_div(F.log_softmax(student(xb), 1), soft, reduction="batchmean"))

    run = watched(loop, Data())
    assert evaluations(run) == 0 and run.fact("data.same_set") is None


def test_a_second_look_at_the_training_tensor_is_not_validation():
    x, y = samples()

    def loop():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(8):
            update(optimizer, F.cross_entropy(model(x), y))
            model.eval()
            with torch.no_grad():
                F.cross_entropy(model(x), y).item()
            model.train()

    assert "loss/val" not in watched(loop).signals


def test_validation_after_every_update_of_a_full_batch_loop_counts():
    x, y = samples()

    def loop():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(8):
            update(optimizer, F.cross_entropy(model(x[:64]), y[:64]))
            with torch.no_grad():
                F.cross_entropy(model(x[64:]), y[64:])

    assert len(watched(loop)["loss/val"]) == 8


def test_outputs_in_eval_mode_now_and_then_are_an_evaluation_even_without_a_loss():
    x, y = samples()

    def loop():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for i in range(24):
            update(optimizer, F.cross_entropy(model(x[:64]), y[:64]))
            if i % 8 == 7:
                model.eval()
                with torch.no_grad():
                    model(x[64:]).argmax(1).tolist()
                model.train()

    assert evaluations(watched(loop)) == 3


def test_a_rehearsal_of_the_validation_loop_is_no_evaluation():
    x, y = samples()

    def loop():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def validate():
            model.eval()
            with torch.no_grad():
                F.cross_entropy(model(x[64:]), y[64:])
            model.train()

        def _run_sanity_check():  # as Lightning's trainer calls it
            validate()

        _run_sanity_check()
        for i in range(8):
            update(optimizer, F.cross_entropy(model(x[:64]), y[:64]))
            if i % 4 == 3:
                validate()

    assert watched(loop)["loss/val"].steps.tolist() == [3, 7]


# -- losses that are not finite


def test_a_batch_that_is_skipped_because_its_loss_is_nan_is_hidden_not_evaluated():
    x, y = samples()
    x = x.clone()
    x[20] = math.nan

    def loop():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            for at in torch.arange(96).split(16):
                loss = F.cross_entropy(model(x[at]), y[at])
                if torch.isnan(loss):
                    continue
                update(optimizer, loss)

    run = watched(loop)
    assert evaluations(run) == 0
    hidden = run.events_of("nan_hidden")
    assert {e.data["how"] for e in hidden} == {"skipped"} and max(e.data["count"] for e in hidden) == 3


def test_a_finite_loss_that_is_left_out_is_no_evaluation():
    x, y = samples()

    def loop():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for i in range(12):
            loss = F.cross_entropy(model(x[i * 8 : i * 8 + 8]), y[i * 8 : i * 8 + 8])
            if i % 3 != 1:
                update(optimizer, loss)

    assert evaluations(watched(loop)) == 0


def test_nan_to_num_on_the_loss_is_reported_and_on_inputs_it_is_not():
    x, y = samples()

    def loop(broken: bool):
        model = net(1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for i in range(30):
            at = slice(i, i + 8)
            inputs = torch.nan_to_num(torch.full((8, 5), math.nan)) + x[at]
            loss = ((model(inputs).squeeze(1) - y[at]) ** 2).mean()
            if broken and i == 25:
                loss = loss * math.nan
            update(optimizer, torch.nan_to_num(loss))

    run = watched(lambda: loop(True), budget=0.0)
    assert [e.data["how"] for e in run.events_of("nan_hidden")] == ["nan_to_num"]
    assert run.events_of("nan_hidden")[0].data["site"].endswith("test_phases.py:" + str(loop.__code__.co_firstlineno + 9))
    assert not watched(lambda: loop(False)).events_of("nan_hidden")


# -- one training after another


def phases(x, y, z, *, keep: bool):
    """Pre-training on labels z, then another head on labels y with a frozen body."""
    body = nn.Sequential(nn.Linear(5, 8), nn.ReLU())
    first = nn.Sequential(body, nn.Linear(8, 2))
    optimizer = torch.optim.SGD(first.parameters(), 0.1)
    for _ in range(30):
        for at in torch.arange(64).split(32):
            update(optimizer, F.cross_entropy(first(x[at]), z[at]))
    if not keep:
        del optimizer
    second = nn.Sequential(body, nn.Linear(8, 3))
    body.requires_grad_(False)
    head = torch.optim.SGD(second[1].parameters(), 0.1)
    for _ in range(30):
        for at in torch.arange(64).split(16):
            update(head, F.cross_entropy(second(x[at]), y[at]))


def test_a_second_training_has_a_ledger_of_its_own():
    x, y = samples()
    z = (y > 0).long() * 0 + torch.arange(96) // 32 % 2
    for keep in (False, True):
        run = watched(lambda keep=keep: phases(x, y, z, keep=keep), Data(), Outline(), GradNorms())
        assert [e.data["same_parameters"] for e in run.events_of("retrained")] == [False]
        assert [(e.data["alike"], e.data["carried"]) for e in run.events_of("retrained")] == [(False, 0.0)]
        assert run.fact("data.conflicts") == 0
        assert sorted(run.fact("data.class_counts")) == ["0", "1", "2"]
        assert run.fact("model.frozen_later") == {}
        assert any(n.startswith("0.") for n in run.fact("model.frozen"))


def test_what_is_frozen_has_no_missing_gradient():
    x, y = samples()

    def loop():
        model = net()
        model[0].requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            update(optimizer, F.cross_entropy(model(x), y))

    table = watched(loop, GradNorms())["grad_none/param"]
    values = dict(zip(table.names, table.values[-1]))
    assert math.isnan(values["0.weight"]) and values["2.weight"] == 0.0


def test_an_optimizer_rebuilt_on_the_same_parameters_keeps_the_ledger():
    x, y = samples()

    def loop():
        model = net()
        for _ in range(3):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for at in torch.arange(96).split(16):
                update(optimizer, F.cross_entropy(model(x[at]), y[at]))
            del optimizer

    run = watched(loop, Data())
    assert {e.data["same_parameters"] for e in run.events_of("retrained")} == {True}
    assert run.fact("data.seen")["train"] == 96


def test_requires_grad_that_is_toggled_between_two_players_is_judged_at_the_owners_update():
    x, _ = samples()

    def loop():
        generator, judge = net(5), net(1)
        a, b = torch.optim.SGD(generator.parameters(), 0.05), torch.optim.SGD(judge.parameters(), 0.05)
        for _ in range(30):
            fake = generator(torch.randn(16, 5))
            judge.requires_grad_(False)
            update(a, F.mse_loss(judge(fake), torch.ones(16, 1)))
            judge.requires_grad_(True)
            update(b, F.mse_loss(judge(x[:16]), torch.ones(16, 1)) + F.mse_loss(judge(fake.detach()), torch.zeros(16, 1)))

    run = watched(loop, Outline())
    assert run.fact("model.frozen") == [] and run.fact("model.frozen_later") == {}


def test_a_layer_frozen_in_mid_run_is_frozen_later():
    x, y = samples()

    def loop():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for i in range(40):
            if i == 12:
                model[0].requires_grad_(False)
            update(optimizer, F.cross_entropy(model(x), y))

    assert watched(loop, Outline()).fact("model.frozen_later") == {"0.weight": 12, "0.bias": 12}


def test_every_optimizer_that_stepped_is_counted():
    x, y = samples()
    with observing() as seen:
        for _ in range(3):
            model = net()
            optimizer = torch.optim.Adam(model.parameters(), 0.1)
            for _ in range(4):
                update(optimizer, F.cross_entropy(model(x), y))
            del model, optimizer
    assert seen.run.fact("optimizer.count") == 3 and seen.run.fact("optimizer.steps") == [4, 4, 4]


def test_weights_that_an_earlier_training_left_are_fine_tuned():
    x, y = samples()

    def loop():
        body = nn.Linear(x.shape[1], 32)
        for head in (nn.Linear(32, 3), nn.Linear(32, 3)):
            model = nn.Sequential(body, nn.ReLU(), head)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(10):
                for at in torch.arange(96).split(16):
                    update(optimizer, F.cross_entropy(model(x[at]), y[at]))
            del optimizer

    run = watched(loop, Outline())
    [event] = run.events_of("retrained")
    assert event.data["alike"] and event.data["carried"] > 0.5
    assert run.fact("finetune") is True


def test_an_accuracy_by_nearest_neighbours_is_no_validation_loss():
    x, y = samples()

    def loop(score):
        torch.manual_seed(0)
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            for at in torch.randperm(64).split(16):
                update(optimizer, F.cross_entropy(model(x[at]), y[at]))
            model.eval()
            with torch.no_grad():
                nearest = torch.cdist(model(x[64:]), model(x[:64])).argmin(1)
                score(nearest, model)
            model.train()

    def accuracy(nearest, model):
        print(f"{(y[:64][nearest] == y[64:]).float().mean():.3f}")

    def by_hand(nearest, model):
        print((-F.log_softmax(model(x[64:]), 1)[range(32), y[64:]]).mean().item())

    run = watched(lambda: loop(accuracy))
    assert evaluations(run) == 4 and not len(run.series("loss/val"))
    assert len(watched(lambda: loop(by_hand)).series("loss/val")) == 4


# -- one network called dozens of times for one update


def _solve(f, y, n):
    path = [y]
    for _ in range(n):
        a = f(path[-1])
        path.append(path[-1] + 0.05 * (a + f(path[-1] + 0.1 * a)))
    return torch.stack(path)


def test_a_solver_that_calls_its_network_often_is_trained_through_whole_and_evaluated_by_its_own_loss():
    torch.manual_seed(0)
    f, start = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2)), torch.randn(8, 2)
    optimizer = torch.optim.SGD(f.parameters(), 0.01)
    losses, totals = [], []

    def loop():
        for i in range(30):
            loss = (_solve(f, start, 20) - 1.0).abs().mean()
            update(optimizer, loss)
            if i % 10 == 9:
                with torch.no_grad():
                    total = (_solve(f, start[:1], 60) - 1.0).abs().mean()
                losses.append(loss.item())
                totals.append(total.item())

    run = watched(loop)
    assert evaluations(run) == 3
    assert len(run.series("loss/train")) == 30
    assert run.series("loss/val").values.tolist() == totals


def test_every_call_of_a_network_below_a_late_backward_is_found():
    f, start = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2)), torch.randn(8, 2)
    optimizer = torch.optim.SGD(f.parameters(), 0.01)
    with observing(budget=0.0, probes=[]):
        phases = PATCHES.observers[0].follower.phases
        for _ in range(SEARCH_STEPS + 5):
            update(optimizer, (_solve(f, start, 20) - 1.0).abs().mean())
        assert phases.usual is not None and not phases._passes


def test_nan_that_a_model_replaces_itself_is_reported_and_a_mask_of_infinities_is_not():
    x, y = samples()

    class Filling(nn.Module):
        def __init__(self, value: float):
            super().__init__()
            self.inner, self.value = net(1), value

        def forward(self, given):
            made = self.inner(given)
            return torch.nan_to_num(made.masked_fill(made < 0, self.value), nan=0.0, posinf=0.0, neginf=0.0)

    def loop(value: float):
        model = Filling(value)
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        for i in range(10):
            update(optimizer, ((model(x[i : i + 8]).squeeze(1) - y[i : i + 8]) ** 2).mean())

    hidden = watched(lambda: loop(math.nan), budget=0.0).events_of("nan_hidden")
    assert {e.data["how"] for e in hidden} == {"inside"} and "test_phases.py" in hidden[0].data["site"]
    assert not watched(lambda: loop(1.0)).events_of("nan_hidden") and not watched(lambda: loop(math.inf)).events_of(
        "nan_hidden"
    )
