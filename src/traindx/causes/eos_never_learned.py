"""The end token is not among the labels."""

from traindx.cause import Cause

eos_never_learned = Cause(
    name="eos-never-learned",
    title="the end of text is never learned",
    likely={
        "TUNE004": 0.97,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure="A padding id of its own, masking by attention_mask, the end token appended to every answer.",
    witness=("TUNE004",),
)
