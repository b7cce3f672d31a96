"""Patches of initial weights, activations and norm layers."""

from __future__ import annotations

import re

from clinic.patches.steps import longer
from clinic.surgery import Base, Inapplicable, ahead, at_backward, constant, creation, length, model_made, swap

_FIRST = r"nn\.Linear\((\w+), (\w+)\), nn\.ReLU\(\)"  # the first hidden layer of a plain stack


def scale_init(text: str, b: Base, value: float) -> str:
    rows = f"with torch.no_grad():\n    for p in {model_made(b)}.parameters():\n        if p.dim() > 1:\n            p.mul_({value})"
    return ahead(text, creation(text, b), rows)


def constant_init(text: str, b: Base, value: str) -> str:
    fill = "p.fill_(0.05)" if value == "all" else "p.normal_(0, 0.05)"
    rows = f"with torch.no_grad():\n    for p in {model_made(b)}.parameters():\n        {fill}"
    return ahead(text, creation(text, b), rows)


def bias_hidden(text: str, b: Base, value: float) -> str:
    if not b.relu or b.batchnorm or b.task == "vae":
        raise Inapplicable
    rows = (
        f"hidden = [m for m in {model_made(b)}.modules() if isinstance(m, nn.Linear)][:-1]\n"
        f"for m in hidden:\n    nn.init.normal_(m.bias, {value}, 0.5)"
    )
    return ahead(text, creation(text, b), rows)


def bias_output(text: str, b: Base, value: float) -> str:
    """The last layer's first bias starts away from zero."""
    rows = f"last = [m for m in {model_made(b)}.modules() if isinstance(m, nn.Linear)][-1]\nnn.init.constant_(last.bias[:1], {value})"
    return ahead(text, creation(text, b), rows)


def bn_momentum(text: str, b: Base, value: float) -> str:
    if "nn.BatchNorm" not in text:
        found = re.search(_FIRST, text)
        if not found:
            raise Inapplicable
        a, wide = found.groups()
        return swap(text, found.group(), f"nn.Linear({a}, {wide}), nn.BatchNorm1d({wide}, momentum={value}), nn.ReLU()", 1)
    return re.sub(r"(nn\.BatchNorm\dd\(\d+)\)", rf"\1, momentum={value})", text)


def tower(text: str, b: Base, value: tuple[int, str]) -> str:
    """So many more hidden layers of this activation behind the first one."""
    found = re.search(_FIRST, text)
    if not found:
        raise Inapplicable
    many, act = value
    wide = found.group(2)
    return swap(
        text,
        found.group(),
        f"{found.group()}, *[nn.Sequential(nn.Linear({wide}, {wide}), nn.{act}()) for _ in range({many})]",
        1,
    )


def deep_and_drawn(text: str, b: Base, value: float | None) -> str:
    """Eight more layers whose weights are drawn with this deviation; None leaves them as torch draws them."""
    text = tower(text, b, (8, "ReLU"))
    draw = f"for p in {model_made(b)}.parameters():\n    if p.dim() > 1:\n        nn.init.normal_(p, std={value})"
    return text if value is None else ahead(text, creation(text, b), draw)


def tanh_drawn(text: str, b: Base, value: float) -> str:
    """Tanh for ReLU, with initial weights this much larger."""
    return scale_init(swap(text, "nn.ReLU()", "nn.Tanh()"), b, value)


def dropped(text: str, b: Base, value: float) -> str:
    """Dropout behind every hidden layer of a plain stack."""
    text = re.sub(r", nn\.Dropout\([\d.]+\)", "", text)
    return swap(text, "nn.ReLU()", f"nn.ReLU(), nn.Dropout({value})")


def narrow(text: str, b: Base, value: int) -> str:
    """The second hidden layer (or the code of an autoencoder) is this wide."""
    for old, new in (
        ("nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 10)", f"nn.Linear(96, {value}), nn.ReLU(), nn.Linear({value}, 10)"),
        ("nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1)", f"nn.Linear(48, {value}), nn.ReLU(), nn.Linear({value}, 1)"),
        (
            "nn.Linear(2, 32), Residual(32), Residual(32), nn.LayerNorm(32)",
            f"nn.Linear(2, {value}), nn.ReLU(), nn.Linear({value}, 32)",
        ),
    ):
        if old in text:
            # long enough to see that it gets no further
            return constant(swap(text, old, new, 1), length(text)[1], lambda n: 3 * n)
    raise Inapplicable


def penalised(text: str, b: Base, value: float) -> str:
    """The squared weights enter the loss with this factor, in a run long enough for it to show."""
    rows = "loss = loss + {v} * sum(p.pow(2).sum() for p in {model}.parameters() if p.dim() > 1)"
    return longer(at_backward(rows)(text, b, value), b, (3, 4))
