"""Checkpoints leave out state that a resume needs."""

from traindx.cause import Cause

incomplete_checkpoint = Cause(
    name="incomplete-checkpoint",
    title="checkpoints leave out what a resume needs",
    likely={
        "REPR005": 0.95,
        "REPR003": 0.4,
        "OPTM010:stateless": 0.2,
        "OPTM010:reset": 0.2,
        "LOSS006": 0.15,
    },
    prior=0.5,
    verdict="fix-and-resume",
    cure="Save model, optimizer, scheduler, scaler, step and random states together[[; missing now: {where}]].",
    witness=("REPR005",),
    settle="resume",
    cost_steps=10,
)
