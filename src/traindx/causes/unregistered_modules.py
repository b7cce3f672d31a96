"""Modules live in plain lists, or are never called."""

from traindx.cause import Cause

unregistered_modules = Cause(
    name="unregistered-modules",
    title="modules are not registered, or are never used",
    likely={
        "WIRE014": 0.95,
        "WIRE014:unregistered": 0.8,
        "WIRE001": 0.5,
        "WIRE014:never-called": 0.3,
        "GRAD004": 0.3,
        "LOSS009": 0.25,
        "LOSS002": 0.15,
        "LOSS003": 0.15,
    },
    prior=0.7,
    verdict="restart",
    cure="Use nn.ModuleList or nn.ModuleDict[[ for {where}]], build the optimizer after it, and start again.",
    witness=(
        "WIRE014:unregistered",
        "WIRE014:never-called",
    ),
)
