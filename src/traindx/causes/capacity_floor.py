"""The model, or the information in the inputs, allows no better."""

from traindx.cause import Cause

capacity_floor = Cause(
    name="capacity-floor",
    title="the model or the data allow nothing better",
    likely={
        "LOSS003": 0.6,
        "LOSS009": 0.5,
        "WIRE014:linear": 0.3,
        "LOSS011": 0.2,
        "EVAL010": 0.15,
        "LOSS011:perfect": 0.1,
    },
    prior=0.8,
    verdict="stop-keep-best",
    cure=(
        "Compare with a kNN and a linear baseline. Then train a model twice as wide on 2,000 samples: if it fits, "
        "capacity is the limit; if not, the data are."
    ),
    refutes=(
        "OPTM001",
        "OPTM002",
        "OPTM003",
        "OPTM005",
        "LOSS008",
        "EVAL001",
        "WIRE001",
        "WIRE006",
        "WIRE008",
        "WIRE016",
        "DATA004",
        "ACTV001",
        "NUMR005",
    ),
    settle="anneal",
    cost_steps=200,
    not_yet=("Draw no conclusion before the model fits one batch.",),
)
