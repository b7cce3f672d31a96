"""Patches of the learning rate, its schedule and the optimizer."""

from __future__ import annotations

import re

from clinic.surgery import (
    Base,
    Inapplicable,
    after,
    ahead,
    behind,
    call,
    constant,
    creation,
    indent_of,
    length,
    line_of,
    loop,
    model_made,
    optimizer,
    swap,
)


def scale_lr(text: str, b: Base, value: tuple[float, float]) -> str:
    return constant(text, "LR", lambda lr: lr * (value[0] if b.adaptive else value[1]))


def decay_schedule(text: str, b: Base, value: tuple[int, float]) -> str:
    """A step decay meant in epochs, stepped with every batch."""
    if b.scheduler:
        raise Inapplicable
    made, step = creation(text, b), line_of(text, rf"{re.escape(b.opt)}\.step\(\)")
    name = "self.decay" if b.opt.startswith("self.") else "decay"
    text = swap(text, step, f"{step}{indent_of(step)}{name}.step()\n", 1)
    return after(text, made, f"{name} = torch.optim.lr_scheduler.StepLR({b.opt}, step_size={value[0]}, gamma={value[1]})")


def weight_decay(text: str, b: Base, value: float) -> str:
    return optimizer(text, b, f"torch.optim.AdamW({model_made(b)}.parameters(), lr=LR, weight_decay={value})")


def clip_sgd(text: str, b: Base, value: tuple[float, str]) -> str:
    """Plain SGD (or Adam, which does not mind) behind a clip."""
    if "clip_grad_norm_" in text:
        raise Inapplicable
    limit, kind = value
    lr = {"SGD": "lr=0.05", "Adam": "lr=LR"}[kind]
    step = line_of(text, rf"{re.escape(b.opt)}\.step\(\)")
    text = optimizer(text, b, f"torch.optim.{kind}({model_made(b)}.parameters(), {lr})")
    return swap(text, step, f"{indent_of(step)}torch.nn.utils.clip_grad_norm_({b.model}.parameters(), {limit})\n{step}", 1)


def late_jump(text: str, b: Base, value: float) -> str:
    """The learning rate is raised for the last third of the run."""
    if b.scheduler:
        raise Inapplicable
    zero = line_of(text, call(b, "zero_grad"))
    pad = indent_of(zero)
    unit = "epoch > 0.6 * EPOCHS" if "EPOCHS = " in text else "step > 0.6 * STEPS"
    rows = f'{pad}if {unit}:\n{pad}    {b.opt}.param_groups[0]["lr"] = LR * {value}\n'
    text = constant(text, "EPOCHS" if "EPOCHS = " in text else "STEPS", lambda n: n * 1.5)
    return swap(text, zero, rows + zero, 1)


def adam_eps(text: str, b: Base, value: float) -> str:
    return optimizer(text, b, f"torch.optim.Adam({model_made(b)}.parameters(), lr=LR, eps={value})")


def to_sgd(text: str, b: Base, value: tuple[float, float]) -> str:
    """SGD with this rate and momentum instead of the base's optimizer."""
    return optimizer(text, b, f"torch.optim.SGD({model_made(b)}.parameters(), lr={value[0]}, momentum={value[1]})")


def epoch_decay(text: str, b: Base, value: float) -> str:
    """The rate is multiplied by `value` after every epoch."""
    if b.scheduler or length(text) != ("epoch", "EPOCHS"):
        raise Inapplicable
    name = "self.decay" if b.opt.startswith("self.") else "decay"
    text = behind(text, creation(text, b), f"{name} = torch.optim.lr_scheduler.ExponentialLR({b.opt}, gamma={value})")
    return behind(text, loop(text), f"    if epoch > 0:\n        {name}.step()")


def made_anew(text: str, b: Base, value: str) -> str:
    """The optimizer is made again with every epoch, or once more before the first."""
    made = creation(text, b).strip()
    if b.opt.startswith("self.") or b.scheduler or length(text) != ("epoch", "EPOCHS"):
        raise Inapplicable
    return behind(text, loop(text), f"    {made}") if value == "every epoch" else ahead(text, loop(text), made)


def two_groups(text: str, b: Base, value: str) -> str:
    """The last layer is a parameter group with a rate of its own."""
    m = model_made(b)
    groups = f'[{{"params": list({m}.parameters())[:-2]}}, {{"params": list({m}.parameters())[-2:], "lr": {value}}}]'
    return swap(text, f"{m}.parameters(), lr=LR", f"{groups}, lr=LR", 1)


def batch_changes(text: str, b: Base, value: int) -> str:
    """From half of the run on batches have another size; the rate stays."""
    at, end = length(text)
    size = f"BATCH if {at} < {end} // 2 else {value}"
    return (
        swap(text, "split(BATCH)", f"split({size})", 1) if "split(BATCH)" in text else swap(text, "(BATCH,)", f"({size},)", 1)
    )


def longer(text: str, b: Base, value: tuple[float, float]) -> str:
    """More (or fewer) passes at another rate."""
    text = constant(text, length(text)[1], lambda n: n * value[0])
    return constant(text, "LR", lambda lr: lr * value[1])


def vectors_decay(text: str, b: Base, value: float) -> str:
    """Weight decay of their own for gains and biases."""
    m = model_made(b)
    pick = "[p for p in {m}.parameters() if p.dim() {how}]"
    groups = (
        f'{{"params": {pick.format(m=m, how="> 1")}, "weight_decay": 0.01}}, '
        f'{{"params": {pick.format(m=m, how="< 2")}, "weight_decay": {value}}}'
    )
    return optimizer(text, b, f"torch.optim.AdamW([{groups}], lr=LR)")


def cold(text: str, b: Base, value: tuple[float, bool]) -> str:
    """A higher rate from the first step on, with the base's warm-up or without."""
    factor, warm = value
    if not warm:
        for old, new in (("min((s + 1) / 25, ", "("), (" * min(1.0, (step + 1) / 20)", "")):
            text = text.replace(old, new)
    return constant(text, "LR", lambda lr: lr * factor)
