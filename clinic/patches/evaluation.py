"""Patches of the evaluation, and of how well the model may fit."""

from __future__ import annotations

import re

from clinic.surgery import Base, Inapplicable, after, constant, creation, swap


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


def divided_again(text: str, b: Base, value: str) -> str:
    """The validation loss, a mean already, is divided by the number of samples; it is printed with the digits it then needs."""
    found = re.search(rf"\((\w+|\w+\(\w+\)), {re.escape(b.vy)}\)\.item\(\)", text)
    if not found:
        raise Inapplicable
    text = swap(text, found.group(), f"{found.group()} {value.format(n=f'len({b.vy})')}", 1)
    return text.replace(".4f", ".7f")


def one_class(text: str, b: Base, value: int) -> str:
    """Only samples of this class stay in the validation set (all of them: -1)."""
    keep = f"{b.vy} == {value}" if value >= 0 else f"{b.vy} >= 0"
    return after(text, b.split, f"easy = {keep}\n{b.vx}, {b.vy} = {b.vx}[easy], {b.vy}[easy]")
