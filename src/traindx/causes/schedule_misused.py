"""The scheduler is called at the wrong place or in the wrong unit.

The calls are counted, so this is a fact.
"""

from traindx.cause import Cause

schedule_misused = Cause(
    name="schedule-misused",
    title="the scheduler is stepped in the wrong unit or order",
    likely={
        "WIRE010": 0.95,
        "OPTM003": 0.7,
        "LOSS003": 0.4,
        "OPTM001": 0.35,
        "LOSS002": 0.1,
        "LOSS009": 0.1,
    },
    prior=1.0,
    verdict="fix-and-resume",
    cure=(
        "Call `scheduler.step()` after `optimizer.step()`: once per update if the schedule counts steps, once per "
        "epoch if it counts epochs. Resume with the learning rate back at its peak."
    ),
    refutes=("WIRE010:warmup",),
    witness=("WIRE010",),
    change={"lr": "peak", "schedule": "relaid"},
)
