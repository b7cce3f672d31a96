"""The dashboard's explorers for the docs site: `python -m tools.explorers` computes their answers."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from traindx.dashboard.explorers import ACTIVATIONS, INITS, NORMS, gradient_health, units_alive, weight_shapes

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "src" / "traindx" / "dashboard" / "page"
OUT = ROOT / "docs" / "explorers"
DEPTHS, WIDTH = (8, 30, 60), 128
POWERS, BIASES = (-3, -2, -1, -0.5, 0, 0.5, 1, 1.5), (-3, -2, -1, 0, 1, 2)


def gradients() -> dict[str, Any]:
    """The scale by layer of every net on offer."""
    out = {}
    for activation, init, norm, residual, depth in itertools.product(ACTIVATIONS, INITS, NORMS, ("no", "yes"), DEPTHS):
        found = gradient_health(activation, init, depth, WIDTH, norm, residual == "yes")
        kept = {k: found[k] for k in ("layers", "forward", "weight_gradient", "verdict")}
        out["|".join((activation, init, norm, residual, str(depth)))] = kept
    return out


def units() -> dict[str, Any]:
    """What becomes of the units at every rate and bias on offer; the page shows four layers."""
    out = {}
    for power, bias in itertools.product(POWERS, BIASES):
        found = units_alive(10.0**power, float(bias), 6, 64)
        out[f"{power}|{bias}"] = found | {"history": [row[:4] for row in found["history"]]}
    return out


def rounded(value: Any) -> Any:
    """Three digits are more than a chart shows; what is not finite is a gap."""
    if isinstance(value, float):
        short = float(f"{value:.3g}")
        return None if short != short or abs(short) == float("inf") else int(short) if short == int(short) else short
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


def answers() -> dict[str, Any]:
    """Everything the pages ask for."""
    return {
        "offered": {
            "gradients": {"depth": DEPTHS, "width": (WIDTH,)},
            "units": {"power": POWERS, "bias": BIASES, "depth": (6,), "width": (64,)},
        },
        "gallery": json.loads((PAGE / "gallery.json").read_text(encoding="utf-8")),
        "gradients": rounded(gradients()),
        "units": rounded(units()),
        "weights": rounded(weight_shapes()),
    }


def main() -> None:
    made = json.dumps(answers(), allow_nan=False, separators=(",", ":")) + "\n"
    (OUT / "answers.json").write_text(made, encoding="utf-8")
    print(f"{len(made)} bytes of answers")


if __name__ == "__main__":
    main()
