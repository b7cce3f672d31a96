"""The graph is cut between a part of the model and the loss."""

from traindx.cause import Cause

detached_graph = Cause(
    name="detached-graph",
    title="part of the model gets no gradient: the graph is cut",
    likely={
        "WIRE003": 0.95,
        "GRAD004": 0.6,
        "GRAD004:none": 0.5,
        "LOSS002": 0.25,
        "LOSS009": 0.25,
        "LOSS003": 0.2,
        "WIRE016": 0.2,
        "WIRE016:unreached": 0.6,
        "LOSS011": 0.15,
        "EVAL004": 0.15,
        "OPTM001": 0.1,
        "TUNE005": 0.1,
    },
    prior=0.9,
    verdict="restart",
    cure=(
        "Remove what cuts the graph[[ at {where}]]: `detach()`, `.item()`, `.data`, NumPy, argmax or `no_grad` "
        "between the parameters and the loss."
    ),
    witness=("WIRE003", "WIRE016:unreached"),
    settle="one-step",
    cost_steps=2,
)
