"""Faults of learning rate, schedule, optimizer."""

from __future__ import annotations

from clinic.operators.common import BLOWN, FIX, NOTED, RESTART, quiet
from clinic.patches import steps
from clinic.surgery import Level, Operator

# fmt: off
TABLE: tuple[Operator, ...] = (
    Operator(
        "lr_too_high", "the learning rate is far too high", "OPTM002", ("OPTM002", *BLOWN), ("lr-too-high", "exploding-gradients"), RESTART,
        (Level("severe", (1000.0, 200.0)), Level("moderate", (200.0, 40.0)), quiet("double", (2.0, 1.5))), steps.scale_lr,
        ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "char_gpt", "gru_walks", "conv_autoencoder", "spirals_residual", "encoder_padded"),
    ),
    Operator(
        "lr_too_low", "the learning rate is far too low", "OPTM001", ("OPTM001", "LOSS002"), ("lr-too-low",), RESTART,
        (Level("severe", (1e-5, 1e-5)), Level("moderate", (1e-4, 1e-4)), quiet("half", (0.5, 0.5))), steps.scale_lr,
        ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "char_gpt", "gru_walks", "conv_autoencoder", "spirals_residual"),
    ),
    Operator(
        "schedule_per_batch", "a step decay meant in epochs is stepped with every batch", "WIRE010", ("WIRE010", "OPTM003"),
        ("schedule-misused", "schedule-collapsed"), FIX, (Level("severe", (4, 0.5)), Level("moderate", (10, 0.5)), quiet("gentle", (100, 0.8))),
        steps.decay_schedule, ("digits_mlp", "cancer_tabular", "surface_regression", "gru_walks", "spirals_residual", "recommender"),
    ),
    Operator(
        "late_jump", "the learning rate is raised a hundredfold for the last third", "OPTM013",
        ("OPTM013", "OPTM002", "LOSS001", "LOSS005", "LOSS006", "GRAD007", "ACTV001", "ACTV005", *BLOWN), ("lr-too-high", "lr-noise-floor", "dead-units"),
        (*FIX, "stop-keep-best"), (Level("severe", 300), Level("moderate", 100), quiet("slight", 1.5)), steps.late_jump,
        ("digits_mlp", "surface_regression", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "decay_too_strong", "weight decay far too strong", "OPTM009", ("OPTM009", "WGHT002", "ACTV005", "LOSS002", "LOSS009", "LOSS011"),
        ("weight-decay-misapplied", "over-regularised"), RESTART, (Level("severe", 200.0), Level("moderate", 60.0), quiet("usual", 0.05)), steps.weight_decay,
        ("digits_mlp", "surface_regression", "cancer_tabular", "spirals_residual"),
    ),
    Operator(
        "clip_too_tight", "gradients clipped to a thousandth under plain SGD", "OPTM006", ("OPTM006", "OPTM001"), ("clipping-misset", "lr-too-low"), FIX,
        (Level("severe", (1e-4, "SGD")), Level("moderate", (1e-3, "SGD")), quiet("under-adam", (0.1, "Adam")), quiet("loose", (10.0, "SGD"))), steps.clip_sgd,
        ("digits_mlp", "surface_regression", "cancer_tabular"),
    ),
    Operator(
        "adam_eps_dominates", "Adam's epsilon is far above its second moments", "OPTM008", ("OPTM008", "OPTM001", "LOSS002"), ("adam-epsilon", "lr-too-low"), RESTART,
        (Level("severe", 1000.0), Level("moderate", 30.0), quiet("usual", 1e-7)), steps.adam_eps,
        ("digits_mlp", "cancer_tabular", "surface_regression", "gru_walks"),
    ),
    Operator(
        "sgd_diverges", "plain SGD far beyond the rate that a squared error bears", "LOSS001", ("OPTM002", *BLOWN), ("lr-too-high", "exploding-gradients"), RESTART,
        (Level("severe", (100.0, 0.0)), Level("moderate", (20.0, 0.0)), quiet("usual", (0.02, 0.0))), steps.to_sgd,
        ("surface_regression", "conv_autoencoder", "cancer_tabular"),
    ),
    Operator(
        "momentum_of_one", "momentum of one or more: nothing slows the weights down", "GRAD002", ("OPTM002", "WGHT001", "ACTV004", "ACTV007", "OPTM013", *BLOWN),
        ("lr-too-high", "exploding-gradients", "weight-growth"), RESTART,
        (Level("severe", (0.05, 1.05)), Level("moderate", (0.05, 1.0)), quiet("usual", (0.02, 0.9))), steps.to_sgd,
        ("digits_mlp", "surface_regression", "cancer_tabular", "gru_walks"),
    ),
    Operator(
        "bounces", "SGD at a rate that throws the weights from wall to wall", "LOSS005", ("OPTM002", "GRAD007", "LOSS006", *BLOWN), ("lr-too-high",), RESTART,
        (Level("severe", (2.0, 0.0)), Level("moderate", (1.0, 0.0)), quiet("usual", (0.05, 0.0))), steps.to_sgd,
        ("digits_mlp", "spirals_residual", "digits_cnn"),
    ),
    Operator(
        "decayed_away", "the learning rate loses most of itself with every epoch", "OPTM003", ("OPTM003",), ("schedule-collapsed", "schedule-misused"), FIX,
        (Level("severe", 0.05), Level("moderate", 0.15), quiet("gentle", 0.9)), steps.epoch_decay,
        ("digits_mlp", "cancer_tabular", "gru_walks", "conv_autoencoder", "vae_digits"),
    ),
    Operator(
        "made_every_epoch", "the optimizer is made anew with every epoch and forgets its moments", "OPTM010", ("OPTM010",), ("optimizer-group-fault", "optimizer-state-lost"), FIX,
        (Level("every-epoch", "every epoch"), quiet("once-more", "once more")), steps.made_anew,
        ("digits_mlp", "cancer_tabular", "gru_walks", "recommender"),
    ),
    Operator(
        "group_at_zero", "the last layer's parameter group has a learning rate of zero", "OPTM010", ("OPTM010", "OPTM001", "OPTM003"),
        ("optimizer-group-fault", "lr-too-low", "schedule-collapsed"), FIX, (Level("zero", "0.0"), quiet("half", "LR / 2")), steps.two_groups,
        ("digits_mlp", "cancer_tabular", "surface_regression", "gru_walks", "vae_digits"),
    ),
    Operator(
        "batch_shrinks", "batches become much smaller half-way, the learning rate stays", "OPTM011", ("OPTM011",), ("batch-size-changed", "lr-too-high", "lr-noise-floor"), NOTED,
        (Level("four", 4, least="info"), Level("twelve", 12, least="info"), quiet("thirty", 30)), steps.batch_changes,
        ("digits_cnn", "surface_regression", "conv_autoencoder", "spirals_residual"),
    ),
    Operator(
        "stopped_early", "training ends while the loss is still falling", "LOSS004", ("LOSS004",), ("still-converging", "lr-too-low"), NOTED,
        (Level("severe", (0.5, 0.1), least="info"), Level("moderate", (1, 0.1), least="info"), quiet("thrice", (3, 1))), steps.longer,
        ("surface_regression", "conv_autoencoder", "char_gpt"),
    ),
    Operator(
        "cold_start", "a transformer starts at its full rate, without a warm-up", "OPTM004", ("OPTM004", "OPTM002", "LOSS006", *BLOWN), ("warmup-missing", "lr-too-high"),
        (*RESTART, *NOTED), (Level("severe", (20.0, False), least="info"), Level("moderate", (8.0, False), least="info"), quiet("warmed-up", (2.0, True))), steps.cold,
        ("char_gpt", "lines_gpt", "encoder_padded"),
    ),
    Operator(
        "far_too_long", "training goes on long after nothing more is gained", "LOSS003", ("LOSS003", "LOSS008", "EVAL005", "OPTM005"),
        ("lr-noise-floor", "capacity-floor", "overfitting", "generalisation-limited", "miscalibration"), (*NOTED, "stop-keep-best"),
        (Level("tenfold", (8, 1), least="info"), Level("fourfold", (4, 2), least="info"), quiet("as-planned", (1, 1))), steps.longer,
        ("surface_regression", "recommender", "moe_piecewise"),
    ),
    Operator(
        "gains_decay", "weight decay wears away gains and biases", "WGHT003", ("WGHT003", "WGHT002", "OPTM009", "ACTV005"),
        ("weight-decay-misapplied", "norm-gains-drift", "over-regularised"), RESTART, (Level("severe", 90.0), Level("moderate", 45.0), quiet("usual", 0.01)),
        steps.vectors_decay, ("spirals_residual", "encoder_padded", "char_gpt", "conv_autoencoder"),
    ),
    Operator(
        "rate_stays_high", "the learning rate is never lowered and the loss stays in its noise", "OPTM005", ("OPTM005", "LOSS003", "LOSS005", "OPTM002", "GRAD007"),
        ("lr-noise-floor", "lr-too-high"), (*NOTED, "stop-keep-best"),
        (Level("severe", (3, 20), least="info"), Level("moderate", (3, 8), least="info"), quiet("usual", (1, 1))), steps.longer,
        ("surface_regression", "conv_autoencoder", "moe_piecewise"),
    ),
)
# fmt: on
