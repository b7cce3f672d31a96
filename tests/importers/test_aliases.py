"""What names of columns mean."""

# ruff: noqa: E501 - a table

from __future__ import annotations

import pytest

from traindx.importers.aliases import adversarial, direction, meaning, words


@pytest.mark.parametrize(
    ("name", "role", "split"),
    [
        ("loss", "loss", ""), ("train_loss", "loss", "train"), ("train/loss", "loss", "train"), ("Loss/Train", "loss", "train"),
        ("trainLoss", "loss", "train"), ("train_loss_step", "loss", "train"), ("epoch_loss", "loss", ""), ("total_loss", "loss", ""),
        ("eval_loss", "loss", "val"), ("val/loss", "loss", "val"), ("Loss/Validation", "loss", "val"), ("dev loss", "loss", "val"),
        ("valid_loss", "loss", "val"), ("train/val_loss", "loss", "val"), ("test_loss", "loss", "test"), ("lm loss", "loss", ""),
        ("lm-loss-training/lm loss", "loss", "train"), ("CROSSVAL AVG.LOSS", "loss", "val"), ("cost", "loss", ""),
        ("cost/cross_entropy", "loss", ""), ("eval/train_loss", "train_eval", "train"), ("train_loss_eval", "train_eval", "train"),
        ("train/box_loss", "part", "train"), ("loss_box_reg", "part", ""), ("D_A", "part", ""), ("G_loss", "part", ""),
        ("eval_mnli_loss", "part", "val"), ("loss_scale", "scale", ""), ("loss scale", "scale", ""), ("grad_scale", "scale", ""),
        ("best_val_loss", "metric", "val"), ("loss_weight", "metric", ""), ("ppl", "perplexity", ""), ("val_perplexity", "perplexity", "val"),
        ("loss_validierung", "loss", "val"), ("Verlust (Training)", "loss", "train"), ("pérdida_validación", "loss", "val"),
        ("Perte entraînement", "loss", "train"), ("acurácia_validação", "accuracy", "val"), ("Époque", "epoch", ""),
        ("lr", "lr", ""), ("learning_rate", "lr", ""), ("lr-Adam", "lr", ""), ("x/lr0", "lr", ""), ("lr/pg2", "lr", ""), ("optim0_lr0", "lr", ""),
        ("grad_norm", "grad_norm", ""), ("gnorm", "grad_norm", ""), ("train/grad_norm", "grad_norm", "train"), ("grad norm", "grad_norm", ""),
        ("grad_2.0_norm_total", "grad_norm", ""), ("grad_2.0_norm/fc.weight", "grad_param", ""), ("step", "step", ""), ("iter", "step", ""),
        ("global_step", "step", ""), ("trainer/global_step", "step", "train"), ("_step", "log_step", ""), ("num_updates", "step", ""),
        ("epoch", "epoch", ""), ("train/epoch", "epoch", "train"), ("consumed samples", "samples", ""), ("num_tokens", "tokens", ""),
        ("_timestamp", "clock", ""), ("Wall time", "clock", ""), ("eval_runtime", "ignored", "val"), ("eta_seconds", "ignored", ""),
        ("step_time_ms", "duration", ""), ("time", "duration", ""), ("data_time", "data_time", ""), ("wps", "throughput", ""),
        ("train_samples_per_second", "throughput", "train"), ("eval_samples_per_second", "ignored", "val"), ("accuracy", "accuracy", ""),
        ("val_accuracy", "accuracy", "val"), ("Acc@1", "accuracy", ""), ("test_acc1", "accuracy", "test"), ("top1", "accuracy", ""),
        ("Acc@5", "metric", ""), ("fast_rcnn/cls_accuracy", "metric", ""), ("val_f1", "metric", "val"), ("metrics/mAP50(B)", "metric", ""),
        ("hp_metric", "ignored", ""), ("seed", "ignored", ""), ("lossless_ratio", "metric", ""), ("glossary", "metric", ""),
    ],
)  # fmt: skip
def test_roles_and_splits(name: str, role: str, split: str) -> None:
    found = meaning(name)
    assert (found.role, found.split) == (role, split), found


@pytest.mark.parametrize("name", ["lm-loss-training/lm loss vs samples", "lm loss vs tokens"])
def test_copies_of_a_curve_on_another_axis_are_ignored(name: str) -> None:
    assert meaning(name).role == "ignored"


def test_words_are_found_in_camel_case_numbers_and_marks() -> None:
    assert words("valAccTop5") == ("val", "acc", "top", "5")
    assert words("mAP50-95(B)") == ("m", "ap", "50", "95", "b")


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("val_f1", "up"),
        ("eval_wer", "down"),
        ("metrics/mAP50(B)", "up"),
        ("rmse", "down"),
        ("eval_rouge1", "up"),
        ("mfu", ""),
        ("val_pearson", "up"),
    ],
)
def test_directions(name: str, better: str) -> None:
    assert direction(name) == better


def test_two_players_are_recognised() -> None:
    assert adversarial(["d_a", "g_a", "cycle_a"]) and adversarial(["generator", "discriminator"])
    assert not adversarial(["box", "cls", "dfl"])
