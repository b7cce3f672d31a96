"""What the explorers compute is what a net would do."""

import pytest

from traindx.dashboard.explorers import ACTIVATIONS, gradient_health, units_alive, weight_shapes


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_gives_a_number_per_layer(activation: str) -> None:
    found = gradient_health(activation, "he", 12, 64, "layer", True)
    assert len(found["forward"]) == len(found["gradient"]) == len(found["weight_gradient"]) == 12


def test_a_deep_sigmoid_net_vanishes_and_a_he_relu_net_does_not() -> None:
    assert gradient_health("sigmoid", "xavier", 20, 64, "none", False)["verdict"].startswith("vanishing")
    assert gradient_health("relu", "he", 20, 128, "none", False)["verdict"].startswith("healthy")


def test_large_initial_weights_explode() -> None:
    assert gradient_health("relu", "large", 20, 64, "none", False)["verdict"].startswith("exploding")


def test_the_gradient_is_the_gradient() -> None:
    """Against a slow twin: autograd on the same net."""
    torch = pytest.importorskip("torch")
    import numpy as np

    found = gradient_health("tanh", "xavier", 4, 16, "none", False)
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(64, 16)))
    weights = []
    h = x
    for _ in range(4):
        w = torch.tensor(rng.normal(size=(16, 16)) * np.sqrt(1.0 / 16), requires_grad=True)
        weights.append(w)
        h = torch.tanh(h @ w)
    g = torch.tensor(rng.normal(size=(64, 16)) / h.numel())
    h.backward(g)
    assert [float(w.grad.norm()) for w in weights] == pytest.approx(found["weight_gradient"], rel=1e-6)


def test_a_hot_rate_kills_units_or_runs_away() -> None:
    calm, hot = units_alive(0.05, 0.0, 4, 32), units_alive(20.0, 0.0, 4, 32)
    assert min(calm["alive"]) > 0.8
    assert hot["diverged"] or min(hot["alive"]) < min(calm["alive"])


def test_wild_numbers_are_tamed() -> None:
    assert len(gradient_health("nope", "nope", 10**9, 10**9, "nope", False)["layers"]) == 100
    assert units_alive(1e300, -1e300, 10**6, 10**6)["layers"]


def test_four_shapes_of_weights_from_four_real_trainings() -> None:
    found = weight_shapes()
    assert set(found) == {"healthy", "collapsed", "exploded", "bimodal"}
    well = found["healthy"]
    assert found["collapsed"]["std"] < 0.05 * well["std"] and 2.5 < well["kurtosis"] < 4
    assert found["exploded"]["kurtosis"] > 2 * well["kurtosis"] and found["exploded"]["std"] > well["std"]
    heaps = found["bimodal"]["counts"]
    assert min(heaps[0], heaps[-1]) > 5 * max(heaps[20:40])
