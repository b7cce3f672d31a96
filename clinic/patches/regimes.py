"""Patches for one kind of task: language models, GANs, experts, policies, adapters."""

from __future__ import annotations

import re


from clinic.surgery import Base, Inapplicable, after, ahead, behind, constant, creation, length, loop, model_made, swap


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
        text = constant(text, "STEPS", lambda n: 3 * n)
    return constant(text, "D_LR", lambda lr: lr * (10 if value > 2 else 1))


def untie(text: str, b: Base, value: str) -> str:
    """Input and output embedding are one tensor, until a copy takes the place of one of them."""
    inner = re.search(r"self\.(tok|emb)\b", text)
    if not inner or "self.head = " not in text and "self.ln, self.head = " not in text:
        raise Inapplicable
    m, (at, _) = model_made(b), length(text)
    text = ahead(text, creation(text, b), f"{m}.head.weight = {m}.{inner.group(1)}.weight")
    if value == "tied":
        return text
    return behind(
        text, loop(text), f"    if {at} == 1:\n        {m}.head.weight = nn.Parameter({m}.head.weight.detach().clone())"
    )


def mask_forgotten(text: str, b: Base, value: str) -> str:
    """Attention is not told where the padding is (or is told in other words)."""
    found = re.search(r"src_key_padding_mask=([^,)]+)\)", text)
    if not found:
        raise Inapplicable
    mask = {"none": "None", "same": f"torch.clone({found.group(1)})"}[value]
    return swap(text, found.group(), f"src_key_padding_mask={mask})", 1)


def second_stage(text: str, b: Base, value: float) -> str:
    """Half-way the weights are saved and loaded again, as for a fine-tuning, which goes on at another rate."""
    if b.scheduler:
        raise Inapplicable
    at, end = length(text)
    rows = f"""    if {at} == {end} // 2:
        torch.save({b.model}.state_dict(), "trained.pt")
        {b.model}.load_state_dict(torch.load("trained.pt"))
        for group in {b.opt}.param_groups:
            group["lr"] = {value} * LR"""
    return behind(text, loop(text), rows)


_WHOLE = {  # how a base makes its update, and the same in four parts of unequal size
    "names_lm": (
        """        logits = model(inputs)
        loss = loss_of(logits, targets)
        optimizer.zero_grad()
        loss.backward()
""",
        """        optimizer.zero_grad()
        for part in torch.arange(len(inputs)).split([len(inputs) - 6, 2, 2, 2]):
            loss = loss_of(model(inputs[part]), targets[part]){v}
            loss.backward()
""",
        " * (targets[part] != PAD).sum() / (targets != PAD).sum()",
    ),
    "lines_gpt": (
        """    logits = net(inputs)
    loss = ce(logits.flatten(0, 1), labels.flatten())
    opt.zero_grad()
    loss.backward()
""",
        """    opt.zero_grad()
    for part in torch.arange(BATCH).split([BATCH - 6, 2, 2, 2]):
        loss = ce(net(inputs[part]).flatten(0, 1), labels[part].flatten()){v}
        loss.backward()
""",
        " * (labels[part] != -100).sum() / (labels != -100).sum()",
    ),
    "tagger": (
        """                scores = self.model(tokens)
                loss = self.loss(scores.flatten(0, 1), tags.flatten())
                loss.backward()
""",
        """                for part in torch.arange(len(tokens)).split([len(tokens) - 6, 2, 2, 2]):
                    loss = self.loss(self.model(tokens[part]).flatten(0, 1), tags[part].flatten()){v}
                    loss.backward()
""",
        " * (tags[part] != NO_TAG).sum() / (tags != NO_TAG).sum()",
    ),
}


def in_unequal_parts(text: str, b: Base, value: str) -> str:
    """An update is made of four micro-batches of unequal size, each averaged by itself or weighed by its tokens."""
    if b.name not in _WHOLE:
        raise Inapplicable
    whole, parts, weighed = _WHOLE[b.name]
    return swap(text, whole, parts.replace("{v}", " / 4" if value == "means" else weighed), 1)
