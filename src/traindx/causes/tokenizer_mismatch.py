"""Tokens do not fit the model."""

from traindx.cause import Cause

tokenizer_mismatch = Cause(
    name="tokenizer-mismatch",
    title="the tokenizer or template does not fit the model",
    likely={
        "TUNE007": 0.97,
        "LOSS010": 0.2,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure="Use the model's own tokenizer and chat template. Resize the embedding after adding tokens.",
    witness=("TUNE007",),
    settle="base-eval",
    cost_steps=1,
)
