"""Self-supervised embeddings collapse."""

from traindx.cause import Cause

ssl_collapse = Cause(
    name="ssl-collapse",
    title="the embeddings have collapsed",
    likely={
        "SPEC006": 0.95,
        "ACTV009": 0.6,
        "LOSS011": 0.1,
    },
    prior=0.4,
    verdict="restart",
    cure=("Use a stop-gradient with a predictor, a variance term, a temperature of 0.1–0.2, or BatchNorm in the projector."),
    witness=("SPEC006",),
    poisons=True,
)
