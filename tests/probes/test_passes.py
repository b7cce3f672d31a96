"""What a loss was divided by, and what of: read off the last operations before a backward."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from traindx.probes.read.common.passes import divisor, summed


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.randn(6, 5, requires_grad=True)


LABELS = torch.arange(6) % 5


def test_a_share_of_several_backwards_is_told_from_a_count(logits: torch.Tensor) -> None:
    mean, each = F.cross_entropy(logits, LABELS), F.cross_entropy(logits, LABELS, reduction="none")
    total = F.cross_entropy(logits, LABELS, reduction="sum")
    for loss, by, of in [
        (mean, 1.0, 0),
        (mean / 4, 4.0, 0),
        (each.mean() / 4, 4.0, 0),
        (each.sum() / 6 / 4, 4.0, 0),  # a mean, shared
        (each.sum() / 40, 40.0, 6),
        (-each.sum() / 40, 40.0, 6),
        (total / 40, 40.0, 6),
        (total / 40 / 1, 40.0, 6),  # accelerate divides by 1 again
    ]:
        assert (divisor(loss), summed(loss)) == (by, of)


def test_a_mean_that_is_weighed_by_its_share_of_the_tokens(logits: torch.Tensor) -> None:
    mean = F.cross_entropy(logits, LABELS)
    assert divisor(mean / 4 * 1 / 1) == 4.0  # trainers scale by one what they have divided already
    assert divisor(mean * 6 / 40) == pytest.approx(40 / 6)
    assert divisor(mean / 40 * 6) == pytest.approx(40 / 6)
    assert divisor(0.5 * mean / 4) == 4.0  # a weight of the user's stays
