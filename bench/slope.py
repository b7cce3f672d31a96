"""What `traindx run` costs a whole program: its processor seconds at several lengths, bare and observed, taken in turn.

    python bench/slope.py [--loops mlp-small,cnn,…] [--repeats 7] [--budget 0.01] [-o FILE]

Each loop is this file run as a script (`slope.py LOOP UPDATES`), once under plain Python and once under `traindx run --quiet
--no-live`, both timed by the system. Three lengths tell three costs apart: from the second to the third, where the dense start
is over, a step; from the first to the second the first 1,000 updates; what is left at length zero is starting and judging.
Of each length the least of all repeats counts, and the spread of the repeats is the interval. `null` is bare against bare.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

START = 1000  # updates of the dense start

# -- the loops: each yields once for every update, or every step of the environment


def _layers(width: int, depth: int) -> Any:
    from torch import nn

    sizes = [64, *[width] * depth]
    hidden = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(width, 10))


def _convolutions() -> Any:
    from torch import nn

    sizes = [(3, 16, 1), (16, 32, 2), (32, 32, 2), (32, 64, 2)]
    blocks = [nn.Sequential(nn.Conv2d(a, b, 3, s, 1), nn.BatchNorm2d(b), nn.ReLU()) for a, b, s in sizes]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def _gpt() -> Any:
    import torch
    from torch import nn

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(512, 128), nn.Parameter(torch.zeros(64, 128))
            layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, norm_first=True)
            self.blocks, self.head = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Linear(128, 512)
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(64))

        def forward(self, ids: Any) -> Any:
            seen = self.blocks(self.tokens(ids) + self.places, mask=self.mask, is_causal=True)
            return self.head(seen).flatten(0, 1)

    return Gpt()


def ordinary(model: Any, x: Any, y: Any, batch: int) -> Iterator[Any]:
    """A loader, clipping and a schedule."""
    import torch
    from torch.nn import functional as F
    from torch.utils.data import DataLoader, TensorDataset

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10**6)
    loader = DataLoader(TensorDataset(x, y), batch_size=batch, shuffle=True)
    while True:
        for inputs, targets in loader:
            loss = F.cross_entropy(model(inputs), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            yield loss


def _classes(make: Callable[[], Any], *shape: int, batch: int, samples: int = 2048) -> Iterator[Any]:
    import torch

    return ordinary(make(), torch.randn(samples, *shape), torch.randint(0, 10, (samples,)), batch)


def gpt() -> Iterator[Any]:
    import torch

    return ordinary(_gpt(), torch.randint(0, 512, (256, 64)), torch.randint(0, 512, (256, 64)), 8)


def ode() -> Iterator[Any]:
    """One network, called twenty times for each update."""
    import torch
    from torch import nn

    change, x = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 16)), torch.randn(256, 16)
    optimizer = torch.optim.Adam(change.parameters(), lr=1e-3)
    while True:
        chosen = torch.randint(0, 256, (64,))
        state = x[chosen]
        for _ in range(20):
            state = state + 0.05 * change(state)
        loss = nn.functional.mse_loss(state, x[chosen].tanh())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss


def gan() -> Iterator[Any]:
    """Two optimizers that take turns."""
    import torch
    from torch import nn

    maker = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 64))
    judge = nn.Sequential(nn.Linear(64, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
    makes, judges = (torch.optim.Adam(part.parameters(), lr=2e-4) for part in (maker, judge))
    real, ask = torch.randn(2048, 64) + 1, nn.BCEWithLogitsLoss()
    while True:
        fake = maker(torch.randn(64, 32))
        told = judge(real[torch.randint(0, 2048, (64,))])
        loss = ask(told, torch.ones(64, 1)) + ask(judge(fake.detach()), torch.zeros(64, 1))
        judges.zero_grad()
        loss.backward()
        judges.step()
        fooled = ask(judge(fake), torch.ones(64, 1))
        makes.zero_grad()
        fooled.backward()
        makes.step()
        yield loss


def scaled() -> Iterator[Any]:
    """Half precision with a gradient scaler."""
    import torch

    model, scaler = _layers(256, 2), torch.amp.GradScaler("cpu")
    optimizer, x, y = torch.optim.AdamW(model.parameters(), lr=1e-3), torch.randn(2048, 64), torch.randint(0, 10, (2048,))
    while True:
        chosen = torch.randint(0, 2048, (128,))
        with torch.autocast("cpu", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x[chosen]), y[chosen])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        yield loss


def _points() -> Iterator[Any]:
    """A point that drifts and is pushed: send an action, get (state, reward, done)."""
    import torch

    state, action, age = torch.randn(4), 0, 0
    push = torch.tensor([1.0, -1.0, 0.5, 0.2])
    while True:
        action = yield state, 1.0 - float(state.abs().mean()), age >= 100
        age = 0 if age >= 100 else age + 1
        state = torch.randn(4) if not age else 0.95 * state + 0.3 * (action - 0.5) * push + 0.05 * torch.randn(4)


def _policy(outputs: int) -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))


def dqn() -> Iterator[Any]:
    """One update for each step of the environment; a target network that nobody trains."""
    import random

    import torch

    values, target, memory = _policy(2), _policy(2), deque(maxlen=5000)
    optimizer, world, loss = torch.optim.Adam(values.parameters(), lr=1e-3), _points(), torch.zeros(())
    state, _, _ = next(world)
    for step in range(10**9):
        with torch.no_grad():
            action = int(values(state[None]).argmax()) if random.random() > 0.1 else random.randrange(2)
        after, reward, done = world.send(action)
        memory.append((state, action, reward, after, float(done)))
        state = after
        if len(memory) >= 64:
            states, actions, rewards, afters, dones = zip(*random.sample(memory, 64), strict=True)
            with torch.no_grad():
                best = target(torch.stack(afters)).max(1).values
            wanted = torch.tensor(rewards) + 0.99 * (1 - torch.tensor(dones)) * best
            had = values(torch.stack(states)).gather(1, torch.tensor(actions)[:, None])[:, 0]
            loss = torch.nn.functional.smooth_l1_loss(had, wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 200 == 0:
            target.load_state_dict(values.state_dict())
        yield loss


def ppo() -> Iterator[Any]:
    """256 steps of the environment, then four passes over them: actor and critic with one optimizer."""
    import torch
    from torch.distributions import Categorical

    actor, critic, world = _policy(2), _policy(1), _points()
    both = [*actor.parameters(), *critic.parameters()]
    optimizer, loss = torch.optim.Adam(both, lr=3e-4), torch.zeros(())
    state, _, _ = next(world)
    while True:
        states, actions, before, rewards = [], [], [], []
        for _ in range(256):
            with torch.no_grad():
                chances = Categorical(logits=actor(state[None]))
                action = chances.sample()
                critic(state[None])
            states.append(state)
            actions.append(action)
            before.append(chances.log_prob(action))
            state, reward, _ = world.send(int(action))
            rewards.append(reward)
            yield loss
        returns, ahead = [], 0.0
        for reward in reversed(rewards):
            ahead = reward + 0.97 * ahead
            returns.insert(0, ahead)
        seen, chosen, was, paid = torch.stack(states), torch.cat(actions), torch.cat(before), torch.tensor(returns)
        for part in (p for _ in range(4) for p in torch.randperm(256).split(64)):
            chances, worth = Categorical(logits=actor(seen[part])), critic(seen[part])[:, 0]
            ratio, better = (chances.log_prob(chosen[part]) - was[part]).exp(), paid[part] - worth.detach()
            gain = torch.min(ratio * better, ratio.clamp(0.8, 1.2) * better).mean()
            loss = (worth - paid[part]).pow(2).mean() - gain - 0.01 * chances.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(both, 0.5)
            optimizer.step()


# name → the loop, and how far the longest run goes beyond the dense start
LOOPS: dict[str, tuple[Callable[[], Iterator[Any]], int]] = {
    "mlp-small": (lambda: _classes(lambda: _layers(32, 1), 64, batch=32), 10_000),
    "mlp": (lambda: _classes(lambda: _layers(512, 3), 64, batch=128), 2000),
    "cnn": (lambda: _classes(_convolutions, 3, 32, 32, batch=32, samples=512), 1200),
    "gpt": (gpt, 400),
    "tensors-240": (lambda: _classes(lambda: _layers(32, 120), 64, batch=64), 1200),
    "ode": (ode, 2000),
    "dqn": (dqn, 4000),
    "ppo": (ppo, 20_000),
    "gan": (gan, 3000),
    "scaler": (scaled, 3000),
}


def run(name: str, updates: int) -> None:
    import random

    import torch

    torch.manual_seed(0)
    random.seed(0)
    loop = LOOPS[name][0]()
    for _ in range(updates):
        loss = next(loop)
    print(f"loss {float(loss.detach()):.6g}")


# -- the measurement


def seconds(command: list[str]) -> float:
    """Processor seconds of a process and of what it started."""
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        env = {**os.environ, "OMP_NUM_THREADS": "1", "TRAINDX_DIR": folder}
        subprocess.run(command, check=True, capture_output=True, env=env, cwd=folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(name: str, repeats: int, budget: str) -> dict[str, float]:
    """Ratios of one loop with the quartiles of its repeats, and the fixed cost in seconds."""
    script, lengths = str(Path(__file__).resolve()), (20, START, START + LOOPS[name][1])
    observed = [sys.executable, "-m", "traindx", "run", "--quiet", "--no-live", "--budget", budget]
    who = {"bare": [sys.executable], "again": [sys.executable], "observed": observed}
    took: dict[tuple[str, int], list[float]] = {}
    for _ in range(repeats):
        for length in lengths:
            for label, command in who.items():
                took.setdefault((label, length), []).append(seconds([*command, script, name, str(length)]))
    least = {key: min(values) for key, values in took.items()}

    def slope(label: str, a: int, b: int) -> float:
        return (least[label, b] - least[label, a]) / (b - a)

    first, start, end = lengths
    each = [
        (took["observed", end][i] - took["observed", start][i]) / (took["bare", end][i] - took["bare", start][i])
        for i in range(repeats)
    ]
    low, _, high = statistics.quantiles(each, n=4) if repeats > 1 else each * 3
    fixed = {label: least[label, start] - start * slope(label, start, end) for label in ("bare", "observed")}
    return {
        "bare_ms": 1e3 * slope("bare", start, end),
        "step": slope("observed", start, end) / slope("bare", start, end),
        "low": low, "high": high,
        "null": slope("again", start, end) / slope("bare", start, end),
        "first": slope("observed", first, start) / slope("bare", first, start),
        "fixed_s": fixed["observed"] - fixed["bare"],
        "starts_s": least["observed", first] - least["bare", first],
    }  # fmt: skip


def page(found: dict[str, Any]) -> str:
    """The table of the documentation."""
    about = found["about"]
    lines = [
        f"Processor seconds of whole processes, observed against bare, least of {about['repeats']} repeats taken in turn "
        f"(quartiles of the repeats in brackets); torch {about['torch']}, one thread, load average {about['load']:.1f} "
        f"on {about['cores']} cores, budget {about['budget']}.", "",
        "| loop | step, bare | a step after update 1,000 | bare against bare | the first 1,000 updates | start and end |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, one in found["loops"].items():
        lines.append(
            f"| {name} | {one['bare_ms']:.2f} ms | {one['step']:.3f} ({one['low']:.3f} to {one['high']:.3f}) | {one['null']:.3f} "
            f"| {one['first']:.2f} | {one['starts_s']:+.2f} s |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] in LOOPS:
        run(sys.argv[1], int(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", default=",".join(LOOPS))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--budget", default="0.01")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent / "results" / "slope.json")
    args = parser.parse_args()
    import torch

    about = {"torch": torch.__version__, "python": platform.python_version(), "repeats": args.repeats, "budget": args.budget}
    found: dict[str, Any] = {"about": about | {"load": os.getloadavg()[0], "cores": os.cpu_count()}, "loops": {}}
    for name in args.loops.split(","):
        found["loops"][name] = measure(name, args.repeats, args.budget)
        print(name, {key: round(value, 3) for key, value in found["loops"][name].items()}, flush=True)
        args.output.write_text(json.dumps(found, indent=1) + "\n")
        args.output.with_suffix(".md").write_text(page(found))


if __name__ == "__main__":
    main()
