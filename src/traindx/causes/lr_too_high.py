"""The learning rate is too high.

Told from a missing zero_grad, undivided accumulation and bad data by their exact facts, from a singular operation by a
loss that climbs before it breaks.
"""

from traindx.cause import Cause

lr_too_high = Cause(
    name="lr-too-high",
    title="the learning rate is too high",
    likely={
        "OPTM002": 0.8,
        "LOSS001:risen": 0.4,
        "LOSS001:worse": 0.4,
        "LOSS001:nonfinite": 0.3,
        "GRAD002": 0.4,
        "LOSS005": 0.4,
        "ACTV005": 0.35,
        "ACTV001": 0.3,
        "LOSS006": 0.3,
        "GRAD003": 0.3,
        "OPTM012": 0.3,
        "LOSS002": 0.25,
        "LOSS011:": 0.25,
        "NUMR001:grown": 0.25,
        "NUMR001:moved": 0.25,
        "NUMR003": 0.25,
        "GRAD007": 0.25,
        "NUMR001": 0.2,
        "OPTM013": 0.4,
        "EVAL004": 0.2,
        "NUMR002": 0.15,
        "OPTM004": 0.15,
        "LOSS009": 0.15,
        "EVAL002": 0.15,
        "EVAL007": 0.1,
        "WGHT001": 0.12,
        "LOSS003": 0.1,
    },
    prior=3.0,
    verdict="restart",
    cure="Restart with a tenth of the learning rate and a warm-up over the first 1–5 % of the steps[[; clip gradients "
    "at {clip}]].",
    refutes=(
        "OPTM002:survived",
        "WIRE004",
        "WIRE011",
        "WIRE006",
        "WIRE008",
        "WGHT004",
        "OPTM003:zero",
        "DATA005:sorted",
        "NUMR001:origin",
        "NUMR001:batch",
        "NUMR001:empty",
    ),
    witness=(
        "OPTM002",
        "LOSS001:risen",
        "LOSS001:worse",
        "LOSS005",
        "LOSS006",
        "GRAD002",
        "GRAD003",
        "GRAD007",
        "OPTM012",
        "OPTM013",
        "NUMR001:grown",
    ),
    settle="lr-tenth",
    cost_steps=200,
    not_yet=(
        "do not add regularisation or change the architecture against a divergence",
        "do not clip first: clipping hides a rate that is too high",
    ),
    poisons=True,
    change={"lr": 0.1, "warmup": 0.03},
)
