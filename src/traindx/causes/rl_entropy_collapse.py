"""The policy stopped exploring."""

from traindx.cause import Cause

rl_entropy_collapse = Cause(
    name="rl-entropy-collapse",
    title="the policy has stopped exploring",
    likely={
        "SPEC004": 0.97,
    },
    prior=0.4,
    verdict="restart",
    cure="Entropy bonus × 3, a third of the rate, clip .1, a KL target.",
    witness=("SPEC004",),
    poisons=True,
)
