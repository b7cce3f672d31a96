"""The schedule took the learning rate away too early.

Told from a noise floor by updates that no longer move anything.
"""

from traindx.cause import Cause

schedule_collapsed = Cause(
    name="schedule-collapsed",
    title="the schedule cut the learning rate to almost nothing",
    likely={
        "OPTM003": 0.95,
        "LOSS003": 0.5,
        "OPTM001": 0.4,
        "LOSS009": 0.15,
        "LOSS002": 0.1,
        "LOSS004": 0.1,
    },
    prior=1.5,
    verdict="fix-and-resume",
    cure=(
        "Set the length of the schedule to the real number of updates[[ ({wanted})]], and resume with the learning "
        "rate back at 0.3 to 1 times its peak."
    ),
    refutes=(
        "WIRE010",
        "OPTM002",
    ),
    witness=("OPTM003",),
    settle="fix",
    cost_steps=200,
    not_yet=("Raising the learning rate a little does not help: after a decay by 1,000 a factor of 5 does nothing.",),
    change={"lr": "peak", "schedule": "relaid"},
)
