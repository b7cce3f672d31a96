"""A resumed run continues differently from an uninterrupted one."""

from traindx.cause import Cause

resume_mismatch = Cause(
    name="resume-mismatch",
    title="the resume does not restore the whole state",
    likely={
        "REPR003": 0.95,
        "REPR003:loaded": 0.3,
        "LOSS006:reset": 0.8,
        "LOSS006": 0.3,
        "OPTM010:stateless": 0.2,
        "REPR005": 0.2,
    },
    prior=0.3,
    verdict="fix-and-resume",
    cure=(
        "Restore optimizer, scheduler, scaler, random states and the position in the data[[; the first difference is "
        "in {where}]]."
    ),
    witness=("REPR003", "LOSS006:reset"),
    settle="resume",
    cost_steps=10,
)
