"""The loaded checkpoint already holds NaN or infinite values."""

from traindx.cause import Cause

broken_weights_loaded = Cause(
    name="broken-weights-loaded",
    title="the loaded weights already contain NaN or infinity",
    likely={
        "NUMR003:loaded": 0.95,
        "NUMR003": 0.9,
        "LOSS001:nonfinite": 0.7,
        "LOSS001": 0.6,
        "NUMR001": 0.5,
    },
    prior=0.2,
    verdict="restart",
    cure="Load an earlier checkpoint whose weights and optimizer state are finite.",
    refutes=("DATA001",),
    witness=("NUMR003:loaded",),
)
