"""An operation left its domain (log of 0, division by 0, sqrt at 0, exp overflow).

Told from a divergence by a loss that was fine until the very step, and by the replay that names the operation.
"""

from traindx.cause import Cause

unstable_operation = Cause(
    name="unstable-operation",
    title="an operation is numerically unstable",
    likely={
        "NUMR001:origin": 0.7,
        "NUMR001": 0.6,
        "NUMR003": 0.6,
        "LOSS001:nonfinite": 0.6,
        "NUMR002": 0.5,
        "LOSS001": 0.5,
        "NUMR002:origin": 0.4,
        "NUMR002:named": 0.3,
        "NUMR008": 0.15,
        "NUMR005": 0.15,
        "LOSS011": 0.05,
        "GRAD004": 0.05,
    },
    prior=2.5,
    verdict="fix-and-resume",
    cure=(
        "Guard the operation[[ at {where}]]: use fused losses instead of log(softmax), clamp before log, put ε inside"
        " roots and divisors, and mask empty rows before the softmax."
    ),
    refutes=(
        "NUMR001:batch",
        "NUMR001:grown",
        "NUMR001:norms",
        "NUMR001:moved",
        "NUMR002:moved",
        "DATA001:nonfinite",
        "TUNE002",
        "NUMR004:replay",
        "NUMR003:loaded",
    ),
    witness=(
        "NUMR001",
        "NUMR002",
        "NUMR003",
        "NUMR008",
    ),
    settle="replay",
    cost_steps=3,
    not_yet=("Do not lower the learning rate first: it changes the run before the cause is known.",),
    poisons=True,
)
