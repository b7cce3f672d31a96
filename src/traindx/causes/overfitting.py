"""The model memorises.

Told from a mismatch by a gap that opens with time, from overconfidence by accuracy that falls too.
"""

from traindx.cause import Cause

overfitting = Cause(
    name="overfitting",
    title="the model overfits",
    likely={
        "LOSS008": 0.9,
        "EVAL005": 0.3,
        "LOSS012": 0.3,
        "LOSS012:stairs": 0.3,
        "LOSS008:gap": 0.2,
        "LOSS003:val": 0.15,
        "EVAL007:": 0.1,
        "EVAL010": 0.1,
        "TUNE006:stairs": 0.1,
        "DATA004:memorised": 0.05,
    },
    prior=5.0,
    verdict="stop-keep-best",
    cure=(
        "Stop and keep the checkpoint[[ of step {best_step}]]. Then try weight decay 0.01–0.1, dropout 0.1–0.3, "
        "augmentation, fewer epochs or a smaller model."
    ),
    refutes=(
        "DATA004:",
        "DATA004:trial",
        "DATA008",
        "DATA012:repeat",
        "EVAL009:buffers",
        "WIRE005",
        "DATA003:permuted",
        "DATA003:apart",
        "ACTV007",
        "ACTV008",
        "EVAL007:never",
        "EVAL007:unmoved",
        "EVAL001:behind",
        "LOSS001:worse",
    ),
    settle="regularisers-off",
    cost_steps=400,
    not_yet=("Do not enlarge the model.",),
    change={"weight_decay": 10.0},
)
