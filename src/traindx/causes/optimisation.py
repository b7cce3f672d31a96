"""Learning rate, schedule, optimizer, clipping and gradients."""

from traindx.cause import Cause

# fmt: off
CAUSES = (
    Cause(
        "adam-epsilon", "Adam's ε is too large for these gradients", prior=0.4, verdict="restart",
        likely={"OPTM008": 0.95, "OPTM001": 0.6, "LOSS002": 0.4, "LOSS004": 0.2, "LOSS009": 0.2, "EVAL004": 0.15},
        cure="Set `eps` to 1e-12, or stop dividing the loss twice so that gradients have their natural size.",
        refutes=("OPTM002", "GRAD004"),
        witness=("OPTM008",),
        settle="fix", cost_steps=200,
        adaptive=True, change={"eps": 1e-12},
    ),
    # A learning rate that is too high shows the same, far more often, and is tried first: what both produce counts the same
    # here and there, and only the experiment (`trial fix` with another β₂) tells them apart.
    Cause(
        "adam-stale-moments", "Adam's second moment adapts too slowly to these gradients", prior=0.1, verdict="fix-and-resume",
        likely={"OPTM007": 0.7, "LOSS006": 0.3, "GRAD003": 0.3, "LOSS005": 0.2, "LOSS001": 0.2},
        cure="Lower β₂ from 0.999 to 0.95–0.99[[ (start with {where})]], and clip gradients at the 95 % quantile of "
        "their norms.",
        refutes=("DATA001:nonfinite", "WIRE004", "LOSS006:reset"),
        witness=("OPTM007", "LOSS006"),
        settle="fix", cost_steps=400,
        adaptive=True, change={"beta2": 0.95, "clip": "p95"},
    ),
    Cause(
        "batch-size-changed", "the batch size changed but the learning rate did not", prior=0.3, verdict="fix-and-resume",
        likely={"OPTM011": 0.9, "LOSS006": 0.2, "LOSS005": 0.2, "LOSS003": 0.2, "OPTM002": 0.15, "OPTM001": 0.15},
        cure="Scale the learning rate with the batch: by k for SGD, by √k for Adam[[ (here: times {needed})]]. Warm up again.",
        witness=("OPTM011",),
        settle="noise-scale", cost_steps=50,
        change={"lr": "scaled"},
    ),
    Cause(
        "clipping-misset", "gradient clipping is set wrongly", prior=0.8, verdict="fix-and-resume",
        likely={
            "OPTM006": 0.9, "OPTM001": 0.35, "LOSS004": 0.3, "LOSS002": 0.2, "LOSS009": 0.2, "NUMR009:clip": 0.15,
            "EVAL004": 0.1,
        },
        cure=(
            "Clip by norm at[[ {p95},]] the 95 % quantile of the unclipped norms, before the step (with a GradScaler: after "
            "`unscale_`)."
        ),
        refutes=("GRAD004", "WIRE016", "OPTM002"),
        witness=("OPTM006",),
        settle="clip", cost_steps=100,
        change={"clip": "p95"},
    ),
    # Told from a rate that is too high by norms that explode before any step was large.
    Cause(
        "exploding-gradients", "gradients explode on their way through the network", prior=1.2, verdict="restart",
        likely={
            "GRAD002": 0.85, "GRAD003": 0.5, "LOSS001": 0.5, "NUMR003": 0.4, "NUMR002": 0.3, "NUMR001:norms": 0.4,
            "NUMR001:grown": 0.3, "NUMR001:moved": 0.3, "ACTV004:explodes": 0.3, "WGHT005": 0.3, "OPTM002": 0.3, "LOSS006": 0.3,
            "NUMR001": 0.25, "ACTV004": 0.2, "LOSS010": 0.2, "WGHT001": 0.2, "LOSS005": 0.2, "LOSS002": 0.1,
            "LOSS013:worse": 0.2,
        },
        cure=(
            "Divide the learning rate by 10 and clip gradients[[ at {clip}, the 95 % quantile of the norms before it "
            "began]][[; use orthogonal or identity initialisation and shorter sequences for {recurrent}]]."
        ),
        refutes=(
            "WIRE004", "WIRE011", "DATA001:nonfinite", "DATA001:harmful", "OPTM002:raised", "WIRE007:sum", "DATA002",
            "LOSS007:repeating",
        ),
        witness=("GRAD002", "ACTV004:explodes"),
        settle="clip", cost_steps=100,
        not_yet=("Do not only lower the learning rate: without clipping, gradients can explode again.",),
        poisons=True, change={"clip": "p95"},
    ),
    Cause(
        "gradient-noise", "gradients are mostly sampling noise at this batch size", prior=0.5, verdict="fix-and-resume",
        likely={"GRAD005": 0.9, "LOSS003": 0.4, "LOSS005": 0.2, "EVAL002": 0.2},
        cure="Use four to eight times the batch size (or accumulate), lower the learning rate, or average the weights.",
        refutes=("DATA004", "OPTM001", "LOSS001"),
        witness=("GRAD005",),
        settle="noise-scale", cost_steps=50,
        change={"batch": 4},
    ),
    Cause(
        "loss-terms-unbalanced", "one loss term dominates the gradient", prior=0.5, verdict="restart",
        likely={
            "GRAD006": 0.9, "LOSS010": 0.3, "LOSS009": 0.2, "LOSS003": 0.2, "EVAL004": 0.4, "EVAL007": 0.2, "DATA011:harm": 0.2,
            "WIRE007:sum": 0.1,
        },
        cure=(
            "Weight the terms until their gradients on the shared layers are comparable[[ ({where} gets too little)]], or "
            "standardise the targets of the large one."
        ),
        witness=("GRAD006",),
        not_yet=("Leave auxiliary terms small if they are meant to be small.",),
    ),
    # Told from a capacity floor by an anneal fork in which training and validation both drop.
    Cause(
        "lr-noise-floor", "the loss is at the noise floor of this learning rate", prior=1.5, verdict="wait",
        likely={
            "OPTM005": 0.9, "LOSS003": 0.6, "OPTM013:": 0.4, "GRAD005": 0.4, "LOSS005": 0.25, "GRAD007": 0.2, "EVAL002": 0.2,
        },
        cure=(
            "Let the planned decay run, or start a cosine or linear decay to zero now. An average of the weights (EMA) brings"
            " the gain sooner."
        ),
        refutes=("OPTM003", "LOSS008", "LOSS002", "OPTM001", "LOSS001", "EVAL001"),
        settle="anneal", cost_steps=200,
        not_yet=(
            "Do not stop before the decay: it lowers the loss.",
            "Do not enlarge the model before the learning rate has decayed.",
        ),
        change={"schedule": "anneal"},
    ),
    # Told from a missing zero_grad, undivided accumulation and bad data by their exact facts, from a singular operation by a
    # loss that climbs before it breaks.
    Cause(
        "lr-too-high", "the learning rate is too high", prior=3.0, verdict="restart",
        likely={
            "OPTM002": 0.8, "OPTM002:raised": 0.2, "LOSS001:risen": 0.4, "LOSS001:worse": 0.4, "LOSS001:nonfinite": 0.3,
            "GRAD002": 0.4, "LOSS005": 0.4, "ACTV005": 0.35, "ACTV001": 0.3, "LOSS006": 0.3, "GRAD003": 0.3, "OPTM007": 0.7,
            "OPTM012": 0.3, "LOSS002": 0.25, "LOSS011:": 0.25, "NUMR001:norms": 0.25, "NUMR001:grown": 0.25,
            "NUMR001:moved": 0.25, "NUMR002:moved": 0.1, "NUMR003": 0.25, "GRAD007": 0.25, "NUMR001": 0.2, "OPTM013": 0.4,
            "OPTM013:raised": 0.2, "EVAL004": 0.2, "NUMR002": 0.15, "OPTM004": 0.15, "LOSS009": 0.15, "EVAL002": 0.15,
            "GRAD001": 0.15, "EVAL007": 0.1, "WGHT001": 0.12, "LOSS003": 0.1, "LOSS013:": 0.3, "LOSS013:burst": 0.6,
            "LOSS013:worse": 0.6,
        },
        cure=(
            "Lower the learning rate[[ {lower}]], and warm it up over the first 1–5 % of the steps[[; clip gradients at "
            "{clip}]]."
        ),
        refutes=(
            "OPTM002:survived", "GRAD001:start", "WIRE004", "WIRE011", "WIRE006", "WIRE008", "WGHT004", "OPTM003:zero",
            "DATA005:sorted", "DATA001:owning", "DATA001:harmful", "LOSS007:repeating", "NUMR001:origin", "NUMR001:batch",
            "NUMR001:empty",
        ),
        witness=(
            "LOSS013:worse", "LOSS013:burst", "OPTM002", "LOSS001:risen", "LOSS001:worse", "LOSS005", "LOSS006", "GRAD002",
            "GRAD003", "GRAD007", "OPTM007", "OPTM012", "OPTM013", "NUMR001:grown",
        ),
        settle="lr-tenth", cost_steps=200,
        not_yet=(
            "Regularisation or another architecture does not cure a divergence.",
            "Do not only clip: clipping hides a learning rate that is too high.",
        ),
        poisons=True, change={"lr": 0.1, "warmup": 0.03},
    ),
    # Told from a collapsed schedule by a rate that never was higher, from frozen or missing gradients by their exact facts.
    Cause(
        "lr-too-low", "the learning rate is too low", prior=2.0, verdict="restart",
        likely={
            "WIRE010:warmup": 0.8, "OPTM001": 0.85, "LOSS002": 0.4, "LOSS004": 0.3, "LOSS004:crawls": 0.7, "LOSS009": 0.3,
            "EVAL004:chance": 0.3, "EVAL004:common": 0.15, "ACTV005:class": 0.3, "LOSS009:chance": 0.2, "OPTM009:idle": 0.2,
            "LOSS011": 0.15, "LOSS003": 0.1, "EVAL007": 0.05, "LOSS013:": 0.4,
        },
        cure=(
            "Use ten times the learning rate[[ ({lr_tenfold} instead of {lr})]], or the one that "
            "`traindx trial lr-range train.py` finds."
        ),
        refutes=(
            "OPTM002", "OPTM003", "GRAD004", "NUMR005", "NUMR007", "NUMR009", "OPTM008", "OPTM010:idle", "WIRE001", "WIRE003",
            "WIRE016", "WIRE006", "WIRE010", "WIRE002:nothing", "GRAD001", "ACTV005:lost", "OPTM006:always",
        ),
        settle="lr-range", cost_steps=120,
        not_yet=("Do not enlarge the model before its weights move.",),
        change={"lr": 10.0},
    ),
    Cause(
        "optimizer-group-fault", "a parameter group of the optimizer is set up wrongly", prior=0.4, verdict="fix-and-resume",
        likely={
            "OPTM010": 0.8, "OPTM010:idle": 0.5, "OPTM010:zero": 0.4, "OPTM010:twice": 0.4, "OPTM010:empty": 0.3,
            "OPTM001": 0.3, "LOSS009": 0.15, "OPTM003": 0.1,
        },
        cure=(
            "Give every parameter to exactly one group with its own learning rate[[ (look at {where})]], and let the "
            "scheduler cover all groups."
        ),
        refutes=("REPR003", "OPTM010:stateless"),
        witness=("OPTM010:idle", "OPTM010:zero", "OPTM010:twice", "OPTM010:empty"),
    ),
    Cause(
        "optimizer-state-lost", "the optimizer lost its state", prior=0.7, verdict="fix-and-resume",
        likely={
            "OPTM010:stateless": 0.6, "OPTM010:rebuilt": 0.5, "OPTM010:anew": 0.5, "REPR003": 0.6, "REPR005": 0.5,
            "LOSS006": 0.4, "LOSS006:reset": 0.3, "OPTM010:reset": 0.3, "GRAD003": 0.15,
        },
        cure=(
            "Create the optimizer once, before the loop. After a resume load its state with the weights. If it is gone, warm "
            "up again over 200–1,000 steps."
        ),
        witness=("OPTM010:stateless", "OPTM010:rebuilt", "OPTM010:anew", "OPTM010:reset", "REPR003", "REPR005"),
        settle="resume", cost_steps=10,
    ),
    # Told from a noise floor by updates that no longer move anything.
    Cause(
        "schedule-collapsed", "the schedule cut the learning rate to almost nothing", prior=1.5, verdict="fix-and-resume",
        likely={"OPTM003": 0.95, "LOSS003": 0.5, "OPTM001": 0.4, "LOSS009": 0.15, "LOSS002": 0.1, "LOSS004": 0.1},
        cure=(
            "Set the length of the schedule to the real number of updates[[ ({wanted})]], and resume with the learning rate "
            "back at 0.3 to 1 times its peak."
        ),
        refutes=("WIRE010", "OPTM002"),
        witness=("OPTM003",),
        settle="fix", cost_steps=200,
        not_yet=("Raising the learning rate a little does not help: after a decay by 1,000 a factor of 5 does nothing.",),
        change={"lr": "peak", "schedule": "relaid"},
    ),
    Cause(
        "vanishing-gradients", "gradients vanish before they reach the first layers", prior=0.8, verdict="restart",
        # OPTM002: only the last layers move, and those a lot
        likely={
            "GRAD001": 0.9, "LOSS002": 0.5, "GRAD001:hidden": 0.4, "LOSS009": 0.3, "ACTV005:lost": 0.4, "OPTM001": 0.3,
            "ACTV004:fades": 0.3, "LOSS011": 0.3, "ACTV003": 0.25, "EVAL004": 0.25, "WGHT005:small": 0.2, "LOSS003": 0.15,
            "OPTM002": 0.15, "LOSS013:": 0.2,
        },
        cure=(
            "Use ReLU or GELU, residual connections and normalisation, and He or Xavier initialisation. For recurrent nets "
            "use a gate bias of +1 and orthogonal matrices."
        ),
        refutes=("WIRE003", "ACTV001", "WGHT004", "GRAD004:all", "WIRE006", "WIRE009:time"),
        witness=("GRAD001", "ACTV005:lost"),
        settle="overfit", cost_steps=300,
        not_yet=("Do not raise the learning rate: the last layers would blow up.",),
        change={"init": "kaiming"},
    ),
    # Told from a rate that is too high for good by what a fork from a later checkpoint does.
    Cause(
        "warmup-missing", "training starts at full learning rate without a warm-up", prior=0.8, verdict="restart",
        likely={
            "OPTM004": 0.8, "OPTM002": 0.4, "LOSS006": 0.4, "GRAD003": 0.3, "LOSS001": 0.25, "ACTV005": 0.25, "LOSS002": 0.25,
            "LOSS011": 0.2, "ACTV006": 0.15, "OPTM007": 0.15,
        },
        cure=(
            "Warm the learning rate up linearly over[[ {steps} steps,]] at least 2/(1−β₂) or 1 % of the steps."
        ),
        refutes=("WIRE004", "WIRE011", "DATA001:nonfinite"),
        witness=("OPTM004",),
        settle="fix", cost_steps=400,
        poisons=True, change={"warmup": 0.05},
    ),
    Cause(
        "weight-decay-misapplied", "weight decay is too strong or applied in the wrong place", prior=0.6, verdict="restart",
        likely={
            "OPTM009": 0.9, "WGHT002": 0.7, "ACTV005": 0.35, "LOSS009": 0.35, "LOSS002": 0.2, "LOSS011": 0.2, "LOSS003": 0.2,
            "GRAD002": 0.2, "LOSS001": 0.2, "WGHT003": 0.2, "GRAD001": 0.15, "EVAL004": 0.15, "NUMR001": 0.1, "NUMR003": 0.1,
        },
        cure=(
            "Divide the weight decay by 10 (AdamW: 0.01 to 0.1), leave norm gains and biases out, and check that it is not "
            "applied twice."
        ),
        refutes=("WIRE004",),
        witness=("OPTM009",),
        settle="regularisers-off", cost_steps=400,
        poisons=True, change={"weight_decay": 0.1},
    ),
)
