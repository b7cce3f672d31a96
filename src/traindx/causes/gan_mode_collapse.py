"""The generator produces few kinds of samples."""

from traindx.cause import Cause

gan_mode_collapse = Cause(
    name="gan-mode-collapse",
    title="the generator produces only a few kinds of samples",
    likely={
        "SPEC002": 0.97,
        "ACTV001": 0.3,
        "ACTV009": 0.2,
        "SPEC001": 0.2,
    },
    prior=0.4,
    verdict="restart",
    cure="Add minibatch standard deviation, an R1 penalty or a larger batch.",
    witness=("SPEC002",),
    poisons=True,
)
