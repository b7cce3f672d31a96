"""The mixed-precision loop is put together wrongly."""

from traindx.cause import Cause

amp_misuse = Cause(
    name="amp-misuse",
    title="the mixed-precision calls are in the wrong order",
    likely={
        "NUMR009": 0.9,
        "OPTM006:unscale": 0.4,
        "OPTM001": 0.3,
        "OPTM006": 0.2,
        "NUMR005": 0.2,
        "LOSS002": 0.2,
        "OPTM002": 0.15,
        "LOSS009": 0.15,
    },
    prior=0.6,
    verdict="fix-and-resume",
    cure=(
        "Put `autocast` around forward and loss only. Then call `scaler.scale(loss).backward()`, "
        "`scaler.unscale_(optimizer)`, clip, `scaler.step(optimizer)`, `scaler.update()`. bfloat16 needs no scaler."
    ),
    witness=("NUMR009",),
)
