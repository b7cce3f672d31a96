"""What every cause promises."""

from __future__ import annotations

import importlib
import pkgutil
import re
import string

from each import each
from traindx import cause as causes_
from traindx import signals
from traindx.cause import Cause
from traindx.finding import Severity
from traindx.rule import catalogue as rules

CAUSES = list(causes_.catalogue().values())
every_cause = each(CAUSES, lambda c: c.name)


def _code(key: str) -> str:
    return key.partition(":")[0]


@every_cause
def test_names_only_rules_that_exist(cause: Cause) -> None:
    unknown = sorted({_code(k) for k in (*cause.likely, *cause.refutes)} - set(rules()))
    assert not unknown, f"{cause.name} names unknown rules {unknown}"


@every_cause
def test_names_only_sentences_that_its_rules_say(cause: Cause) -> None:
    for key in (*cause.likely, *cause.refutes):
        code, _, variant = key.partition(":")
        assert not variant or variant in rules()[code].says, f"{cause.name}: {code} never says '{variant}'"


@every_cause
def test_names_only_trials_and_changes_that_exist(cause: Cause) -> None:
    assert cause.settle == "" or cause.settle in causes_.TRIALS
    assert set(cause.change) <= set(causes_.CHANGES)
    assert bool(cause.cost_steps) <= bool(cause.settle), "a cost belongs to a trial"


@every_cause
def test_is_a_likelihood_with_a_prior(cause: Cause) -> None:
    assert cause.prior > 0
    assert cause.likely and all(0 < share < 1 for share in cause.likely.values())
    assert max(cause.likely.values()) >= 0.5, "nothing that is usually found would name it"
    assert not {k for k in cause.refutes if k in cause.likely}, "a finding cannot speak for and against the same cause"


@every_cause
def test_its_witnesses_are_what_it_makes_most_likely(cause: Cause) -> None:
    assert set(cause.witness) <= {*cause.likely, *map(_code, cause.likely)}


@every_cause
def test_reads_as_a_sentence(cause: Cause) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", cause.name)
    assert cause.title[0].islower() or cause.title.split()[0] in ("Adam's", "BatchNorm's", "NaNs")
    assert not cause.title.endswith(".") and cause.cure.endswith(".")
    assert cause.verdict in causes_.VERDICTS
    assert all(flag in signals.FACTS for flag in cause.regimes)


@every_cause
def test_its_cure_fills_only_optional_clauses(cause: Cause) -> None:
    always = re.sub(r"\[\[.*?\]\]", "", cause.cure)
    assert not [name for _, name, _, _ in string.Formatter().parse(always) if name], "a value that may be missing needs [[ ]]"


def test_no_cause_stands_twice() -> None:
    import traindx.causes as package

    tables = [importlib.import_module(f"traindx.causes.{i.name}").CAUSES for i in pkgutil.iter_modules(package.__path__)]
    names = [cause.name for table in tables for cause in table]
    assert len(names) == len(set(names)) == len(CAUSES)


def test_every_rule_that_alarms_is_explained_by_a_cause() -> None:
    explained = {_code(k) for c in CAUSES for k in c.likely}
    alarming = {code for code, r in rules().items() if r.severity > Severity.INFO}
    assert not alarming - explained


def test_every_rule_is_the_best_witness_of_some_cause_or_a_symptom() -> None:
    """Rules that are facts of their own must make a cause likely by themselves; curves and symptoms need not."""
    facts = {code for code in rules() if code[:4] in ("WIRE", "DATA", "TUNE", "DIST", "SPEC", "REPR", "PERF", "NUMR")}
    strong = {_code(k) for c in CAUSES for k, share in c.likely.items() if share >= 0.8}
    assert not facts - strong - {"NUMR001", "NUMR002", "NUMR003", "NUMR005"}


@every_cause
def test_its_cure_leaves_it_to_the_verdict_whether_to_start_again(cause: Cause) -> None:
    assert not re.search(r"\b[Rr]estart\b|start again", cause.cure), "the verdict says it, and may say: resume"


def test_every_command_that_confirms_a_cause_can_be_run_as_printed() -> None:
    from traindx.trials.prescription import change_of

    for c in causes_.catalogue().values():
        if c.settle == "fix":
            assert c.command("a.py") == f"traindx trial fix a.py --set cause={c.name}"
            change_of(c.name)  # a cure that can be tried
