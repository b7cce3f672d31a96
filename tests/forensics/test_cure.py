"""The guarded expression: written from the user's own line, and right."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from traindx.forensics.cure import instead

SAID = [
    ("log", "loss = -(y * torch.log(p)).mean()", "torch.log(p.clamp(min=1e-6))"),
    ("log", "loss = (a + b).log().mean()", "(a + b).clamp(min=1e-6).log()"),
    ("log", "loss = -torch.log(torch.softmax(z, 1)).mean()", "torch.nn.functional.log_softmax(z, 1)"),
    ("log", "loss = -z.sigmoid().log().mean()", "torch.nn.functional.logsigmoid(z)"),
    ("div", "h = h / w.sum(1, keepdim=True)", "h / w.sum(1, keepdim=True).clamp(min=1e-6)"),
    ("div", "h = (h - m) / s", "(h - m) / s.clamp(min=1e-6)"),
    ("div", "h /= s", "h /= s.clamp(min=1e-6)"),
    ("div_", "h.data.div_(w)", "h.data.div_(w.clamp(min=1e-6))"),
    ("sqrt", "h = d.sum(1).sqrt()", "(d.sum(1) + 1e-12).sqrt()"),
    ("sqrt", "h = torch.sqrt(d)", "torch.sqrt(d + 1e-12)"),
    ("pow", "h = (h - 1) ** 0.5", "(h - 1).clamp(min=1e-6) ** 0.5"),
    ("acos", "h = torch.acos(c)", "torch.acos(c.clamp(-1 + 1e-6, 1 - 1e-6))"),
    ("exp", "h = rate.exp()", "rate.clamp(max=20).exp()"),
    ("_softmax", "a = s.softmax(-1)", "s.clamp(min=torch.finfo(s.dtype).min).softmax(-1)"),
    ("mean", "loss = out[keep].mean()", "out[keep].sum() / max(out[keep].numel(), 1)"),
    ("std", "h = h / h.std(0)", "h.std(0, unbiased=False)"),
]


def told(tmp_path: Path, line: str, op: str, **more: float) -> tuple[str, str] | None:
    file = tmp_path / f"{abs(hash((line, op)))}.py"
    file.write_text(f"import torch\ndef f(h):\n    {line}\n    return h\n")
    linecache.checkcache()
    return instead(op, str(file), 3, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("op", "line", "new"), SAID)
def test_the_guard_is_written_into_the_users_own_expression(tmp_path: Path, op: str, line: str, new: str) -> None:
    found = told(tmp_path, line, op)
    assert found is not None and found[1] == new
    assert found[0] in line


def test_a_divisor_of_any_sign_keeps_its_sign(tmp_path: Path) -> None:
    found = told(tmp_path, "h = h / c", "div", low=-1.0)
    assert found == ("h / c", "h / torch.where(c == 0, 1e-6, c)")


@pytest.mark.parametrize(
    ("op", "line"), [("log", "h = a.log() + b.log()"), ("log", "h = fused(a)"), ("div", "h = h / 0.0"), ("mul", "h = a * b")]
)
def test_where_it_is_not_known_which_expression_it_was_nothing_is_written(tmp_path: Path, op: str, line: str) -> None:
    assert told(tmp_path, line, op) is None
