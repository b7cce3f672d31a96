"""A padding or attention mask is inverted, missing or shifted."""

from traindx.cause import Cause

mask_wrong = Cause(
    name="mask-wrong",
    title="a mask is inverted, missing or shifted",
    likely={
        "WIRE017": 0.95,
        "LOSS002": 0.4,
        "LOSS011": 0.4,
        "EVAL004": 0.35,
        "LOSS009": 0.3,
        "DATA004": 0.2,
        "EVAL007": 0.2,
        "NUMR001": 0.15,
        "LOSS003": 0.1,
        "NUMR003": 0.1,
    },
    prior=0.5,
    verdict="restart",
    cure=("Check what True means for this layer (in nn.MultiheadAttention: ignored), and that no row is masked entirely."),
    witness=("WIRE017",),
    settle="dependency",
    cost_steps=2,
)
