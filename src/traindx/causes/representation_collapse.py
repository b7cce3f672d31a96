"""Features of different inputs become alike."""

from traindx.cause import Cause

representation_collapse = Cause(
    name="representation-collapse",
    title="the representation has collapsed: all inputs look alike",
    likely={
        "ACTV009": 0.9,
        "SPEC006": 0.4,
        "ACTV005": 0.3,
        "ACTV001:growth": 0.3,
        "LOSS011": 0.25,
        "LOSS003": 0.25,
        "EVAL004": 0.2,
    },
    prior=0.4,
    verdict="restart",
    cure=(
        "Add what keeps embeddings apart: stop-gradient with a predictor, a variance term, negatives, a temperature "
        "of 0.1–0.2, or BatchNorm in the projector."
    ),
    refutes=("WGHT004", "OPTM002"),
    witness=("ACTV009",),
    poisons=True,
)
