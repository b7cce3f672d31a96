"""Micro-batches with unequal tokens are averaged."""

from traindx.cause import Cause

accumulation_token_norm = Cause(
    name="accumulation-token-norm",
    title="micro-batches with different token counts are averaged equally",
    likely={
        "TUNE009": 0.97,
    },
    prior=0.3,
    verdict="fix-and-resume",
    cure="Sum the token losses of all micro-batches and divide by the valid tokens of the whole update.",
    witness=("TUNE009",),
)
