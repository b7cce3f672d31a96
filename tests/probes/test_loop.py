"""The loop's own facts: each fault leaves its event, and the same loop without the fault leaves none."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from probes.conftest import observing
from probes.watched import watched

FAULTS = (
    "double_step", "clip_after_step", "clip_before_unscale", "clip_value", "clip_nonfinite", "scaler_bypassed",
    "scaler_no_update", "scaler_with_bf16", "backward_in_autocast", "accumulation_undivided", "grad_all_none",
    "scheduler_order", "nonfinite",
)  # fmt: skip


def parts():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    return model, torch.optim.SGD(model.parameters(), 0.1), torch.randn(12, 4), torch.randint(0, 2, (12,))


def faults(run) -> set[str]:
    return {e.kind for e in run.events} & set(FAULTS)


def test_a_sound_loop_leaves_no_fault():
    model, optimizer, x, y = parts()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    with observing() as seen:
        for _ in range(8):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    run = seen.run
    assert faults(run) == set()
    for name, wanted in {
        "forwards": 1,
        "backwards": 1,
        "zero_grads": 1,
        "stale_grads": 0,
        "clips": 1,
        "scheduler_steps": 1,
    }.items():
        assert set(run[f"loop/{name}"].values[1:]) == {wanted}, name
    assert len(run["clip/norm"]) == 8 and set(run["clip/threshold"].values) == {1.0}


def test_the_clearing_that_comes_too_late_has_a_line_of_its_own():
    model, optimizer, x, y = parts()
    with observing() as seen:
        for _ in range(5):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.zero_grad()
            optimizer.step()
    early, late = (int(seen.run.fact("code.sites")[name].rpartition(":")[2]) for name in ("zero_grad", "late_zero_grad"))
    assert late == early + 2


def test_gradients_that_nobody_uses_any_more_are_counted():
    def left(stop: int, after: int) -> int:
        model, optimizer, x, y = parts()
        with observing() as seen:
            for n in range(60):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                if n < stop:
                    optimizer.step()
            for _ in range(after):  # adversarial examples: gradients of the inputs, on another line
                F.cross_entropy(model(x.requires_grad_()), y).backward()
        return int(seen.run.fact("loop.unused_backwards"))

    assert left(stop=40, after=0) == 20
    assert left(stop=60, after=30) == 0


def test_every_watched_event_is_named_in_the_record():
    model, optimizer, x, y = parts()
    with observing() as seen:
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert set(FAULTS) <= set(seen.run.fact("watched"))


def test_stepping_twice_on_one_gradient():
    model, optimizer, x, y = parts()
    with observing() as seen:
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.step()
    assert faults(seen.run) == {"double_step"}
    assert seen.events("double_step")[-1]["count"] == 3


def test_two_optimizers_after_one_backward_are_no_double_step():
    model, _, x, y = parts()
    a, b = torch.optim.SGD(model[0].parameters(), 0.1), torch.optim.Adam(model[2].parameters(), 0.1)
    with observing() as seen:
        for _ in range(3):
            model.zero_grad()
            F.cross_entropy(model(x), y).backward()
            a.step()
            b.step()
    assert faults(seen.run) == set()
    assert seen.run.fact("optimizer.steps") == [3, 3]


def test_forgotten_zero_grad():
    model, optimizer, x, y = parts()
    with observing() as seen:
        for _ in range(5):
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert seen.run["loop/stale_grads"].values.tolist() == [0, 1, 1, 1, 1]
    assert not seen.run["loop/zero_grads"].values.any()


@pytest.mark.parametrize("clears", [False, True])
def test_a_closure_that_does_not_clear_is_stale_too(clears):
    model, _, x, y = parts()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)

    def closure():
        if clears:
            optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    with observing() as seen:
        for _ in range(5):
            optimizer.step(closure)
    assert bool(seen.run["loop/stale_grads"].values[1:].all()) is not clears
    assert bool(seen.run["loop/zero_grads"].values.any()) is clears


@pytest.mark.parametrize("how", ["none", "zero", "module", "late"])
def test_every_way_to_clear_gradients_counts(how):
    model, optimizer, x, y = parts()
    with observing() as seen:
        for _ in range(4):
            if how == "module":
                model.zero_grad()
            elif how == "none":
                for p in model.parameters():
                    p.grad = None
            elif how == "zero":
                for p in model.parameters():
                    if p.grad is not None:
                        p.grad.zero_()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            if how == "late":
                optimizer.zero_grad()
    run = seen.run
    assert not run["loop/stale_grads"].values.any()
    assert (run["loop/zero_grads"].values[1:] == 1).all()


def test_a_generator_that_passes_through_the_discriminator_does_not_make_it_stale():
    torch.manual_seed(0)
    g, d = nn.Linear(2, 2), nn.Linear(2, 1)
    og, od = torch.optim.SGD(g.parameters(), 0.1), torch.optim.SGD(d.parameters(), 0.1)
    with observing() as seen:
        for _ in range(4):
            od.zero_grad()
            d(torch.randn(4, 2)).mean().backward()
            od.step()
            og.zero_grad()
            d(g(torch.randn(4, 2))).mean().backward()
            og.step()
    assert not seen.run["loop/stale_grads"].values.any()


def test_clipping_after_the_update():
    model, optimizer, x, y = parts()
    with observing() as seen:
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert faults(seen.run) == {"clip_after_step"}


def test_clipping_by_value_and_bad_norms():
    model, optimizer, x, y = parts()
    with observing() as seen:
        F.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        model[0].weight.grad[0, 0] = float("nan")
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert {"clip_value", "clip_nonfinite"} <= faults(seen.run)
    assert seen.events("clip_value")[0]["value"] == 0.5


def scaled_loop(step, *, bf16: bool = False):
    model, optimizer, x, y = parts()
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    with observing() as seen:
        for _ in range(4):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
                loss = F.cross_entropy(model(x), y)
            step(scaler, optimizer, model, loss)
    return seen


def test_a_scaler_used_well():
    def step(scaler, optimizer, model, loss):
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    seen = scaled_loop(step)
    assert faults(seen.run) == set()
    assert set(seen.run["amp/scale"].values) == {128.0} and not seen.run["amp/skipped"].values.any()
    assert (seen.run["loss/train"].values < 5).all() and (seen.run["grad_norm"].values < 5).all()


def test_a_scaler_in_bfloat16():
    def step(scaler, optimizer, model, loss):
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    seen = scaled_loop(step, bf16=True)
    assert faults(seen.run) == {"scaler_with_bf16"}
    assert seen.run.fact("amp.autocast") == "bfloat16" and seen.run.fact("amp.scaler") is True


def test_clipping_before_unscale_and_stepping_beside_the_scaler():
    def step(scaler, optimizer, model, loss):
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    assert faults(scaled_loop(step).run) == {"clip_before_unscale", "scaler_bypassed"}


def test_a_skipped_update_is_no_step():
    def step(scaler, optimizer, model, loss):
        scaler.scale(loss * (float("inf") if step.calls == 1 else 1.0)).backward()
        step.calls += 1
        scaler.step(optimizer)
        scaler.update()

    step.calls = 0
    seen = scaled_loop(step)
    assert seen.run["amp/skipped"].values.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert len(seen.run["loss/train"]) == 3
    assert "grad" not in [e["what"] for e in seen.events("nonfinite")]


def test_backward_under_autocast():
    def step(scaler, optimizer, model, loss):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss.backward()
        optimizer.step()

    assert faults(scaled_loop(step).run) == {"backward_in_autocast"}


def test_backwards_between_which_gradients_are_cleared_do_not_add_up():
    model, optimizer, x, y = parts()
    with observing() as seen:
        for _ in range(3):
            F.cross_entropy(model(x), y).backward()
            with torch.no_grad():
                push = [0.05 * p.grad for p in model.parameters()]
                torch._foreach_add_(list(model.parameters()), push)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()  # where the loss is highest nearby
            with torch.no_grad():
                torch._foreach_sub_(list(model.parameters()), push)
            optimizer.step()
            optimizer.zero_grad()
    assert all(e.data["anew"] for e in seen.run.events_of("accumulation_undivided"))


@pytest.mark.parametrize(("divide", "wanted"), [(True, set()), (False, {"accumulation_undivided"})])
def test_accumulation_and_the_loss_behind_it(divide, wanted):
    model, optimizer, x, y = parts()
    with observing() as seen:
        for _ in range(3):
            optimizer.zero_grad()
            whole = []
            for a, b in zip(x.split(4), y.split(4)):
                loss = F.cross_entropy(model(a), b)
                whole.append(loss.item())
                (loss / 3 if divide else loss).backward()
            optimizer.step()
    run = seen.run
    assert faults(run) == wanted
    assert run["loss/train"].values[-1] == pytest.approx(sum(whole) / 3)
    assert set(run["loop/backwards"].values) == {3} and set(run["loop/forwards"].values) == {3}


def test_real_and_fake_losses_are_no_accumulation():
    model, optimizer, x, y = parts()
    with observing() as seen:
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            F.cross_entropy(model(x + 1), 1 - y).backward()
            optimizer.step()
    assert faults(seen.run) == set()


def test_gradients_divided_by_hand_are_no_fault():
    model, optimizer, x, y = parts()
    with observing() as seen:
        for _ in range(3):
            optimizer.zero_grad()
            for a, b in zip(x.split(6), y.split(6)):
                F.cross_entropy(model(a), b).backward()
            for p in model.parameters():
                p.grad.div_(2)
            optimizer.step()
    assert faults(seen.run) == set()


def test_an_update_without_gradients():
    _, optimizer, _, _ = parts()
    with observing() as seen:
        optimizer.step()
    assert faults(seen.run) == {"grad_all_none"}


@pytest.mark.parametrize("how", ["cleared", "unreached"])
def test_gradients_that_were_cleared_are_told_from_those_that_never_came(how):
    model, optimizer, x, y = parts()
    other = nn.Linear(x.shape[1], 2)
    with observing() as seen:
        for _ in range(5):
            F.cross_entropy(other(x) if how == "unreached" else model(x), y).backward()
            if how == "cleared":
                optimizer.zero_grad()
            optimizer.step()
    assert {e.data["how"] for e in seen.run.events_of("grad_all_none")} == {"", how}


def test_the_scheduler_before_the_optimizer():
    model, optimizer, x, y = parts()
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    with observing() as seen, pytest.warns(UserWarning, match="lr_scheduler.step"):
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            schedule.step()
            optimizer.step()
    assert faults(seen.run) == {"scheduler_order"}
    assert seen.run.fact("schedule.before_optimizer") is True


def test_chained_schedulers_count_once():
    model, optimizer, x, y = parts()
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10),
        ],
        [2],
    )
    with observing() as seen:
        for _ in range(4):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            schedule.step()
    assert set(seen.run["loop/scheduler_steps"].values[1:]) == {1}
    assert seen.run.fact("schedule.objects") == 1


def test_modes_are_noted_when_they_switch():
    model, optimizer, x, y = parts()
    with observing() as seen:
        for _ in range(4):
            model.train()
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        model.train()
    assert [e["training"] for e in seen.events("mode")] == [False, True]


def test_training_in_eval_mode_and_sleeping_layers():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2), nn.Dropout(0.5))
    model.train()
    model[1].eval()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with observing() as seen:
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
            optimizer.step()
        first = seen.run
        model.eval()
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
        optimizer.step()
    assert set(first["loop/eval_submodules"].values) == {1} and not first["loop/eval_mode"].values.any()
    assert seen.run["loop/eval_mode"].values[-1] == 1
    assert seen.run.fact("model.eval_in_training") == ["1"]


def test_the_order_of_a_breakdown_is_told():
    model, optimizer, x, y = parts()
    with observing() as seen:
        for step in range(6):
            optimizer.zero_grad()
            if step == 3:
                x = x.clone()
                x[0, 0] = float("nan")
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    events = [(e.step, e.data["what"], e.data["when"]) for e in seen.run.events_of("nonfinite")]
    assert events[:3] == [(3, "loss", "before"), (3, "grad", "before"), (3, "param", "after")]


def test_a_loss_that_is_skipped_because_it_is_nan():
    model, optimizer, x, y = parts()
    with observing() as seen:
        for step in range(6):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x * (float("nan") if step == 2 else 1.0)), y)
            if torch.isnan(loss):
                continue
            loss.backward()
            optimizer.step()
    assert seen.events("nan_hidden") == [{"how": "skipped", "count": 1}]
    assert len(seen.run["loss/train"]) == 5


def test_epochs_follow_the_training_loader():
    model, optimizer, x, y = parts()
    train, val = DataLoader(TensorDataset(x, y), 4), DataLoader(TensorDataset(x[:5], y[:5]), 2)
    with observing() as seen:
        for _ in range(3):
            for a, b in train:
                optimizer.zero_grad()
                F.cross_entropy(model(a), b).backward()
                optimizer.step()
            with torch.no_grad():
                for a, b in val:
                    F.cross_entropy(model(a), b)
    run = seen.run
    assert run["epoch"].values.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert [e["samples"] for e in seen.events("evaluation")] == [5, 5, 5]


def test_an_evaluation_on_the_training_data_is_not_validation():
    model, optimizer, x, y = parts()
    train = DataLoader(TensorDataset(x, y), 4)
    with observing() as seen:
        for _ in range(2):
            for a, b in train:
                optimizer.zero_grad()
                F.cross_entropy(model(a), b).backward()
                optimizer.step()
            with torch.no_grad():
                for a, b in train:
                    F.cross_entropy(model(a), b)
    assert "loss/val" not in seen.run
    assert len(seen.run["eval/train_in_eval"]) == 2


def test_manual_updates_are_steps_and_their_rate_is_inferred():
    torch.manual_seed(0)
    w = torch.randn(5, 3, requires_grad=True)
    x = torch.randn(20, 5)
    with observing() as seen:
        for _ in range(6):
            loss = ((x @ w) ** 2).mean()
            loss.backward()
            with torch.no_grad():
                w -= 0.05 * w.grad
            w.grad = None
    run = seen.run
    assert len(run["loss/train"]) == 6
    assert len(run["lr"]) >= 5 and run["lr"].values == pytest.approx([0.05] * len(run["lr"]), rel=1e-4)
    assert run["grad_norm/param"].names == ("p0[5x3]",)
    assert run.fact("optimizer.name") == "manual"


def test_a_second_training_in_the_same_process_takes_over():
    with observing() as seen:
        for _ in range(2):
            model, optimizer, x, y = parts()
            for _ in range(4):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            del model, optimizer
    assert len(seen.run["loss/train"]) == 8
    assert seen.events("retrained")[0]["previous_last_step"] == 3


def test_abnormal_losses_are_noted_and_looked_at():
    model, optimizer, x, y = parts()
    with observing(budget=0.0) as seen:
        for step in range(60):
            optimizer.zero_grad()
            F.cross_entropy(model(x * (30.0 if step == 50 else 1.0)), y).backward()
            optimizer.step()
    assert 50 in [e.step for e in seen.run.events_of("spike")]
    assert 50 in seen.run["grad_norm"].steps and 51 in seen.run["act_rms/module"].steps


def test_a_loss_divided_by_its_number_of_tokens_is_recorded_as_the_program_has_it():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(30, 4), torch.randint(0, 3, (30,))
    losses = []
    with observing() as seen:
        for _ in range(30):
            loss = F.cross_entropy(model(x), y, reduction="sum") / 30
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert seen.run.series("loss/train").values.tolist() == pytest.approx(losses, rel=1e-6)


@pytest.mark.parametrize("told", [False, True])
def test_dropout_that_is_not_told_whether_it_trains_is_on_in_evaluation(told):
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(8, 3)

        def forward(self, x):
            return self.lin(F.dropout(x, 0.3, training=self.training) if told else F.dropout(x, 0.3))

    def loop() -> None:
        model, x, y = Net(), torch.randn(32, 8), torch.randint(0, 3, (32,))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            model.train()
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                F.cross_entropy(model(x), y)

    events = watched(loop).events_of("eval_dropout")
    assert [e.data["p"] for e in events] == ([] if told else [0.3])


@pytest.mark.parametrize("once", [False, True])
def test_an_iterator_kept_over_epochs_runs_dry(once):
    def loop() -> None:
        model = nn.Linear(8, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        loader = DataLoader(TensorDataset(torch.randn(32, 8), torch.randint(0, 3, (32,))), 8)
        kept = iter(loader)
        for _ in range(4):
            for x, y in kept if once else loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()

    dry = watched(loop).events_of("loader_dry")
    assert [e.data.get("count") for e in dry] == ([3] if once else [])


def test_dropout_is_listened_to_in_eval_mode_only():
    plain, code, model = F.dropout, F.dropout.__code__, nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
    on = []

    def loop():
        for _ in range(30):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        on.append(F.dropout.__code__ is not code)
        model.eval()
        on.append(F.dropout.__code__ is not code)
        model.train()
        on.append(F.dropout.__code__ is not code)

    watched(loop, budget=0.0)
    assert on == [False, True, False] and F.dropout is plain and plain.__code__ is code
