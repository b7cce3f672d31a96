"""Metamorphic relations: what changes nothing in a run must change nothing in its diagnosis (reliability part 4.5).

Over the made-up runs of `zoo`, for the rules that read curves, gradients and updates. Relations of recorded runs (MR-15, MR-20
to MR-23 and others) are in `test_metamorphic_stored.py`, those that need another training (MR-06, MR-07, MR-16 to MR-18) in
`test_metamorphic_trained.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import zoo
from runs import a_run, noise
from traindx.finding import Severity, Status
from traindx.rule import catalogue
from traindx.run import Matrix, Run, Series

RULES = {code: rule for code, rule in catalogue().items() if code[:4] in ("LOSS", "GRAD", "OPTM")}
healthy = pytest.mark.parametrize("name", list(zoo.HEALTHY))
sick = pytest.mark.parametrize("name", list(zoo.SICK))
# Faults whose evidence is a fraction of the records: thinning or rounding may take it away.
FLEETING = ("LOSS005", "LOSS006", "LOSS007", "LOSS012")


def alarms(run: Run) -> dict[str, Severity]:
    """The worst severity per rule, of what is more than a remark."""
    out: dict[str, Severity] = {}
    for code, rule in RULES.items():
        outcome = rule.outcome(run)
        assert outcome.status is not Status.BROKEN, outcome.reason
        worst = max((f.severity for f in outcome.findings), default=Severity.INFO)
        if worst > Severity.INFO:
            out[code] = worst
    return out


def mapped(run: Run, change: Callable[[str, Series], Series]) -> Run:
    return replace(run, signals={n: change(n, s) if isinstance(s, Series) else s for n, s in run.signals.items()})


def scaled(run: Run, factor: float) -> Run:
    def change(name: str, s: Series) -> Series:
        by = {"loss/sample_var": factor**2, "lr": 1 / factor}.get(
            name, factor if name.startswith(("loss/", "grad_norm")) else 1.0
        )
        return Series(s.steps, s.values * by, s.times)

    return mapped(unnamed(run), change)


def unnamed(run: Run) -> Run:
    """The same run with a loss of unknown kind: ln C means nothing once the loss is rescaled."""
    facts = {k: v for k, v in run.facts.items() if k not in ("loss.kind", "loss.classes", "loss.smoothing", "loss.reduction")}
    return replace(run, facts=facts)


def thinned(run: Run, every: int) -> Run:
    def thin(name: str, s: Series) -> Series:
        return s if name == "loss/val" else s.where(np.arange(len(s)) % every == 0)

    return replace(mapped(run, thin), facts={k: v for k, v in run.facts.items() if k != "log_interval"})


# -- MR-01, MR-03: another unit of the loss


@sick
@pytest.mark.parametrize("factor", [1e-6, 1e-2, 1e3, 1e6])
def test_the_unit_of_the_loss_does_not_matter(name: str, factor: float) -> None:
    run = zoo.SICK[name]()
    by_level = ("LOSS002", "LOSS009", "LOSS010", "LOSS011")  # ln K of an unknown loss is looked for in nats
    plain = {k: v for k, v in alarms(unnamed(run)).items() if k not in by_level}
    assert {k: v for k, v in alarms(scaled(run, factor)).items() if k not in by_level} == plain


@healthy
@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_a_healthy_run_is_healthy_in_any_unit(name: str, factor: float) -> None:
    assert alarms(scaled(zoo.HEALTHY[name](), factor)) == {}


# -- MR-02: a constant added


@pytest.mark.parametrize("offset", [-50.0, 3.7, 1000.0])
@pytest.mark.parametrize("name", ["slow_divergence", "blow_up", "overfits", "spiky", "plateau_high", "shaking", "staircase"])
def test_a_constant_added_to_the_loss_does_not_hide_a_fault(name: str, offset: float) -> None:
    run = unnamed(zoo.SICK[name]())
    moved = mapped(run, lambda n, s: Series(s.steps, s.values + offset) if n in ("loss/train", "loss/val") else s)
    for code in zoo.SICK_CODES[name]:
        assert RULES[code].outcome(moved).status is Status.FOUND


@healthy
@pytest.mark.parametrize("offset", [-50.0, 1000.0])
def test_a_constant_added_to_the_loss_makes_no_fault(name: str, offset: float) -> None:
    run = unnamed(zoo.HEALTHY[name]())
    moved = mapped(run, lambda n, s: Series(s.steps, s.values + offset) if n in ("loss/train", "loss/val") else s)
    assert alarms(moved) == {}


# -- MR-04, MR-05: other names, another order


def layered() -> Run:
    n = 400
    names = [f"block{i}.weight" for i in range(6)]
    shapes = {k: [32, 32] for k in names}
    grads = {k: np.geomspace(1e-7, 1, 6)[i] * np.exp(noise(n, 0.2, i)) for i, k in enumerate(names)}
    ratios = {k: np.full(n, 1e-9 if i < 2 else 1e-3) for i, k in enumerate(names)}
    facts = {"model.param_shapes": shapes, "optimizer.name": "SGD", **zoo.CE10}
    return a_run({"grad_norm/param": grads, "update_ratio/param": ratios, "loss/train": zoo.falling(n)}, facts=facts)


def renamed(run: Run, new: Callable[[str], str]) -> Run:
    signals = {
        n: Matrix(s.steps, tuple(new(k) for k in s.names), s.values) if isinstance(s, Matrix) else s
        for n, s in run.signals.items()
    }
    shapes = {new(k): v for k, v in run.fact("model.param_shapes").items()}
    return replace(run, signals=signals, facts={**run.facts, "model.param_shapes": shapes})


@pytest.mark.parametrize("new", [lambda n: f"модуль🙂.{n}", lambda n: str(hash(n)), lambda n: n.replace("weight", "bias")])
def test_names_of_layers_mean_nothing(new: Callable[[str], str]) -> None:
    run = layered()
    assert alarms(run) and alarms(renamed(run, new)) == alarms(run)
    [found] = RULES["GRAD001"].findings(renamed(run, new))
    assert found.where == tuple(new(n) for n in ("block0.weight",))


def test_the_order_of_columns_means_nothing_where_depth_does_not_count() -> None:
    run = a_run({"grad_norm/param": {k: (np.zeros(80) if k == "b" else np.ones(80)) for k in "abc"}})
    other = a_run({"grad_norm/param": {k: (np.zeros(80) if k == "b" else np.ones(80)) for k in "cba"}})
    assert [f.where for f in RULES["GRAD004"].findings(run)] == [f.where for f in RULES["GRAD004"].findings(other)]


# -- MR-08, MR-25: thinner logging


@healthy
@pytest.mark.parametrize("every", [2, 10, 100])
def test_a_thinner_log_of_a_healthy_run_raises_no_alarm(name: str, every: int) -> None:
    assert alarms(thinned(zoo.HEALTHY[name](), every)) == {}


@sick
@pytest.mark.parametrize("every", [2, 10])
def test_a_thinner_log_of_a_sick_run_is_found_or_not_enough_never_clear(name: str, every: int) -> None:
    run = thinned(zoo.SICK[name](), every)
    for code in zoo.SICK_CODES[name]:
        if code not in FLEETING:
            assert RULES[code].outcome(run).status is not Status.CLEAR, code


# -- MR-09: other steps


@healthy
@pytest.mark.parametrize("change", [lambda s: s + 1_000_000, lambda s: s * 512], ids=["offset", "samples"])
def test_the_unit_and_origin_of_steps_raise_no_alarm(name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    run = zoo.HEALTHY[name]()
    moved = mapped(run, lambda _, s: Series(change(s.steps), s.values))
    assert alarms(replace(moved, facts={k: v for k, v in run.facts.items() if k != "budget.planned_steps"})) == {}


@sick
def test_an_offset_of_the_steps_hides_nothing(name: str) -> None:
    run = zoo.SICK[name]()
    moved = mapped(run, lambda _, s: Series(s.steps + 1_000_000, s.values))
    codes = [c for c in zoo.SICK_CODES[name] if c != "LOSS010"]  # a log that begins at a million has no first loss
    for code in codes:
        assert RULES[code].outcome(moved).status is Status.FOUND


# -- MR-10: head and tail


def test_a_healthy_head_shifts_a_fault_and_a_healthy_tail_keeps_it() -> None:
    n = 2000
    head = zoo.falling(n, 4.0, 2.4) + noise(n, 0.03)
    spiky = zoo.spiky()["loss/train"].values
    at = [e for f in RULES["LOSS006"].findings(zoo.spiky()) for e in f.facts["events"]]
    later = [e for f in RULES["LOSS006"].findings(a_run(loss__train=np.r_[head, spiky])) for e in f.facts["events"]]
    assert set(later) >= {e + n for e in at}
    tail = np.r_[spiky, 0.33 + noise(n, 0.03)]
    assert {e for f in RULES["LOSS006"].findings(a_run(loss__train=tail)) for e in f.facts["events"]} >= set(at)


# -- MR-11: cut runs


@pytest.mark.parametrize("name", ["slow_divergence", "blow_up", "ends_in_nan", "stuck_at_chance", "overfits", "softmax_twice"])
def test_once_found_a_fault_stays_found_as_the_run_goes_on(name: str) -> None:
    run = zoo.SICK[name]()
    last = run.steps[1]
    for code in zoo.SICK_CODES[name]:
        seen = [RULES[code].outcome(run.between(hi=last * part)).status is Status.FOUND for part in (0.25, 0.5, 0.75, 0.9, 1.0)]
        assert seen == sorted(seen), f"{code} came and went: {seen}"


@healthy
@pytest.mark.parametrize("part", [0.25, 0.5, 0.75])
def test_a_part_of_a_healthy_run_is_healthy(name: str, part: float) -> None:
    run = zoo.HEALTHY[name]()
    assert alarms(run.between(hi=run.steps[1] * part)) == {}


# -- MR-12, MR-13, MR-14: clumsy logs


@sick
def test_doubled_records_change_nothing(name: str) -> None:
    run = zoo.SICK[name]()
    doubled = mapped(run, lambda _, s: Series(np.repeat(s.steps, 2), np.repeat(s.values, 2)))
    for code in zoo.SICK_CODES[name]:
        assert RULES[code].outcome(doubled).status is Status.FOUND


@sick
def test_four_digits_are_enough(name: str) -> None:
    run = zoo.SICK[name]()

    def round4(_: str, s: Series) -> Series:
        return Series(s.steps, np.array([float(f"{v:.4g}") for v in s.values]))

    rounded = mapped(run, round4)
    for code in zoo.SICK_CODES[name]:
        assert RULES[code].outcome(rounded).status is Status.FOUND


@healthy
def test_gaps_of_the_log_are_not_nan_losses(name: str) -> None:
    run = zoo.HEALTHY[name]()

    def gaps(n: str, s: Series) -> Series:
        if n != "loss/train" or len(s) < 12:
            return s
        values = s.values.copy()
        values[np.random.default_rng(0).choice(np.arange(1, len(s) - 1), len(s) // 12, replace=False)] = np.nan
        return Series(s.steps, values)

    assert alarms(mapped(run, gaps)) == {}


# -- MR-24: irrelevant metrics


def test_a_thousand_irrelevant_metrics_change_nothing() -> None:
    rng = np.random.default_rng(0)
    junk = {f"metric/other/m{i}": Series(np.arange(50), rng.normal(size=50)) for i in range(900)}
    junk |= {f"metric/val/c{i}": Series(np.arange(50), np.full(50, np.nan if i % 2 else 1.0)) for i in range(100)}
    for name in ("overfits", "stuck_at_chance", "spiky"):
        run = zoo.SICK[name]()
        assert alarms(run.with_(junk)) == alarms(run)
    assert alarms(zoo.plain().with_(junk)) == {}


# -- MR-26: more of it is never less


def test_a_steeper_climb_is_never_a_weaker_finding() -> None:
    n = 2000
    said = []
    for height in (0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0):
        loss = zoo.falling(n) + np.r_[np.zeros(1000), height * np.arange(1000) / 1000] + noise(n, 0.03)
        found = list(RULES["LOSS001"].findings(a_run(loss__train=loss)))
        said.append(max((["info", "warning", "critical"].index(f.severity.value) + 1 for f in found), default=0))
    assert said[0] == 0 and said[-1] == 3 and said == sorted(said)


def test_a_stronger_rise_of_validation_is_never_a_weaker_finding() -> None:
    said = []
    for slope in (0.0, 0.003, 0.01, 0.03, 0.1):
        val = 0.9 + np.exp(-np.arange(40) / 4) + slope * np.maximum(0, np.arange(40) - 10) + noise(40, 0.01, 1)
        run = zoo.evaluated(zoo.falling(4000, 2.3, 0.3) * np.exp(noise(4000, 0.05)), val, 100)
        found = list(RULES["LOSS008"].findings(run))
        said.append(max((["info", "warning", "critical"].index(f.severity.value) + 1 for f in found), default=0))
    assert said == sorted(said) and said[-1] == 2


# -- MR-27, MR-28: healed, and two faults at once


@sick
def test_the_healed_twin_is_clean(name: str) -> None:
    healed = zoo.plain()
    for code in zoo.SICK_CODES[name]:
        assert not [f for f in RULES[code].outcome(healed).findings if f.severity > Severity.INFO]


def test_two_faults_are_both_found() -> None:
    run = zoo.overfits()
    loss = run["loss/train"].values.copy()
    for at in (1200, 1900, 2600, 3300):
        loss[at : at + 80] += 1.5 * np.exp(-np.arange(80) / 20)
    both = alarms(run.with_({"loss/train": Series(np.arange(len(loss)), loss)}))
    assert {"LOSS006", "LOSS008"} <= set(both)
