"""What the explorers compute is what a net would do."""

from pathlib import Path
from typing import Any

import pytest

from traindx.dashboard import explorers
from traindx.dashboard.explorers import ACTIVATIONS, INITS, NORMS, gradient_health, units_alive, weight_shapes
from traindx.errors import UsageError


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
    assert units_alive(1e300, -1e300, 10**6, 10**6)["layers"]


@pytest.mark.parametrize(
    "wrong", [{"activation": "nope"}, {"init": "orthodox"}, {"norm": "batch"}, {"depth": 0}, {"depth": 101}, {"width": 3}]
)
def test_what_is_not_known_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        gradient_health(
            **{"activation": "relu", "init": "he", "depth": 8, "width": 32, "norm": "none", "residual": False, **wrong}
        )


def test_every_net_of_the_lessons_is_there_and_judged() -> None:
    def told(activation: str, init: str, depth: int) -> str:
        return gradient_health(activation, init, depth, 64, "none", False)["verdict"].split(":")[0]

    assert told("relu", "zero", 3) == "dead" and told("tanh", "zero", 3) == "dead" and told("sigmoid", "zero", 3) == "vanishing"
    assert told("sigmoid", "uniform", 4) == "vanishing" and told("relu", "he", 50) == "healthy"
    assert told("tanh", "xavier", 10) == "healthy"
    for activation in ACTIVATIONS:
        for init in INITS:
            for depth in (1, 4, 30, 100):
                assert told(activation, init, depth) in ("dead", "vanishing", "fading", "exploding", "healthy")


def test_the_page_offers_what_is_computed() -> None:
    page = (Path(explorers.__file__).parent / "page" / "explorers.js").read_text(encoding="utf-8")
    for label, known in (("activation", ACTIVATIONS), ("initialisation", INITS), ("normalisation", NORMS)):
        offered = page.split(f'select("{label}", [')[1].split("]")[0]
        assert [word.strip('" ') for word in offered.split(",")] == list(known)


def test_four_shapes_of_weights_from_four_real_trainings() -> None:
    found = weight_shapes()
    assert set(found) == {"healthy", "collapsed", "exploded", "bimodal"}
    well = found["healthy"]
    assert found["collapsed"]["std"] < 0.05 * well["std"] and 2.5 < well["kurtosis"] < 4
    assert found["exploded"]["kurtosis"] > 2 * well["kurtosis"] and found["exploded"]["std"] > well["std"]
    heaps = found["bimodal"]["counts"]
    assert min(heaps[0], heaps[-1]) > 5 * max(heaps[20:40])
