"""Precision and operations that leave their domain."""

from traindx.cause import Cause

# fmt: off
CAUSES = (
    Cause(
        "amp-misuse", "the mixed-precision calls are in the wrong order", prior=0.6, verdict="fix-and-resume",
        likely={
            "NUMR009": 0.9, "OPTM006:unscale": 0.4, "OPTM001": 0.3, "OPTM006": 0.2, "NUMR005": 0.2, "LOSS002": 0.2,
            "OPTM002": 0.15, "LOSS009": 0.15,
        },
        cure=(
            "Put `autocast` around forward and loss only. Then call `scaler.scale(loss).backward()`, "
            "`scaler.unscale_(optimizer)`, clip, `scaler.step(optimizer)`, `scaler.update()`. bfloat16 needs no scaler."
        ),
        witness=("NUMR009",),
    ),
    Cause(
        "broken-weights-loaded", "the loaded weights already contain NaN or infinity", prior=0.2, verdict="restart",
        likely={"NUMR003:loaded": 0.95, "NUMR003": 0.9, "LOSS001:nonfinite": 0.7, "LOSS001": 0.6, "NUMR001": 0.5},
        cure="Load an earlier checkpoint whose weights and optimizer state are finite.",
        refutes=("DATA001",),
        witness=("NUMR003:loaded",),
    ),
    Cause(
        "hidden-nan", "NaNs are hidden instead of fixed", prior=0.6, verdict="fix-and-resume",
        likely={
            "NUMR008": 0.95, "NUMR008:inside": 0.3, "DATA001": 0.4, "NUMR001": 0.3, "NUMR002": 0.3, "NUMR001:passing": 0.3,
            "NUMR002:passing": 0.2, "LOSS001:passing": 0.2, "LOSS011": 0.1,
        },
        cure="Remove `nan_to_num` and the skipping, let the first NaN show, and fix the operation that makes it.",
        witness=("NUMR008",),
        settle="replay", cost_steps=3,
    ),
    Cause(
        "inplace-modification", "a tensor needed by backward is changed in place", prior=0.4, verdict="fix-and-resume",
        likely={"NUMR010": 0.98},
        cure="Use the out-of-place form (`x = x + y`), or clone before the change[[ ({where})]].",
        witness=("NUMR010",),
    ),
    Cause(
        "low-precision-weights", "half-precision weights lose small updates", prior=0.4, verdict="fix-and-resume",
        likely={
            "NUMR007": 0.95, "LOSS003": 0.3, "LOSS009": 0.4, "OPTM001": 0.5, "LOSS002": 0.4, "LOSS011:": 0.2,
            "EVAL004:chance": 0.2, "LOSS004": 0.2,
        },
        cure="Keep float32 weights (use `autocast` instead of `.bfloat16()`), or round stochastically.",
        witness=("NUMR007",),
        settle="precision", cost_steps=4,
        change={"precision": "fp32-master"},
    ),
    # Told from an unstable operation by a replay in fp32 that stays finite.
    Cause(
        "precision-overflow", "values overflow half precision", prior=0.9, verdict="fix-and-resume",
        likely={
            "NUMR004": 0.8, "NUMR005": 0.6, "NUMR004:replay": 0.5, "NUMR001": 0.45, "NUMR003": 0.35, "LOSS001:nonfinite": 0.35,
            "NUMR002": 0.3, "LOSS001": 0.3, "LOSS002": 0.2, "NUMR008": 0.2, "OPTM001": 0.1,
        },
        cure=(
            "Use bfloat16, or keep softmax, norms, the loss and large sums in float32[[ ({where})]]. Scale queries before the"
            " product; mask with `finfo.min`."
        ),
        refutes=("DATA001:nonfinite", "OPTM002", "NUMR001:origin"),
        witness=("NUMR004", "NUMR005"),
        settle="precision", cost_steps=4,
        poisons=True, change={"precision": "bf16"},
    ),
    Cause(
        "precision-underflow", "small gradients are lost in half precision", prior=0.3, verdict="fix-and-resume",
        likely={"NUMR006": 0.9, "OPTM001": 0.3, "GRAD004": 0.2, "LOSS009": 0.2, "LOSS003": 0.2},
        refutes=("LOSS001:nonfinite",),  # what becomes zero makes no NaN
        cure="Use a GradScaler with float16, or use bfloat16.",
        witness=("NUMR006",),
        settle="precision", cost_steps=4,
        change={"precision": "bf16"},
    ),
    # Told from a divergence by a loss that was fine until the very step, and by the replay that names the operation.
    Cause(
        "unstable-operation", "an operation is numerically unstable", prior=2.5, verdict="fix-and-resume",
        likely={
            "NUMR001:origin": 0.7, "NUMR001": 0.6, "NUMR003": 0.6, "LOSS001:nonfinite": 0.6, "NUMR002": 0.5, "LOSS001": 0.5,
            "NUMR002:origin": 0.4, "NUMR002:named": 0.3, "NUMR008": 0.15, "NUMR005": 0.15, "LOSS011": 0.05, "GRAD004": 0.05,
        },
        cure=(
            "Guard the operation[[ at {where}]]: use fused losses instead of log(softmax), clamp before log, put ε inside "
            "roots and divisors, and mask empty rows before the softmax."
        ),
        refutes=(
            "NUMR001:batch", "NUMR001:given", "NUMR001:grown", "NUMR001:norms", "NUMR001:moved", "NUMR002:moved",
            "DATA001:nonfinite", "TUNE002", "NUMR004:replay", "NUMR003:loaded",
        ),
        witness=("NUMR001", "NUMR002", "NUMR003", "NUMR008"),
        settle="replay", cost_steps=3,
        not_yet=("Do not lower the learning rate first: it changes the run before the cause is known.",),
        poisons=True,
    ),
)
