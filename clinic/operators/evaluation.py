"""Faults of evaluation and fit."""

from __future__ import annotations

from clinic.operators.common import EVALUATION, FIX, NOTED, TABLES, quiet
from clinic.patches import evaluation
from clinic.surgery import Level, Operator, at_split

# fmt: off
TABLE: tuple[Operator, ...] = (
    Operator(
        "few_validation_samples", "a handful of samples decides which epoch was best", "EVAL002", ("EVAL002",), ("validation-too-small",),
        ("fix-evaluation", "healthy", "wait", "cannot-tell"),
        (Level("six", 6, least="info"), Level("twelve", 12, least="info"), quiet("hundred", 100)),
        at_split("{vx}, {vy} = {vx}[:{v}], {vy}[:{v}]"), ("digits_mlp", "cancer_tabular", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "stale_copy", "validation runs on a copy made before training", "EVAL001", ("EVAL001", "EVAL007"), ("stale-evaluation",), EVALUATION,
        (Level("never", "never"), quiet("refreshed", "refreshed")), evaluation.stale_copy,
        ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "gru_walks", "recommender"),
    ),
    Operator(
        "overfits", "few samples, many passes, no regularisation", "LOSS008", ("LOSS008", "EVAL005"), ("overfitting", "miscalibration", "generalisation-limited"),
        ("stop-keep-best", "fix-and-resume"), (Level("severe", (60, 30)), Level("moderate", (120, 15)), quiet("most", (400, 1))), evaluation.overfit,
        ("digits_mlp", "cancer_tabular", "spirals_residual", "gru_walks"),
    ),
    Operator(
        "drowned_in_dropout", "dropout so strong that nothing gets through", "LOSS009", ("LOSS009", "LOSS002", "LOSS011", "LOSS003"),
        ("underfitting", "over-regularised", "capacity-floor"), ("restart", "fix-and-resume", "cannot-tell"), (Level("severe", 0.97), quiet("slight", 0.3)), evaluation.raise_dropout,
        ("digits_mlp",),
    ),
    Operator(
        "metric_counts_wrong", "accuracy is computed from the least likely class", "EVAL003", ("EVAL003",), ("metric-bug",), EVALUATION,
        (Level("argmin", "argmin"), quiet("right", "right")), evaluation.wrong_metric, ("digits_mlp", "digits_cnn", "gru_walks", "spirals_residual", "encoder_padded"),
    ),
    Operator(
        "class_never_trained", "one class of the validation set is missing from training", "EVAL004", ("EVAL004", "DATA008", "DATA011", "DATA003", "EVAL007", "LOSS008"),
        ("class-imbalance", "train-val-mismatch", "label-encoding"), (*FIX, *EVALUATION), (Level("missing", 0.0), quiet("most", 0.9)),
        at_split("kept = ({ty} != 1) | (torch.rand(len({ty})) < {v})\n{tx}, {ty} = {tx}[kept], {ty}[kept]"), ("digits_mlp", "digits_cnn", "spirals_residual"),
    ),
    Operator(
        "only_easy_validation", "validation holds the samples of one easy class alone", "EVAL006", ("EVAL006", "DATA008", "EVAL004", "DATA011"),
        ("train-val-mismatch", "split-overlap", "class-imbalance"), (*NOTED, *EVALUATION), (Level("one-class", 0, least="info"), quiet("all", -1)), evaluation.one_class,
        ("digits_mlp", "digits_cnn", "cancer_tabular"),
    ),
    Operator(
        "validation_shuffled_apart", "validation targets are shuffled apart from their inputs", "EVAL007", ("EVAL007", "EVAL003", "DATA008", "EVAL001", "DATA003", "EVAL004", "LOSS008"),
        ("train-val-mismatch", "label-encoding", "metric-bug", "stale-evaluation", "labels-uninformative"), (*EVALUATION, "stop-keep-best"),
        (Level("all", 1.0), quiet("few", 0.02)),
        at_split("mix = torch.rand(len({vy})) < {v}\n{vy}[mix] = {vy}[mix][torch.randperm(int(mix.sum()))]"), TABLES,
    ),
    Operator(
        "divided_again", "the validation loss, a mean already, is divided by the number of samples", "EVAL008", ("EVAL008", "EVAL006"), ("evaluation-averaging",), EVALUATION,
        (Level("by-samples", "/ {n}"), quiet("and-multiplied", "* {n} / {n}")), evaluation.divided_again,
        ("digits_cnn", "cancer_tabular", "surface_regression", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "surer_and_surer", "training goes on for long after the answers stopped to improve, and nothing holds the weights back", "EVAL005", ("EVAL005", "LOSS008", "ACTV007"),
        ("miscalibration", "overfitting", "generalisation-limited"), ("stop-keep-best", "fix-and-resume", "fix-evaluation"),
        (Level("severe", (300, 20)), Level("moderate", (500, 12)), quiet("as-planned", (5000, 1))), evaluation.overfit, ("digits_mlp", "gru_walks", "digits_cnn"),
    ),
)
# fmt: on
