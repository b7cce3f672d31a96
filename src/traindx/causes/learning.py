"""What a loss curve shows: memorising, capacity, noise, drift."""

from traindx.cause import Cause

# fmt: off
CAUSES = (
    Cause(
        "capacity-floor", "the model or the data cannot do better", prior=0.8, verdict="stop-keep-best",
        likely={"LOSS003": 0.6, "LOSS009": 0.5, "WIRE014:linear": 0.3, "LOSS011": 0.2, "EVAL010": 0.15, "LOSS011:perfect": 0.1},
        cure=(
            "Compare with a kNN and a linear baseline. Then train a model twice as wide on 2,000 samples: if it fits, "
            "capacity is the limit; if not, the data are."
        ),
        refutes=(
            "OPTM001", "OPTM002", "OPTM003", "OPTM005", "LOSS008", "EVAL001", "WIRE001", "WIRE006", "WIRE008", "WIRE016",
            "DATA004", "ACTV001", "NUMR005",
        ),
        settle="anneal", cost_steps=200,
        not_yet=("Do not conclude anything before the model fits one batch.",),
    ),
    Cause(
        "generalisation-limited",
        "more training does not help: generalisation is the limit",
        prior=1.2, verdict="stop-keep-best",
        likely={
            "LOSS003:val": 0.7, "LOSS008:gap": 0.6, "LOSS008": 0.3, "EVAL002": 0.4, "LOSS003": 0.3, "LOSS004": 0.3,
            "EVAL005": 0.2, "LOSS012:stairs": 0.2,
        },
        cure=(
            "Keep the best checkpoint[[ (step {best_step})]]. To improve it you need more data, augmentation or "
            "regularisation, not more steps."
        ),
        refutes=("DATA004:", "DATA004:trial", "EVAL001", "DATA008", "OPTM003", "ACTV008", "EVAL009"),
        settle="anneal", cost_steps=200,
    ),
    Cause(
        "outlier-batches", "a few samples are extreme", prior=0.8, verdict="fix-and-resume",
        likely={
            "LOSS007": 0.75, "GRAD003": 0.6, "LOSS007:repeating": 0.5, "DATA001:harmful": 0.5, "DATA001": 0.4,
            "DATA001:extreme": 0.3, "LOSS006": 0.3, "GRAD002": 0.2, "LOSS001:excursion": 0.2, "LOSS005": 0.15, "GRAD007": 0.1,
        },
        cure=(
            "Look at the samples of those steps[[ (step {worst})]] and drop them, clip the loss per sample, or use a Huber "
            "loss. Clip gradients[[ at {p95}]]."
        ),
        refutes=("LOSS001:risen", "LOSS001:worse", "LOSS001:nonfinite", "WIRE004", "OPTM002", "DATA005:sorted"),
        witness=("LOSS007", "DATA001:harmful", "DATA001:extreme", "GRAD003"),
        change={"clip": "p95"},
    ),
    Cause(
        "over-regularised", "regularisation keeps the model from fitting", prior=0.7, verdict="fix-and-resume",
        likely={
            "LOSS009": 0.7, "EVAL006": 0.5, "LOSS003": 0.3, "LOSS002": 0.25, "LOSS011": 0.2, "OPTM009:strong": 0.2,
            "OPTM009:horizon": 0.2, "WGHT002": 0.15, "EVAL004:chance": 0.15, "EVAL004:common": 0.15,
        },
        cure=(
            "Train 200 steps with dropout, weight decay, augmentation and smoothing off, one at a time. Weaken the "
        "one whose absence clearly lowers the loss."
        ),
        refutes=("OPTM001", "OPTM002", "WIRE006", "WIRE008", "DATA004", "DATA006", "WIRE016", "EVAL006:scale"),
        settle="regularisers-off", cost_steps=400,
        change={"regularisers": "off"},
    ),
    # Told from a mismatch by a gap that opens with time, from overconfidence by accuracy that falls too.
    Cause(
        "overfitting", "the model overfits", prior=5.0, verdict="stop-keep-best",
        likely={
            "LOSS008": 0.9, "EVAL005": 0.3, "LOSS012": 0.3, "LOSS012:stairs": 0.3, "LOSS008:gap": 0.2, "LOSS003:val": 0.15,
            "EVAL007:": 0.1, "EVAL010": 0.1, "TUNE006:stairs": 0.1, "DATA004:memorised": 0.05,
        },
        cure=(
            "Stop and keep the checkpoint[[ of step {best_step}]]. Then try weight decay 0.01–0.1, dropout 0.1–0.3, "
            "augmentation, fewer epochs or a smaller model."
        ),
        refutes=(
            "DATA004:", "DATA004:trial", "DATA008", "DATA012:repeat", "EVAL009:buffers", "WIRE005", "DATA003:permuted",
            "DATA003:apart", "ACTV007", "ACTV008", "EVAL007:never", "EVAL007:unmoved", "EVAL001:behind", "LOSS001:worse",
        ),
        settle="regularisers-off", cost_steps=400,
        not_yet=("Do not enlarge the model.",),
        change={"weight_decay": 10.0},
    ),
    Cause(
        "saddle", "the run is stuck at a saddle point", prior=0.25, verdict="fix-and-resume",
        likely={"LOSS003": 0.6, "LOSS002": 0.3, "GRAD001": 0.2, "OPTM005": 0.1, "ACTV002": 0.1},
        cure=(
            "Wait, or push it with a short burst of a higher learning rate or noise; `traindx trial sharpness train.py` shows "
            "the direction."
        ),
        refutes=("OPTM003", "EVAL001", "LOSS008"),
        settle="sharpness", cost_steps=20,
        change={"lr": 3.0},
    ),
    Cause(
        "still-converging", "it is still converging", prior=1.5, verdict="wait",
        likely={"LOSS004": 0.95, "LOSS004:extend": 0.5, "OPTM001": 0.1, "EVAL002": 0.1},
        cure="Let it run[[: {forecast} expected at step {at_step}]].",
        refutes=(
            "LOSS004:crawls", "LOSS001", "LOSS002", "LOSS005", "LOSS008", "LOSS009", "OPTM002", "OPTM003", "OPTM008", "EVAL001",
            "EVAL004", "WGHT001", "ACTV001", "ACTV005", "DATA004", "DATA011:harm", "NUMR001", "NUMR003",
        ),
        not_yet=("Do not change anything that works.",),
    ),
    Cause(
        "underfitting", "the model does not fit the training data", prior=1.5, verdict="restart",
        likely={
            "LOSS009": 0.85, "LOSS003": 0.35, "LOSS011": 0.3, "LOSS002": 0.1, "EVAL004:chance": 0.25, "EVAL004:common": 0.25,
            "WIRE014:linear": 0.2, "EVAL010": 0.1,
        },
        cure="Fit one batch first. Then try less regularisation, three times the learning rate, and a wider or deeper model.",
        refutes=(
            "OPTM001", "OPTM002", "OPTM003", "WIRE001", "WIRE003", "WIRE006", "WIRE007", "WIRE008", "WIRE016", "WIRE017",
            "WGHT004", "ACTV001", "ACTV005", "DATA004", "NUMR005", "NUMR007", "GRAD001", "GRAD004", "TUNE005",
            "DATA010:conflicts", "LOSS011:zero",
        ),
        settle="overfit", cost_steps=300,
        not_yet=("Do not enlarge the model before it fits one batch.",),
        change={"lr": 3.0, "regularisers": "off"},
    ),
    Cause(
        "unscaled-targets", "regression targets are not scaled", prior=0.5, verdict="restart",
        # WGHT001: the last layer has a long way to go
        likely={
            "LOSS010:targets": 0.8, "LOSS010:tiny": 0.5, "LOSS010:large": 0.7, "WGHT001": 0.4, "ACTV004": 0.3, "GRAD006": 0.3,
            "GRAD002": 0.2, "WIRE007:unreachable": 0.2, "LOSS004": 0.2, "LOSS009": 0.2, "LOSS001": 0.15,
        },
        cure="Standardise the targets with the training set's mean and standard deviation, and scale predictions back "
        "for reporting.",
        refutes=("DATA002", "WIRE008", "WGHT005"),
        # the start of a classification says nothing about targets
        witness=("LOSS010:large", "LOSS010:targets", "LOSS010:tiny"),
        settle="loss-at-init", cost_steps=15,
        change={"normalisation": "targets"},
    ),
    Cause(
        "weights-made-anew", "the weights are created again in every epoch", prior=0.4, verdict="restart",
        likely={"LOSS012:anew": 0.97, "LOSS006": 0.5, "LOSS002": 0.3, "LOSS005": 0.3, "LOSS009": 0.2, "EVAL006": 0.2},
        cure="Create and initialise the model once, before the loop over epochs[[; now it happens every {per} steps]].",
        witness=("LOSS012:anew",),
    ),
)
