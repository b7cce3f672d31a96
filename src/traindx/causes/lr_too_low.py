"""The learning rate is too small to matter.

Told from a collapsed schedule by a rate that never was higher, from frozen or missing gradients by their exact facts.
"""

from traindx.cause import Cause

lr_too_low = Cause(
    name="lr-too-low",
    title="the learning rate is too low",
    likely={
        "WIRE010:warmup": 0.8,
        "OPTM001": 0.85,
        "LOSS002": 0.4,
        "LOSS004": 0.3,
        "LOSS004:crawls": 0.7,
        "LOSS009": 0.3,
        "EVAL004:chance": 0.3,
        "EVAL004:common": 0.15,
        "ACTV005:class": 0.3,
        "LOSS009:chance": 0.2,
        "OPTM009:idle": 0.2,
        "LOSS011": 0.15,
        "LOSS003": 0.1,
        "EVAL007": 0.05,
        "LOSS013:": 0.4,
    },
    prior=2.0,
    verdict="restart",
    cure=(
        "Use ten times the learning rate[[ ({lr_tenfold} instead of {lr})]], or the one that `traindx trial lr-range`"
        " finds, and start again."
    ),
    refutes=(
        "OPTM002",
        "OPTM003",
        "GRAD004",
        "NUMR005",
        "NUMR007",
        "NUMR009",
        "OPTM008",
        "OPTM010:idle",
        "WIRE001",
        "WIRE003",
        "WIRE016",
        "WIRE006",
        "WIRE010",
        "WIRE002:nothing",
        "GRAD001",
        "ACTV005:lost",
        "OPTM006:always",
    ),
    settle="lr-range",
    cost_steps=120,
    not_yet=("Do not enlarge the model before its weights move.",),
    change={"lr": 10.0},
)
