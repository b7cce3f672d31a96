"""Steps that are skipped: their loss, rate and time are known afterwards, and a step that differs is told at length."""

from __future__ import annotations

import copy
import math
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import traindx
from traindx.forensics.arm import arm
from traindx.probes.drive.patches import PATCHES
from traindx.probes.drive.plan import Plan
from traindx.probes.drive.recorder import Recorder
from traindx.probes.drive.sink import MemorySink
from traindx.probes.launch.attach import attach, detach
from traindx.probes.read.common.tracebacks import UNSEEN

LEVELS = ("at length", "skipped")


@pytest.fixture(params=LEVELS)
def level(request, monkeypatch):
    """Only the first five steps and alarms are looked at; the others are followed at length, or skipped."""
    monkeypatch.setattr(Plan, "full", lambda self, step: step < 5 or step <= self.until)
    monkeypatch.setattr(Plan, "skips", lambda self, step: request.param == "skipped" and not self.full(step))
    return request.param


def seen(loop, *, forensics=False):
    torch.manual_seed(0)
    sink = MemorySink()
    recorder = Recorder(sink)
    if forensics:
        arm(recorder)
    observer = attach(recorder)
    taken = []
    observer.follower.updates.on_close.append(lambda step: taken.append(step.forwards))
    try:
        loop(taken)
    finally:
        detach(observer)
        recorder.close()
    assert not recorder.failures, recorder.failures[0].traceback
    return sink.run()


def job(optimizer=torch.optim.SGD, lr=0.05):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    return model, optimizer(model.parameters(), lr=lr), torch.randn(16, 4), torch.randint(0, 2, (16,))


def plain(model, optimizer, x, y, steps, losses=None, clear=True, after=lambda: None):
    for _ in range(steps):
        loss = F.cross_entropy(model(x), y)
        if clear:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after()
        if losses is not None:
            losses.append(loss.item())


def test_every_loss_is_recorded_and_the_weights_are_the_same_bits(level):
    model, optimizer, x, y = job()
    twin = copy.deepcopy(model)
    losses: list[float] = []
    run = seen(lambda _: plain(model, optimizer, x, y, 40, losses))
    assert run.series("loss/train").values.tolist() == pytest.approx(losses, rel=1e-6)
    assert len(run.series("lr")) == len(run.series("time/step")) == 40
    plain(twin, torch.optim.SGD(twin.parameters(), lr=0.05), x, y, 40)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))


def test_steps_are_skipped_and_those_say_less(level):
    model, optimizer, x, y = job()
    open_ = []
    run = seen(lambda _: plain(model, optimizer, x, y, 40, after=lambda: open_.append(PATCHES.skip is not None)))
    assert sum(open_) > 25 if level == "skipped" else not any(open_)
    counted = len(run.series("loop/forwards"))
    assert counted == 40 if level == "at length" else counted < 15


def test_steps_through_two_models_are_skipped_and_their_break_is_replayed(level):
    """An actor and a critic, or an encoder and a decoder: one optimizer, one backward."""
    torch.manual_seed(0)
    encoder, decoder = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.05)
    x, y, open_, losses = torch.randn(16, 4), torch.randint(0, 2, (16,)), [], []

    def loop(_):
        for step in range(41):
            if step == 40:
                with torch.no_grad():
                    decoder.weight[0, 0] = math.inf
            loss = F.cross_entropy(decoder(encoder(x)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            open_.append(PATCHES.skip is not None)
            losses.append(loss.item())

    run = seen(loop, forensics=True)
    assert sum(open_) > 25 if level == "skipped" else not any(open_)
    assert run.series("loss/train").values[:40].tolist() == pytest.approx(losses[:40], rel=1e-6)
    assert [e.step for e in run.events if e.kind == "nonfinite" and e.data["what"] == "loss"] == [40]
    assert run.fact("origin") is not None


def test_a_loss_that_is_not_finite_is_replayed_from_what_was_noted(level):
    model, optimizer, x, y = job()

    def loop(_):
        plain(model, optimizer, x, y, 20)
        with torch.no_grad():
            model[0].weight[0, 0] = math.inf
        plain(model, optimizer, x, y, 1)

    run = seen(loop, forensics=True)
    assert [e.step for e in run.events if e.kind == "nonfinite" and e.data["what"] == "loss"] == [20]
    assert run.fact("origin") is not None


def test_a_leap_of_the_loss_makes_its_step_a_full_one(level):
    model, optimizer, x, y = job()

    def loop(_):
        plain(model, optimizer, x, y, 40)
        plain(model, optimizer, 100 * x, y, 1)

    run = seen(loop)
    assert [e.step for e in run.events if e.kind == "spike"] == [40]
    assert 40 in run.matrix("grad_norm/param").steps


def test_evaluations_between_ordinary_steps_are_seen(level):
    model, optimizer, x, y = job()

    def loop(_):
        for _ in range(4):
            plain(model, optimizer, x, y, 10)
            model.eval()
            with torch.no_grad():
                F.cross_entropy(model(x + 1), y)
            model.train()

    assert len(seen(loop).series("loss/val")) == 4


def test_forgotten_clearing_is_found_on_the_steps_that_are_looked_at(level):
    model, optimizer, x, y = job()
    stale = seen(lambda _: plain(model, optimizer, x, y, 30, clear=False)).series("loop/stale_grads")
    assert stale.values[1:].min() == 1


def test_stepping_twice_clipping_and_schedules_are_told_as_ever(level):
    model, optimizer, x, y = job()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 15, 0.1)
    norms = []

    def loop(_):
        for i in range(30):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
            optimizer.step()
            if i == 25:
                optimizer.step()
            schedule.step()

    run = seen(loop)
    kinds = {e.kind for e in run.events}
    assert "double_step" in kinds and "clip_after_step" not in kinds
    assert run.series("clip/norm").values == pytest.approx(norms) and run.series("clip/threshold").values.tolist() == [1.0] * 30
    assert run.series("lr").values[-1] == pytest.approx(0.005)
    assert "lr_jump" in kinds


def test_accumulation_that_begins_later_is_told_at_length(level):
    model, optimizer, x, y = job()

    def loop(_):
        plain(model, optimizer, x, y, 15)
        for _ in range(15):
            optimizer.zero_grad()
            for part in range(2):
                (F.cross_entropy(model(x[part::2]), y[part::2]) / 2).backward()
            optimizer.step()

    run = seen(loop)
    forwards = run.series("loop/forwards")
    later = forwards.values[forwards.steps >= 15]
    assert later.size and later.min() == 2
    assert len(run.series("loss/train")) == 30
    assert not [e for e in run.events if e.kind == "accumulation_undivided"]


def test_batches_of_a_loader_count_as_training(level):
    model, optimizer, x, y = job()
    loader = DataLoader(TensorDataset(x, y), batch_size=4)

    def loop(_):
        for _ in range(10):
            for a, b in loader:
                plain(model, optimizer, a, b, 1)

    run = seen(loop)
    assert len(run.series("loss/train")) == 40
    assert run.series("epoch").values[-1] == 9
    assert not len(run.series("loss/val"))


def test_a_loss_without_a_backward_is_no_update(level):
    model, optimizer, x, y = job()

    def loop(_):
        plain(model, optimizer, x, y, 20)
        F.cross_entropy(model(x), y)  # looked at and left
        plain(model, optimizer, x, y, 5)

    assert len(seen(loop).series("loss/train")) == 25


def test_a_forward_that_raises_changes_nothing(level):
    model, optimizer, x, y = job()

    def loop(_):
        plain(model, optimizer, x, y, 20)
        with pytest.raises(RuntimeError):
            model(x[:, :3])
        plain(model, optimizer, x, y, 5)

    assert len(seen(loop).series("loss/train")) == 25


def test_the_next_model_is_known_whole_even_if_only_its_parts_are_called(level):
    model, optimizer, x, y = job()

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 2)

    def loop(_):
        plain(model, optimizer, x, y, 30)
        whole = Whole()  # made while the steps of the first one go as usual: folds, restarts
        again = torch.optim.SGD(whole.parameters(), lr=0.05)
        for _ in range(90):
            loss = F.cross_entropy(whole.head(whole.body(x).relu()), y)
            again.zero_grad()
            loss.backward()
            again.step()

    names = seen(loop).matrix("grad_norm/param").names
    assert {"body.weight", "head.weight"} <= set(names)


def test_steps_settled_after_a_pause_are_recorded_once(level, monkeypatch):
    model, optimizer, x, y = job()
    monkeypatch.setattr("traindx.probes.follow.skipped.SETTLE_S", 0.0)
    run = seen(lambda _: plain(model, optimizer, x, y, 40))
    assert run.series("loss/train").steps.tolist() == list(range(40))


def test_a_fault_that_begins_late_is_told_at_length_for_a_while(level):
    model, optimizer, x, y = job()

    def loop(_):
        plain(model, optimizer, x, y, 20)
        plain(model, optimizer, x, y, 30, clear=False)
        optimizer.zero_grad()
        model.eval()
        plain(model, optimizer, x, y, 30)

    run = seen(loop)
    stale, asleep = run.series("loop/stale_grads"), run.series("loop/eval_mode")
    assert stale.steps[stale.values > 0][:5].tolist() == [20, 21, 22, 23, 24]
    assert asleep.steps[asleep.values > 0][:5].tolist() == [50, 51, 52, 53, 54]
    if level == "skipped":
        assert len(stale) < 80  # not for ever


def test_a_layer_replaced_between_epochs_is_known_in_the_next_one(level):
    model, optimizer, x, y = job()
    loader = DataLoader(TensorDataset(x.repeat(25, 1), y.repeat(25)), batch_size=16)

    def loop(_):
        for epoch in range(3):
            if epoch == 2:
                model[2] = nn.Linear(8, 2)
            for a, b in loader:
                plain(model, optimizer, a, b, 1)

    assert seen(loop).fact("model.unowned") == ["2.weight", "2.bias"]


def test_few_calls_and_operations_of_ours_run_on_a_skipped_step(monkeypatch):
    monkeypatch.setattr("traindx.probes.follow.skipped.SETTLE_S", math.inf)  # what is written down later is counted apart
    monkeypatch.setattr("traindx.probes.follow.skipped.SETTLE", 10**6)
    monkeypatch.setattr(Plan, "full", lambda self, step: step < 5)
    monkeypatch.setattr(Plan, "skips", lambda self, step: step >= 10)
    monkeypatch.setattr(Plan, "next", lambda self, step: 10**6)
    monkeypatch.setattr(Plan, "dense", lambda self, step: False)
    calls, operations = [0], []

    def ours(frame):
        file = frame.f_code.co_filename
        return file == UNSEEN or file.startswith(str(Path(traindx.__file__).parent))

    def loop(_, skipped=True):
        model, optimizer, x, y = job(torch.optim.AdamW)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
        loader = DataLoader(TensorDataset(x.repeat(32, 1), y.repeat(32)), batch_size=8, shuffle=True)
        batches = iter(loader)

        def go(steps):
            for _ in range(steps):
                a, b = next(batches)
                loss = F.cross_entropy(model(a), b)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()

        go(20)
        assert (PATCHES.skip is not None) is skipped
        sys.setprofile(lambda frame, event, _: calls.__setitem__(0, calls[0] + (event == "call" and ours(frame))))
        go(16)
        sys.setprofile(None)
        with torch.autograd.profiler.profile() as profile:
            go(16)
        operations.append(sum(event.name.startswith("aten::") for event in profile.function_events))
        assert (PATCHES.skip is not None) is skipped

    seen(loop, forensics=True)
    assert 0 < calls[0] / 16 <= 12
    loop(None, skipped=False)
    assert (operations[0] - operations[1]) / 16 <= 4


def test_the_originals_stand_while_steps_are_skipped(monkeypatch):
    model, optimizer, x, y = job()
    original = F.cross_entropy.__code__
    monkeypatch.setattr(Plan, "full", lambda self, step: step < 5)
    monkeypatch.setattr(Plan, "skips", lambda self, step: step >= 10)
    standing = []
    seen(lambda _: plain(model, optimizer, x, y, 30, after=lambda: standing.append(F.cross_entropy.__code__ is original)))
    assert not any(standing[:9]) and all(standing[12:])


def test_steps_of_a_gradient_scaler_are_skipped_and_an_update_it_leaves_out_is_told(level):
    model, optimizer, x, y = job()
    scaler, losses, open_ = torch.amp.GradScaler("cpu", init_scale=64.0), [], []

    def loop(_):
        for i in range(41):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            if i == 30:
                model[0].weight.grad[0, 0] = math.inf
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            open_.append(PATCHES.skip is not None)
            if i != 30:
                losses.append(loss.item())

    run = seen(loop)
    assert sum(open_) > 20 if level == "skipped" else not any(open_)
    assert run.series("loss/train").values.tolist() == pytest.approx(losses, rel=1e-6)
    assert run.series("amp/skipped").values.sum() == 1
    assert not {"clip_before_unscale", "scaler_no_update", "nonfinite"} & {e.kind for e in run.events}
