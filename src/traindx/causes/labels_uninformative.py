"""Inputs and labels are shuffled apart or joined wrongly.

Told from a low rate and from collapsed outputs by a permutation test on the labels.
"""

from traindx.cause import Cause

labels_uninformative = Cause(
    name="labels-uninformative",
    title="labels have nothing to do with the inputs",
    likely={
        "DATA004": 0.95,
        "DATA004:apart": 0.9,
        "DATA010:conflicts": 0.4,
        "LOSS011": 0.5,
        "EVAL004:chance": 0.5,
        "LOSS002": 0.45,
        "EVAL007": 0.4,
        "LOSS008": 0.4,
        "LOSS009": 0.4,
        "LOSS009:chance": 0.3,
        "GRAD005": 0.3,
        "LOSS003": 0.2,
        "EVAL005": 0.1,
        "LOSS013:": 0.3,
    },
    prior=0.9,
    verdict="restart",
    cure=(
        "Print ten samples with their labels and look. Rebuild the pairs from one table with one shuffle[[; labels "
        "are shifted by {offset} rows]]."
    ),
    refutes=(
        "OPTM001",
        "OPTM002",
        "OPTM003",
        "ACTV005",
        "WIRE003",
        "GRAD004",
        "WGHT004",
        "WIRE006",
        "WIRE008",
        "WIRE016",
        "WIRE001",
        "WIRE017",
        "GRAD001",
        "LOSS001:worse",
        "ACTV001",
        "LOSS011:zero",
        "LOSS011:squashed",
    ),
    settle="label-info",
    cost_steps=240,
    not_yet=("Do not tune anything before you have checked the labels.",),
)
