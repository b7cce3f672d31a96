"""How model, loss and training loop are put together."""

from traindx.cause import Cause

# fmt: off
CAUSES = (
    Cause(
        "accumulation-undivided", "accumulated losses are not divided", prior=0.6, verdict="fix-and-resume",
        likely={
            "WIRE011:undivided": 0.97, "WIRE011": 0.9, "OPTM002": 0.3, "LOSS005": 0.3, "LOSS001": 0.25, "GRAD002": 0.2,
            "LOSS006": 0.15, "OPTM011": 0.1, "OPTM006": 0.1, "ACTV001": 0.1, "NUMR003": 0.1,
        },
        cure=(
            "Divide each micro-batch loss by the number of micro-batches before `backward()`, or divide the learning rate by "
            "it."
        ),
        refutes=("WIRE011:double", "WIRE011:discarded", "WIRE004"),
        witness=("WIRE011:undivided",),
        change={"lr": "divided"},
    ),
    Cause(
        "batch-mixing", "samples of a batch influence each other", prior=0.5, verdict="restart",
        likely={
            "WIRE009": 0.97, "EVAL007": 0.3, "LOSS008": 0.2, "LOSS009": 0.2, "EVAL002": 0.2, "EVAL004": 0.2, "LOSS010": 0.3,
            "LOSS002": 0.15, "LOSS011": 0.15, "WIRE007": 0.1,
        },
        cure=(
            "Check `dim=` of every softmax and norm, and every view, reshape and permute: the batch axis must stay the batch "
            "axis."
        ),
        witness=("WIRE009",),
        settle="dependency", cost_steps=2,
    ),
    Cause(
        "causal-leak", "the model sees what it should predict", prior=0.6, verdict="restart",
        likely={"WIRE013": 0.97, "LOSS010:low": 0.15, "EVAL006": 0.1, "LOSS011:zero": 0.1, "LOSS010": 0.1, "DATA007": 0.05},
        cure="Mask the future (`is_causal=True` or `triu(1)`) and shift the labels exactly once.",
        witness=("WIRE013",),
        settle="dependency", cost_steps=2,
    ),
    Cause(
        "detached-graph", "part of the model gets no gradient: the graph is cut", prior=0.9, verdict="restart",
        likely={
            "WIRE003": 0.95, "GRAD004": 0.6, "GRAD004:none": 0.5, "LOSS002": 0.25, "LOSS009": 0.25, "LOSS003": 0.2,
            "WIRE016": 0.2, "WIRE016:unreached": 0.6, "LOSS011": 0.15, "EVAL004": 0.15, "OPTM001": 0.1, "TUNE005": 0.1,
        },
        cure=(
            "Remove what cuts the graph[[ at {where}]]: `detach()`, `.item()`, `.data`, NumPy, argmax or `no_grad` between "
            "the parameters and the loss."
        ),
        witness=("WIRE003", "WIRE016:unreached"),
        settle="one-step", cost_steps=2,
    ),
    Cause(
        "double-activation", "an activation is applied twice, in model and loss", prior=1.0, verdict="restart",
        likely={
            "WIRE006:softmax": 0.97, "WIRE006:sigmoid": 0.97, "WIRE006": 0.97, "WIRE006:nll": 0.02, "WIRE006:kl": 0.02,
            "LOSS011": 0.5, "LOSS011:squashed": 0.5, "LOSS003": 0.35, "LOSS009": 0.3, "EVAL010": 0.25, "LOSS002": 0.2,
            "GRAD001": 0.15, "OPTM001": 0.15, "LOSS004": 0.1, "EVAL004": 0.1, "LOSS010": 0.1, "OPTM005": 0.1, "LOSS008": 0.1,
        },
        cure="Give the loss logits: remove the softmax or sigmoid at the end of the model[[ ({where})]].",
        witness=("WIRE006:softmax", "WIRE006:sigmoid", "LOSS011:squashed"),
        settle="overfit", cost_steps=300,
    ),
    Cause(
        "double-step", "the optimizer steps twice on one gradient", prior=0.5, verdict="fix-and-resume",
        likely={
            "WIRE011:double": 0.97, "WIRE011": 0.9, "LOSS005": 0.2, "OPTM002": 0.15, "LOSS001": 0.1, "WIRE010": 0.1,
            "GRAD007": 0.1, "OPTM001": 0.03,
        },
        cure="Step once per backward: remove the second `optimizer.step()`.",
        refutes=("WIRE011:undivided", "WIRE016"),
        witness=("WIRE011:double",),
    ),
    Cause(
        "frozen-parameters", "parameters that should train are frozen", prior=0.8, verdict="fix-and-resume",
        likely={
            "WIRE002": 0.95, "WIRE016:unreached": 0.3, "WIRE002:part": 0.4, "WIRE002:scratch": 0.4, "GRAD004": 0.3,
            "LOSS009": 0.2, "LOSS002": 0.15, "LOSS003": 0.15, "WIRE002:nothing": 0.1, "OPTM001": 0.1,
        },
        cure="Set `requires_grad=True`[[ on {where}]] and give these parameters to the optimizer.",
        refutes=("WIRE001",),
        witness=("WIRE002",),
    ),
    Cause(
        "gradients-discarded", "most gradients are cleared before an update uses them", prior=0.6, verdict="fix-and-resume",
        likely={
            "WIRE011:discarded": 0.97, "LOSS004": 0.6, "EVAL004": 0.3, "LOSS009": 0.3, "OPTM001": 0.2, "LOSS002": 0.2,
            "LOSS003": 0.1,
        },
        cure=(
            "Move `optimizer.step()` into the loop over batches, after each backward. To accumulate, call `zero_grad` only "
            "after a step."
        ),
        witness=("WIRE011:discarded",),
    ),
    Cause(
        "loss-broadcast", "predictions and targets are broadcast against each other", prior=0.8, verdict="restart",
        likely={
            "WIRE008": 0.97, "LOSS011": 0.5, "LOSS009": 0.35, "LOSS003": 0.35, "ACTV005": 0.35, "LOSS002": 0.25, "EVAL003": 0.1,
            "LOSS008": 0.1,
        },
        cure="Give both the same shape: squeeze the predictions or unsqueeze the targets.",
        witness=("WIRE008",),
    ),
    Cause(
        "loss-head-mismatch", "the output layer does not fit the loss", prior=0.9, verdict="restart",
        likely={
            "WIRE007": 0.8, "WIRE006:nll": 0.95, "WIRE006:kl": 0.95, "LOSS009": 0.35, "LOSS011": 0.3, "LOSS003": 0.3,
            "LOSS002": 0.25, "EVAL004": 0.25, "LOSS010": 0.2, "ACTV003": 0.15, "ACTV005": 0.15, "LOSS010:summed": 0.1,
            "GRAD004": 0.1, "OPTM002": 0.1, "LOSS001": 0.1,
        },
        cure=(
            "Use a pair that belongs together: logits with `cross_entropy` and one output per class on axis 1, or a linear "
            "output for unbounded targets."
        ),
        witness=("WIRE007", "WIRE006:nll", "WIRE006:kl"),
        settle="overfit", cost_steps=300,
    ),
    Cause(
        "mask-wrong", "a mask is inverted, missing or shifted", prior=0.5, verdict="restart",
        likely={
            "WIRE017": 0.95, "LOSS002": 0.4, "LOSS011": 0.4, "EVAL004": 0.35, "LOSS009": 0.3, "DATA004": 0.2, "EVAL007": 0.2,
            "NUMR001": 0.15, "LOSS003": 0.1, "NUMR003": 0.1,
        },
        cure="Check what True means for this layer (in nn.MultiheadAttention: ignored), and that no row is masked entirely.",
        witness=("WIRE017",),
        settle="dependency", cost_steps=2,
    ),
    Cause(
        "parameters-not-in-optimizer", "the optimizer does not hold all parameters", prior=1.0, verdict="restart",
        likely={
            "WIRE001": 0.95, "WIRE016:unreached": 0.4, "LOSS009": 0.25, "LOSS002": 0.25, "WIRE001:stale": 0.2, "LOSS003": 0.2,
            "OPTM001": 0.2, "LOSS011": 0.1, "GRAD004": 0.1, "TUNE005:unowned": 0.1, "EVAL004": 0.1, "OPTM010": 0.05,
        },
        cure="Build the optimizer after the model is complete, or call `add_param_group`[[ for {where}]].",
        refutes=("WIRE014:unregistered",),
        witness=("WIRE001",),
    ),
    Cause(
        "partial-checkpoint", "the checkpoint was loaded only in part", prior=0.6, verdict="restart",
        likely={
            "WIRE015:prefix": 0.95, "WIRE015:missing": 0.95, "WIRE015:head": 0.95, "TUNE008": 0.4, "LOSS010": 0.3,
            "LOSS002": 0.05,
        },
        cure=(
            "Load with `strict=True` and read the message; strip prefixes such as `module.` or `_orig_mod.`[[; missing: "
            "{where}]]."
        ),
        witness=("WIRE015:prefix", "WIRE015:missing", "WIRE015:head"),
        settle="base-eval", cost_steps=1,
    ),
    # The calls are counted, so this is a fact.
    Cause(
        "schedule-misused", "the scheduler is stepped in the wrong unit or order", prior=1.0, verdict="fix-and-resume",
        likely={"WIRE010": 0.95, "OPTM003": 0.7, "LOSS003": 0.4, "OPTM001": 0.35, "LOSS002": 0.1, "LOSS009": 0.1},
        cure=(
            "Call `scheduler.step()` after `optimizer.step()`: once per update if the schedule counts steps, once per epoch "
            "if it counts epochs. Resume with the learning rate back at its peak."
        ),
        refutes=("WIRE010:warmup",),
        witness=("WIRE010",),
        change={"lr": "peak", "schedule": "relaid"},
    ),
    Cause(
        "step-without-gradient", "updates are made without a gradient", prior=0.7, verdict="restart",
        likely={
            "WIRE016": 0.97, "LOSS002": 0.6, "GRAD004": 0.6, "GRAD004:all": 0.4, "OPTM001": 0.4, "LOSS011": 0.4,
            "WIRE011:double": 0.3, "LOSS009": 0.3, "EVAL001": 0.3, "EVAL004": 0.3, "EVAL009": 0.25, "LOSS002:frozen": 0.2,
            "WIRE003": 0.1, "LOSS003": 0.1,
        },
        cure="Call zero_grad, forward, backward, (clip), step, in this order.",
        refutes=("WIRE016:unreached",),
        witness=("WIRE016",),
        settle="one-step", cost_steps=2,
    ),
    Cause(
        "training-in-eval-mode", "training runs in eval mode", prior=0.9, verdict="fix-and-resume",
        likely={
            "WIRE005": 0.95, "ACTV008:eval": 0.3, "LOSS008": 0.25, "ACTV008": 0.2, "EVAL006": 0.15, "EVAL007": 0.05,
            "EVAL004": 0.05,
        },
        cure="Call `model.train()` at the start of every epoch, after the evaluation.",
        witness=("WIRE005",),
        change={"mode": "train"},
    ),
    Cause(
        "unregistered-modules", "modules are not registered, or are never used", prior=0.7, verdict="restart",
        likely={
            "WIRE014": 0.95, "WIRE014:unregistered": 0.8, "WIRE001": 0.5, "WIRE014:never-called": 0.3, "GRAD004": 0.3,
            "LOSS009": 0.25, "LOSS002": 0.15, "LOSS003": 0.15,
        },
        cure="Use nn.ModuleList or nn.ModuleDict[[ for {where}]], and build the optimizer after it.",
        witness=("WIRE014:unregistered", "WIRE014:never-called"),
    ),
    Cause(
        "weight-tying-broken", "tied weights are no longer tied", prior=0.4, verdict="fix-and-resume",
        likely={"WIRE012": 0.97, "LOSS010": 0.1, "LOSS006": 0.1},
        cure="Tie them again after loading, resizing or copying[[ ({where})]].",
        witness=("WIRE012",),
    ),
    Cause(
        "weights-put-back", "the same weights are restored again and again", prior=0.3, verdict="restart",
        likely={
            "WIRE015:again": 0.95, "WIRE015:back": 0.95, "LOSS002": 0.4, "LOSS009": 0.3, "LOSS003": 0.2, "EVAL004": 0.2,
            "EVAL006": 0.1,
        },
        cure="Write the weights once, before the loop over epochs[[ (now at {where})]].",
        witness=("WIRE015:again", "WIRE015:back"),
    ),
    Cause(
        "zero-grad-missing", "gradients are never cleared (zero_grad is missing)", prior=1.0, verdict="restart",
        likely={
            "WIRE004": 0.97, "GRAD002": 0.5, "LOSS001": 0.45, "LOSS005": 0.35, "OPTM002": 0.3, "GRAD003": 0.3, "LOSS006": 0.3,
            "WGHT001": 0.25, "GRAD007": 0.2, "NUMR003": 0.2, "NUMR001": 0.2, "ACTV005": 0.2, "ACTV001": 0.2, "EVAL002": 0.2,
            "LOSS002": 0.15, "LOSS011": 0.15, "OPTM006": 0.15, "LOSS003": 0.15, "LOSS009": 0.15, "LOSS008": 0.15,
            "EVAL004": 0.15,
        },
        cure="Call `optimizer.zero_grad()` before every backward.",
        witness=("WIRE004",),
        poisons=True,
    ),
)
