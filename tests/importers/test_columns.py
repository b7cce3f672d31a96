"""From columns to signals: choices, sums, forms, notes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from traindx import importers
from traindx.errors import UsageError
from traindx.run import Run
from traindx.signals import EVENTS, FACTS, spec

N = 60


def of(**columns: Any) -> Run:
    [run] = importers.read({"step": list(range(N)), **{k.replace("__", "/"): list(v) for k, v in columns.items()}})
    return run


def falling(n: int = N) -> np.ndarray:
    return 2.0 / (1 + np.arange(n) / 5)


def test_every_signal_fact_and_event_is_in_the_vocabulary() -> None:
    run = of(
        loss=falling(), val_loss=falling(), lr=falling(), odd=falling(), train_acc=np.linspace(10, 90, N), reward=falling()
    )
    assert all(spec(name) is not None for name in run.signals)
    assert set(run.facts) <= set(FACTS) and {e.kind for e in run.events} <= set(EVENTS)


def test_the_finest_record_of_the_loss_is_the_curve_and_the_note_says_so() -> None:
    records = [{"step": i, "train_loss_step": 1.0 + i} for i in range(50)]
    records += [{"step": 50, "train_loss_epoch": 25.0, "val_loss": 3.0}]
    [run] = importers.read(records)
    assert len(run["loss/train"]) == 50 and run["metric/train/loss_epoch"].values.tolist() == [25.0]


def test_hf_train_loss_is_never_the_curve() -> None:
    records = [{"step": i, "loss": 2.0} for i in range(1, 30)] + [{"step": 30, "train_loss": 0.001}]
    [run] = importers.read(records)
    assert run["loss/train"].values.max() == 2.0 == run["loss/train"].values.min()


def test_parts_of_a_detector_are_summed_per_split() -> None:
    run = of(train__box_loss=falling(), train__cls_loss=falling(), val__box_loss=falling() + 1, val__cls_loss=falling())
    np.testing.assert_allclose(run["loss/train"].values, 2 * falling())
    np.testing.assert_allclose(run["loss/val"].values, 2 * falling() + 1)
    assert set(run["loss/terms"].names) == {"box", "cls"} and any("sum of" in n for n in run.notes)


def test_parts_beside_their_total_are_terms() -> None:
    run = of(loss=3 * falling(), recon_loss=2 * falling(), kl_loss=falling())
    assert set(run["loss/terms"].names) == {"recon", "kl"} and run["loss/train"].values[0] == 6.0


def test_a_method_beside_a_part_is_a_part_itself() -> None:
    run = of(mse_loss=falling(), kl_loss=falling())
    np.testing.assert_allclose(run["loss/train"].values, 2 * falling())
    alone = of(mse_loss=falling())
    np.testing.assert_allclose(alone["loss/train"].values, falling())


def test_two_players_have_no_common_loss() -> None:
    run = of(G_loss=falling(), D_loss=falling())
    assert run.fact("adversarial") and "loss/train" not in run and "metric/other/G_loss" in run
    assert len(run["gan/d_loss"]) and len(run["gan/g_loss"])


def test_rewards_mean_reinforcement_learning() -> None:
    run = of(loss=np.zeros(N), reward=falling(), kl=falling())
    assert run.fact("rl") and "rl/kl" in run


def test_a_test_set_followed_along_training_stands_for_validation() -> None:
    run = of(train_loss=falling(), test_loss=falling() + 0.1, test_acc1=np.linspace(10, 90, N))
    assert (
        "loss/val" in run and run["accuracy/val"].last == pytest.approx(0.9) and any("test set is used" in n for n in run.notes)
    )


def test_a_test_set_beside_validation_stays_a_test_set() -> None:
    run = of(train_loss=falling(), val_loss=falling(), test_loss=np.full(N, 246.0))
    assert run["loss/val"].values.max() < 3 and run["metric/test/loss"].last == 246.0


def test_a_perplexity_alone_gives_the_loss() -> None:
    run = of(train_ppl=np.exp(falling()))
    np.testing.assert_allclose(run["loss/train"].values, falling())


def test_percentages_become_shares() -> None:
    run = of(loss=falling(), val_accuracy=np.linspace(5, 95, N))
    assert run["accuracy/val"].last == pytest.approx(0.95) and run["metric/val/accuracy"].last == 95.0


def test_a_metric_without_split_belongs_to_the_records_it_stands_on() -> None:
    records = [{"step": i, "loss": 1.0, "tokens_per_batch": 5.0} for i in range(30)] + [
        {"step": 29, "val_loss": 1.0, "bleu": 20.0}
    ]
    records += [{"step": 30, "val_loss": 1.0, "bleu": 21.0}]
    [run] = importers.read(records)
    assert "metric/val/bleu" in run and "metric/train/tokens_per_batch" in run


def test_training_values_on_evaluation_records_are_left_out_of_the_curve() -> None:
    records: list[dict[str, float]] = []
    for i in range(0, 100, 10):
        records.append({"iter": i, "train_loss": 9.0, "val_loss": 2.0})
        records.append({"iter": i, "train_loss": 1.0})
    [run] = importers.read(records)
    assert set(run["loss/train"].values) == {1.0} and any("evaluation records" in n for n in run.notes)


def test_a_running_mean_is_undone() -> None:
    rng = np.random.default_rng(0)
    per, epochs = 50, 4
    raw = 1.0 + 0.2 * rng.normal(size=per * epochs)
    mean = np.concatenate([np.cumsum(raw[e * per : (e + 1) * per]) / np.arange(1, per + 1) for e in range(epochs)])
    [run] = importers.read(
        {"step": list(range(per * epochs)), "epoch": np.repeat(np.arange(epochs), per).tolist(), "loss": mean.tolist()}
    )
    np.testing.assert_allclose(run["loss/train"].values, raw, atol=1e-9)
    assert any("undone" in n for n in run.notes)


def test_a_running_mean_that_was_rounded_coarsely_is_left_as_it_is_and_said() -> None:
    rng = np.random.default_rng(0)
    per, epochs = 200, 4
    raw = 1.0 + 0.05 * rng.normal(size=per * epochs)
    mean = np.concatenate([np.cumsum(raw[e * per : (e + 1) * per]) / np.arange(1, per + 1) for e in range(epochs)]).round(3)
    [run] = importers.read(
        {"step": list(range(per * epochs)), "epoch": np.repeat(np.arange(epochs), per).tolist(), "loss": mean.tolist()}
    )
    np.testing.assert_array_equal(run["loss/train"].values, mean)
    assert run.fact("log_form") == {"loss/train": "ema"} and any("too coarsely" in n for n in run.notes)


def test_raw_curves_are_not_called_averaged() -> None:
    rng = np.random.default_rng(1)
    for seed in range(10):
        values = 0.3 + 2 * (1 + np.arange(500) / 20) ** -0.7 + 0.05 * np.random.default_rng(seed).normal(size=500)
        [run] = importers.read({"step": list(range(500)), "loss": values.tolist()})
        assert "log_form" not in run.facts
    smooth = np.convolve(rng.normal(size=800), 0.97 ** np.arange(200) * 0.03)[200:800]
    [run] = importers.read({"step": list(range(600)), "loss": (2 + smooth).tolist()})
    assert run.fact("log_form") == {"loss/train": "ema"}


def test_learning_rates_of_groups_are_kept_and_the_weights_group_is_the_rate() -> None:
    run = of(loss=falling(), lr__pg0=np.linspace(0.1, 0.01, N), lr__pg1=np.linspace(0.0, 0.01, N))
    assert run["lr"].values[0] == 0.0 and run["lr/group"].names == ("0", "1")


def test_times_and_memory_get_their_units() -> None:
    run = of(loss=falling(), step_time_ms=np.where(np.arange(N) % 2, 500.0, 510.0), mem_gb=np.full(N, 2.0))
    assert run["time/step"].values[0] == pytest.approx(0.51) and run["mem/allocated"].values[0] == 2e9


def test_non_finite_losses_leave_an_event_wherever_they_stand() -> None:
    values = falling()
    values[40] = math.nan
    run = of(loss=falling(), aux_loss=values)
    [event] = run.events_of("nonfinite")
    assert event.step == 40 and event.data == {"what": "loss", "names": ["aux_loss"], "value": "nan", "count": 1}


def test_columns_named_like_signals_are_those_signals() -> None:
    [run] = importers.read({"loss/train": [1.0, 0.5], "grad_norm/param/fc.weight": [1.0, 2.0], "metric/val/f1": [0.1, 0.2]})
    assert run["grad_norm/param"].names == ("fc.weight",) and run["metric/val/f1"].last == 0.2


# -- the user's word


def test_map_overrides_the_guess() -> None:
    run_as_guessed = of(loss=falling(), aux=falling() + 5)
    [run] = importers.read(
        {"step": list(range(N)), "loss": falling().tolist(), "aux": (falling() + 5).tolist()},
        map={"aux": "loss/train", "loss": "ignore"},
    )
    assert run["loss/train"].last > 5 > run_as_guessed["loss/train"].last
    assert run.fact("columns")["aux"] == "loss/train" and "loss" in run.fact("unmapped")


def test_map_names_the_axis() -> None:
    [run] = importers.read({"t": list(range(0, 100, 10)), "loss": falling(10).tolist()}, map={"t": "step"})
    assert run["loss/train"].steps.tolist() == list(range(0, 100, 10))


@pytest.mark.parametrize(
    ("mapping", "word"), [({"loss": "loss/trian"}, "no such signal"), ({"lss": "loss/train"}, "no column 'lss'")]
)
def test_slips_of_the_pen_in_map_are_named(mapping: dict[str, str], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        importers.read({"loss": [1.0, 2.0]}, map=mapping)


def test_hparams_state_facts_only_where_they_say_so() -> None:
    from traindx.importers.hparams import facts

    assert facts({"num_labels": 4}, "step") == {"loss.kind": "ce", "loss.classes": 4}
    assert facts({"num_labels": 1}, "step") == {}
    assert facts({"vocab_size": 65}, "step") == {"loss.kind": "ce", "loss.classes": 65}
    assert (
        facts({"vocab_size": 30522, "num_labels": 3, "architectures": ["BertForSequenceClassification"]}, "step")[
            "loss.classes"
        ]
        == 3
    )
    assert facts({"vocab_size": 50257, "num_labels": 2, "architectures": ["GPT2LMHeadModel"]}, "step")["loss.classes"] == 50257
    assert facts({"loss": "mse", "vocab_size": 5}, "step") == {"loss.kind": "mse"}
    assert facts({"epochs": 30}, "epoch") == {"budget.planned_steps": 30} and facts({"epochs": 30}, "step") == {}
    assert facts({"lora_r": 8}, "step") == {"finetune": True}


def test_an_error_is_the_loss_where_no_loss_was_logged() -> None:
    run = of(train_mse=falling(), val_mse=2 * falling(), train_mae=falling())
    assert run["loss/train"].values[0] == 2.0 and run["loss/val"].values[0] == 4.0
    assert any("'train_mse' is taken for the training loss" in note for note in run.notes)
    assert "metric/train/mae" in run.signals
    run = of(rmse=falling(), val_rmse=falling())
    assert {"loss/train", "loss/val"} <= set(run.signals)
    run = of(train_loss=falling(), train_mse=3 * falling(), val_mse=falling())
    assert run["loss/train"].values[0] == 2.0 and "loss/val" not in run.signals, "a loss is there"
    assert "loss/train" not in of(mse=falling()).signals, "of what?"


def test_a_top_1_below_one_percent_is_told_by_the_top_5_beside_it() -> None:
    low, many = np.full(N, 0.98), np.linspace(4.5, 5.5, N)
    assert of(loss=falling(), eval_top1=low, eval_top5=many)["accuracy/val"].last == pytest.approx(0.0098)
    assert of(loss=falling(), eval_top1=low, eval_top5=np.full(N, 0.999))["accuracy/val"].last == pytest.approx(0.98)


@pytest.mark.parametrize(("told", "at"), [(250, [1000, 2000]), (None, [1000, 2000])], ids=["batches", "updates"])
def test_an_evaluation_that_counts_its_own_batches_stands_where_training_was(
    told: int | None, at: list[int], tmp_path: Path
) -> None:
    lines = []
    for i in range(50, 2001, 50):
        lines.append({"mode": "train", "iter": i, "loss": 2.0 - i / 2000})
        if i % 1000 == 0:
            lines.append({"mode": "val", "iter": told or i, "mIoU": 0.5})
    path = tmp_path / "run.log.json"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    [run] = importers.read(path)
    assert len(run["loss/train"]) == 40 and run["metric/val/mIoU"].steps.tolist() == at and not run.events_of("resume")


@pytest.mark.parametrize("names", [("tr_loss", "vl_loss"), ("train-logloss", "eval-logloss"), ("train_bpc", "val_bpc")])
def test_less_usual_names_of_the_two_losses(names: tuple[str, str]) -> None:
    run = of(**{names[0]: falling(), names[1]: falling() + 1})
    assert run["loss/val"].last - run["loss/train"].last == pytest.approx(1) and "loss/terms" not in run


def test_columns_that_are_called_train_and_val_only_are_losses_if_they_fall() -> None:
    run = of(train=falling(), val=falling() + 1)
    assert run["loss/val"].last - run["loss/train"].last == pytest.approx(1) and any(
        "is taken for a loss" in n for n in run.notes
    )
    assert "loss/train" not in of(Train=1 - falling() / 10, Val=1 - falling() / 10)


@pytest.mark.parametrize(
    "name",
    ["time/total_timesteps", "total/steps", "current_steps", "timesteps_total", "train/n_updates", "Episode", "total_steps"],
)
def test_counters_of_rl_libraries_and_fine_tuners_are_the_axis(name: str) -> None:
    [run] = importers.read({name: list(range(0, 10 * N, 10)), "loss": list(falling())})
    assert run.fact("step_unit") == "step" and run["loss/train"].steps[-1] == 10 * (N - 1)


def as_csv(folder: Path, columns: dict[str, Any]) -> Run:
    rows = zip(range(N), falling(), *columns.values(), strict=True)
    text = [",".join(["step", "loss", *columns])] + [",".join(map(str, row)) for row in rows]
    (folder / "log.csv").write_text("\n".join(text))
    [run] = importers.read(folder / "log.csv")
    return run


def test_a_running_total_of_time_is_a_clock_and_no_duration(tmp_path: Path) -> None:
    elapsed = np.repeat(np.arange(N // 2) * 33.0, 2)  # whole seconds: some repeat
    run = as_csv(tmp_path, {"time/time_elapsed": elapsed})
    assert "time/step" not in run.signals and run["loss/train"].times[-1] == elapsed[-1]


@pytest.mark.parametrize(
    ("column", "values", "want"),
    [
        ("step_time", np.tile([0.9, 1.1], N // 2), 1.0),  # the clock runs one second a step
        ("step_time_ms", np.tile([900.0, 1100.0], N // 2), 1.0),
        ("step_time", np.tile([9e4, 1.1e5], N // 2), None),  # a day a step in a run of a minute
    ],
)
def test_a_duration_must_add_up_to_what_the_clock_says(
    tmp_path: Path, column: str, values: np.ndarray, want: float | None
) -> None:
    run = as_csv(tmp_path, {"timestamp": 1.7e9 + np.arange(N), column: values})
    assert ("time/step" in run.signals) == (want is not None)
    assert want is None or float(np.median(run["time/step"].values)) == pytest.approx(want)


def test_a_return_of_rollouts_is_reinforcement_learning() -> None:
    run = of(rollout__return=-falling(), train__loss_actor=falling(), train__loss_critic=falling() * 100)
    assert run.fact("rl") is True and len(run["rl/return"]) == N


def test_a_part_that_holds_another_is_the_total() -> None:
    rng = np.random.default_rng(0)
    recon = falling() * np.exp(rng.normal(0, 0.2, N))
    kl = 200 + rng.normal(0, 10, N)
    run = of(train_L_vae=recon + 3e-4 * kl, train_L_vae_recon=recon, train_L_vae_kl=kl)
    np.testing.assert_allclose(run["loss/train"].values, recon + 3e-4 * kl)
    assert any("total" in note for note in run.notes)


def test_the_axis_can_be_named_and_what_was_named_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("clicks,zap\n" + "".join(f"{10 * i},{2 - i / 99}\n" for i in range(30)))
    wanted = {"x": "clicks", "zap": "loss/train"}
    [named] = importers.read(path, map=wanted)
    assert named["loss/train"].steps[-1] == 290 and named.fact("step_unit") == "step"
    assert importers.remember(path, wanted).parent == tmp_path
    [again] = importers.read(path)
    assert again["loss/train"].steps[-1] == 290
    (tmp_path / ".log.csv.map.json").write_text("[]")
    with pytest.raises(UsageError, match="no map of columns"):
        importers.read(path)


def test_a_loss_without_a_split_beside_a_training_loss_and_scores_is_that_of_the_evaluation() -> None:
    run = of(train_loss=falling(), loss=falling() + 1, f1=np.linspace(0.2, 0.8, N))
    assert run.series("loss/train").last < run.series("loss/val").last


def test_a_validation_loss_of_zeros_was_not_computed() -> None:
    run = of(train_loss=falling(), val_loss=np.zeros(N), val_acc=np.linspace(0.2, 0.8, N))
    assert "loss/val" not in run.signals and any("was not computed" in note for note in run.notes)


def test_an_error_of_validation_of_the_size_of_the_training_loss_is_the_validation_loss() -> None:
    assert "loss/val" in of(train_loss=falling(), val_mse=1.1 * falling()).signals
    assert "loss/val" not in of(train_loss=falling(), val_mae=100 * falling()).signals


def test_a_value_that_stands_in_a_progress_bar_is_one_evaluation() -> None:
    epoch = np.repeat(np.arange(4), 15)
    bar = of(epoch=epoch, loss=falling(), val_loss=np.repeat([7.0, 3.0, 2.0, 2.0], 15))
    assert bar.series("loss/val").values.tolist() == [7.0, 3.0, 2.0] and len(bar.series("loss/train")) == N
    assert len(of(epoch=np.arange(N), loss=falling(), val_loss=np.full(N, 7.0)).series("loss/val")) > 20, "stuck, not stale"
