"""Which pass is training and which is validation: loss calls wait until a backward claims them or the moment has passed."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from traindx.measures import peek
from traindx.probe import OTHER, TRAIN, VAL, Evaluation, LossCall

GRAPH_NODES = 256  # nodes looked at between a loss and the forward that led to it


@dataclass(slots=True)
class Loader:
    """What is known of one loader: how its batches were used."""

    ref: weakref.ref[Any]
    dataset: int  # id of its data set
    train: int = 0  # batches a backward followed
    val: int = 0  # batches used without one
    epochs: int = 0
    batches: int = 0  # of the iteration under way

    @property
    def phase(self) -> str:
        if self.train:
            return TRAIN
        return VAL if self.val else OTHER


@dataclass(slots=True)
class Pass:
    """One outermost forward, without its tensors."""

    serial: int
    model: int  # id
    phase: str
    grad: bool
    training: bool
    samples: int
    batch: int  # serial of the batch it used; 0 when none came from a loader
    loader: Loader | None
    first: int  # autograd sequence numbers of its nodes
    last: int
    begun: float
    ended: float
    storage: int = 0  # where its first input lives


@dataclass(slots=True)
class Pending:
    """A loss call that no backward has claimed yet."""

    call: LossCall
    node: int  # sequence number of its output's node
    of: Pass | None
    value: Any  # float on CPU, own tensor elsewhere, None when it is not a scalar


@dataclass
class Tally:
    """The losses of one evaluation, as running sums."""

    evaluation: Evaluation
    key: int
    begun: float
    ended: float
    last_pass: int = 0
    values: list[tuple[Any, int]] = field(default_factory=list)  # loss of a batch, samples in it

    def reading(self) -> dict[str, Any]:
        """loss/val and how sure it is, from the batches' losses."""
        e = self.evaluation
        out: dict[str, Any] = {
            "eval/samples": float(e.samples),
            "eval/train_mode": e.train_mode / max(e.forwards, 1),
            "eval/grad_enabled": e.grad_enabled / max(e.forwards, 1),
        }
        if not self.values:
            return out
        weights = [float(n) for _, n in self.values]
        if all(isinstance(v, float) for v, _ in self.values):
            losses = torch.tensor([v for v, _ in self.values], dtype=torch.float64, device="cpu")
        else:
            losses = torch.stack([v.reshape(()) for v, _ in self.values if isinstance(v, Tensor)]).to(torch.float64)
        share = torch.tensor(weights, dtype=torch.float64, device="cpu").to(losses.device)
        share = share / share.sum()
        mean = (losses * share).sum()
        out["loss/val"] = mean
        out["eval/unweighted_loss"] = losses.mean()
        if len(weights) > 1:
            out["eval/loss_se"] = ((share * (losses - mean)) ** 2).sum().sqrt() * (len(weights) / (len(weights) - 1)) ** 0.5
        return out


def node_of(tensor: Any) -> int:
    """The sequence number of a tensor's node, -1 without one: stays valid without holding the graph."""
    grad_fn = tensor.grad_fn if isinstance(tensor, Tensor) else None
    return -1 if grad_fn is None else int(grad_fn._sequence_nr())


def reached(root: Tensor, oldest: int) -> set[int]:
    """Sequence numbers of the nodes below `root`, down to those older than `oldest` (these included)."""
    found: set[int] = set()
    todo = [root.grad_fn]
    while todo and len(found) < GRAPH_NODES:
        node = todo.pop()
        if node is None:
            continue
        number = int(node._sequence_nr())
        if number in found:
            continue
        found.add(number)
        if number > oldest:
            todo.extend(following for following, _ in node.next_functions)
    return found


def scalar(tensor: Any) -> Any:
    """The value of a one-element tensor without waiting for it: a float on CPU, an own detached tensor elsewhere."""
    if not isinstance(tensor, Tensor) or tensor.numel() != 1 or not tensor.is_floating_point():
        return None
    value = peek(tensor)
    return value if value is not None else tensor.detach().clone()


def divisor(root: Tensor) -> float:
    """The constant a loss was divided by last (`loss / 4`), 1.0 when it was not."""
    node = root.grad_fn
    name = type(node).__name__ if node is not None else ""
    if name not in ("DivBackward0", "MulBackward0") or node is None:
        return 1.0
    if sum(following is not None for following, _ in node.next_functions) != 1:
        return 1.0
    other = getattr(node, "_saved_other", None)
    value = peek(other) if isinstance(other, Tensor) else other
    if not isinstance(value, float | int) or not value or value != value:
        return 1.0
    return float(value) if name == "DivBackward0" else 1.0 / float(value)
