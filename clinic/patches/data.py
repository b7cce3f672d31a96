"""Patches of the data before they are fed."""

from __future__ import annotations

import re

from clinic.surgery import Base, Inapplicable, after, at_loss, swap


def unshuffled(text: str, b: Base, value: str) -> str:
    """Sort the training set by target (or not) and take away the shuffling; or shuffle in other words."""
    if value == "shuffled":
        return swap(text, "shuffle=True", "sampler=torch.utils.data.RandomSampler(range({n}))".format(n=f"len({b.tx})"), 1)
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


def one_based(text: str, b: Base, value: tuple[int, int]) -> str:
    """Classes are numbered from `value[0]`, in a head that has `value[1]` outputs more."""
    shift, more = value
    heads = [m for m in re.finditer(r"nn\.Linear\((\d+), (\d+)\)", text) if m.group(2) in ("2", "3", "10")]
    if not heads:
        raise Inapplicable
    last = heads[-1]
    wide, classes = last.groups()
    text = text[: last.start()] + f"nn.Linear({wide}, {int(classes) + more})" + text[last.end() :]
    return after(text, b.data, f"{b.Y} = {b.Y} + {shift}")


def noisy_inputs(text: str, b: Base, value: tuple[str, float]) -> str:
    """Random noise on the inputs of every evaluation, or of training alone."""
    which, size = value
    name = b.vx if which == "validation" else b.tx
    for call in (f"({name})", f"({name}[pick])", f"({name}[ids])", f"({name}[batch])"):
        if call in text and f"len{call}" not in text.replace(f"range(len{call})", ""):
            inner = call[1:-1]
            return swap(text, call, f"({inner} + {size} * torch.randn_like({inner}))", 1)
    raise Inapplicable


def in_the_batch(text: str, b: Base, value: str) -> str:
    """Change the targets of each training batch after the forward."""
    return at_loss(f"{b.by} = {b.by}{value.format(b.by)}")(text, b, value)
