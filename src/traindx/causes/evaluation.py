"""Metrics, validation and checkpoints."""

from traindx.cause import Cause

# fmt: off
CAUSES = (
    Cause(
        "class-without-weight", "a class has no weight in the loss", prior=0.05, verdict="fix-and-resume",
        likely={"EVAL004": 0.95, "EVAL004:weightless": 0.95, "DATA011": 0.1, "LOSS003": 0.1},
        cure="Give the class a weight above zero in the loss. If it should not be learned, remove it from the metric too.",
        witness=("EVAL004:weightless",),
    ),
    Cause(
        "evaluation-averaging", "the validation loss is averaged wrongly", prior=0.4, verdict="fix-evaluation",
        likely={"EVAL008": 0.95, "EVAL006:scale": 0.9, "EVAL006": 0.15},
        cure=(
            "Sum loss × samples over the evaluation and divide by the number of samples. Reset the sums before each "
            "evaluation."
        ),
        witness=("EVAL008", "EVAL006:scale"),
    ),
    Cause(
        "evaluation-in-train-mode", "evaluation runs in training mode or builds gradients", prior=0.9, verdict="fix-evaluation",
        likely={
            "EVAL009": 0.95, "EVAL009:mode": 0.4, "EVAL009:buffers": 0.3, "EVAL009:grad": 0.1, "EVAL009:dropout": 0.1,
            "EVAL002": 0.3, "ACTV008": 0.2, "EVAL007": 0.15, "PERF002": 0.1, "PERF003": 0.1,
        },
        cure=(
            "Call `model.eval()` and use `torch.inference_mode()` during evaluation, then call `model.train()`. Pass "
            "`training=self.training` to F.dropout. Recompute BatchNorm statistics if they changed."
        ),
        refutes=("WIRE016", "PERF002:graph", "PERF002:kept", "PERF002:held"),
        # a mode that no layer uses explains nothing; a graph that stays after its evaluation is kept by something
        witness=("EVAL009:mode", "EVAL009:buffers", "EVAL009:grad", "EVAL009:dropout"),
    ),
    Cause(
        "metric-bug", "a reported metric is computed wrongly", prior=0.6, verdict="fix-evaluation",
        likely={"EVAL003": 0.95, "EVAL004:majority": 0.1, "EVAL001": 0.05},
        cure=(
            "Recompute the metric[[ ({where})]] from the predictions of one pass. Check the axis of argmax, the threshold on "
            "logits, label offsets and ignored positions."
        ),
        witness=("EVAL003",),
        not_yet=("Do not change the training.",),
    ),
    Cause(
        "miscalibration", "the model has become overconfident, not worse", prior=0.6, verdict="stop-keep-best",
        likely={"EVAL005": 0.9, "LOSS008:confident": 0.5, "LOSS008": 0.5, "EVAL010": 0.2},
        cure=(
            "Choose the checkpoint by accuracy, and divide logits by a fitted temperature[[ ({temperature})]]. Label "
            "smoothing of 0.05–0.1 prevents it."
        ),
        refutes=("EVAL007",),
    ),
    Cause(
        "stale-evaluation", "the evaluation does not see the weights being trained", prior=0.8, verdict="fix-evaluation",
        likely={
            "EVAL001": 0.95, "LOSS003:val": 0.4, "EVAL007:unmoved": 0.4, "LOSS008:gap": 0.3, "EVAL004:chance": 0.3,
            "LOSS003": 0.3, "EVAL007": 0.3, "LOSS002:frozen": 0.2, "EVAL010": 0.1,
        },
        cure=(
            "Evaluate the module that the optimizer updates. Look for a deepcopy, a reloaded checkpoint, a cached result, or "
            "a weight average that is too slow for this run."
        ),
        witness=("EVAL001", "EVAL007:unmoved"),
        not_yet=("Do not change the training: it is fine.",),
    ),
    Cause(
        "validation-too-small", "the validation set is too small for these differences", prior=0.7, verdict="fix-evaluation",
        likely={"EVAL002": 0.9, "EVAL002:few": 0.4, "LOSS003:val": 0.2, "LOSS006:coarse": 0.1},
        cure=(
            "Average the last 3–5 evaluations, or enlarge the validation set[[{samples}]]."
        ),
        refutes=("LOSS005", "DATA009", "EVAL009", "LOSS008"),
        witness=("EVAL002",),
    ),
)
