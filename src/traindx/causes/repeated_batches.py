"""The pipeline serves the same batch again and again."""

from traindx.cause import Cause

repeated_batches = Cause(
    name="repeated-batches",
    title="the same batch is served again and again",
    likely={
        "DATA012:repeat": 0.9,
        "DATA012": 0.9,
        "LOSS008": 0.4,
        "EVAL007": 0.4,
        "EVAL004": 0.3,
        "DATA012:constant": 0.2,
        "EVAL005": 0.1,
        "LOSS011": 0.1,
        "LOSS002": 0.05,
    },
    prior=0.6,
    verdict="restart",
    cure="Write `for batch in loader`: an iterator created inside the loop starts from the beginning every time.",
    witness=("DATA012",),
)
