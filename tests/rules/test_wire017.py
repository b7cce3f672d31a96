"""WIRE017: padding takes part, or content does not."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.wire017_padding_or_mask_off import padding_or_mask_off as rule
from traindx.run import Run


def masks(valid_masked: float, pad_attended: float, pad_share: float = 0.3) -> Run:
    facts = {"model.pad_mask": {"valid_masked": valid_masked, "pad_attended": pad_attended}}
    return a_run({"batch/pad_share": np.full(20, pad_share)}, facts=facts)


def test_an_inverted_mask_is_critical() -> None:
    [found] = rule.findings(masks(1.0, 1.0))
    assert found.variant == "inverted" and found.severity is Severity.CRITICAL


def test_a_right_mask_is_clear() -> None:
    assert rule.outcome(masks(0.0, 0.0)).status is Status.CLEAR


def test_attended_padding_matters_only_where_there_is_some() -> None:
    assert next(rule.findings(masks(0.0, 1.0))).severity is Severity.WARNING
    assert not list(rule.findings(masks(0.0, 1.0, pad_share=0.01)))
    assert list(rule.findings(masks(0.0, 1.0, pad_share=0.01), padding=0.005))


def test_a_measured_leak() -> None:
    [found] = rule.findings(a_run(facts={"trial.pad_leak": {"change": 0.2}}))
    assert found.variant == "leak" and "20.0%" in found.message
    assert not list(rule.findings(a_run(facts={"trial.pad_leak": {"change": 1e-7}})))


def pooled(stated: bool = False, pad_share: float = 0.3, **means: int) -> Run:
    facts = {"model.pooling": means, "data.token": {"pad_id": 0, "pad_stated": stated}}
    return a_run({"batch/pad_share": np.full(20, pad_share)}, facts=facts)


def test_a_mean_that_takes_in_the_padding() -> None:
    [found] = rule.findings(pooled(bare=3, masked=0))
    assert found.variant == "pooled" and found.severity is Severity.WARNING and "30%" in found.message
    [found] = rule.findings(pooled(stated=True, bare=3, masked=0))
    assert found.severity is Severity.INFO


def test_a_masked_mean_or_hardly_any_padding_is_fine() -> None:
    assert not list(rule.findings(pooled(bare=0, masked=3)))
    assert not list(rule.findings(pooled(bare=2, masked=3)))
    assert not list(rule.findings(pooled(bare=3, masked=0, pad_share=0.02)))
    assert list(rule.findings(pooled(bare=3, masked=0, pad_share=0.02), pooled=0.01))
