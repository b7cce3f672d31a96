"""The data hold NaN, infinite or absurd values."""

from traindx.cause import Cause

bad_data_values = Cause(
    name="bad-data-values",
    title="the data contain invalid values",
    likely={
        "DATA001": 0.9,
        "DATA001:nonfinite": 0.8,
        "DATA001:owning": 0.2,
        "OPTM002": 0.15,
        "NUMR001:batch": 0.5,
        "NUMR001": 0.5,
        "NUMR003": 0.5,
        "LOSS001:nonfinite": 0.5,
        "LOSS001": 0.45,
        "NUMR002": 0.3,
        "NUMR008": 0.25,
        "GRAD002": 0.3,
        "LOSS013:worse": 0.3,
        "LOSS007": 0.2,
        "GRAD003": 0.2,
        "WGHT001": 0.1,
        "ACTV004": 0.1,
        "ACTV007": 0.1,
        "NUMR005": 0.1,
        "LOSS006": 0.1,
    },
    prior=1.2,
    verdict="fix-and-resume",
    cure=(
        "Drop or repair the bad samples[[ ({where})]] and check every batch for finite values. Resume from before the"
        " first of them was used."
    ),
    witness=(
        "DATA001",
        "NUMR001:batch",
    ),
    poisons=True,
)
