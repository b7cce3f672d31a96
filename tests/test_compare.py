"""Two runs side by side."""

import numpy as np

from runs import a_run, learning, steady
from traindx.diagnosis.compare import compare


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
    assert any("B went on to step 499" in w for w in found.warnings)


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
