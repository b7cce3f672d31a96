"""Two players, a policy, a latent code: what is read of them, and that nothing is read where there are none."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import distributions, nn
from torch.distributions import Bernoulli, Categorical, Independent, Normal
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from probes.watched import watched
from traindx.probes.read.data.data import Data
from traindx.probes.read.loss.kinds_of_training import Latents, Players, Policy, Views


def bce(out, goal):
    return F.binary_cross_entropy_with_logits(out, goal)


def update(optimizer, loss) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def gan(joint: bool = False, steps: int = 8):
    maker, judge = nn.Linear(3, 2), nn.Linear(2, 1)
    a, b = torch.optim.SGD(judge.parameters(), 0.5), torch.optim.SGD(maker.parameters(), 0.01)
    for _ in range(steps):
        real, fake = torch.randn(16, 2) + 5, maker(torch.randn(16, 3))
        if joint:
            both = torch.cat([judge(real), judge(fake.detach())])
            update(a, bce(both, torch.cat([torch.ones(16, 1), torch.zeros(16, 1)])))
        else:
            update(a, bce(judge(real), torch.full((16, 1), 0.9)) + bce(judge(fake.detach()), torch.zeros(16, 1)))
        update(b, bce(judge(fake), torch.ones(16, 1)))


@pytest.mark.parametrize("joint", [False, True])
def test_a_discriminator_that_wins_is_seen_to_win(joint):
    run = watched(lambda: gan(joint), Players())
    assert run["gan/d_accuracy"].last > 0.95
    assert run["gan/d_real"].last > 0.6 > 0.4 > run["gan/d_fake"].last
    assert run["gan/g_grad_norm"].last > 0


def test_a_loss_by_hand_leaves_what_the_judge_says_of_both_and_how_alike_the_fakes_are():
    def loop(width: float = 0.01):
        maker, judge = nn.Linear(3, 2), nn.Linear(2, 1)
        with torch.no_grad():
            maker.weight.mul_(width)
            judge.weight.fill_(1.0)
        a, b = torch.optim.SGD(judge.parameters(), 0.01), torch.optim.SGD(maker.parameters(), 0.01)
        for _ in range(8):
            real, fake = torch.randn(16, 2) + 5, maker(torch.randn(16, 3))
            update(a, F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean())
            update(b, F.softplus(-judge(fake)).mean())

    alike = watched(loop, Players())
    assert alike["gan/d_accuracy"].last > 0.95
    assert alike["gan/fake_diversity"].last < 0.1
    assert watched(lambda: loop(2.0), Players())["gan/fake_diversity"].last > 0.2


def test_fakes_are_known_for_fakes_however_many_outputs_there_were():
    """A script that keeps its outputs, so that no two of them lie in the same place."""

    def loop():
        maker, judge, kept = nn.Linear(3, 2), nn.Linear(2, 1), []
        with torch.no_grad():
            maker.weight.mul_(0.01)
        a, b = torch.optim.SGD(judge.parameters(), 0.01), torch.optim.SGD(maker.parameters(), 1e-6)
        for _ in range(30):
            real, fake = torch.randn(16, 2) + 5, maker(torch.randn(16, 3))
            said = [judge(real), judge(fake.detach())]
            update(a, F.softplus(-said[0]).mean() + F.softplus(said[1]).mean())
            said.append(judge(fake))
            update(b, F.softplus(-said[2]).mean())
            kept += [fake, *said]

    seen = watched(loop, Players())["gan/fake_diversity"].values
    assert len(seen) >= 20 and seen.max() < 0.1


def test_a_fake_made_before_the_look_is_not_taken_for_real():
    """Looks that begin with the maker's own update, when its samples have been made already."""

    class Late(Players):
        def on_forward(self, scene, forward):
            if scene.step % 10 in (7, 8, 9, 0):  # from the maker's update of one round to the end of the next
                super().on_forward(scene, forward)

    def loop():
        maker, judge = nn.Linear(3, 2), nn.Linear(2, 1)
        with torch.no_grad():
            maker.weight.mul_(0.01)
        a, b = torch.optim.SGD(judge.parameters(), 0.01), torch.optim.SGD(maker.parameters(), 1e-6)
        for _ in range(40):
            real, fake = torch.randn(16, 2) + 5, maker(torch.randn(16, 3))
            update(a, F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean())
            update(b, F.softplus(-judge(fake)).mean())

    seen = watched(loop, Late())["gan/fake_diversity"].values
    assert len(seen) >= 4 and seen.max() < 0.1


def test_two_optimizers_after_one_backward_are_no_players():
    def loop():
        body, head = nn.Linear(3, 2), nn.Linear(2, 1)
        a, b = torch.optim.SGD(body.parameters(), 0.1), torch.optim.SGD(head.parameters(), 0.1)
        for _ in range(8):
            x = torch.randn(16, 3)
            a.zero_grad()
            b.zero_grad()
            bce(head(body(x)), (x[:, :1] > 0).float()).backward()
            a.step()
            b.step()

    assert not [s for s in watched(loop, Players()).signals if s.startswith("gan/d")]


def test_two_tasks_that_take_turns_are_no_players():
    def loop():
        one, two = nn.Linear(3, 1), nn.Linear(3, 1)
        a, b = torch.optim.SGD(one.parameters(), 0.1), torch.optim.SGD(two.parameters(), 0.1)
        for _ in range(8):
            x = torch.randn(16, 3)
            update(a, bce(one(x), (x[:, :1] > 0).float()))
            update(b, bce(two(x), (x[:, 1:2] > 0).float()))

    assert not [s for s in watched(loop, Players()).signals if s.startswith("gan/")]


def test_the_entropy_of_a_policy():
    def loop():
        policy = nn.Linear(3, 4)
        optimizer = torch.optim.SGD(policy.parameters(), 0.0)
        nn.init.zeros_(policy.weight)
        nn.init.zeros_(policy.bias)
        for _ in range(5):
            choice = Categorical(logits=policy(torch.randn(8, 3)))
            action = choice.sample()
            update(optimizer, -(choice.log_prob(action) * torch.randn(8)).mean())

    run = watched(loop, Policy())
    assert run["rl/entropy"].values == pytest.approx([1.3862944] * 5)
    assert run.fact("rl") is True


class World:
    action_space = 2

    def reset(self) -> None: ...
    def step(self, action: int) -> None: ...


@pytest.mark.parametrize(("alive", "served", "acts"), [(True, False, True), (True, True, None), (False, False, None)])
def test_what_acts_in_an_environment_is_an_agent(monkeypatch, alive: bool, served: bool, acts: bool | None):
    def loop():
        world = World() if alive else None
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        data = TensorDataset(torch.randn(96, 3), torch.randn(96, 1))
        for x, y in DataLoader(data, 4) if served else zip(*(t.split(4) for t in data.tensors), strict=True):
            update(optimizer, (model(x) - y).square().mean())
        del world

    monkeypatch.setitem(sys.modules, "gymnasium", sys)
    assert watched(loop, Policy(), Data()).fact("rl") is acts


def test_a_policy_is_left_as_it_is():
    """Its lazily computed parts are kept on it, and gradients that meet in them would add up in another order."""
    policy = Categorical(logits=torch.randn(4, 3, requires_grad=True))
    before = set(vars(policy))
    Policy().on_policy(SimpleNamespace(fact=lambda *_: None), policy)
    assert set(vars(policy)) == before


def test_a_likelihood_of_data_is_no_policy():
    def loop():
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for i in range(6):
            x = torch.randn(8, 3)
            if i % 2:
                update(optimizer, -Normal(model(x), 1.0).log_prob(x[:, :1]).mean())
            else:
                update(optimizer, -Bernoulli(logits=model(x)).log_prob((x[:, :1] > 0).float()).mean())

    run = watched(loop, Policy())
    assert "rl/entropy" not in run.signals and not run.fact("rl")


def closed_form(mu, logvar):
    return -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()


def closed_form_in_another_order(mu, logvar):
    return 0.5 * torch.sum(torch.exp(logvar) + mu * mu - 1.0 - logvar, 1).mean()


def by_torch(mu, logvar):
    return (
        distributions.kl_divergence(Normal(mu, (0.5 * logvar).exp()), Normal(torch.zeros_like(mu), torch.ones_like(mu)))
        .sum(1)
        .mean()
    )


def independent(mu, logvar):
    prior = Independent(Normal(torch.zeros_like(mu), torch.ones_like(mu)), 1)
    return distributions.kl_divergence(Independent(Normal(mu, (0.5 * logvar).exp()), 1), prior).mean()


@pytest.mark.parametrize("divergence", [closed_form, closed_form_in_another_order, by_torch, independent])
def test_active_dimensions_of_a_latent_code(divergence):
    def loop():
        encoder, decoder = nn.Linear(5, 8), nn.Linear(4, 5)
        with torch.no_grad():
            encoder.weight.zero_()
            encoder.bias.zero_()
            encoder.bias[0] = 3.0  # one dimension of four says something
        optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], 0.0)
        for _ in range(4):
            x = torch.randn(16, 5)
            mu, logvar = encoder(x).chunk(2, 1)
            z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
            update(optimizer, F.mse_loss(decoder(z), x) + divergence(mu, logvar))

    assert watched(loop, Latents())["vae/kl_active"].values == pytest.approx([0.25] * 4)


def test_exponentials_and_squares_elsewhere_are_no_latent_code():
    def loop():
        model = nn.Linear(5, 4)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(4):
            out = model(torch.randn(16, 5))
            update(optimizer, (out**2 + torch.exp(0.1 * out) - out).mean())

    assert "vae/kl_active" not in watched(loop, Latents()).signals


def two_views(pull_apart: bool, supervised: bool = False, at_once: bool = False):
    encoder = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 16))

    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = encoder

        def forward(self, a, b):
            return self.f(a), self.f(b)

    model = Pair() if at_once else encoder
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(60):
        x = torch.randn(32, 12)
        a, b = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
        made = model(a, b) if at_once else (model(a), model(b))
        one, two = (F.normalize(z, dim=1) for z in made)
        loss = (one - two).pow(2).sum(1).mean()
        if pull_apart:
            loss = loss + (one @ one.T).pow(2).mean()
        if supervised:
            loss = loss + F.cross_entropy(made[0], torch.zeros(32, dtype=torch.long))
        update(optimizer, loss)


@pytest.mark.parametrize("at_once", [False, True])
def test_embeddings_of_two_views_that_only_pull_together_lose_their_spread(at_once):
    torch.manual_seed(0)
    collapsed = watched(lambda: two_views(False, at_once=at_once), Views())
    healthy = watched(lambda: two_views(True, at_once=at_once), Views())
    assert collapsed.fact("ssl") and healthy["ssl/embedding_spread"].last > 0.5 > 2 * collapsed["ssl/embedding_spread"].last


def test_a_target_makes_two_passes_no_views():
    run = watched(lambda: two_views(False, supervised=True), Views())
    assert "ssl/embedding_spread" not in run.signals
