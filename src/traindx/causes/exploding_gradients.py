"""Gradients grow through depth or time.

Told from a rate that is too high by norms that explode before any step was large.
"""

from traindx.cause import Cause

exploding_gradients = Cause(
    name="exploding-gradients",
    title="gradients explode on their way through the network",
    likely={
        "GRAD002": 0.85,
        "GRAD003": 0.5,
        "LOSS001": 0.5,
        "NUMR003": 0.4,
        "NUMR002": 0.3,
        "NUMR001:norms": 0.4,
        "NUMR001:grown": 0.3,
        "NUMR001:moved": 0.3,
        "ACTV004:explodes": 0.3,
        "WGHT005": 0.3,
        "OPTM002": 0.3,
        "LOSS006": 0.3,
        "NUMR001": 0.25,
        "ACTV004": 0.2,
        "LOSS010": 0.2,
        "WGHT001": 0.2,
        "LOSS005": 0.2,
        "LOSS002": 0.1,
        "LOSS013:worse": 0.2,
    },
    prior=1.2,
    verdict="restart",
    cure=(
        "Divide the learning rate by 10 and clip gradients[[ at {clip}, the 95 % quantile of the norms before it began]]"
        "[[; use orthogonal or identity initialisation and shorter sequences for {recurrent}]]."
    ),
    refutes=(
        "WIRE004",
        "WIRE011",
        "DATA001:nonfinite",
        "DATA001:harmful",
        "OPTM002:raised",
        "WIRE007:sum",
        "DATA002",
        "LOSS007:repeating",
    ),
    witness=(
        "GRAD002",
        "ACTV004:explodes",
    ),
    settle="clip",
    cost_steps=100,
    not_yet=("Lowering the learning rate alone does not help: the next long sequence explodes again.",),
    poisons=True,
    change={"clip": "p95"},
)
