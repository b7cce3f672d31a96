"""Recorded signals against a slow reference computed with plain autograd, step by step."""

from __future__ import annotations

import contextlib
import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from probes.conftest import observing
from probes.watched import watched
from traindx import signals
from traindx.probe import Scene
from traindx.probes.read.machine.memory import Effort, Memory


def data(n: int = 96) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(3)
    x = torch.randn(n, 6, generator=g)
    return x, (x[:, 0] > 0).long()


def net() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 2))


class Reference:
    """The same training, with everything computed the obvious way."""

    def __init__(self, steps: int) -> None:
        model = net()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.1)
        x, y = data()
        self.names = [n for n, _ in model.named_parameters()]
        self.loss, self.grads, self.weights, self.moved, self.acts = [], [], [], [], []
        for step in range(steps):
            batch = slice(16 * (step % 6), 16 * (step % 6) + 16)
            h0 = model[0](x[batch])
            h1 = model[1](h0)
            h2 = model[2](h1)
            self.acts.append([h.detach().clone() for h in (h0, h1, h2)])
            loss = F.cross_entropy(h2, y[batch])
            optimizer.zero_grad()
            loss.backward()
            self.loss.append(loss.item())
            self.grads.append([p.grad.clone() for p in model.parameters()])
            before = [p.detach().clone() for p in model.parameters()]
            self.weights.append(before)
            optimizer.step()
            self.moved.append([p.detach() - b for p, b in zip(model.parameters(), before)])


@pytest.fixture(scope="module")
def pair():
    steps = 24
    reference = Reference(steps)
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.1)
    x, y = data()
    with observing() as seen:
        for step in range(steps):
            batch = slice(16 * (step % 6), 16 * (step % 6) + 16)
            loss = F.cross_entropy(model(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return reference, seen.run


def close(recorded, wanted, rtol=2e-5, atol=1e-7):
    np.testing.assert_allclose(np.asarray(recorded), np.asarray(wanted), rtol=rtol, atol=atol)


def test_every_recorded_name_is_in_the_vocabulary(pair):
    assert not [n for n in pair[1].signals if signals.spec(n) is None]
    assert not [k for k in pair[1].facts if k not in signals.FACTS]
    assert not [e.kind for e in pair[1].events if e.kind not in signals.EVENTS]


def test_loss_and_rate_every_step(pair):
    reference, run = pair
    close(run["loss/train"].values, reference.loss, rtol=0, atol=0)
    assert (run["lr"].values == 0.01).all()


def test_gradient_norms_and_moments(pair):
    reference, run = pair
    flat = [[g.double().flatten() for g in step] for step in reference.grads]
    assert run["grad_norm/param"].names == tuple(reference.names)
    close(run["grad_norm/param"].values, [[g.norm() for g in s] for s in flat])
    close(run["grad_norm"].values, [torch.cat(s).norm() for s in flat])
    close(run["grad_mean/param"].values, [[g.mean() for g in s] for s in flat], atol=1e-6)
    close(run["grad_std/param"].values, [[g.std() for g in s] for s in flat], rtol=1e-3)
    close(run["grad_maxabs/param"].values, [[g.abs().max() for g in s] for s in flat])
    close(run["grad_zero/param"].values, [[(g == 0).double().mean() for g in s] for s in flat])
    close(run["grad_q50/param"].values, [[g.quantile(0.5) for g in s] for s in flat], atol=1e-6)
    close(run["grad_q95/param"].values, [[g.quantile(0.95) for g in s] for s in flat], atol=1e-6)
    assert not run["grad_none/param"].values.any() and not run["grad_nonfinite/param"].values.any()


def test_cosine_between_consecutive_gradients(pair):
    reference, run = pair
    flat = [torch.cat([g.flatten() for g in s]).double() for s in reference.grads]
    wanted = [F.cosine_similarity(a, b, 0).item() for a, b in zip(flat[1:], flat[:-1])]
    close(run["grad_cosine"].values, wanted, rtol=1e-3, atol=1e-4)


def test_weights(pair):
    reference, run = pair
    weights = run["weight_norm/param"]
    rows = [reference.weights[s] for s in weights.steps]
    close(weights.values, [[w.norm() for w in r] for r in rows])
    close(run["weight_mean/param"].values, [[w.mean() for w in r] for r in rows], atol=1e-6)
    close(run["weight_std/param"].values, [[w.std() for w in r] for r in rows], rtol=1e-3)
    close(run["weight_maxabs/param"].values, [[w.abs().max() for w in r] for r in rows])
    medians = run["weight_q50/param"]
    close(medians.values, [[w.quantile(0.5) for w in reference.weights[s]] for s in medians.steps], atol=1e-6)


def test_updates_and_what_decay_has_to_do_with_them(pair):
    reference, run = pair
    ratios = [[m.norm() / w.norm() for m, w in zip(ms, ws)] for ms, ws in zip(reference.moved, reference.weights)]
    close(run["update_ratio/param"].values, ratios, rtol=1e-4)
    close(run["update_ratio"].values, [(r[0] + r[2]) / 2 for r in ratios], rtol=1e-4)
    decay = [
        [1e-3 * w.norm() / (m + 1e-3 * w).norm() for m, w in zip(ms, ws)] for ms, ws in zip(reference.moved, reference.weights)
    ]
    close(run["decay_share/param"].values, decay, rtol=1e-3)


def test_second_moments_of_adam(pair):
    reference, run = pair
    v = [torch.zeros_like(g) for g in reference.grads[0]]
    wanted = []
    for t, grads in enumerate(reference.grads, 1):
        v = [0.999 * a + 0.001 * g * g for a, g in zip(v, grads)]
        hats = [a / (1 - 0.999**t) for a in v]
        wanted.append([(g * g / h.clamp_min(1e-16)).mean().sqrt() for g, h in zip(grads, hats)])
    rms = run["adam_rms/param"]
    close(rms.values, np.asarray(wanted)[rms.steps], rtol=1e-3)
    assert ((run["adam_small_v/param"].values >= 0) & (run["adam_small_v/param"].values <= 1)).all()


def test_activations(pair):
    reference, run = pair
    assert run["act_rms/module"].names == ("0", "1", "2")
    close(run["act_rms/module"].values, [[a.square().mean().sqrt() for a in s] for s in reference.acts])
    close(run["act_mean/module"].values, [[a.mean() for a in s] for s in reference.acts], atol=1e-6)
    close(run["act_maxabs/module"].values, [[a.abs().max() for a in s] for s in reference.acts])
    close(run["act_zero/module"].values, [[(a == 0).float().mean() for a in s] for s in reference.acts])


def test_dead_units_over_the_window(pair):
    reference, run = pair
    alive = torch.stack([s[1].amax(0) for s in reference.acts]).amax(0) > 0
    dead = run["dead_fraction/module"]
    assert dead.names == ("1",) and dead.values[-1, 0] == pytest.approx(1 - alive.float().mean().item())
    assert run["dead_samples/module"].values[-1, 0] == 24 * 16


def test_validation_loss_is_weighted_by_samples():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = data()
    val = DataLoader(TensorDataset(x[64:], y[64:]), 10)
    wanted = []
    with observing() as seen:
        for _ in range(3):
            F.cross_entropy(model(x[:64]), y[:64]).backward()
            optimizer.step()
            optimizer.zero_grad()
            model.eval()
            with torch.no_grad():
                for a, b in val:
                    F.cross_entropy(model(a), b)
            model.train()
            twin = copy.deepcopy(model).eval()
            wanted.append((twin, x[64:], y[64:]))
    run = seen.run
    close(run["loss/val"].values, [F.cross_entropy(m(a), b).item() for m, a, b in wanted], rtol=1e-5)
    assert run["loss/val"].steps.tolist() == [0, 1, 2]
    assert (run["eval/samples"].values == 32).all() and not run["eval/train_mode"].values.any()


def test_time_adds_up(pair):
    run = pair[1]
    parts = sum(run[f"time/{k}"].values for k in ("data", "forward", "backward", "optimizer", "rest"))
    close(parts, run["time/step"].values, rtol=1e-6, atol=1e-9)
    assert (run["time/traindx"].values > 0).all()


def test_processor_time_is_that_of_one_update():
    used = Effort()
    scene = Scene()
    assert used.after_step(scene, None) is None  # nothing to compare with yet
    scene.step, used._at = 4, 0.0
    [(name, each)] = used.after_step(scene, None).items()
    assert name == "time/cpu" and 0 <= each < 1
    scene.step = 5
    assert used.after_step(scene, None) is None  # within a fiftieth of a second
    used._at, used._thread = 0.0, -2
    assert used.after_step(scene, None) is None  # another thread has another clock


def test_outputs_of_unlike_sizes_keep_the_order_of_the_model():
    from traindx.probes.read.activation.activations import _in_groups

    torch.manual_seed(0)
    parts = [torch.randn(n) * 10**i for i, n in enumerate((7, 3, 7, 1, 3))]
    norm, total, top, held, bad = _in_groups(parts)
    assert norm.tolist() == pytest.approx([p.norm().item() for p in parts], rel=1e-5)
    assert total.tolist() == pytest.approx([p.sum().item() for p in parts], rel=1e-4)
    assert top.tolist() == pytest.approx([p.abs().max().item() for p in parts])
    assert held.tolist() == [7, 3, 7, 1, 3] and bad.tolist() == [0] * 5


@pytest.mark.parametrize("hooked", [False, True])
def test_the_gap_of_a_batch_normalisation_is_that_of_the_batch(hooked):
    from traindx.probes.read.activation.activations import _moments

    torch.manual_seed(0)
    layer, x, seen = nn.BatchNorm1d(3), torch.randn(32, 3) * 2 + 1, []

    def unpack(kept):
        seen.append(kept)
        return kept

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack) if hooked else contextlib.nullcontext():
        mean, var = _moments(layer, x, layer(x))
    assert mean.tolist() == pytest.approx(x.mean(0).tolist(), rel=1e-5)
    assert var.tolist() == pytest.approx(x.var(0, unbiased=False).tolist(), rel=1e-4)
    assert not seen  # the user's hooks are the user's


def test_the_graph_of_a_prediction_after_training_is_no_leak():
    kept = []

    def loop(keep: bool, predict: bool) -> None:
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(30):
            optimizer.zero_grad()
            loss = model(torch.randn(8, 4)).square().mean()
            loss.backward()
            optimizer.step()
            if keep:
                kept.append(loss)
        if predict:
            kept.extend(model(torch.randn(1, 4)) for _ in range(40))

    held = []
    for keep, predict in ((False, False), (False, True), (True, False)):
        kept.clear()
        run = watched(lambda: loop(keep, predict), Memory())
        held.append(run["mem/graph_tensors"].values[-1])
    assert held[1] == held[0] and held[2] >= held[0] + 25
