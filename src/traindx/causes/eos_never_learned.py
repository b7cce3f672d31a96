"""The end token is not among the labels."""

from traindx.cause import Cause

eos_never_learned = Cause(
    name="eos-never-learned",
    title="the model never learns to end a text",
    likely={
        "TUNE004": 0.97,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure="Append the end token to every answer, use a separate padding id, and mask labels by `attention_mask`.",
    witness=("TUNE004",),
)
