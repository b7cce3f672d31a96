"""Activations and weights."""

from traindx.cause import Cause

# fmt: off
CAUSES = (
    Cause(
        "attention-collapse", "attention has collapsed: its logits grow without bound", prior=0.4, verdict="fix-and-resume",
        likely={
            "ACTV006": 0.9, "LOSS006": 0.4, "GRAD003": 0.3, "LOSS001": 0.2, "ACTV007": 0.2, "NUMR004": 0.2, "WGHT001": 0.2,
            "LOSS005": 0.2,
        },
        cure="Normalise queries and keys (QK-norm) or cap the logits at 50. Divide the learning rate by 3 and warm up longer.",
        refutes=("WIRE017",),
        witness=("ACTV006",),
        settle="fix", cost_steps=400,
        poisons=True, change={"lr": 0.3, "warmup": 0.05},
    ),
    Cause(
        "bad-initialisation", "the initial weights have the wrong scale", prior=0.8, verdict="restart",
        likely={
            "WGHT005": 0.85, "LOSS010": 0.6, "LOSS010:high": 0.5, "ACTV004": 0.6, "ACTV003": 0.3, "ACTV001": 0.25,
            "GRAD002": 0.2, "GRAD002:early": 0.2, "GRAD001": 0.2, "LOSS006": 0.2, "OPTM002": 0.2, "LOSS001": 0.15,
            "ACTV006": 0.15, "LOSS002": 0.15, "LOSS011": 0.15, "EVAL004": 0.15, "NUMR001:norms": 0.1, "NUMR001:grown": 0.1,
            "NUMR001:moved": 0.1, "NUMR003": 0.1,
        },
        cure=(
            "Initialise with `kaiming_normal_` (ReLU), `xavier_uniform_` (tanh) or a standard deviation of 0.02 "
        "(transformers)[[; start with {where}]]. Multiply the last layer by 0.1 and residual branches by 1/√(2L)."
        ),
        refutes=("DATA002", "WIRE007:sum", "WGHT004"),
        witness=("WGHT005", "LOSS010:high"),
        settle="loss-at-init", cost_steps=15,
        change={"init": "kaiming"},
    ),
    # Told from a wrong preparation of validation by training batches that are bad in eval mode too.
    Cause(
        "batchnorm-statistics", "BatchNorm's running statistics do not match the data", prior=0.9, verdict="fix-evaluation",
        likely={
            "ACTV008": 0.9, "ACTV008:gap": 0.5, "EVAL007": 0.4, "EVAL002": 0.35, "LOSS008": 0.25, "EVAL004": 0.25,
            "LOSS006:coarse": 0.2, "DATA012:single": 0.2, "LOSS001": 0.15, "EVAL005": 0.1, "EVAL009:buffers": 0.1,
        },
        cure=(
            "Recompute the statistics over 200 training batches with momentum 0.1. With fewer than 8 samples per device use "
            "GroupNorm or SyncBatchNorm."
        ),
        refutes=("EVAL001", "DATA008", "WIRE005"),
        witness=("ACTV008",),
        settle="mode-gap", cost_steps=20,
        not_yet=("Do not regularise: training is fine.",),
        change={"normalisation": "recomputed"},
    ),
    # When the first steps were large, the rate killed them; when they were dead from the start, the initialisation did.
    Cause(
        "dead-units", "most units of a layer are dead", prior=0.8, verdict="restart",
        likely={
            "ACTV001": 0.9, "GRAD004:zero": 0.4, "GRAD004:dead": 0.4, "ACTV005": 0.3, "GRAD004": 0.3, "LOSS002": 0.3,
            "LOSS003": 0.3, "LOSS009": 0.3, "ACTV002": 0.3, "LOSS011": 0.25, "GRAD001": 0.2, "OPTM001": 0.15, "EVAL004": 0.15,
            "LOSS013:": 0.2,
        },
        cure=(
            "Lower the learning rate, or re-initialise the units[[ of {where}]]. LeakyReLU or GELU, zero "
            "biases and a norm before the activation keep units alive."
        ),
        refutes=("WGHT004", "WIRE003"),
        witness=("ACTV001", "GRAD004:dead"),
        settle="overfit", cost_steps=300,
        poisons=True, change={"init": "kaiming", "lr": 0.3},
    ),
    Cause(
        "logit-drift", "output logits keep growing", prior=0.3, verdict="fix-and-resume",
        likely={"LOSS008": 0.3, "EVAL005": 0.3, "ACTV007": 0.9, "NUMR004": 0.3, "LOSS006": 0.3, "LOSS005": 0.1},
        cure="Add a z-loss of 1e-4, compute logits and loss in float32, and apply weight decay to the output layer.",
        witness=("ACTV007",),
        settle="precision", cost_steps=4,
    ),
    Cause(
        "norm-gains-drift", "normalisation gains have drifted", prior=0.3, verdict="fix-and-resume",
        likely={"WGHT003": 0.9, "OPTM009:gains": 0.5, "ACTV001": 0.2, "LOSS003": 0.2, "ACTV004": 0.2},
        cure="Leave norm gains out of weight decay and give them a tenth of the learning rate[[ ({where})]].",
        witness=("WGHT003",),
        settle="regularisers-off", cost_steps=400,
        change={"weight_decay": "off-gains"},
    ),
    Cause(
        "plasticity-loss", "units went dormant: the network no longer adapts", prior=0.2, verdict="fix-and-resume",
        likely={"ACTV002": 0.9, "LOSS003": 0.4, "ACTV001": 0.2},
        cure="Re-initialise dormant units from time to time, normalise layers, and use some weight decay.",
        refutes=("OPTM002",),
        witness=("ACTV002",),
    ),
    Cause(
        "representation-collapse", "the representation has collapsed: all inputs look alike", prior=0.4, verdict="restart",
        likely={
            "ACTV009": 0.9, "SPEC006": 0.4, "ACTV005": 0.3, "ACTV001:growth": 0.3, "LOSS011": 0.25, "LOSS003": 0.25,
            "EVAL004": 0.2,
        },
        cure=(
            "Add what keeps embeddings apart: stop-gradient with a predictor, a variance term, negatives, a temperature of "
            "0.1–0.2, or BatchNorm in the projector."
        ),
        refutes=("WGHT004", "OPTM002"),
        witness=("ACTV009",),
        poisons=True,
    ),
    Cause(
        "saturated-units", "units are saturated: their activation is flat", prior=0.5, verdict="restart",
        likely={
            "ACTV003": 0.9, "WGHT005": 0.5, "GRAD001": 0.4, "ACTV004": 0.3, "LOSS010": 0.3, "LOSS002": 0.2, "LOSS009": 0.2,
            "DATA002": 0.2,
        },
        cure="Initialise with Xavier (gain 5/3 for tanh), scale the inputs, or normalise before the activation.",
        refutes=("OPTM002",),
        witness=("ACTV003",),
        settle="loss-at-init", cost_steps=15,
        change={"init": "xavier"},
    ),
    Cause(
        "symmetric-initialisation", "units start identical and stay identical", prior=0.5, verdict="restart",
        likely={
            "WGHT004": 0.95, "LOSS002": 0.4, "LOSS011": 0.4, "GRAD004": 0.4, "GRAD004:zero": 0.4, "LOSS009": 0.35,
            "ACTV005": 0.3, "EVAL004": 0.3, "LOSS003": 0.25, "ACTV009": 0.2, "OPTM001": 0.2, "GRAD001": 0.1,
        },
        cure=(
            "Initialise[[ {where}]] at random (kaiming or xavier). A zero-initialised last layer alone is "
            "fine."
        ),
        refutes=("OPTM002",),
        witness=("WGHT004",),
        settle="overfit", cost_steps=300,
        change={"init": "kaiming"},
    ),
    Cause(
        "weight-growth", "weights grow without bound", prior=0.6, verdict="fix-and-resume",
        likely={
            "WGHT001": 0.9, "ACTV004:grows": 0.4, "GRAD002": 0.35, "ACTV004": 0.3, "ACTV007": 0.3, "LOSS001": 0.3,
            "LOSS006": 0.2, "NUMR004": 0.15, "LOSS005": 0.15,
        },
        cure="Add weight decay (0.01–0.1) or a constraint[[ on {where}]], divide the learning rate by 3, and clip gradients.",
        refutes=("LOSS010:targets", "WIRE004", "OPTM002", "OPTM013"),
        witness=("WGHT001",),
        settle="regularisers-off", cost_steps=400,
        poisons=True, change={"weight_decay": "on", "lr": 0.3},
    ),
)
