"""Every patch is made through one registry, which puts everything back."""

from __future__ import annotations

import ast
import builtins
import random
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional, utils
from torch.nn.utils import clip_grad
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data import dataloader as loaders

import traindx
from traindx.forensics.arm import arm
from traindx.integrations import zero_code
from traindx.probes.drive.recorder import Recorder
from traindx.probes.launch.attach import attach, detach

OWNERS = (
    *(torch, Tensor, torch.autograd, torch.linalg, torch.fft, torch.special, torch.cuda, torch.distributions.Distribution),
    *(functional, nn.Module, nn.Sequential, nn.Linear, utils, clip_grad, torch.optim.Optimizer, torch.optim.SGD),
    *(lr_scheduler, lr_scheduler.LRScheduler, DataLoader, loaders._BaseDataLoaderIter, torch.amp.GradScaler, builtins, random),
)
SOURCE = Path(traindx.__file__).parent


def held() -> dict[tuple[str, str], object]:
    return {(owner.__name__, name): thing for owner in OWNERS for name, thing in list(vars(owner).items()) if name != "_"}


def train(steps: int) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    schedule = lr_scheduler.StepLR(optimizer, 50)
    data = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,))), batch_size=8)
    done = 0
    while done < steps:
        for x, y in data:
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            done += 1
        model.eval()
        with torch.no_grad():
            functional.cross_entropy(model(x), y).item()
        model.train()


@pytest.mark.parametrize("steps", [3, 16, 140])  # in the first looks; followed at length; while steps are skipped
def test_everything_that_was_patched_is_put_back(steps: int) -> None:
    train(8)  # what torch puts in place itself, at the first use
    before = held()
    recorder = Recorder()
    arm(recorder)
    observer = attach(recorder)
    disarm = zero_code.arm()
    train(steps)
    during = held()
    disarm()
    detach(observer)
    after = held()
    assert sum(during.get(key) is not thing for key, thing in before.items()) > 10
    assert [key for key, thing in before.items() if after.get(key) is not thing] == []
    assert [key for key in after if key not in before] == []


def patched(tree: ast.AST) -> list[str]:
    """Places where something is put in the place of another module's or class's own."""
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    found = [ast.unparse(n) for n in calls if n.func.id in ("setattr", "delattr")]
    targets = [t for n in ast.walk(tree) if isinstance(n, ast.Assign) for t in n.targets]
    others = [t for t in targets if isinstance(t, ast.Attribute) and ast.unparse(t).partition(".")[0] in imported]
    return found + [
        text for t in others if not (text := ast.unparse(t)).startswith(("PATCHES.", "sys.argv"))
    ]  # the program sees its own words


@pytest.mark.parametrize("part", ["probes", "integrations"])
def test_only_the_registry_puts_something_in_the_place_of_another(part: str) -> None:
    registry = ("patches.py", "stand_in.py")  # the second makes what the first puts in place
    files = [file for file in sorted((SOURCE / part).rglob("*.py")) if file.name not in registry]
    assert {file.name: told for file in files if (told := patched(ast.parse(file.read_text(encoding="utf-8"))))} == {}


def test_a_patch_made_elsewhere_would_be_found() -> None:
    assert patched(ast.parse("import torch\ntorch.relu = None")) == ["torch.relu"]
    assert patched(ast.parse("setattr(owner, 'name', 1)")) == ["setattr(owner, 'name', 1)"]
