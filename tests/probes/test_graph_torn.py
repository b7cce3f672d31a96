"""Rows of a loss that mix places and classes, told from the graph."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from traindx.probes.read.common.graph import torn

CONV = nn.Conv2d(1, 3, 3, padding=1)
IMAGES = CONV(torch.randn(4, 1, 8, 8))  # (4, 3, 8, 8)
TEXT = nn.Linear(5, 7)(torch.randn(4, 6, 5))  # (4, 6, 7)


def test_a_view_across_the_class_axis_is_torn():
    assert torn(IMAGES.view(-1, 3)) == (4, 3, 8, 8)
    assert torn(TEXT.transpose(1, 2).contiguous().relu().reshape(-1, 7)) == (4, 7, 6)


@pytest.mark.parametrize(
    "right",
    [
        IMAGES.permute(0, 2, 3, 1).reshape(-1, 3),
        TEXT.view(-1, 7),
        CONV(torch.randn(4, 1, 8, 8)).mean((2, 3)),
        nn.functional.adaptive_avg_pool2d(IMAGES, 1).view(-1, 3),
        IMAGES,
    ],
    ids=["permuted", "features last", "pooled", "one place each", "not reshaped"],
)
def test_other_tables_are_whole(right):
    assert torn(right) is None
