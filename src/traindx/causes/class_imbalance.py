"""Rare classes are drowned by frequent ones."""

from traindx.cause import Cause

class_imbalance = Cause(
    name="class-imbalance",
    title="rare classes are lost among frequent ones",
    likely={
        "DATA011": 0.8,
        "EVAL004": 0.7,
        "EVAL004:majority": 0.6,
        "EVAL004:same": 0.6,
        "DATA011:harm": 0.5,
        "EVAL004:class": 0.4,
        "ACTV005": 0.25,
        "EVAL010": 0.2,
        "LOSS011": 0.2,
        "LOSS009": 0.15,
        "LOSS003": 0.1,
    },
    prior=1.0,
    verdict="fix-and-resume",
    cure=(
        "Weight the classes by 1/√n[[ (about {weight} for class {smallest})]] or sample them evenly. Judge by "
        "balanced accuracy, F1 or average precision."
    ),
    refutes=("DATA004", "GRAD006:", "GRAD006:scale", "OPTM001", "OPTM002", "WIRE006", "LOSS002"),
    witness=(
        "DATA011",
        "EVAL004:majority",
        "EVAL004:same",
        "EVAL004:class",
    ),
)
