"""`traindx explain` finds tools by the names people know, complaints by how they are said."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from traindx.cli.explain import command
from traindx.errors import UsageError
from traindx.report import search


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("learning rate finder", "kit.lr_finder"),
        ("gradient flow", "kit.GradientFlow"),
        ("dead relu", "ACTV001"),
        ("loss is nan", "kit.check_loss"),
        ("cuda out of memory", "out of memory"),
        ("LRFinder", "kit.lr_finder"),
        ("overfit one batch", "kit.overfit_one_batch"),
        ("print_gradient_summary", "kit.gradient_table"),
        ("vanishing gradients", "GRAD001"),
        ("double softmax", "WIRE006"),
        ("torch.autograd.set_detect_anomaly", "traindx replay"),
        ("loss not decreasing", "four causes"),
        ("validation loss increases", "remedies"),
        ("losses differ across ranks", "kit.ranks_differ"),
        ("confusion matrix", "majority class"),
        ("GradScaler", "trial precision"),
    ],
)
def test_what_people_type_is_found(asked: str, found: str) -> None:
    shown = CliRunner().invoke(command, asked.split())
    assert shown.exit_code == 0 and found in shown.output


def test_every_item_is_found_first_by_its_own_name() -> None:
    for item in search.lessons()["items"]:
        assert item["here"] in [hit.call for hit in search.find(item["name"])][:2], item["name"]


def test_a_code_still_gives_its_page_and_nonsense_an_error() -> None:
    assert "GRAD002" in CliRunner().invoke(command, ["grad002"]).output
    assert "learning rate" in CliRunner().invoke(command, ["lr-too-high"]).output
    with pytest.raises(UsageError, match="xyzzy"):
        CliRunner().invoke(command, ["xyzzy"], catch_exceptions=False)
