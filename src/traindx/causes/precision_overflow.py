"""Half precision overflows.

Told from an unstable operation by a replay in fp32 that stays finite.
"""

from traindx.cause import Cause

precision_overflow = Cause(
    name="precision-overflow",
    title="values overflow half precision",
    likely={
        "NUMR004": 0.8,
        "NUMR005": 0.6,
        "NUMR004:replay": 0.5,
        "NUMR001": 0.45,
        "NUMR003": 0.35,
        "LOSS001:nonfinite": 0.35,
        "NUMR002": 0.3,
        "LOSS001": 0.3,
        "LOSS002": 0.2,
        "NUMR008": 0.2,
        "OPTM001": 0.1,
    },
    prior=0.9,
    verdict="fix-and-resume",
    cure=(
        "Use bfloat16, or keep softmax, norms, the loss and large sums in float32[[ ({where})]]. Scale queries before"
        " the product; mask with `finfo.min`."
    ),
    refutes=("DATA001:nonfinite", "OPTM002", "NUMR001:origin"),
    witness=(
        "NUMR004",
        "NUMR005",
    ),
    settle="precision",
    cost_steps=4,
    poisons=True,
    change={"precision": "bf16"},
)
