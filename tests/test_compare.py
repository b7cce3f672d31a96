"""Two runs side by side."""

from pathlib import Path

import numpy as np
from click.testing import CliRunner

from runs import a_run, learning, noise, steady
from traindx import api
from traindx.cli.compare import command, exit_code
from traindx.diagnosis.compare import compare
from traindx.diagnosis.effects import MARGIN
from traindx.run import Run, Series


def test_the_same_run_is_the_same() -> None:
    run = a_run(loss__train=learning(800))
    found = compare(run, run)
    assert found.outcome == "same" and found.same_start and found.first is None


def test_another_seed_is_not_called_worse() -> None:
    verdicts = [
        compare(a_run(loss__train=learning(800, seed=s)), a_run(loss__train=learning(800, seed=s + 50))).outcome
        for s in range(30)
    ]
    assert verdicts.count("worse") + verdicts.count("better") <= 1


def test_names_the_step_where_they_part() -> None:
    a = learning(1000)
    b = learning(1000, seed=1)
    b[600:] += 0.3
    found = compare(a_run(loss__train=a), a_run(loss__train=b))
    assert found.outcome == "worse" and found.first is not None
    assert 550 <= (found.first.beyond_noise or 0) <= 650


def test_names_the_layer_that_parts_first() -> None:
    calm = {name: steady(400, seed=i) for i, name in enumerate("abc")}
    other = {name: steady(400, seed=i + 9) for i, name in enumerate("abc")}
    other["b"] = np.r_[other["b"][:100], 5 * other["b"][100:]]
    other["c"] = np.r_[other["c"][:250], 5 * other["c"][250:]]
    found = compare(a_run(grad_norm__param=calm), a_run(grad_norm__param=other))
    assert found.first is not None and found.first.where == "b"


def test_a_run_that_breaks_parts_where_it_breaks() -> None:
    b = learning(400)
    b[300:] = np.nan
    found = compare(a_run(loss__train=learning(400)), a_run(loss__train=b))
    assert found.first is not None and found.first.beyond_noise == 300


def test_warns_when_more_than_one_thing_changed() -> None:
    a = a_run(loss__train=learning(), facts={"optimizer.name": "SGD", "hparams": {"lr": 0.1}})
    b = a_run(loss__train=learning(), facts={"optimizer.name": "Adam", "hparams": {"lr": 0.001}})
    found = compare(a, b)
    assert found.configuration["optimizer.name"] == ("SGD", "Adam") and found.warnings


def test_a_run_that_goes_on_and_diverges_is_worse() -> None:
    same = learning(300)
    on = np.r_[same, np.linspace(same[-1], 80.0, 200)]
    found = compare(a_run(loss__train=same), a_run(loss__train=on))
    assert found.outcome == "worse" and "after step 299" in found.judged_by
    assert any("B continues to step 499" in w for w in found.warnings)


def test_a_run_that_goes_on_and_breaks_is_worse() -> None:
    same = learning(300)
    found = compare(a_run(loss__train=same), a_run(loss__train=np.r_[same, np.full(100, np.nan)]))
    assert found.outcome == "worse" and any("not finite" in w for w in found.warnings)


def test_a_run_that_goes_on_and_gets_better_is_only_longer() -> None:
    longer = learning(600)
    found = compare(a_run(loss__train=longer[:300]), a_run(loss__train=longer))
    assert found.outcome == "same" and found.last_steps == (299, 599)
    assert compare(a_run(loss__train=longer), a_run(loss__train=longer[:300])).outcome == "same"


def test_one_rate_told_in_three_places_is_one_thing() -> None:
    def facts(lr: float) -> dict[str, object]:
        return {"argv": ["--lr", str(lr)], "hparams": {"lr": lr}, "optimizer.groups": [{"lr": lr}, {"lr": lr}]}

    found = compare(a_run(loss__train=learning(), facts=facts(0.1)), a_run(loss__train=learning(), facts=facts(0.2)))
    assert found.configuration and not found.warnings


def test_other_data_is_named() -> None:
    def facts(mean: float, commit: str) -> dict[str, object]:
        return {"data.input_stats": {"mean": mean, "std": 1.0}, "git.commit": commit}

    a, b = a_run(loss__train=learning(), facts=facts(0.0, "a")), a_run(loss__train=learning(), facts=facts(3.0, "b"))
    found = compare(a, b)
    assert "data.input_stats.mean" in found.data and found.environment["git.commit"] == ("a", "b")
    assert "2 things" in found.warnings[0]
    assert not compare(a, a_run(loss__train=learning(), facts=facts(0.01, "a"))).data


def test_how_much_of_the_data_was_looked_at_is_no_other_data() -> None:
    def facts(n: int, zeros: int, ones: int, mean: float) -> dict[str, object]:
        stats = {"mean": mean, "std": 0.77, "min": -1.2, "max": 2.2, "n": n}
        return {"data.input_stats": stats, "data.class_counts": {"0": zeros, "1": ones}, "data.seen": {"train": n}}

    a = a_run(loss__train=learning(), facts=facts(544, 499, 525, 0.40))
    assert not compare(a, a_run(loss__train=learning(), facts=facts(480, 355, 381, 0.37))).data
    other = compare(a, a_run(loss__train=learning(), facts=facts(480, 600, 136, 0.40))).data
    assert other == {"data.class_share.0": (0.487, 0.815), "data.class_share.1": (0.513, 0.185)}


# -- one answer, with the evidence for it


def evaluated(*values: float, **more: object) -> Run:
    return a_run({"loss/val": list(values), **more}, steps=[100 * (i + 1) for i in range(len(values))])


def code(a: Run | list[Run], b: Run, tolerance: float = 0.0, fail_on: str = "worse", strict: bool = False) -> tuple[str, int]:
    found = compare(a, b, tolerance=tolerance)
    return found.outcome, exit_code(found, fail_on, max(tolerance, MARGIN), strict=strict)


def test_a_collapse_is_never_passed_for_want_of_evaluations() -> None:
    for n in range(1, 12):
        outcome, left = code(evaluated(*[0.082] * n), evaluated(*[2.351 - 0.01 * i for i in range(n)]))
        assert outcome in ("worse", "cannot-tell") and left == 1, n


def test_too_few_evaluations_are_not_the_same() -> None:
    a, b = evaluated(0.5, 0.4, 0.31), evaluated(0.5, 0.41, 0.32)
    assert code(a, b) == ("cannot-tell", 0) and code(a, b, strict=True) == ("cannot-tell", 4)
    assert code(a, a) == ("same", 0)  # equal to the bit
    assert code(evaluated(0.30), evaluated(0.36)) == ("cannot-tell", 1)
    assert code(evaluated(0.30), evaluated(0.36), tolerance=0.3) == ("cannot-tell", 0)
    assert code(evaluated(0.30), evaluated(0.36), fail_on="never", strict=True) == ("cannot-tell", 4)


def test_one_evaluation_that_agrees_is_a_coincidence_unless_the_losses_agree_too() -> None:
    a, b = ({"loss__train": learning(200, seed=s)} for s in (0, 1))
    one = {"accuracy/val": Series(np.array([199]), np.array([0.6]))}
    assert code(a_run(one, **a), a_run(one, **b), strict=True) == ("cannot-tell", 4)
    assert code(a_run(one, **a), a_run(one, **a), strict=True) == ("same", 0)


def test_accuracy_counts_as_well_as_loss() -> None:
    a = a_run({"accuracy/val": [0.9, 0.92, 0.93, 0.932]}, steps=[1, 2, 3, 4])
    b = a_run({"accuracy/val": [0.7, 0.71, 0.72, 0.719]}, steps=[1, 2, 3, 4])
    assert code(a, b)[1] == 1 and code(b, a)[0] in ("better", "cannot-tell") and code(b, a)[1] == 0


def test_an_accuracy_that_is_kept_by_two_names_is_told_once() -> None:
    scores = {f"{name}": [0.9, 0.95, 0.97, 0.98] for name in ("accuracy__val", "metric__val__acc")}
    found = compare(a_run(loss__train=[1.0] * 4, **scores), a_run(loss__train=[1.0] * 4, **scores))
    assert [e.signal for e in found.effects] == ["accuracy/val"]


def test_an_exit_code_that_the_headline_does_not_explain_is_explained(tmp_path: Path) -> None:
    for name, last in (("a", 0.08), ("b", 0.15)):
        tmp_path.joinpath(f"{name}.csv").write_text(f"step,loss,val_loss\n1,1.0,\n2,0.9,\n3,0.8,{last}\n")
    done = CliRunner().invoke(command, [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")], standalone_mode=False)
    assert done.return_value == 1 and "Cannot tell" in done.output and "Exit code 1" in done.output


def test_rows_say_what_the_headline_says() -> None:
    rng = np.random.default_rng(0)
    for n in (8, 9, 10, 20):
        good, bad = 0.4 + 0.01 * rng.normal(size=n), 0.8 + 0.01 * rng.normal(size=n)
        found = compare(evaluated(*good), evaluated(*bad))
        (row,) = [e for e in found.effects if e.signal == "loss/val"]
        assert found.outcome == row.outcome == "worse" and 0 < row.low < row.change < row.high
        assert found.first is not None and found.first.signal == "loss/val"


def test_evaluations_at_other_steps_are_compared() -> None:
    a = Run.of({"loss/val": [0.5, 0.3, 0.2, 0.15, 0.12, 0.11]}, steps=[100, 200, 300, 400, 500, 600])
    b = Run.of({"loss/val": [2.3, 2.31, 2.3, 2.32, 2.31, 2.3]}, steps=[99, 199, 299, 399, 499, 599])
    assert code(a, b)[1] == 1


def test_a_run_that_ends_not_finite_is_worse() -> None:
    b = learning(400)
    b[300:] = np.nan
    assert code(a_run(loss__train=learning(400)), a_run(loss__train=b)) == ("worse", 1)
    assert code(a_run(loss__train=b), a_run(loss__train=learning(400)))[0] == "better"


def test_noise_that_hides_everything_is_not_the_same() -> None:
    wild = [a_run(loss__train=2 + noise(40, 1.5, seed=s)) for s in (0, 1)]
    assert compare(wild[0], wild[1]).outcome == "cannot-tell"


def test_slower_and_larger_runs_are_worse() -> None:
    loss = learning(400)
    base = a_run(loss__train=loss, time__step=steady(400, 0.01, 0.2), mem__rss=steady(400, 1e9, 0.001))
    slow = a_run(loss__train=loss, time__step=steady(400, 0.11, 0.2), mem__rss=steady(400, 1e9, 0.001))
    large = a_run(loss__train=loss, time__step=steady(400, 0.01, 0.2), mem__rss=steady(400, 2e9, 0.001))
    busy = a_run(loss__train=loss, time__step=steady(400, 0.013, 0.2), mem__rss=steady(400, 1.1e9, 0.001))
    assert compare(base, slow).outcome == "worse" and compare(base, slow).judged_by == "time/step"
    assert compare(base, large).judged_by == "mem/rss"
    assert compare(base, busy).outcome == "same"


def test_a_busy_machine_fails_no_build() -> None:
    loss, rng = learning(120), np.random.default_rng(3)
    calm, busy = (a_run(loss__train=loss, time__step=0.01 * m * np.exp(rng.normal(0, 2, 120))) for m in (1, 4))
    found = compare(calm, busy)
    assert found.outcome == "cannot-tell" and found.worse_by is None and all(e.low > -1 for e in found.effects)
    assert code(calm, busy)[1] == 0 and code(calm, busy, strict=True)[1] == 4


def test_three_slow_epochs_are_not_the_same() -> None:
    loss = [0.5, 0.3, 0.2]
    fast, slow, large = (
        evaluated(*loss, **{"time/step": [t] * 3, "mem/rss": [m] * 3}) for t, m in ((0.05, 1e9), (0.55, 1e9), (0.05, 5e9))
    )
    busy = evaluated(*loss, **{"time/step": [0.06, 0.065, 0.06], "mem/rss": [1e9] * 3})
    assert code(fast, slow) == code(fast, large) == ("cannot-tell", 1)
    assert "time/step" in compare(fast, slow).summary and code(fast, busy)[1] == 0


def test_several_baselines_are_a_band() -> None:
    def run(level: float, seed: int) -> Run:
        return evaluated(*(level + 0.002 * noise(12, seed=seed)))

    seeds = [run(level, i) for i, level in enumerate((0.300, 0.315, 0.290, 0.308))]
    assert compare(seeds, run(0.318, 9)).outcome != "worse"  # one more seed
    assert compare(seeds, run(0.60, 9)).outcome == "worse"
    assert compare([evaluated(0.3, 0.2), evaluated(0.31, 0.22)], evaluated(2.3, 2.31)).outcome != "same"
    alone = compare(seeds[0], run(0.318, 9))  # one baseline does not show what a seed does, and it says so
    assert alone.outcome == "cannot-tell" and any("seed" in w for w in alone.warnings)
    assert compare(seeds[0], run(0.318, 9), tolerance=0.02).outcome == "worse"  # … unless you say which change counts


def test_a_run_that_broke_off_is_not_the_same() -> None:
    whole = learning(600)
    b = a_run(loss__train=whole[:200], facts={"ended": "killed"})
    assert compare(a_run(loss__train=whole), b).outcome == "cannot-tell"


def test_no_row_contradicts_the_headline(tmp_path: Path) -> None:
    """Five evaluations show that B is worse, not from which step on; one measure under two names is one row."""
    for name, share in (("a", 0.95), ("b", 0.6)):
        rows = [f"{e},{2.3 * 0.7**e:.4f},{share * (1 - 0.6 ** (e + 1)):.4f}" for e in range(5)]
        (tmp_path / f"{name}.csv").write_text("epoch,train_loss,val_acc\n" + "\n".join(rows), encoding="utf-8")
    a, b = (api.load(tmp_path / f"{name}.csv")[0] for name in "ab")
    shown = str(compare(a, b))
    assert "B is worse" in shown and "too few to tell" not in shown and "metric/val/acc" not in shown
