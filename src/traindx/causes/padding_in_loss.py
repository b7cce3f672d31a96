"""Padding counts in the loss."""

from traindx.cause import Cause

padding_in_loss = Cause(
    name="padding-in-loss",
    title="padding counts in the loss",
    likely={
        "TUNE003": 0.97,
        "LOSS010:low": 0.15,
        "EVAL006": 0.1,
    },
    prior=0.5,
    verdict="fix-and-resume",
    cure="Set labels to -100 where `attention_mask` is 0[[ (or pass ignore_index={pad})]].",
    witness=("TUNE003",),
)
