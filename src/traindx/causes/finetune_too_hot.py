"""Fine-tuning is too hot or too long."""

from traindx.cause import Cause

finetune_too_hot = Cause(
    name="finetune-too-hot",
    title="fine-tuning uses too high a learning rate or too many epochs",
    likely={
        "TUNE006": 0.85,
        "LOSS012:stairs": 0.5,
        "LOSS008": 0.5,
        "LOSS012": 0.4,
        "TUNE001": 0.4,
        "LOSS001": 0.2,
        "LOSS006": 0.2,
        "OPTM002": 0.2,
    },
    prior=0.7,
    verdict="restart",
    cure=(
        "Use 1e-5 to 5e-5 for full tuning or 1e-4 to 2e-4 for LoRA, a warm-up of 3–10 % and one to three epochs. Keep"
        " the checkpoint with the best validation[[ (step {best_step})]]."
    ),
    witness=(
        "TUNE006",
        "TUNE001",
    ),
    settle="lr-tenth",
    cost_steps=200,
    poisons=True,
    regimes=(
        "finetune",
        "model.loaded",
        "model.adapters",
    ),
    change={"lr": 0.1, "warmup": 0.05},
)
