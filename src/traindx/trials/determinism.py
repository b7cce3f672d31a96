"""Determinism: do two runs from the same state give the same bits, and if not, which operation parts first? (CATALOGUE T15)"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from traindx import innards
from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials.task import Batch, Task, Twin


class Ledger(innards.DispatchMode):
    """Every operation with a fingerprint of its results, 16 bytes each."""

    def __init__(self, names: dict[int, str]) -> None:
        super().__init__()
        self.rows: list[tuple[str, float, float, str]] = []
        self.names = names
        self.stack: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for t in out if isinstance(out, list | tuple) else (out,):
            if (
                isinstance(t, Tensor)
                and t.is_floating_point()
                and t.numel()
                and not func._schema.name.startswith("aten::empty")
            ):
                x = t.detach().double().reshape(-1)
                weights = torch.linspace(1, 2, x.numel(), dtype=torch.float64, device=x.device)
                self.rows.append(
                    (func._schema.name, float(x.sum()), float((x * weights).sum()), self.stack[-1] if self.stack else "")
                )
        return out


@trial("determinism", steps=6, most=lambda t: 2 * t.steps)
@dataclass(frozen=True)
class Determinism:
    """Three steps, twice, from the same weights, batches and seeds: the first operation whose result differs is named.

    It sees what happens inside the model, the loss and the optimizer; the order of data is compared batch by batch.
    """

    steps: int = 3

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Two ledgers side by side."""
        batches = list(task.cycle(self.steps))
        ledgers = []
        for i in range(2):
            with task.twin(seed=7) as twin:
                ledgers.append(_steps(twin, batches))
            progress(i + 1, 2, "the same steps again")
        a, b = ledgers
        same_data = _data_repeats(task)
        answer: dict[str, Any] = {"operations": len(a), "data_order_repeats": same_data}
        found = parted(a, b)
        if found is None:
            run = Run.of({}, facts={"trial.determinism": {"equal": True}}, kind="trial")
            said = f"{len(a)} operations over {self.steps} steps equal to the bit"
            return Result("determinism", "pass", answer, said, run, 2 * self.steps)
        first, op, module, kind = found
        answer |= {"first": {"op": op, "module": module, "index": first, "kind": kind}}
        run = Run.of({}, facts={"trial.determinism": {"equal": False, "op": op, "module": module, "kind": kind}}, kind="trial")
        where = f" in {module}" if module else ""
        return Result(
            "determinism",
            "fail",
            answer,
            f"the same seed gives another {kind} at operation {first}: {op.removeprefix('aten::')}{where}",
            run,
            2 * self.steps,
        )


def _steps(twin: Twin, batches: list[Batch]) -> list[tuple[str, float, float, str]]:
    if twin.optimizer is None:
        twin.use(torch.optim.SGD(twin.model.parameters(), lr=1e-3))
    twin.model.train()
    with noted(Ledger({}), [twin.model]) as ledger:
        for batch in batches:
            twin.step(batch)
    return ledger.rows


@contextmanager
def noted(ledger: Ledger, models: list[nn.Module]) -> Iterator[Ledger]:
    """Write down every operation, and the module it happens in."""
    names = {m: n for model in models for n, m in model.named_modules()}

    def enter(module: nn.Module, args: Any) -> None:
        ledger.stack.append(names.get(module, type(module).__name__))

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        if ledger.stack:
            ledger.stack.pop()

    handles = [
        nn.modules.module.register_module_forward_pre_hook(enter),
        nn.modules.module.register_module_forward_hook(leave, always_call=True),
    ]
    try:
        with ledger:
            yield ledger
    finally:
        for handle in handles:
            handle.remove()


def parted(a: list[Any], b: list[Any]) -> tuple[int, str, str, str] | None:
    """Where two ledgers part: the place, the operation, its module, and whether values or the control flow differ."""
    first = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if not _equal(x, y)), None)
    if first is None and len(a) != len(b):
        first = min(len(a), len(b))
    if first is None:
        return None
    row = a[first] if first < len(a) else b[first]
    kind = "control flow" if first < min(len(a), len(b)) and a[first][0] != b[first][0] else "value"
    return first, row[0], row[3], kind


def _equal(x: Any, y: Any) -> bool:
    return x[0] == y[0] and all(p == q or (p != p and q != q) for p, q in zip(x[1:3], y[1:3], strict=True))


def _data_repeats(task: Task) -> bool | None:
    """Whether two passes under the same seed bring the same first batch."""
    from traindx.trials.state import digest, order_kept, random_kept

    if task.captured:
        return None
    seen = []
    for _ in range(2):
        with random_kept(seed=3), order_kept(task.train):
            first = next(iter(task.train), None)
        if first is None:
            return None
        seen.append(digest(first if not hasattr(first, "data") or isinstance(first, Tensor) else dict(first)))
    return seen[0] == seen[1]
