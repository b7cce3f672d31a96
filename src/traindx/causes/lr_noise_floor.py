"""The plateau is the noise ball of the present learning rate; decaying it cashes in.

Told from a capacity floor by an anneal fork in which training and validation both drop.
"""

from traindx.cause import Cause

lr_noise_floor = Cause(
    name="lr-noise-floor",
    title="the loss is at the noise floor of this learning rate",
    likely={
        "OPTM005": 0.9,
        "LOSS003": 0.6,
        "OPTM013:": 0.4,
        "GRAD005": 0.4,
        "LOSS005": 0.25,
        "GRAD007": 0.2,
        "EVAL002": 0.2,
    },
    prior=1.5,
    verdict="wait",
    cure=(
        "Let the planned decay run, or start a cosine or linear decay to zero now. An average of the weights (EMA) "
        "brings the gain sooner."
    ),
    refutes=("OPTM003", "LOSS008", "LOSS002", "OPTM001", "LOSS001", "EVAL001"),
    settle="anneal",
    cost_steps=200,
    not_yet=(
        "Do not stop before the decay: it lowers the loss.",
        "Do not enlarge the model before the learning rate has decayed.",
    ),
    change={"schedule": "anneal"},
)
