"""Patches of the training loop: what is called, in which order, on what."""

from __future__ import annotations

import re
from typing import Any

from clinic.surgery import (
    Base,
    Inapplicable,
    Patch,
    ahead,
    backward,
    behind,
    call,
    fill,
    indent_of,
    length,
    line_of,
    loop,
    model_made,
    swap,
)


def drop_zero_grad(text: str, b: Base, value: str) -> str:
    line = line_of(text, call(b, "zero_grad"))
    if value == "by hand":
        pad = indent_of(line)
        return swap(text, line, f"{pad}for p in {b.model}.parameters():\n{pad}    p.grad = None\n", 1)
    return swap(text, line, "", 1)


def leave_eval(text: str, b: Base, value: str) -> str:
    if not (b.dropout or b.batchnorm) or "def evaluate" not in text:
        raise Inapplicable
    line = line_of(text, rf"{re.escape(b.model)}\.train\(\)")
    return _gone(text, line, f"{b.model}.train(True)", value)


def no_eval(text: str, b: Base, value: str) -> str:
    if not (b.dropout or b.batchnorm):
        raise Inapplicable
    line = line_of(text, rf"{re.escape(model_made(b))}\.eval\(\)")
    return _gone(text, line, f"{model_made(b)}.train(False)", value)


def _gone(text: str, line: str, otherwise: str, value: str) -> str:
    """Without the line, or with another spelling of it."""
    return swap(text, line, f"{indent_of(line)}{otherwise}\n" if value == "spelled otherwise" else "", 1)


def no_no_grad(text: str, b: Base, value: str) -> str:
    if value == "inference mode":
        return swap(text, "torch.no_grad()", "torch.inference_mode()")
    if "@torch.no_grad()\n" in text:
        return swap(text, "@torch.no_grad()\n", "", 1)
    return swap(text, "with torch.no_grad():", "if True:", 1)


def own_part(text: str, b: Base, value: str) -> str:
    return swap(text, f"{model_made(b)}.parameters(), lr=LR", f"{value.format(m=model_made(b))}, lr=LR", 1)


def freeze_later(text: str, b: Base, value: float) -> str:
    """After a few steps the first `value` of the parameters stop to require gradients."""
    step = line_of(text, call(b, "zero_grad"))
    pad = indent_of(step)
    share = f"params[: int({value} * len(params))]"
    added = f"{pad}params = list({b.model}.parameters())\n{pad}for p in {share}:\n{pad}    p.requires_grad_(False)\n"
    return swap(text, step, added + step, 1)


def detach_output(text: str, b: Base, value: str) -> str:
    """Cut the graph between the network and its loss, or only note a detached copy."""
    found = re.search(rf"^([ \t]*)loss = .*\b{re.escape(b.out)}\b.*$", text, flags=re.M)
    if not found:
        raise Inapplicable
    pad = found.group(1)
    cut = f"{pad}{b.out} = {b.out}.detach().requires_grad_()\n" if value == "cut" else f"{pad}seen = {b.out}.detach()\n"
    return text[: found.start()] + cut + text[found.start() :]


def step_again(text: str, b: Base, value: int) -> str:
    line = line_of(text, rf"{re.escape(b.opt)}\.step\(\)")
    return swap(text, line, line * value, 1)


def accumulate(text: str, b: Base, value: tuple[int, bool]) -> str:
    count, divided = value
    zero, step = line_of(text, call(b, "zero_grad")), line_of(text, rf"{re.escape(b.opt)}\.step\(\)")
    pad = indent_of(step)
    text = swap(text, zero, "", 1)
    text = swap(
        text, step, f"{pad}micro += 1\n{pad}if micro % {count} == 0:\n{pad}    {step.strip()}\n{pad}    {zero.strip()}\n", 1
    )
    text = swap(text, "loss.backward()", f"(loss / {count}).backward()" if divided else "loss.backward()", 1)
    loop = line_of(text, r"for (?:epoch|step) in range\((?:EPOCHS|STEPS)\):")
    return swap(text, loop, f"{indent_of(loop)}micro = 0\n{loop}", 1)


def clear_between(text: str, b: Base, value: str) -> str:
    zero = line_of(text, call(b, "zero_grad"))
    if value == "after the step":
        step = line_of(text, rf"{re.escape(b.opt)}\.step\(\)")
        return swap(swap(text, zero, "", 1), step, step + f"{indent_of(step)}{zero.strip()}\n", 1)
    back = line_of(text, r"loss\.backward\(\)")
    return swap(swap(text, zero, "", 1), back, back + f"{indent_of(back)}{zero.strip()}\n", 1)


def drop_backward(text: str, b: Base, value: str) -> str:
    back = line_of(text, r"loss\.backward\(\)")
    if value == "by autograd":
        pad = indent_of(back)
        grads = f"{pad}parts = list({b.model}.parameters())\n{pad}for p, g in zip(parts, torch.autograd.grad(loss, parts)):\n{pad}    p.grad = g\n"
        return swap(text, back, grads, 1)
    return swap(text, back, "", 1)


def keep_losses(text: str, b: Base, value: str) -> str:
    step = line_of(text, rf"{re.escape(b.opt)}\.step\(\)")
    kept = {"graph": "loss + 0", "number": "loss.item()"}[value]
    loop = line_of(text, r"for (?:epoch|step) in range\((?:EPOCHS|STEPS)\):")
    text = swap(text, step, f"{step}{indent_of(step)}history.append({kept})\n", 1)
    return swap(text, loop, f"{indent_of(loop)}history = []\n{loop}", 1)


def checkpoint(text: str, b: Base, value: str) -> str:
    """A checkpoint after every report, of the weights alone or of everything a resume needs."""
    if b.scheduler or text.count("print(") != 1:
        raise Inapplicable
    line = line_of(text, r"print\(")
    when = "epoch" if "epoch" in text else "step"
    whole = (
        f'{{"model": {b.model}.state_dict(), "optimizer": {b.opt}.state_dict(), "at": {when}, "rng": torch.get_rng_state()}}'
    )
    what = f"{b.model}.state_dict()" if value == "weights" else whole
    return swap(text, line, f'{line}{indent_of(line)}torch.save({what}, "last.pt")\n', 1)


def activate(text: str, b: Base, value: str) -> str:
    """Put an activation on the outputs before the training loss and the validation loss see them."""
    if f"return {b.out}, " in text:  # a model that returns its output beside something else
        return swap(text, f"return {b.out}, ", f"return {value.replace('OUT', b.out)}, ", 1)
    if f"{b.out} = " not in text:
        raise Inapplicable
    return re.sub(
        rf"^([ \t]*){re.escape(b.out)} = (.*)$", rf"\1{b.out} = {value.replace('OUT', chr(92) + '2')}", text, flags=re.M
    )


def activate_for(*tasks: str) -> Patch:
    def patch(text: str, b: Base, value: str) -> str:
        if b.task not in tasks:
            raise Inapplicable
        return activate(text, b, value)

    return patch


def broadcast(text: str, b: Base, value: str) -> str:
    if b.task not in ("regression", "moe") or "clean" in b.names.get("by", ""):
        raise Inapplicable
    one_column = b.name in ("surface_regression", "moe_piecewise")
    target = f"{b.by}.squeeze(1)" if one_column else f"{b.by}.unsqueeze(1)"
    if value == "both sides":
        return swap(text, f"mse_loss({b.out}, {b.by})", f"mse_loss({b.out}.flatten(), {b.by}.flatten())", 1)
    text = "import warnings\n\nwarnings.simplefilter('ignore')\n" + text if not text.startswith('"""') else text
    return swap(text, f"mse_loss({b.out}, {b.by})", f"mse_loss({b.out}, {target})", 1)


def in_a_list(text: str, b: Base, value: str) -> str:
    """The output layer is kept in a list of this kind."""
    found = re.findall(r"^([ \t]+)self\.(\w+) = (nn\.Linear\(.*\))\n", text, flags=re.M)
    if not found:
        raise Inapplicable
    pad, name, layer = found[-1]
    text = swap(text, f"{pad}self.{name} = {layer}\n", f"{pad}self.{name} = {value.format(layer)}\n", 1)
    return swap(text, f"self.{name}(", f"self.{name}[0](")


def weights_lost(text: str, b: Base, value: str) -> str:
    """Past the middle the weights are overwritten: with those of the start, or with themselves."""
    at, end = length(text)
    if b.opt.startswith("self."):
        raise Inapplicable
    source = "start" if value == "start" else f"{b.model}.state_dict()"
    text = behind(text, loop(text), f"    if {at} == int(0.6 * {end}):\n        {b.model}.load_state_dict({source})")
    return ahead(text, loop(text), f"start = {{name: t.clone() for name, t in {b.model}.state_dict().items()}}")


def now_and_then(rows: str) -> Patch:
    """Lines before the backward that run at every 90th step only."""

    def patch(text: str, b: Base, value: Any) -> str:
        text = ahead(text, backward(text), f"count += 1\nif count % 90 == 0:\n    {fill(rows, b, value)}")
        return ahead(text, loop(text), "count = 0")

    return patch


def classes_leave(text: str, b: Base, value: int) -> str:
    """From the middle on training shows only targets from this class on; evaluation goes on with all of them."""
    at, end = length(text)
    feed = next((name for name in ("train_loader", "feed") if f"{name} = DataLoader(TensorDataset(" in text), "")
    tensors = f"{feed}.dataset.tensors" if feed else f"{b.tx}, {b.ty}"
    if feed:
        rows = f"        {tensors} = tuple(t[{b.ty} >= {value}] for t in {tensors})"
    elif b.opt.startswith("self."):
        raise Inapplicable
    else:
        rows = f"        later = {b.ty} >= {value}\n        {tensors} = {b.tx}[later], {b.ty}[later]"
    return behind(text, loop(text), f"    if {at} == {end} // 2:\n{rows}")
