"""Patches that bring numbers which are none, or too few bits."""

from __future__ import annotations

import re

from clinic.surgery import (
    Base,
    Inapplicable,
    after,
    ahead,
    at_loss,
    backward,
    constant,
    creation,
    indent_of,
    length,
    line_of,
    loop,
    model_made,
    swap,
)


def entropy_term(text: str, b: Base, value: str) -> str:
    """An entropy bonus whose logarithm meets an exact zero, or is guarded."""
    back = line_of(text, r"loss\.backward\(\)")
    if b.task not in ("classification", "lm"):
        raise Inapplicable
    pad = indent_of(back)
    log = {"bare": "p.log()", "guarded": "(p + 1e-8).log()"}[value]
    rows = f"{pad}p = torch.softmax(60 * {b.out}, dim=-1)\n{pad}loss = loss - 0.001 * (p * {log}).sum(-1).mean()\n"
    return swap(text, back, rows + back, 1)


def skip_bad(text: str, b: Base, value: int) -> str:
    """Samples that hold NaN, and a guard that skips their batches without a word."""
    text = after(text, b.split, f"{b.tx}[torch.randperm(len({b.tx}))[:{value}]] = float('nan')") if value else text
    back = line_of(text, r"loss\.backward\(")
    return swap(text, back, f"{indent_of(back)}if not torch.isfinite(loss):\n{indent_of(back)}    continue\n{back}", 1)


def in_half(text: str, b: Base, value: str) -> str:
    """Forward and loss of the training step under autocast with this type."""
    found = re.search(rf"^([ \t]*)({re.escape(b.out)} = .*)\n\1(loss = .*)\n", text, flags=re.M)
    if not found:
        raise Inapplicable
    pad, forward, loss = found.groups()
    lines = f'{pad}with torch.autocast("cpu", dtype=torch.{value}):\n{pad}    {forward}\n{pad}    {loss}\n'
    return text[: found.start()] + lines + text[found.end() :]


def scaled(text: str, b: Base, clip: str = "", update: bool = True) -> str:
    """float16 with a gradient scaler, with lines between backward and step."""
    text = in_half(text, b, "float16")
    back, step = backward(text), line_of(text, rf"{re.escape(b.opt)}\.step\(\)")
    text = swap(text, back, f"{indent_of(back)}scaler.scale(loss).backward()\n", 1)
    calls = "\n".join(x for x in (clip, f"scaler.step({b.opt})", "scaler.update()" if update else "") if x)
    text = swap(ahead(text, step, calls), step, "", 1)
    return ahead(text, loop(text), 'scaler = torch.amp.GradScaler("cpu")')


def clip_and_scale(text: str, b: Base, value: str) -> str:
    clip = f"torch.nn.utils.clip_grad_norm_({b.model}.parameters(), 1.0)"
    before = {"clip first": clip, "no update": "", "unscaled first": f"scaler.unscale_({b.opt})\n{clip}"}[value]
    return scaled(text, b, before, value != "no update")


def large_in_half(text: str, b: Base, value: float) -> str:
    """float16 with a scaler, fed with inputs this much larger."""
    return after(scaled(text, b), b.data, f"{b.X} = {b.X} * {value}")


def large_outputs_in_half(text: str, b: Base, value: float) -> str:
    """float16 with a scaler, and outputs this much larger after a quarter of the run."""
    at, end = length(text)
    return at_loss(f"if {at} > {end} // 4:\n    {{out}} = {{out}} * {{v}}")(scaled(text, b), b, value)


def weights_in_bfloat16(text: str, b: Base, value: tuple[str, float]) -> str:
    """Model and inputs in this type, at a small rate."""
    kind, rate = value
    text = ahead(text, creation(text, b), f"{model_made(b)}.to(torch.{kind})")
    return constant(after(text, b.data, f"{b.X} = {b.X}.to(torch.{kind})"), "LR", lambda lr: lr * rate)
