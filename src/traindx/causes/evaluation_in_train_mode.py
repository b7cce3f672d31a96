"""Evaluation runs in training mode, updates statistics or builds graphs."""

from traindx.cause import Cause

evaluation_in_train_mode = Cause(
    name="evaluation-in-train-mode",
    title="evaluation runs in training mode or builds gradients",
    likely={
        "EVAL009": 0.95,
        "EVAL009:mode": 0.4,
        "EVAL009:buffers": 0.3,
        "EVAL009:grad": 0.1,
        "EVAL009:dropout": 0.1,
        "EVAL002": 0.3,
        "ACTV008": 0.2,
        "EVAL007": 0.15,
        "PERF002": 0.1,
        "PERF003": 0.1,
    },
    prior=0.9,
    verdict="fix-evaluation",
    cure=(
        "Call `model.eval()` and use `torch.inference_mode()` during evaluation, then call `model.train()`. Pass "
        "`training=self.training` to F.dropout. Recompute BatchNorm statistics if they changed."
    ),
    # a graph that is merely built goes when its evaluation is over; one that stays is kept by something
    refutes=("WIRE016", "PERF002:graph", "PERF002:kept", "PERF002:held"),
    witness=(
        "EVAL009:mode",
        "EVAL009:buffers",
        "EVAL009:grad",
        "EVAL009:dropout",
    ),  # a mode that no layer minds explains nothing
)
