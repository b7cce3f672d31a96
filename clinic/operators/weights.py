"""Faults of initial weights and activations."""

from __future__ import annotations

from clinic.operators.common import BLOWN, RESTART, quiet
from clinic.patches import weights
from clinic.surgery import Level, Operator, at_backward

# fmt: off
TABLE: tuple[Operator, ...] = (
    Operator(
        "output_starts_off", "one output starts far from the others", "LOSS010", ("LOSS010", "WGHT005", "LOSS002", "LOSS011", "ACTV005", "EVAL004"),
        ("bad-initialisation",), RESTART, (Level("severe", 100.0), Level("moderate", 30.0), quiet("slight", 0.2)), weights.bias_output,
        ("digits_mlp", "digits_cnn", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "init_too_large", "initial weights too large", "WGHT005", ("WGHT005", "LOSS010", "ACTV004", "ACTV003"), ("bad-initialisation", "saturated-units"),
        RESTART, (Level("severe", 20.0), Level("moderate", 8.0), quiet("slight", 1.3)), weights.scale_init,
        ("digits_mlp", "surface_regression", "cancer_tabular", "conv_autoencoder"),
    ),
    Operator(
        "constant_init", "all weights start from one value", "WGHT004", ("WGHT004", "GRAD004", "LOSS002", "ACTV005"), ("symmetric-initialisation",), RESTART,
        (Level("all", "all"), quiet("small-random", "normal")), weights.constant_init, ("digits_mlp", "cancer_tabular", "surface_regression", "spirals_residual"),
    ),
    Operator(
        "dead_biases", "hidden biases start far below zero", "ACTV001", ("ACTV001", "GRAD004", "LOSS002"), ("dead-units", "bad-initialisation"), RESTART,
        (Level("severe", -6.0), Level("moderate", -2.5), quiet("slight", -0.05)), weights.bias_hidden,
        ("digits_mlp", "cancer_tabular", "surface_regression", "spirals_residual"),
    ),
    Operator(
        "bn_statistics_lag", "BatchNorm statistics follow far too slowly", "ACTV008", ("ACTV008",), ("batchnorm-statistics",), ("fix-evaluation", "fix-and-resume"),
        (Level("severe", 0.0003), Level("moderate", 0.002), quiet("slight", 0.05)), weights.bn_momentum,
        ("digits_cnn", "conv_autoencoder", "digits_mlp", "surface_regression"),
    ),
    Operator(
        "sigmoid_tower", "many sigmoid layers in a row: no gradient reaches the first", "GRAD001", ("GRAD001", "LOSS002", "LOSS011", "ACTV004", "ACTV005"),
        ("vanishing-gradients",), RESTART, (Level("severe", (12, "Sigmoid")), Level("moderate", (7, "Sigmoid")), quiet("one", (1, "Sigmoid"))), weights.tower,
        ("digits_mlp", "surface_regression", "cancer_tabular", "conv_autoencoder"),
    ),
    Operator(
        "scale_over_depth", "the signal grows or fades with every layer", "ACTV004", ("ACTV004", "WGHT005", "LOSS010", "GRAD001", "OPTM002", *BLOWN),
        ("bad-initialisation", "vanishing-gradients", "exploding-gradients"), RESTART,
        (Level("grows", 1.0), Level("fades", 0.003), quiet("as-torch-draws", None)), weights.deep_and_drawn, ("digits_mlp", "surface_regression", "cancer_tabular"),
    ),
    Operator(
        "tanh_saturates", "tanh units start far out in their flat tails", "ACTV003", ("ACTV003", "WGHT005", "LOSS010", "ACTV004"),
        ("saturated-units", "bad-initialisation"), RESTART, (Level("severe", 40.0), Level("moderate", 15.0), quiet("usual", 1.0)), weights.tanh_drawn,
        ("digits_mlp", "surface_regression", "cancer_tabular"),
    ),
    Operator(
        "everything_dropped", "dropout is given the share to drop where the share to keep was meant", "ACTV005", ("ACTV005", "LOSS002", "LOSS009", "LOSS011", "GRAD004", "ACTV001"),
        ("over-regularised", "underfitting", "dead-units"), RESTART, (Level("all", 1.0), Level("nearly-all", 0.99), quiet("tenth", 0.1)), weights.dropped,
        ("digits_mlp", "surface_regression", "cancer_tabular"),
    ),
    Operator(
        "too_narrow", "one unit is all that the signal can pass through", "LOSS009", ("LOSS009", "LOSS003", "LOSS002", "LOSS011", "ACTV001", "EVAL004"),
        ("underfitting", "capacity-floor", "dead-units"), ("restart", "fix-and-resume", "cannot-tell", "stop-keep-best"),
        (Level("one", 1), quiet("forty", 40)), weights.narrow, ("digits_mlp", "surface_regression", "spirals_residual"),
    ),
    Operator(
        "penalty_rewards", "the weight penalty has the wrong sign and rewards large weights", "WGHT001", ("WGHT001", "ACTV004", "ACTV007", "GRAD002", "LOSS001", "LOSS011", "OPTM002"),
        ("weight-growth", "logit-drift", "exploding-gradients"), RESTART, (Level("severe", -0.1), Level("moderate", -0.03), quiet("penalty", 1e-5)),
        weights.penalised, ("digits_mlp", "surface_regression", "cancer_tabular"),
    ),
    Operator(
        "penalty_crushes", "the weight penalty outweighs the loss", "WGHT002", ("WGHT002", "LOSS002", "LOSS009", "LOSS011", "ACTV005", "OPTM009"),
        ("over-regularised", "weight-decay-misapplied", "underfitting"), RESTART, (Level("severe", 10.0), Level("moderate", 1.0), quiet("usual", 1e-5)),
        at_backward("loss = loss + {v} * sum(p.pow(2).sum() for p in {model}.parameters() if p.dim() > 1)"),
        ("digits_mlp", "surface_regression", "cancer_tabular", "gru_walks"),
    ),
    Operator(
        "terms_dwarfed", "a second task is measured in units that are a thousand times too small", "GRAD006", ("GRAD006", "LOSS010", "WIRE007", "DATA002"),
        ("loss-terms-unbalanced", "unscaled-targets"), RESTART, (Level("thousand", 1000.0), Level("hundred", 100.0), quiet("alike", 0.1)),
        at_backward("loss = loss + torch.nn.functional.mse_loss({out}.sum(1), {v} * ({by}.float() - 1))"), ("digits_mlp", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "logits_rewarded", "a bonus for large outputs has no bound", "ACTV007", ("ACTV007", "WGHT001", "ACTV004"), ("logit-drift", "weight-growth"), (*RESTART, "stop-keep-best"),
        (Level("severe", 1.0, least="info"), Level("moderate", 0.3, least="info"), quiet("penalty", -0.001)), at_backward("loss = loss - {v} * {out}.pow(2).mean().sqrt()"),
        ("digits_mlp", "gru_walks", "spirals_residual", "cancer_tabular"),
    ),
)
# fmt: on
