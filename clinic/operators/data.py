"""Faults of data."""

from __future__ import annotations

from clinic.operators.common import EVALUATION, FIX, NOTED, RESTART, TABLES, quiet
from clinic.patches import data
from clinic.surgery import Level, Operator, at_data, at_split

# fmt: off
TABLE: tuple[Operator, ...] = (
    Operator(
        "inputs_unscaled", "inputs are far from unit scale", "DATA002", ("DATA002", "LOSS010"), ("unscaled-inputs",), RESTART,
        (Level("thousand", 1000.0), Level("hundred", 100.0), quiet("double", 2.0)), at_data("{X} = {X} * {v}"),
        ("digits_mlp", "surface_regression", "cancer_tabular", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "labels_shuffled", "targets are shuffled apart from their inputs", "DATA004", ("DATA004", "LOSS002", "LOSS011"), ("labels-uninformative", "label-noise"), RESTART,
        (Level("all", 1.0), quiet("few", 0.03)),
        at_data("mix = torch.rand(len({Y})) < {v}\n{Y}[mix] = {Y}[mix][torch.randperm(int(mix.sum()))]"), TABLES,
    ),
    Operator(
        "sorted_by_class", "the training set is sorted by class and not shuffled", "DATA005", ("DATA005",), ("data-not-shuffled",), FIX,
        (Level("sorted", "sorted"), quiet("as-stored", "as stored")), data.unshuffled, ("digits_mlp", "digits_cnn", "cancer_tabular", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "rows_in_both_sets", "training rows stand in the validation set", "DATA006", ("DATA006",), ("split-overlap",), (*EVALUATION, *FIX),
        (Level("half", 0.5), Level("tenth", 0.1), quiet("one-row", 0.006)),
        at_split("shared = int({v} * len({vx}))\n{vx}[:shared], {vy}[:shared] = {tx}[:shared], {ty}[:shared]"), TABLES,
    ),
    Operator(
        "target_leaks", "one input column carries the target", "DATA007", ("DATA007",), ("target-leak",), RESTART,
        (Level("plain", 0.02), Level("noisy", 0.1), quiet("weak", 4.0)),
        at_data("{X}[:, 0] = {Y}.flatten().float() * 2 - 1 + {v} * torch.randn(len({Y}))"), ("digits_mlp", "cancer_tabular", "spirals_residual"),
    ),
    Operator(
        "validation_unscaled", "validation inputs are prepared differently", "DATA008", ("DATA008", "EVAL007"), ("train-val-mismatch",), EVALUATION,
        (Level("sixteen", 16.0), Level("four", 4.0), quiet("slight", 1.02)), at_split("{vx} = {vx} * {v} + ({v} - 1) / 2"), TABLES,
    ),
    Operator(
        "conflicting_copies", "rows appear twice with different targets", "DATA010", ("DATA010",), ("label-noise",), FIX,
        (Level("many", 0.4), Level("some", 0.15), quiet("two-rows", 0.002)),
        at_split("twice = int({v} * len({ty}))\nwrong = {ty}[:twice].roll(1)\n{tx}, {ty} = torch.cat([{tx}, {tx}[:twice]]), torch.cat([{ty}, wrong])"),
        ("digits_mlp", "digits_cnn", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "wild_targets", "a few targets are a hundred times too large", "LOSS007", ("LOSS007", "DATA001", "GRAD003", "LOSS006"),
        ("outlier-batches", "bad-data-values"), FIX, (Level("hundred", 100.0), Level("thirty", 30.0), quiet("slight", 1.2)),
        at_data("{Y}[torch.randperm(1000)[:4]] *= {v}"), ("surface_regression", "recommender", "moe_piecewise", "conv_autoencoder"),
    ),
    Operator(
        "same_batch", "a new iterator is made for every step", "DATA012", ("DATA012",), ("repeated-batches",), RESTART,
        (Level("always", "always"), quiet("once-per-epoch", "once per epoch")), data.one_batch, ("digits_mlp", "cancer_tabular", "gru_walks", "recommender"),
    ),
    Operator(
        "inputs_constant", "every input is the mean of all inputs", "LOSS002", ("LOSS002", "DATA012", "DATA004", "LOSS011", "ACTV005"),
        ("repeated-batches", "labels-uninformative"), RESTART, (Level("constant", 0.0), quiet("halved", 0.5)),
        at_data("{X} = {X}.mean(0) + {v} * ({X} - {X}.mean(0))"), TABLES,
    ),
    Operator(
        "permuted_in_the_batch", "the targets of a batch are shuffled after they were drawn", "LOSS011", ("LOSS011", "LOSS002", "DATA004", "ACTV005"),
        ("labels-uninformative", "label-noise"), RESTART, (Level("permuted", "[torch.randperm(len({0}))]"), quiet("copied", ".clone()")), data.in_the_batch, TABLES,
    ),
    Operator(
        "one_order", "batches come in the same order in every epoch", "LOSS012", ("LOSS012", "DATA005"), ("data-not-shuffled",), NOTED,
        (Level("as-stored", "as stored", least="info"), quiet("shuffled", "shuffled")), data.unshuffled, ("digits_mlp", "digits_cnn", "cancer_tabular", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "numbered_from_one", "labels do not start at zero, and the head has a class that never occurs", "DATA003", ("DATA003",), ("label-encoding",), (*FIX, "healthy", "wait"),
        (Level("shifted-by-one", (1, 1), least="info"), Level("many-unused", (0, 30), least="info"), quiet("from-zero", (0, 0))), data.one_based,
        ("digits_mlp", "digits_cnn", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "validation_augmented", "validation inputs are disturbed at random like those of training", "DATA009", ("DATA009",), ("augmentation-fault",), (*EVALUATION, "healthy", "wait"),
        (Level("strong", ("validation", 0.5)), Level("weak", ("validation", 0.1)), quiet("training-only", ("training", 0.1))), data.noisy_inputs,
        ("digits_cnn", "surface_regression", "spirals_residual"),
    ),
    Operator(
        "class_starves", "one class is so rare that batches hardly hold it", "DATA011", ("DATA011", "EVAL004"), ("class-imbalance",), (*FIX, *EVALUATION, "healthy", "wait"),
        (Level("hundredth", 0.01, least="info"), Level("fiftieth", 0.03, least="info"), quiet("half", 0.5)),
        at_split("kept = ({ty} != 1) | (torch.rand(len({ty})) < {v})\n{tx}, {ty} = {tx}[kept], {ty}[kept]"),
        ("digits_mlp", "digits_cnn", "gru_walks", "spirals_residual"),
    ),
)
# fmt: on
