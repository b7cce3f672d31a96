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
    cure="Use three times the entropy bonus, a third of the learning rate, a clip of 0.1 and a KL target.",
    witness=("SPEC004",),
    poisons=True,
)
