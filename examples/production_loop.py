"""A training loop as one would run it for real, with traindx in it: `python examples/production_loop.py --steps 300`.

Seeds that can be undone, batches checked in the first epoch, warm-up and cosine, clipping that skips bad gradients, validation
with modes put back, the best checkpoint kept with everything needed to resume, TensorBoard when it is there, and a diagnosis
at the end.
"""

from __future__ import annotations

import argparse
import importlib.util
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import traindx
from traindx import kit
from traindx.kit import TrainingLogger


def data(samples: int = 2048) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Two moons, drawn by hand: train and validation loaders."""
    torch.manual_seed(1)
    angle = torch.rand(samples) * torch.pi
    label = torch.randint(0, 2, (samples,))
    x = torch.stack([torch.cos(angle), torch.sin(angle)], 1) * (1 - 2 * label)[:, None] + label[:, None] * torch.tensor(
        [1, 0.5]
    )
    x += 0.12 * torch.randn_like(x)
    train, val = random_split(TensorDataset(x, label), [0.8, 0.2])
    return DataLoader(train, 64, shuffle=True), DataLoader(val, 256)


def validate(model: nn.Module, loss_fn: nn.Module, loader: DataLoader[Any]) -> tuple[float, float]:
    """Loss and accuracy, weighted by samples; every module's mode is put back."""
    loss = correct = seen = 0.0
    with kit.evaluating(model):
        for x, y in loader:
            out = model(x)
            loss += float(loss_fn(out, y)) * len(y)
            correct += float((out.argmax(1) == y).sum())
            seen += len(y)
    return loss / seen, correct / seen


def train(steps: int, lr: float, folder: Path) -> traindx.Diagnosis:
    """Train for so many steps, keep the best checkpoint in `folder`, say what ails the run."""
    folder.mkdir(parents=True, exist_ok=True)
    undo = kit.seed_everything(0)
    train_loader, val_loader = data()
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    schedule = kit.warmup_cosine(optimizer, warmup=max(1, steps // 20), total=steps)
    tensorboard = importlib.util.find_spec("tensorboard") is not None
    step, best, skipped = 0, float("inf"), 0
    with (
        traindx.watch(model, optimizer, dir=folder / "record") as dx,
        TrainingLogger(folder / "tensorboard") if tensorboard else nullcontext() as logger,
    ):
        while step < steps:
            model.train()
            for x, y in train_loader:
                if step < len(train_loader):
                    for problem in kit.validate_batch((x, y), classes=2):
                        print(f"step {step}: {problem}")
                loss = loss_fn(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                if kit.clip_and_log(model, 1.0).finite:
                    optimizer.step()
                    schedule.step()  # only with the update it belongs to
                else:
                    skipped += 1
                if logger is not None and step % 50 == 0:
                    logger.scalars({"train/loss": loss}, step)
                    logger.gradients(model, step)
                    logger.rates(optimizer, step)
                step += 1
                if step >= steps:
                    break
            val_loss, accuracy = validate(model, loss_fn, val_loader)
            dx.log(accuracy=accuracy)
            if val_loss < best:
                best = val_loss
                torch.save(
                    {
                        "step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "scheduler": schedule.state_dict(), "rng": torch.get_rng_state(),
                    },
                    folder / "best.pt",
                )  # fmt: skip
            print(f"step {step:5d}  validation loss {val_loss:.4f}  accuracy {accuracy:.1%}")
            if dx.should_stop:
                print("validation has been rising beyond its noise: stopping, the best checkpoint is kept")
                break
    undo()
    print(f"best validation loss {best:.4f}; {skipped} steps skipped\n")
    print(dx.diagnosis)
    return dx.diagnosis


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--out", type=Path, default=Path("production-run"))
    given = parser.parse_args()
    train(given.steps, given.lr, given.out)
