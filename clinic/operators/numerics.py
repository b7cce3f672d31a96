"""Faults of numerics."""

from __future__ import annotations

from clinic.operators.common import CLASSES, FIX, RESTART, TABLES, quiet
from clinic.patches import numerics
from clinic.surgery import Level, Operator, at_backward, at_model, at_split

# fmt: off
TABLE: tuple[Operator, ...] = (
    Operator(
        "entropy_of_zero", "an entropy term takes the logarithm of an exact zero", "NUMR001", ("NUMR001", "NUMR002", "NUMR003"), ("unstable-operation",), FIX,
        (Level("bare", "bare"), quiet("guarded", "guarded")), numerics.entropy_term, (*CLASSES, "char_gpt"),
    ),
    Operator(
        "nan_in_inputs", "missing readings in the training table", "DATA001", ("DATA001",), ("bad-data-values",), FIX,
        (Level("one-sample", 'float("nan")'), Level("infinite", 'float("inf")'), quiet("imputed", "0.0")),
        at_split("{tx}[torch.randperm(len({tx}))[:1]] = {v}"), TABLES,
    ),
    Operator(
        "bad_batches_skipped", "batches with missing readings are skipped without a word", "NUMR008", ("NUMR008", "DATA001", "NUMR001"),
        ("hidden-nan", "bad-data-values"), FIX, (Level("severe", 60), Level("moderate", 20), quiet("guard-alone", 0)), numerics.skip_bad,
        ("digits_mlp", "cancer_tabular", "surface_regression", "gru_walks"),
    ),
    Operator(
        "root_of_zero", "the root of a distance that is exactly zero has no gradient", "NUMR002", ("NUMR002", "NUMR001", "NUMR003"), ("unstable-operation",), FIX,
        (Level("bare", ""), quiet("guarded", " + 1e-8")), at_backward("loss = loss + 0.01 * (({out} - {out}.detach()).pow(2).sum(-1){v}).sqrt().mean()"),
        ("digits_mlp", "surface_regression", "char_gpt", "cancer_tabular"),
    ),
    Operator(
        "starts_broken", "a weight is not a number before the first step", "NUMR003", ("NUMR003", "NUMR001", "NUMR002"), ("broken-weights-loaded", "unstable-operation"), RESTART,
        (Level("nan", 'float("nan")'), Level("infinite", 'float("inf")'), quiet("zero", "0.0")),
        at_model("with torch.no_grad():\n    next({m}.parameters()).view(-1)[0] = {v}"), ("digits_mlp", "surface_regression", "cancer_tabular", "gru_walks"),
    ),
    Operator(
        "half_without_scaler", "float16 without a gradient scaler", "NUMR006", ("NUMR006",), ("precision-underflow", "amp-misuse"), (*FIX, "healthy", "wait"),
        (Level("float16", "float16"), quiet("bfloat16", "bfloat16")), numerics.in_half, ("digits_mlp", "digits_cnn", "surface_regression", "cancer_tabular"),
    ),
    Operator(
        "scaler_misused", "the calls around the gradient scaler are in the wrong order, or one is missing", "NUMR009", ("NUMR009", "OPTM006"),
        ("amp-misuse", "clipping-misset"), (*FIX, "healthy", "wait"),
        (Level("clip-first", "clip first"), Level("no-update", "no update"), quiet("unscaled-first", "unscaled first")), numerics.clip_and_scale,
        ("digits_mlp", "digits_cnn", "surface_regression", "cancer_tabular"),
    ),
    Operator(
        "half_overflows", "inputs so large that float16 cannot hold what becomes of them", "NUMR004", ("NUMR004", "NUMR005", "NUMR001", "NUMR002", "DATA002", "LOSS010"),
        ("precision-overflow", "unscaled-inputs"), FIX, (Level("severe", 5e4), Level("moderate", 3e4), quiet("usual", 1.0)), numerics.large_in_half,
        ("digits_mlp", "surface_regression", "cancer_tabular"),
    ),
    Operator(
        "scale_collapses", "from some step on outputs overflow in every forward, and the scaler skips for ever", "NUMR005", ("NUMR005", "NUMR004", "NUMR002", "NUMR001"), ("precision-overflow", "amp-misuse", "unstable-operation"), FIX,
        (Level("severe", 1e7), Level("moderate", 1e6), quiet("usual", 1.0)), numerics.large_outputs_in_half, ("digits_mlp", "surface_regression", "cancer_tabular"),
    ),
    Operator(
        "updates_rounded_away", "bfloat16 weights swallow updates that are smaller than their spacing", "NUMR007", ("NUMR007", "OPTM001"),
        ("low-precision-weights", "lr-too-low"), FIX, (Level("severe", ("bfloat16", 0.02)), Level("moderate", ("bfloat16", 0.1)), quiet("float32", ("float32", 0.5))),
        numerics.weights_in_bfloat16, ("digits_mlp", "gru_walks", "spirals_residual"),
    ),
    Operator(
        "changed_in_place", "a tensor that backward needs is changed in place", "NUMR010", ("NUMR010",), ("inplace-modification",), RESTART,
        (Level("in-place", "sure.mul_(0.5)"), quiet("new-tensor", "sure = sure * 0.5")),
        at_backward("sure = torch.sigmoid({out})\nloss = loss + 1e-3 * sure.mean()\n{v}"), ("digits_mlp", "surface_regression", "char_gpt", "cancer_tabular"), exit_code=1,
    ),
)
# fmt: on
