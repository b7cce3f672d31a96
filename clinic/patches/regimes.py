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
