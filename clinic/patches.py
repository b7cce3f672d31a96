"""The patches: each puts one fault into a base program's text; which faults exist is the table in `operators.py`."""

from __future__ import annotations

import re
from typing import Any

from clinic.surgery import (
    Base,
    Inapplicable,
    Patch,
    after,
    call,
    constant,
    creation,
    indent_of,
    line_of,
    model_made,
    optimizer,
    swap,
)


def scale_lr(text: str, b: Base, value: tuple[float, float]) -> str:
    return constant(text, "LR", lambda lr: lr * (value[0] if b.adaptive else value[1]))


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
    if value == "spelled otherwise":
        return swap(text, line, f"{indent_of(line)}{b.model}.train(True)\n", 1)
    return swap(text, line, "", 1)


def no_eval(text: str, b: Base, value: str) -> str:
    if not (b.dropout or b.batchnorm):
        raise Inapplicable
    line = line_of(text, rf"{re.escape(model_made(b))}\.eval\(\)")
    if value == "spelled otherwise":
        return swap(text, line, f"{indent_of(line)}{model_made(b)}.train(False)\n", 1)
    return swap(text, line, "", 1)


def no_no_grad(text: str, b: Base, value: str) -> str:
    if value == "inference mode":
        return swap(text, "torch.no_grad()", "torch.inference_mode()")
    if "@torch.no_grad()\n" in text:
        return swap(text, "@torch.no_grad()\n", "", 1)
    return swap(text, "with torch.no_grad():", "if True:", 1)


def activate(text: str, b: Base, value: str) -> str:
    """Put an activation on the outputs before the training loss and the validation loss see them."""
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
    if b.task != "regression" or "clean" in b.names.get("by", ""):
        raise Inapplicable
    one_column = b.name == "surface_regression"
    target = f"{b.by}.squeeze(1)" if one_column else f"{b.by}.unsqueeze(1)"
    if value == "both sides":
        return swap(text, f"mse_loss({b.out}, {b.by})", f"mse_loss({b.out}.flatten(), {b.by}.flatten())", 1)
    text = "import warnings\n\nwarnings.simplefilter('ignore')\n" + text if not text.startswith('"""') else text
    return swap(text, f"mse_loss({b.out}, {b.by})", f"mse_loss({b.out}, {target})", 1)


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


def scale_init(text: str, b: Base, value: float) -> str:
    made, name = creation(text, b), model_made(b)
    pad = indent_of(made)
    rows = f"{pad}with torch.no_grad():\n{pad}    for p in {name}.parameters():\n{pad}        if p.dim() > 1:\n{pad}            p.mul_({value})\n"
    return swap(text, made, rows + made, 1)


def constant_init(text: str, b: Base, value: str) -> str:
    made, name = creation(text, b), model_made(b)
    fill = "p.fill_(0.05)" if value == "all" else "p.normal_(0, 0.05)"
    pad = indent_of(made)
    rows = f"{pad}with torch.no_grad():\n{pad}    for p in {name}.parameters():\n{pad}        {fill}\n"
    return swap(text, made, rows + made, 1)


def bias_hidden(text: str, b: Base, value: float) -> str:
    if not b.relu or b.batchnorm or b.task == "vae":
        raise Inapplicable
    made, name = creation(text, b), model_made(b)
    pad = indent_of(made)
    rows = (
        f"{pad}hidden = [m for m in {name}.modules() if isinstance(m, nn.Linear)][:-1]\n"
        f"{pad}for m in hidden:\n{pad}    nn.init.normal_(m.bias, {value}, 0.5)\n"
    )
    return swap(text, made, rows + made, 1)


def at_data(rows: str) -> Patch:
    """Insert lines where inputs and targets are whole; {v} is the level."""

    def patch(text: str, b: Base, value: Any) -> str:
        return after(text, b.data, rows.format(v=value, **_Names(b)))

    return patch


def at_split(rows: str) -> Patch:
    """Insert lines where training and validation sets exist; {v} is the level."""

    def patch(text: str, b: Base, value: Any) -> str:
        return after(text, b.split, rows.format(v=value, **_Names(b)))

    return patch


class _Names(dict):  # type: ignore[type-arg]
    """Names for format(); a missing one means that the operator does not apply."""

    def __init__(self, b: Base) -> None:
        super().__init__({k: v for k, v in b.names.items()})
        self.base = b

    def __missing__(self, key: str) -> str:
        raise Inapplicable

    def keys(self) -> Any:  # format(**self) asks for them
        return super().keys()


def unshuffled(text: str, b: Base, value: str) -> str:
    """Sort the training set by target (or not) and take away the shuffling."""
    if value == "sorted":
        text = after(text, b.split, f"by_class = torch.argsort({b.ty})\n{b.tx}, {b.ty} = {b.tx}[by_class], {b.ty}[by_class]")
    if "shuffle=True" in text:
        return swap(text, "shuffle=True", "shuffle=False", 1)
    return swap(text, f"torch.randperm(len({b.tx})).split(BATCH)", f"torch.arange(len({b.tx})).split(BATCH)", 1)


def one_batch(text: str, b: Base, value: str) -> str:
    if value == "once per epoch":
        found = re.search(r"^([ \t]+)for (\w+(?:, \w+)+) in (\w+):\n", text, flags=re.M)
        if not found or found.group(3) not in ("train_loader", "loader", "feed", "train", "train_dl"):
            raise Inapplicable
        return text
    for name in ("train_loader", "loader", "feed", "train", "train_dl"):
        pattern = rf"^([ \t]+)for (\w+(?:, \w+)+) in {name}:\n"
        if re.search(pattern, text, flags=re.M):
            return re.sub(
                pattern,
                rf"\1for _ in range(len({name})):\n\1    \2 = next(iter({name}))\n",
                text.replace("shuffle=True", "shuffle=False"),
                count=1,
                flags=re.M,
            )
    raise Inapplicable


def stale_copy(text: str, b: Base, value: str) -> str:
    made = creation(text, b)
    if b.opt.startswith("self."):
        raise Inapplicable
    calls = re.findall(rf"(?<!def )evaluate\({re.escape(b.model)}\)", text)
    if len(calls) < 1:
        raise Inapplicable
    text = after(text, made, f"import copy\n\nsnapshot = copy.deepcopy({b.model})")
    if value == "refreshed":
        return re.sub(rf"(?<!def )evaluate\({re.escape(b.model)}\)", f"evaluate(copy.deepcopy({b.model}))", text)
    return re.sub(rf"(?<!def )evaluate\({re.escape(b.model)}\)", "evaluate(snapshot)", text)


def overfit(text: str, b: Base, value: tuple[int, float]) -> str:
    """A small part of the training set, many passes, no decay."""
    rows, factor = value
    text = after(text, b.split, f"{b.tx}, {b.ty} = {b.tx}[:{rows}], {b.ty}[:{rows}]")
    text = re.sub(r", weight_decay=[\d.e-]+", "", text)
    text = re.sub(r"nn\.Dropout\([\d.]+\)", "nn.Identity()", text)
    return constant(text, "EPOCHS" if "EPOCHS" in text else "STEPS", lambda n: n * factor)


def bn_momentum(text: str, b: Base, value: float) -> str:
    if "nn.BatchNorm" not in text:
        raise Inapplicable
    return re.sub(r"(nn\.BatchNorm\dd\(\d+)\)", rf"\1, momentum={value})", text)


def keep_losses(text: str, b: Base, value: str) -> str:
    step = line_of(text, rf"{re.escape(b.opt)}\.step\(\)")
    kept = {"graph": "loss + 0", "number": "loss.item()"}[value]
    loop = line_of(text, r"for (?:epoch|step) in range\((?:EPOCHS|STEPS)\):")
    text = swap(text, step, f"{step}{indent_of(step)}history.append({kept})\n", 1)
    return swap(text, loop, f"{indent_of(loop)}history = []\n{loop}", 1)


def entropy_term(text: str, b: Base, value: str) -> str:
    """An entropy bonus whose logarithm meets an exact zero, or is guarded."""
    back = line_of(text, r"loss\.backward\(\)")
    if b.task not in ("classification", "lm"):
        raise Inapplicable
    pad = indent_of(back)
    log = {"bare": "p.log()", "guarded": "(p + 1e-8).log()"}[value]
    rows = f"{pad}p = torch.softmax(60 * {b.out}, dim=-1)\n{pad}loss = loss - 0.001 * (p * {log}).sum(-1).mean()\n"
    return swap(text, back, rows + back, 1)


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


def raise_dropout(text: str, b: Base, value: float) -> str:
    if not b.dropout or "nn.Dropout(" not in text:
        raise Inapplicable
    text = re.sub(r"nn\.Dropout\([\d.]+\)", f"nn.Dropout({value})", text)
    return (
        swap(text, "nn.ReLU(), nn.Linear(48, 10)", f"nn.ReLU(), nn.Dropout({value}), nn.Linear(48, 10)")
        if "nn.Linear(48, 10)" in text
        else text
    )


def wrong_metric(text: str, b: Base, value: str) -> str:
    if value == "right":
        return swap(text, ".argmax(1) == ", ".argmax(dim=-1) == ", 1)
    return swap(text, ".argmax(1) == ", ".argmin(1) == ", 1)


def replace(old: str, new: str) -> Patch:
    """Replace one piece of text; {v} in the new one is the level."""

    def patch(text: str, b: Base, value: Any) -> str:
        return swap(text, old, new.format(v=value), 1)

    return patch


def both_zero(text: str, b: Base, value: str) -> str:
    zeros = "torch.zeros(RANK, inner.in_features)"
    if value == "random":
        return swap(text, "/ inner.in_features**0.5", "* 0.05", 1)
    return swap(text, "torch.randn(RANK, inner.in_features) / inner.in_features**0.5", zeros, 1)


def biased_router(text: str, b: Base, value: float) -> str:
    text = constant(text, "BALANCE", lambda x: 0.0 if value > 1 else x)
    return after(text, "moe = MoE()\n", f"with torch.no_grad():\n    moe.router.bias[2] = {value}")


def hot_policy(text: str, b: Base, value: float) -> str:
    text = constant(text, "BONUS", lambda x: 0.0 if value > 1 else x)
    return constant(text, "LR", lambda lr: lr * value)


def strong_critic(text: str, b: Base, value: float) -> str:
    text = constant(text, "LR", lambda lr: lr / value)
    if value > 2:
        text = swap(text, "g_loss = bce(D(fake), torch.ones(64, 1))", "g_loss = -bce(D(fake), torch.zeros(64, 1))", 1)
    return constant(text, "D_LR", lambda lr: lr * (4 if value > 2 else 1))


def adam_eps(text: str, b: Base, value: float) -> str:
    return optimizer(text, b, f"torch.optim.Adam({model_made(b)}.parameters(), lr=LR, eps={value})")


def bias_output(text: str, b: Base, value: float) -> str:
    """The last layer's first bias starts away from zero."""
    made, name = creation(text, b), model_made(b)
    pad = indent_of(made)
    rows = f"{pad}last = [m for m in {name}.modules() if isinstance(m, nn.Linear)][-1]\n{pad}nn.init.constant_(last.bias[:1], {value})\n"
    return swap(text, made, rows + made, 1)


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


def skip_bad(text: str, b: Base, value: int) -> str:
    """Samples that hold NaN, and a guard that skips their batches without a word."""
    text = after(text, b.split, f"{b.tx}[torch.randperm(len({b.tx}))[:{value}]] = float('nan')") if value else text
    back = line_of(text, r"loss\.backward\(")
    return swap(text, back, f"{indent_of(back)}if not torch.isfinite(loss):\n{indent_of(back)}    continue\n{back}", 1)
