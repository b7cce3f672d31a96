"""Fine-tuning, and kinds of training with their own faults: GANs, agents, experts, self-supervision."""

from traindx.cause import Cause

# fmt: off
CAUSES = (
    Cause(
        "accumulation-token-norm",
        "micro-batches with different token counts are averaged equally",
        prior=0.3, verdict="fix-and-resume",
        likely={"TUNE009": 0.97},
        cure="Sum the token losses of all micro-batches and divide by the valid tokens of the whole update.",
        witness=("TUNE009",),
    ),
    Cause(
        "adapter-inert", "the adapters do nothing", prior=0.4, verdict="restart",
        likely={
            "TUNE005": 0.97, "LOSS002": 0.4, "WIRE001": 0.3, "GRAD004": 0.3, "OPTM001": 0.2, "LOSS003": 0.2, "WIRE003": 0.15,
        },
        cure=(
            "Check `target_modules` and which adapter is active, and build the optimizer after adding adapters. With gradient"
            " checkpointing call `enable_input_require_grads()`."
        ),
        witness=("TUNE005",),
    ),
    Cause(
        "diffusion-target-wrong", "the noise schedule does not match the prediction target", prior=0.2, verdict="restart",
        likely={"SPEC007": 0.97},
        cure="Check whether the target is ε, v or x, the direction of the schedule, and the weights of the time steps.",
        witness=("SPEC007",),
    ),
    Cause(
        "eos-never-learned", "the model never learns to end a text", prior=0.4, verdict="fix-and-resume",
        likely={"TUNE004": 0.97},
        cure="Append the end token to every answer, use a separate padding id, and mask labels by `attention_mask`.",
        witness=("TUNE004",),
    ),
    Cause(
        "finetune-too-hot", "fine-tuning uses too high a learning rate or too many epochs", prior=0.7, verdict="restart",
        likely={
            "TUNE006": 0.85, "LOSS012:stairs": 0.5, "LOSS008": 0.5, "LOSS012": 0.4, "TUNE001": 0.4, "LOSS001": 0.2,
            "LOSS006": 0.2, "OPTM002": 0.2,
        },
        cure=(
            "Use 1e-5 to 5e-5 for full tuning or 1e-4 to 2e-4 for LoRA, a warm-up of 3–10 % and one to three epochs. Keep the"
            " checkpoint with the best validation[[ (step {best_step})]]."
        ),
        witness=("TUNE006", "TUNE001"),
        regimes=("finetune", "model.loaded", "model.adapters"),
        settle="lr-tenth", cost_steps=200,
        poisons=True, change={"lr": 0.1, "warmup": 0.05},
    ),
    Cause(
        "forgetting", "fine-tuning makes the model forget what it could do", prior=0.4, verdict="stop-keep-best",
        # DATA008: the old task is evaluated next to the new one
        likely={
            "TUNE001": 0.97, "TUNE001:classes": 0.97, "TUNE006": 0.4, "EVAL004:chance": 0.3, "EVAL004:common": 0.3,
            "LOSS008": 0.3, "LOSS001:excursion": 0.2, "LOSS006": 0.2, "DATA008": 0.3, "EVAL003": 0.1,
        },
        cure=(
            "Divide the learning rate by 3 to 10, train fewer epochs, use LoRA, mix in 5–20 % old data, or interpolate with "
            "the old weights (α = 0.5–0.8)."
        ),
        witness=("TUNE001", "TUNE001:classes"),
        settle="base-eval", cost_steps=1,
    ),
    Cause(
        "gan-discriminator-wins", "the discriminator is too strong for the generator", prior=0.4, verdict="fix-and-resume",
        likely={"SPEC001": 0.97, "GRAD001": 0.1},
        cure=(
            "Weaken the discriminator: an R1 penalty with γ = 10, spectral norm, labels of 0.9, or a lower learning rate for "
            "it."
        ),
        witness=("SPEC001",),
    ),
    Cause(
        "gan-mode-collapse", "the generator produces only a few kinds of samples", prior=0.4, verdict="restart",
        likely={"SPEC002": 0.97, "ACTV001": 0.3, "ACTV009": 0.2, "SPEC001": 0.2},
        cure="Add minibatch standard deviation, an R1 penalty or a larger batch.",
        witness=("SPEC002",),
        poisons=True,
    ),
    Cause(
        "labels-masked", "batches are left without a valid label", prior=0.6, verdict="fix-and-resume",
        likely={
            "TUNE002": 0.97, "NUMR001:empty": 0.5, "LOSS001:nonfinite": 0.4, "NUMR001": 0.4, "LOSS011:zero": 0.3,
            "LOSS001": 0.3, "LOSS011": 0.2, "WIRE016": 0.2, "GRAD004": 0.2, "LOSS002": 0.2, "NUMR008": 0.15, "NUMR003": 0.05,
        },
        cure=(
            "Check the response template, truncate the prompt and not the answer, and leave out samples without a label. The "
            "weights are fine."
        ),
        witness=("TUNE002", "LOSS011:zero"),
    ),
    Cause(
        "moe-router-collapse", "the router uses only a few experts", prior=0.3, verdict="fix-and-resume",
        likely={"SPEC005": 0.97},
        cure="Add a balance loss of 1e-2 and a router z-loss of 1e-3, and set the capacity to 1.25.",
        witness=("SPEC005",),
    ),
    Cause(
        "padding-in-loss", "padding counts in the loss", prior=0.5, verdict="fix-and-resume",
        likely={"TUNE003": 0.97, "LOSS010:low": 0.15, "EVAL006": 0.1},
        cure="Set labels to -100 where `attention_mask` is 0[[ (or pass ignore_index={pad})]].",
        witness=("TUNE003",),
    ),
    Cause(
        "pretrained-not-loaded", "the pretrained weights were not loaded", prior=0.5, verdict="restart",
        likely={"TUNE008": 0.95, "WIRE015:prefix": 0.5, "WIRE015:missing": 0.5, "WIRE015:head": 0.5, "LOSS010": 0.2},
        cure="Load with `strict=True` and read the message; check the path and the prefixes.",
        witness=("TUNE008",),
        settle="base-eval", cost_steps=1,
    ),
    Cause(
        "rl-entropy-collapse", "the policy has stopped exploring", prior=0.4, verdict="restart",
        likely={"SPEC004": 0.97},
        cure="Use three times the entropy bonus, a third of the learning rate, a clip of 0.1 and a KL target.",
        witness=("SPEC004",),
        poisons=True,
    ),
    Cause(
        "ssl-collapse", "the embeddings have collapsed", prior=0.4, verdict="restart",
        likely={"SPEC006": 0.95, "ACTV009": 0.6, "LOSS011": 0.1},
        cure="Use a stop-gradient with a predictor, a variance term, a temperature of 0.1–0.2, or BatchNorm in the projector.",
        witness=("SPEC006",),
        poisons=True,
    ),
    Cause(
        "tokenizer-mismatch", "the tokenizer or template does not fit the model", prior=0.4, verdict="fix-and-resume",
        likely={"TUNE007": 0.97, "LOSS010": 0.2},
        cure="Use the model's own tokenizer and chat template. Resize the embedding after adding tokens.",
        witness=("TUNE007",),
        settle="base-eval", cost_steps=1,
    ),
    Cause(
        "vae-posterior-collapse", "the latent code is ignored: the posterior has collapsed", prior=0.4, verdict="restart",
        likely={"SPEC003": 0.97},
        cure="Warm the KL term up over 10–50 thousand steps, and use free bits of 0.1–0.5.",
        witness=("SPEC003",),
    ),
)
