"""REPR002: workers that draw the same numbers."""

from __future__ import annotations

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.repr002_worker_rng import worker_rng as rule

LOADER = {"num_workers": 4, "dataset": "Crops"}


def test_says_how_many_samples_were_alike() -> None:
    [found] = rule.findings(a_run(facts={"data.worker_duplicates": 120, "data.loader": LOADER}))
    assert found.severity is Severity.WARNING and found.where == ("Crops",) and "4 workers" in found.message


def test_one_or_two_are_chance_and_one_worker_cannot_repeat_another() -> None:
    assert rule.outcome(a_run(facts={"data.worker_duplicates": 2, "data.loader": LOADER})).status is Status.CLEAR
    assert list(rule.findings(a_run(facts={"data.worker_duplicates": 2, "data.loader": LOADER}), least=2))
    one = {"data.worker_duplicates": 50, "data.loader": {"num_workers": 1}}
    assert rule.outcome(a_run(facts=one)).status is Status.CLEAR


def test_a_generator_on_the_data_set_is_copied_to_every_worker() -> None:
    facts = {"data.copied_generator": True, "data.loader": {"num_workers": 4, "dataset": "Noisy"}}
    [found] = rule.findings(a_run(facts=facts))
    assert found.variant == "copied" and found.where == ("Noisy",) and "of 4 workers" in found.message
