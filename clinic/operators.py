"""Fault operators: one fault each, at several levels, as a readable patch of a base program's text.

Levels marked quiet lie below the threshold or are the harmless look-alike of the fault: the operator's codes must not be
found in them. Where an operator's idiom is not in a base, it does not apply there.
"""

from __future__ import annotations

from typing import Any

from clinic import patches as p
from clinic.surgery import Level, Operator, reseed, the_base

RESTART = ("restart", "fix-and-resume")
FIX = ("fix-and-resume", "restart")
EVALUATION = ("fix-evaluation",)
TABLES = ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "spirals_residual", "gru_walks")
CLASSES = ("digits_mlp", "digits_cnn", "gru_walks", "spirals_residual", "encoder_padded")
BLOWN = ("LOSS001", "NUMR001", "NUMR002", "NUMR003", "GRAD002", "ACTV005", "ACTV001", "LOSS002", "LOSS005", "LOSS011")


def _quiet(name: str, value: Any = None) -> Level:
    return Level(name, value, quiet=True)


# fmt: off
OPERATORS: tuple[Operator, ...] = (
    # -- learning rate, schedule, optimizer
    Operator(
        "lr_too_high", "the learning rate is far too high", "OPTM002", ("OPTM002", *BLOWN), ("lr-too-high", "exploding-gradients"), RESTART,
        (Level("severe", (1000.0, 200.0)), Level("moderate", (200.0, 40.0)), _quiet("double", (2.0, 1.5))), p.scale_lr,
        ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "char_gpt", "gru_walks", "conv_autoencoder", "spirals_residual", "encoder_padded"),
    ),
    Operator(
        "lr_too_low", "the learning rate is far too low", "OPTM001", ("OPTM001", "LOSS002"), ("lr-too-low",), RESTART,
        (Level("severe", (1e-5, 1e-5)), Level("moderate", (1e-4, 1e-4)), _quiet("half", (0.5, 0.5))), p.scale_lr,
        ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "char_gpt", "gru_walks", "conv_autoencoder", "spirals_residual"),
    ),
    Operator(
        "schedule_per_batch", "a step decay meant in epochs is stepped with every batch", "WIRE010", ("WIRE010", "OPTM003"),
        ("schedule-misused", "schedule-collapsed"), FIX, (Level("severe", (4, 0.5)), Level("moderate", (10, 0.5)), _quiet("gentle", (100, 0.8))),
        p.decay_schedule, ("digits_mlp", "cancer_tabular", "surface_regression", "gru_walks", "spirals_residual", "recommender"),
    ),
    Operator(
        "late_jump", "the learning rate is raised a hundredfold for the last third", "OPTM013",
        ("OPTM013", "OPTM002", "LOSS001", "LOSS005", "LOSS006", "GRAD007", "ACTV001", "ACTV005", *BLOWN), ("lr-too-high", "lr-noise-floor", "dead-units"),
        (*FIX, "stop-keep-best"), (Level("severe", 300), Level("moderate", 100), _quiet("slight", 1.5)), p.late_jump,
        ("digits_mlp", "surface_regression", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "decay_too_strong", "weight decay far too strong", "OPTM009", ("OPTM009", "WGHT002", "ACTV005", "LOSS002", "LOSS009", "LOSS011"),
        ("weight-decay-misapplied", "over-regularised"), RESTART, (Level("severe", 200.0), Level("moderate", 60.0), _quiet("usual", 0.05)), p.weight_decay,
        ("digits_mlp", "surface_regression", "cancer_tabular", "spirals_residual"),
    ),
    Operator(
        "clip_too_tight", "gradients clipped to a thousandth under plain SGD", "OPTM006", ("OPTM006", "OPTM001"), ("clipping-misset", "lr-too-low"), FIX,
        (Level("severe", (1e-4, "SGD")), Level("moderate", (1e-3, "SGD")), _quiet("under-adam", (0.1, "Adam")), _quiet("loose", (10.0, "SGD"))), p.clip_sgd,
        ("digits_mlp", "surface_regression", "cancer_tabular"),
    ),
    Operator(
        "adam_eps_dominates", "Adam's epsilon is far above its second moments", "OPTM008", ("OPTM008", "OPTM001", "LOSS002"), ("adam-epsilon", "lr-too-low"), RESTART,
        (Level("severe", 1000.0), Level("moderate", 30.0), _quiet("usual", 1e-7)), p.adam_eps,
        ("digits_mlp", "cancer_tabular", "surface_regression", "gru_walks"),
    ),
    # -- initial weights and activations
    Operator(
        "output_starts_off", "one output starts far from the others", "LOSS010", ("LOSS010", "WGHT005", "LOSS002", "LOSS011", "ACTV005", "EVAL004"),
        ("bad-initialisation",), RESTART, (Level("severe", 100.0), Level("moderate", 30.0), _quiet("slight", 0.2)), p.bias_output,
        ("digits_mlp", "digits_cnn", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "init_too_large", "initial weights too large", "WGHT005", ("WGHT005", "LOSS010", "ACTV004", "ACTV003"), ("bad-initialisation", "saturated-units"),
        RESTART, (Level("severe", 20.0), Level("moderate", 8.0), _quiet("slight", 1.3)), p.scale_init,
        ("digits_mlp", "surface_regression", "cancer_tabular", "conv_autoencoder"),
    ),
    Operator(
        "constant_init", "all weights start from one value", "WGHT004", ("WGHT004", "GRAD004", "LOSS002", "ACTV005"), ("symmetric-initialisation",), RESTART,
        (Level("all", "all"), _quiet("small-random", "normal")), p.constant_init, ("digits_mlp", "cancer_tabular", "surface_regression", "spirals_residual"),
    ),
    Operator(
        "dead_biases", "hidden biases start far below zero", "ACTV001", ("ACTV001", "GRAD004", "LOSS002"), ("dead-units", "bad-initialisation"), RESTART,
        (Level("severe", -6.0), Level("moderate", -2.5), _quiet("slight", -0.05)), p.bias_hidden,
        ("digits_mlp", "cancer_tabular", "surface_regression", "spirals_residual"),
    ),
    Operator(
        "bn_statistics_lag", "BatchNorm statistics follow far too slowly", "ACTV008", ("ACTV008",), ("batchnorm-statistics",), ("fix-evaluation", "fix-and-resume"),
        (Level("severe", 0.0003), Level("moderate", 0.002), _quiet("slight", 0.05)), p.bn_momentum, ("digits_cnn", "conv_autoencoder"),
    ),
    # -- numerics
    Operator(
        "entropy_of_zero", "an entropy term takes the logarithm of an exact zero", "NUMR001", ("NUMR001", "NUMR002", "NUMR003"), ("unstable-operation",), FIX,
        (Level("bare", "bare"), _quiet("guarded", "guarded")), p.entropy_term, (*CLASSES, "char_gpt"),
    ),
    Operator(
        "nan_in_inputs", "missing readings in the training table", "DATA001", ("DATA001",), ("bad-data-values",), FIX,
        (Level("one-sample", 1), Level("many", 40)), p.at_split("{tx}[torch.randperm(len({tx}))[:{v}]] = float('nan')"), TABLES,
    ),
    Operator(
        "bad_batches_skipped", "batches with missing readings are skipped without a word", "NUMR008", ("NUMR008", "DATA001", "NUMR001"),
        ("hidden-nan", "bad-data-values"), FIX, (Level("severe", 60), Level("moderate", 20), _quiet("guard-alone", 0)), p.skip_bad,
        ("digits_mlp", "cancer_tabular", "surface_regression", "gru_walks"),
    ),
    # -- the loop
    Operator(
        "weights_alone_saved", "checkpoints hold the weights alone: a resume would start Adam anew", "REPR005", ("REPR005",), ("incomplete-checkpoint", "optimizer-state-lost"),
        ("healthy", "wait", *FIX), (Level("weights", "weights", least="info"), _quiet("everything", "everything")), p.checkpoint,
        ("digits_mlp", "cancer_tabular", "surface_regression", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "zero_grad_missing", "zero_grad is never called", "WIRE004", ("WIRE004",), ("zero-grad-missing",), RESTART,
        (Level("never", "never"), _quiet("by-hand", "by hand")), p.drop_zero_grad,
        ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "char_gpt", "gru_walks", "recommender", "vae_digits"),
    ),
    Operator(
        "left_in_eval", "after the first validation the model stays in eval mode", "WIRE005", ("WIRE005",), ("training-in-eval-mode",), FIX,
        (Level("for-good", "for good"), _quiet("train-true", "spelled otherwise")), p.leave_eval,
        ("digits_mlp", "digits_cnn", "encoder_padded", "conv_autoencoder"),
    ),
    Operator(
        "validates_in_train_mode", "validation never switches to eval mode", "EVAL009", ("EVAL009",), ("evaluation-in-train-mode",), EVALUATION,
        (Level("never", "never"), _quiet("train-false", "spelled otherwise")), p.no_eval,
        ("digits_mlp", "digits_cnn", "encoder_padded", "conv_autoencoder"),
    ),
    Operator(
        "validates_with_graphs", "validation builds graphs", "EVAL009", ("EVAL009",), ("evaluation-in-train-mode", "evaluation-builds-graphs"),
        ("fix-evaluation", "healthy", "wait"), (Level("always", "always", least="info"), _quiet("inference-mode", "inference mode")), p.no_no_grad,
        ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "gru_walks"),
    ),
    Operator(
        "softmax_then_ce", "probabilities go into cross-entropy", "WIRE006", ("WIRE006", "LOSS011"), ("double-activation",), RESTART,
        (Level("softmax", "torch.softmax(OUT, dim=-1)"), _quiet("log-softmax", "torch.log_softmax(OUT, dim=-1)")),
        p.activate_for("classification", "lm"), (*CLASSES, "char_gpt"),
    ),
    Operator(
        "sigmoid_then_bce", "probabilities go into a loss that expects logits", "WIRE006", ("WIRE006",), ("double-activation",), RESTART,
        (Level("sigmoid", "torch.sigmoid(OUT)"), _quiet("scaled", "1.1 * OUT")), p.activate_for("binary"), ("cancer_tabular",),
    ),
    Operator(
        "unreachable_targets", "a bounded head for unbounded targets", "WIRE007", ("WIRE007",), ("loss-head-mismatch",), RESTART,
        (Level("relu", "torch.relu(OUT)"), Level("tanh", "torch.tanh(OUT)"), _quiet("wide-tanh", "8 * torch.tanh(OUT / 8)")),
        p.activate_for("regression"), ("surface_regression", "recommender"),
    ),
    Operator(
        "mse_broadcast", "predictions and targets broadcast to a square", "WIRE008", ("WIRE008", "LOSS011"), ("loss-broadcast",), RESTART,
        (Level("square", "square"), _quiet("both-flat", "both sides")), p.broadcast, ("surface_regression", "recommender"),
    ),
    Operator(
        "head_not_owned", "the optimizer does not hold all parameters", "WIRE001", ("WIRE001",), ("parameters-not-in-optimizer",), FIX,
        (Level("without-head", "list({m}.parameters())[:-2]"), Level("without-stem", "list({m}.parameters())[2:]"), _quiet("as-list", "list({m}.parameters())")),
        p.own_part, ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "char_gpt", "conv_autoencoder"),
    ),
    Operator(
        "frozen_midway", "part of the network is frozen after its first step", "WIRE002", ("WIRE002", "GRAD004"), ("frozen-parameters",), FIX,
        (Level("most", 0.7), Level("some", 0.35)), p.freeze_later, ("digits_mlp", "cancer_tabular", "surface_regression", "gru_walks"),
    ),
    Operator(
        "detached_output", "the graph is cut between the network and its loss", "WIRE003", ("WIRE003", "GRAD004", "WIRE016", "LOSS002"),
        ("detached-graph", "step-without-gradient"), RESTART, (Level("cut", "cut"), _quiet("copy", "copy")), p.detach_output,
        ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "char_gpt", "recommender"),
    ),
    Operator(
        "double_step", "the optimizer steps more than once per backward", "WIRE011", ("WIRE011",), ("double-step",), FIX,
        (Level("thrice", 3), Level("twice", 2)), p.step_again, ("digits_mlp", "cancer_tabular", "surface_regression", "gru_walks", "recommender"),
    ),
    Operator(
        "accumulation_undivided", "micro-batch losses are summed without division", "WIRE011", ("WIRE011",), ("accumulation-undivided", "lr-too-high"), FIX,
        (Level("eight", (8, False)), Level("four", (4, False)), _quiet("divided", (4, True))), p.accumulate,
        ("digits_mlp", "digits_cnn", "cancer_tabular", "gru_walks"),
    ),
    Operator(
        "cleared_too_early", "zero_grad stands between backward and step", "WIRE016", ("WIRE016", "LOSS002"), ("step-without-gradient",), RESTART,
        (Level("between", "between"), _quiet("after-step", "after the step")), p.clear_between,
        ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "char_gpt", "vae_digits"),
    ),
    Operator(
        "backward_missing", "backward is never called", "WIRE016", ("WIRE016", "LOSS002"), ("step-without-gradient",), RESTART,
        (Level("never", "never"), _quiet("autograd-grad", "by autograd")), p.drop_backward,
        ("digits_mlp", "cancer_tabular", "surface_regression", "spirals_residual"),
    ),
    Operator(
        "losses_kept", "every loss is kept with its graph", "PERF002", ("PERF002",), ("memory-leak",), ("fix-and-resume", "healthy", "wait"),
        (Level("graph", "graph"), _quiet("number", "number")), p.keep_losses, ("digits_mlp", "surface_regression", "gru_walks", "recommender"),
    ),
    # -- data
    Operator(
        "inputs_unscaled", "inputs are far from unit scale", "DATA002", ("DATA002", "LOSS010"), ("unscaled-inputs",), RESTART,
        (Level("thousand", 1000.0), Level("hundred", 100.0), _quiet("double", 2.0)), p.at_data("{X} = {X} * {v}"),
        ("digits_mlp", "surface_regression", "cancer_tabular", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "labels_shuffled", "targets are shuffled apart from their inputs", "DATA004", ("DATA004", "LOSS002", "LOSS011"), ("labels-uninformative", "label-noise"), RESTART,
        (Level("all", 1.0), _quiet("few", 0.03)),
        p.at_data("mix = torch.rand(len({Y})) < {v}\n{Y}[mix] = {Y}[mix][torch.randperm(int(mix.sum()))]"), TABLES,
    ),
    Operator(
        "sorted_by_class", "the training set is sorted by class and not shuffled", "DATA005", ("DATA005",), ("data-not-shuffled",), FIX,
        (Level("sorted", "sorted"),), p.unshuffled, ("digits_mlp", "digits_cnn", "cancer_tabular", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "rows_in_both_sets", "training rows stand in the validation set", "DATA006", ("DATA006",), ("split-overlap",), (*EVALUATION, *FIX),
        (Level("half", 0.5), Level("tenth", 0.1), _quiet("one-row", 0.006)),
        p.at_split("shared = int({v} * len({vx}))\n{vx}[:shared], {vy}[:shared] = {tx}[:shared], {ty}[:shared]"), TABLES,
    ),
    Operator(
        "target_leaks", "one input column carries the target", "DATA007", ("DATA007",), ("target-leak",), RESTART,
        (Level("plain", 0.02), Level("noisy", 0.1), _quiet("weak", 4.0)),
        p.at_data("{X}[:, 0] = {Y}.flatten().float() * 2 - 1 + {v} * torch.randn(len({Y}))"), ("digits_mlp", "cancer_tabular", "spirals_residual"),
    ),
    Operator(
        "validation_unscaled", "validation inputs are prepared differently", "DATA008", ("DATA008", "EVAL007"), ("train-val-mismatch",), EVALUATION,
        (Level("sixteen", 16.0), Level("four", 4.0), _quiet("slight", 1.02)), p.at_split("{vx} = {vx} * {v} + ({v} - 1) / 2"), TABLES,
    ),
    Operator(
        "conflicting_copies", "rows appear twice with different targets", "DATA010", ("DATA010",), ("label-noise",), FIX,
        (Level("many", 0.4), Level("some", 0.15), _quiet("two-rows", 0.002)),
        p.at_split("twice = int({v} * len({ty}))\nwrong = {ty}[:twice].roll(1)\n{tx}, {ty} = torch.cat([{tx}, {tx}[:twice]]), torch.cat([{ty}, wrong])"),
        ("digits_mlp", "digits_cnn", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "wild_targets", "a few targets are a hundred times too large", "LOSS007", ("LOSS007", "DATA001", "GRAD003", "LOSS006"),
        ("outlier-batches", "bad-data-values"), FIX, (Level("hundred", 100.0), Level("thirty", 30.0), _quiet("slight", 1.2)),
        p.at_data("{Y}[torch.randperm(1000)[:4]] *= {v}"), ("surface_regression", "recommender"),
    ),
    Operator(
        "same_batch", "a new iterator is made for every step", "DATA012", ("DATA012",), ("repeated-batches",), RESTART,
        (Level("always", "always"),), p.one_batch, ("digits_mlp", "cancer_tabular", "gru_walks", "recommender"),
    ),
    # -- evaluation and fit
    Operator(
        "few_validation_samples", "a handful of samples decides which epoch was best", "EVAL002", ("EVAL002",), ("validation-too-small",),
        ("fix-evaluation", "healthy", "wait", "cannot-tell"),
        (Level("six", 6, least="info"), Level("twelve", 12, least="info"), _quiet("hundred", 100)),
        p.at_split("{vx}, {vy} = {vx}[:{v}], {vy}[:{v}]"), ("digits_mlp", "cancer_tabular", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "stale_copy", "validation runs on a copy made before training", "EVAL001", ("EVAL001", "EVAL007"), ("stale-evaluation",), EVALUATION,
        (Level("never", "never"), _quiet("refreshed", "refreshed")), p.stale_copy,
        ("digits_mlp", "digits_cnn", "cancer_tabular", "surface_regression", "gru_walks", "recommender"),
    ),
    Operator(
        "overfits", "few samples, many passes, no regularisation", "LOSS008", ("LOSS008", "EVAL005"), ("overfitting", "miscalibration", "generalisation-limited"),
        ("stop-keep-best", "fix-and-resume"), (Level("severe", (60, 12)), Level("moderate", (120, 8)), _quiet("most", (400, 1))), p.overfit,
        ("digits_mlp", "cancer_tabular", "spirals_residual", "gru_walks"),
    ),
    Operator(
        "drowned_in_dropout", "dropout so strong that nothing gets through", "LOSS009", ("LOSS009", "LOSS002", "LOSS011", "LOSS003"),
        ("underfitting", "over-regularised", "capacity-floor"), ("restart", "fix-and-resume", "cannot-tell"), (Level("severe", 0.97), _quiet("slight", 0.3)), p.raise_dropout,
        ("digits_mlp",),
    ),
    Operator(
        "metric_counts_wrong", "accuracy is computed from the least likely class", "EVAL003", ("EVAL003",), ("metric-bug",), EVALUATION,
        (Level("argmin", "argmin"), _quiet("right", "right")), p.wrong_metric, ("digits_mlp", "digits_cnn", "gru_walks", "spirals_residual", "encoder_padded"),
    ),
    # -- special regimes
    Operator(
        "causal_mask_missing", "attention sees the future", "WIRE013", ("WIRE013",), ("causal-leak",), RESTART,
        (Level("no-mask", "False"), _quiet("explicit", "True")), p.replace("is_causal=True", "is_causal={v}"), ("char_gpt",),
    ),
    Operator(
        "mask_inverted", "the padding mask is inverted", "WIRE017", ("WIRE017", "LOSS002", "LOSS011", "DATA004", "NUMR001"), ("mask-wrong", "unstable-operation"), RESTART,
        (Level("inverted", "!="), _quiet("same", "==")), p.replace("tokens == PAD", "tokens {v} PAD"), ("encoder_padded",),
    ),
    Operator(
        "posterior_collapse", "the KL weight is far too large", "SPEC003", ("SPEC003", "LOSS003", "GRAD006"), ("vae-posterior-collapse", "loss-terms-unbalanced"),
        (*RESTART, "stop-keep-best"), (Level("severe", 100.0), Level("moderate", 25.0), _quiet("slight", 0.8)), p.replace("BETA = 0.5", "BETA = {v}"), ("vae_digits",),
    ),
    Operator(
        "critic_too_strong", "the discriminator learns far faster than the generator", "SPEC001", ("SPEC001", "GRAD001", "GRAD004"),
        ("gan-discriminator-wins", "vanishing-gradients"), FIX, (Level("severe", 200.0), Level("moderate", 50.0), _quiet("slight", 1.5)), p.strong_critic, ("gan_ring",),
    ),
    Operator(
        "router_collapses", "the router sends everything to one expert", "SPEC005", ("SPEC005", "GRAD004"), ("moe-router-collapse",), RESTART,
        (Level("severe", 30.0), Level("moderate", 8.0), _quiet("slight", 0.2)), p.biased_router, ("moe_piecewise",),
    ),
    Operator(
        "policy_freezes", "the policy's entropy is gone after a few updates", "SPEC004", ("SPEC004", "OPTM002"), ("rl-entropy-collapse", "lr-too-high"), RESTART,
        (Level("severe", 60.0), Level("moderate", 30.0), _quiet("slight", 0.8)), p.hot_policy, ("bandit_policy",),
    ),
    Operator(
        "adapter_inert", "both adapter matrices start at zero", "TUNE005", ("TUNE005", "GRAD004", "WGHT004"), ("adapter-inert", "symmetric-initialisation"), RESTART,
        (Level("both-zero", "zero"), _quiet("small-random", "random")), p.both_zero, ("lora_digits",),
    ),
)
# fmt: on

__all__ = ["OPERATORS", "Level", "Operator", "reseed", "the_base"]
