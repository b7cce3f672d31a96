"""DATA009: augmentation in the wrong place, frozen, or too strong."""

from __future__ import annotations

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.data009_augmentation_faults import augmentation_faults as rule


def test_random_validation_is_a_warning() -> None:
    [found] = rule.findings(a_run(facts={"data.val_random": True}))
    assert found.variant == "validation" and found.severity is Severity.WARNING


def test_augmentation_that_repeats() -> None:
    [found] = rule.findings(a_run(facts={"data.aug_repeats": {"repeats": 90, "checked": 100}}))
    assert found.variant == "frozen" and "90 of 100" in found.message


def test_a_few_chance_repeats_and_few_checks_are_clear() -> None:
    for seen in ({"repeats": 20, "checked": 100}, {"repeats": 5, "checked": 5}):
        assert rule.outcome(a_run(facts={"data.val_random": False, "data.aug_repeats": seen})).status is Status.CLEAR


def test_strong_augmentation_is_a_remark() -> None:
    [found] = rule.findings(a_run(facts={"trial.augmentation": {"augmented": 1.2, "raw": 0.4}}))
    assert found.variant == "strong" and found.severity is Severity.INFO
    assert not list(rule.findings(a_run(facts={"trial.augmentation": {"augmented": 0.6, "raw": 0.4}})))


def test_the_limit_is_the_users() -> None:
    run = a_run(facts={"trial.augmentation": {"augmented": 0.6, "raw": 0.4}})
    assert list(rule.findings(run, strong=1.2))


def test_a_constant_seed_for_every_sample_is_named() -> None:
    [found] = rule.findings(a_run(facts={"data.fixed_seed": 1234}))
    assert found.variant == "alike" and found.severity is Severity.WARNING and "1234" in found.message
