"""Inputs, labels, batches and splits."""

from traindx.cause import Cause

# fmt: off
CAUSES = (
    Cause(
        "augmentation-fault", "augmentation is set up wrongly", prior=0.5, verdict="fix-and-resume",
        likely={"DATA009": 0.95, "EVAL002": 0.4, "REPR002": 0.2, "LOSS009": 0.15},
        cure=(
            "Use no random transforms in validation, and draw new random numbers for each sample and worker. If training "
            "cannot fit, halve the strength."
        ),
        witness=("DATA009",),
        settle="regularisers-off", cost_steps=400,
    ),
    Cause(
        "bad-data-values", "invalid values reach the model", prior=1.2, verdict="fix-and-resume",
        likely={
            "DATA001": 0.9, "DATA001:nonfinite": 0.8, "DATA001:owning": 0.2, "OPTM002": 0.15, "NUMR001:batch": 0.5,
            "NUMR001:given": 0.5, "NUMR001": 0.5, "NUMR003": 0.5, "LOSS001:nonfinite": 0.5, "LOSS001": 0.45, "NUMR002": 0.3,
            "NUMR008": 0.25, "GRAD002": 0.3, "LOSS013:worse": 0.3, "LOSS007": 0.2, "GRAD003": 0.2, "WGHT001": 0.1,
            "ACTV004": 0.1, "ACTV007": 0.1, "NUMR005": 0.1, "LOSS006": 0.1,
        },
        cure=(
            "Drop or repair the bad samples[[ ({where})]] and check every batch for finite values. Resume from before the "
            "first of them was used."
        ),
        witness=("DATA001", "NUMR001:batch", "NUMR001:given"),
        poisons=True,
    ),
    Cause(
        "class-imbalance", "rare classes are lost among frequent ones", prior=1.0, verdict="fix-and-resume",
        likely={
            "DATA011": 0.8, "EVAL004": 0.7, "EVAL004:majority": 0.6, "EVAL004:same": 0.6, "DATA011:harm": 0.5,
            "EVAL004:class": 0.4, "ACTV005": 0.25, "EVAL010": 0.2, "LOSS011": 0.2, "LOSS009": 0.15, "LOSS003": 0.1,
        },
        cure=(
            "Weight the classes by 1/√n[[ (about {weight} for class {smallest})]] or sample them evenly. Judge by balanced "
            "accuracy, F1 or average precision."
        ),
        refutes=("DATA004", "GRAD006:", "GRAD006:scale", "OPTM001", "OPTM002", "WIRE006", "LOSS002"),
        witness=("DATA011", "EVAL004:majority", "EVAL004:same", "EVAL004:class"),
    ),
    Cause(
        "data-not-shuffled", "the training data are not shuffled", prior=1.0, verdict="fix-and-resume",
        likely={
            "DATA005": 0.95, "DATA005:sorted": 0.6, "LOSS005": 0.4, "LOSS012": 0.4, "LOSS006": 0.4, "GRAD003": 0.3,
            "EVAL004": 0.3, "ACTV005": 0.2, "GRAD007": 0.25, "ACTV008": 0.2, "EVAL002": 0.2, "LOSS003": 0.2, "LOSS009": 0.2,
            "LOSS007": 0.15, "LOSS001": 0.15, "EVAL007": 0.15, "LOSS002": 0.1, "DIST002:order": 0.1,
        },
        cure=(
            "Set `shuffle=True` on the training loader. Call `set_epoch` on a distributed sampler; give a stream a buffer ten"
            " times as long as a run of one class."
        ),
        witness=("DATA005",),
    ),
    Cause(
        "label-encoding", "labels are encoded wrongly for this head", prior=0.9, verdict="restart",
        likely={
            "DATA003": 0.95, "LOSS002": 0.2, "LOSS011:negative": 0.2, "LOSS001": 0.2, "EVAL004": 0.2, "EVAL004:class": 0.2,
            "EVAL007": 0.2, "EVAL003": 0.15, "LOSS009": 0.15, "NUMR001": 0.05,
        },
        cure=(
            "Map labels to 0 … C−1 with one table for training and validation, set `ignore_index` for 'no label', and use a "
            "loss that fits them."
        ),
        witness=("DATA003", "EVAL004:class"),
        settle="overfit", cost_steps=300,
    ),
    Cause(
        "label-noise", "many labels are wrong or contradict each other", prior=0.7, verdict="fix-and-resume",
        likely={
            "DATA010": 0.9, "DATA010:conflicts": 0.6, "LOSS003": 0.3, "LOSS009": 0.3, "LOSS008": 0.3, "LOSS011": 0.15,
            "EVAL005": 0.1,
        },
        cure=(
            "Review the conflicting samples and keep the majority label or drop them. Use label smoothing of 0.1 or a robust "
            "loss for the rest."
        ),
        refutes=("DATA006", "DATA004:apart"),
        witness=("DATA010",),
        settle="overfit", cost_steps=300,
    ),
    # Told from a low rate and from collapsed outputs by a permutation test on the labels.
    Cause(
        "labels-uninformative", "labels have nothing to do with the inputs", prior=0.9, verdict="restart",
        likely={
            "DATA004": 0.95, "DATA004:apart": 0.9, "DATA010:conflicts": 0.4, "LOSS011": 0.5, "EVAL004:chance": 0.5,
            "LOSS002": 0.45, "EVAL007": 0.4, "LOSS008": 0.4, "LOSS009": 0.4, "LOSS009:chance": 0.3, "GRAD005": 0.3,
            "LOSS003": 0.2, "EVAL005": 0.1, "LOSS013:": 0.3,
        },
        cure=(
            "Print ten samples with their labels and check them. Rebuild the pairs from one table with one "
        "shuffle[[; labels are shifted by {offset} rows]]."
        ),
        refutes=(
            "OPTM001", "OPTM002", "OPTM003", "ACTV005", "WIRE003", "GRAD004", "WGHT004", "WIRE006", "WIRE008", "WIRE016",
            "WIRE001", "WIRE017", "GRAD001", "LOSS001:worse", "ACTV001", "LOSS011:zero", "LOSS011:squashed",
        ),
        settle="label-info", cost_steps=240,
        not_yet=("Do not tune anything before you have checked the labels.",),
    ),
    Cause(
        "repeated-batches", "the same samples are served again and again", prior=0.6, verdict="restart",
        likely={
            "DATA012:repeat": 0.9, "DATA012": 0.9, "LOSS008": 0.4, "EVAL007": 0.4, "EVAL004": 0.3, "DATA012:constant": 0.2,
            "EVAL005": 0.1, "LOSS011": 0.1, "LOSS002": 0.05,
        },
        cure="Write `for batch in loader`: an iterator created inside the loop starts from the beginning every time.",
        witness=("DATA012",),
    ),
    Cause(
        "split-overlap", "validation overlaps with training", prior=0.8, verdict="fix-evaluation",
        likely={"DATA006": 0.95, "EVAL006": 0.4},
        cure="Remove duplicates, split by group or time, and validate again. Do not choose a model by the figures so far.",
        witness=("DATA006",),
    ),
    Cause(
        "target-leak", "a feature gives the label away", prior=0.6, verdict="restart",
        likely={"DATA007": 0.95, "EVAL006": 0.2, "LOSS010:low": 0.1},
        cure="Drop the feature[[ {where}]] unless it is known at prediction time. Split by time.",
        witness=("DATA007",),
    ),
    # Told from overfitting by a gap that is there at the first evaluation.
    Cause(
        "train-val-mismatch", "validation is prepared differently from training", prior=0.9, verdict="fix-evaluation",
        likely={
            "DATA008": 0.9, "EVAL007:never": 0.6, "EVAL007:unmoved": 0.5, "EVAL007": 0.45, "EVAL004": 0.35, "LOSS008": 0.25,
            "EVAL002": 0.2, "EVAL006": 0.1, "DATA003:permuted": 0.1, "DATA003:apart": 0.1, "LOSS001": 0.1,
            "LOSS006:coarse": 0.1,
        },
        cure=(
            "Prepare training and validation with one function and the training set's constants. Then evaluate the same "
            "weights again."
        ),
        refutes=("EVAL001", "ACTV008"),
        witness=("DATA008", "EVAL007:never", "EVAL007:unmoved"),
        not_yet=("Do not regularise: training is fine.",),
    ),
    Cause(
        "unscaled-inputs", "inputs are not scaled", prior=1.5, verdict="restart",
        likely={
            "DATA002": 0.9, "LOSS010": 0.6, "ACTV004": 0.25, "LOSS006": 0.2, "ACTV001": 0.2, "ACTV003": 0.4, "ACTV005": 0.3,
            "GRAD004:zero": 0.2, "LOSS011:": 0.2, "GRAD002": 0.15, "OPTM002": 0.5, "LOSS001:nonfinite": 0.3, "NUMR003": 0.25,
            "NUMR002": 0.15, "LOSS005": 0.15, "LOSS002": 0.15, "WGHT005": 0.15, "LOSS009": 0.15, "NUMR004": 0.1, "NUMR005": 0.1,
            "LOSS001": 0.2, "EVAL004": 0.1,
        },
        cure=(
            "Standardise every feature with the training set's mean and standard deviation, in one function for "
        "training and validation. Divide pixels by 255."
        ),
        witness=("DATA002",),
        settle="loss-at-init", cost_steps=15,
        change={"normalisation": "inputs"},
    ),
)
