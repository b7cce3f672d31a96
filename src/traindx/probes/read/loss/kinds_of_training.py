"""What only some kinds of training have: two players, a policy, a latent code, two views. All on full steps.

No name of the script's own is read. A discriminator is a model that is fed by another model with an optimizer of its own, each
stepping after a backward of its own; a policy is a distribution whose samples are drawn and scored, or whatever acts in an
environment; a latent code is what a
divergence from the standard normal is computed of, by torch's function or in the usual closed form; two views are two batches
of one shape that go through one network to embeddings, with no target in any loss.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from traindx.measures import norms, readable
from traindx.probe import Forward, Later, LossCall, Probe, Reading, Scene
from traindx.probes.read.common import losses
from traindx.probes.read.common.graph import Fn, inputs, op, shape
from traindx.probes.read.common.losses import BINARY, plain

WORLDS = {"gymnasium", "gym", "pettingzoo", "dm_env", "torchrl"}  # without one of them nobody looks for an environment
ACTIVE = 0.01  # nats of KL from which on a latent dimension carries something (CATALOGUE SPEC003)
_ROWS, _FEW = 64, 4  # samples of a batch that are compared with one another, and the fewest that say anything
_LOOKS = 20  # updates during which a divergence by hand is looked for
_WIDE = 8  # dimensions an embedding has at least
_NODES = 400  # of the loss graph that are looked at for it


class Players(Probe):
    """Of the judge `gan/d_real`, `gan/d_fake`, `gan/d_accuracy` and `gan/fake_diversity`, of the maker `gan/g_grad_norm`.

    Where the loss is none of torch's (softplus, hinge, a logarithm by hand), the accuracy is how often the judge puts a real
    sample above a fake one: it needs no threshold.
    """

    cadence = "full"

    def __init__(self) -> None:
        self._made: dict[int, tuple[weakref.ref[Tensor], int]] = {}  # where an output lies → it, and its model
        self._feeds: set[tuple[int, int]] = set()  # (maker, judge) by id of the model
        self._verdicts: list[Tensor] = []  # of the loss calls since the last update: n, sum, right for ones and for zeros
        self._backwards = 0  # since the last update
        self._met: dict[bool, tuple[Tensor, Tensor | None]] = {}  # fake or real: how far apart a batch lies, and what was said

    def changed(self, scene: Scene) -> None:
        self._feeds.clear()
        self._met.clear()

    def on_forward(self, scene: Scene, forward: Forward) -> None:
        if len(scene.optimizers) < 2:
            return
        given = next((a for a in forward.args if isinstance(a, Tensor)), None)
        made = self._made.get(given.data_ptr()) if given is not None else None
        if given is not None and made is not None and made[1] != id(forward.model):
            before = made[0]()
            if before is not None and before.shape == given.shape:
                self._feeds.add((made[1], id(forward.model)))
        if given is not None and forward.grad and any(judge == id(forward.model) for _, judge in self._feeds):
            fake = made is not None and made[0]() is not None
            if fake or given.grad_fn is None:  # else made before we looked: a look may begin between two updates of a round
                self._meets(given, forward.output, fake=fake)
        if isinstance(forward.output, Tensor):
            if len(self._made) >= 16:  # those of this round are alive and the newest: without them a fake looks real
                self._made = dict([(at, m) for at, m in self._made.items() if m[0]() is not None][-15:])
            self._made[forward.output.data_ptr()] = (weakref.ref(forward.output), id(forward.model))

    def on_loss(self, scene: Scene, call: LossCall) -> None:
        if len(scene.optimizers) < 2 or not call.grad or len(self._verdicts) > 16:
            return
        said = losses.read(call)
        if said is None or said.target is None or said.input.shape != said.target.shape:
            return
        if said.kind in BINARY or said.kind == "mse":
            self._verdicts.append(_verdict(said.input.detach().float(), said.target.float(), said.kind))

    def _meets(self, given: Tensor, said: Any, *, fake: bool) -> None:
        """The judge looked at a batch: of several the first (what follows may be a penalty on points between)."""
        if fake in self._met or not readable(given) or not given.is_floating_point() or len(given) < _FEW:
            return
        rows = given.detach()[:_ROWS].flatten(1).float()
        answers = said.detach()[:_ROWS].flatten(1).float().mean(1) if isinstance(said, Tensor) and said.dim() else None
        self._met[fake] = (torch.pdist(rows).mean(), answers)

    def _seen_apart(self) -> dict[str, Tensor]:
        """How alike the fakes are, and how well they are told from real ones, since the judge's last update."""
        if len(self._met) < 2:
            return {}
        (apart, real), (near, fake) = self._met[False], self._met[True]
        self._met.clear()
        out = {"gan/fake_diversity": near / apart.clamp_min(1e-12)}
        if real is not None and fake is not None:
            above, equal = real[:, None] > fake[None], real[:, None] == fake[None]
            out["gan/d_accuracy"] = above.float().mean() + equal.float().mean() / 2
        return out

    def on_backward(self, scene: Scene, loss: Tensor) -> None:
        self._backwards += 1

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        verdicts, self._verdicts = self._verdicts, []
        backwards, self._backwards = self._backwards, 0
        if not self._feeds or not backwards or optimizer is None:
            return None
        held = {id(p) for g in optimizer.param_groups for p in g["params"]}
        own = {id(m) for m in scene.models if any(id(p) in held for p in m.parameters())}
        if any(maker in own for maker, judge in self._feeds if judge not in own):
            grads = [p.grad for p in scene.owned(optimizer)[0] if p.grad is not None and readable(p.grad)]
            return {"gan/g_grad_norm": torch.linalg.vector_norm(norms(grads))} if grads else None
        if any(judge in own for maker, judge in self._feeds if maker not in own):
            seen: dict[str, Any] = dict(self._seen_apart())
            if verdicts:
                seen.pop("gan/d_accuracy", None)
                seen["judged"] = Later((torch.stack(verdicts).sum(0),), _judged)
            return seen
        return None


def _verdict(x: Tensor, y: Tensor, kind: str) -> Tensor:
    """(n, sum of outputs, right) of the ones, and the same of the zeros."""
    p = torch.sigmoid(x) if kind == "bce_logits" else x
    one = y > 0.5
    right = (p > 0.5) == one
    return torch.stack(
        [part.sum().double() for side in (one, ~one) for part in (side.float(), p * side, (right & side).float())]
    )


def _judged(row: list[float]) -> Mapping[str, Any]:
    n, total, right, m, fakes, caught = row
    if not n or not m:  # the maker's own update, or one side only
        return {}
    return {"gan/d_real": total / n, "gan/d_fake": fakes / m, "gan/d_accuracy": (right / n + caught / m) / 2}


class Policy(Probe):
    """`rl/entropy`: of the distribution whose log-probability of drawn actions is trained."""

    cadence = "full"

    def __init__(self) -> None:
        self._entropy: Tensor | None = None

    def on_policy(self, scene: Scene, distribution: Any) -> None:
        entropy = copy(distribution).entropy()  # of a copy: what the script's own keeps decides how its gradients add up
        if isinstance(entropy, Tensor) and entropy.numel():
            self._entropy = entropy.detach().float().mean()
            scene.fact("rl", True)  # what it draws decides what it meets next: the loss is no measure of progress

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        entropy, self._entropy = self._entropy, None
        return {"rl/entropy": entropy} if entropy is not None else None

    def facts(self, scene: Scene) -> Mapping[str, Any]:
        """An environment is alive, and no loader serves the data: what the model does decides what it meets."""
        known = "rl" in scene.facts or scene.facts.get("data.loader") or (scene.first and not scene.ended)
        if known or not WORLDS.intersection(sys.modules):
            return {}
        return {"rl": True} if any(map(_world, {type(thing) for thing in gc.get_objects()})) else {}


def _world(kind: type) -> bool:
    """Whether it is reset, stepped, and says what may be done in it."""
    own = {name for part in kind.__mro__ for name in vars(part)}
    if not {"reset", "step"} <= own:
        return False
    stated = {name for part in kind.__mro__ if isinstance(said := vars(part).get("__annotations__"), dict) for name in said}
    return bool((own | stated) & {"action_space", "action_spec"})


class Latents(Probe):
    """`vae/kl_active`: share of the latent dimensions whose divergence from the prior is above 0.01 nats."""

    cadence = "full"

    def __init__(self) -> None:
        self._share: Tensor | None = None
        self._told = False  # the script uses torch's own function
        self._found = False  # it writes the closed form by hand
        self._since = 0  # the update from which on it is looked for

    def changed(self, scene: Scene) -> None:
        self._since = scene.step

    def on_divergence(self, scene: Scene, one: Any, two: Any) -> None:
        one, two = (getattr(d, "base_dist", d) for d in (one, two))  # Independent has summed the dimensions away
        mean, scale = getattr(one, "loc", None), getattr(one, "scale", None)
        prior = getattr(two, "loc", None), getattr(two, "scale", None)
        if not plain(mean) or not plain(scale) or mean.ndim < 2 or not plain(prior[0]) or not plain(prior[1]):
            return
        if prior[0].requires_grad:  # between two learnt distributions: not a prior
            return
        self._told = True
        ratio = (scale / prior[1]) ** 2
        self._share = _active(0.5 * (ratio + ((mean - prior[0]) / prior[1]) ** 2 - 1 - ratio.log()))

    def on_backward(self, scene: Scene, loss: Tensor) -> None:
        if self._told or not (self._found or scene.step - self._since < _LOOKS):
            return
        pair = by_hand(loss.grad_fn)
        if pair is not None:
            self._found = True
            mean, variance = pair
            self._share = _active(0.5 * (mean**2 + variance - 1 - variance.clamp_min(1e-30).log()))

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        share, self._share = self._share, None
        return {"vae/kl_active": share} if share is not None else None


def _active(each: Tensor) -> Tensor:
    """each  # (N, …, D) nats"""
    return (each.detach().float().reshape(-1, each.shape[-1]).mean(0) > ACTIVE).float().mean()


def by_hand(root: Fn | None) -> tuple[Tensor, Tensor] | None:
    """(mean, variance) of a Gaussian whose divergence from the standard normal is part of a loss, as it is usually written.

    `1 + logvar - mu**2 - logvar.exp()`, in any order and sign: a sum of two or more terms with one square, one exponential of
    what is also a term itself, all of one shape (N, D).
    """
    for node in _below(root):
        if op(node) not in ("Sub", "Add"):
            continue
        terms = list(_terms(node))
        squares = [t for t in terms if _square(t)]
        powers = [t for t in terms if op(t) == "Exp"]
        if len(squares) != 1 or len(powers) != 1 or shape(squares[0]) != shape(powers[0]):
            continue
        source = inputs(powers[0])
        if not source or not any(t is source[0] for t in terms):
            continue
        mean, variance = _raw(squares[0], "_raw_saved_self"), _raw(powers[0], "_raw_saved_result")
        if mean is not None and variance is not None and mean.ndim >= 2:
            return mean.detach(), variance.detach()
    return None


def _square(node: Fn) -> bool:
    if op(node) == "Mul":
        below = inputs(node)
        return len(below) == 2 and below[0] is below[1]
    return op(node) == "Pow" and getattr(node, "_saved_exponent", None) == 2


def _below(root: Fn | None) -> Iterator[Fn]:
    todo = deque([root])
    met: dict[int, Fn] = {}  # kept alive, so that an id means one node
    while todo and len(met) < _NODES:
        node = todo.popleft()
        if node is not None and id(node) not in met:
            met[id(node)] = node
            yield node
            todo += inputs(node)


def _terms(node: Fn, depth: int = 5) -> Iterator[Fn]:
    """What a sum is made of, looking through sums, differences, signs and constant factors."""
    for below in inputs(node):
        if depth and op(below) in ("Sub", "Add", "Rsub", "Neg"):
            yield from _terms(below, depth - 1)
        else:
            yield below


def _raw(fn: Fn, name: str) -> Tensor | None:
    """A saved tensor without running anybody's unpack hook."""
    data = getattr(getattr(fn, name, None), "data", None)
    return data if isinstance(data, Tensor) else None


class Views(Probe):
    """`ssl/embedding_spread`: how far apart the samples of a batch lie where two views of it are compared by hand."""

    cadence = "full"

    def __init__(self) -> None:
        # of each pass: the model, the shape of its input, whether it saw both views at once, what it made of them
        self._passes: list[tuple[int, tuple[int, ...], bool, Tensor]] = []
        self._supervised = False

    def on_forward(self, scene: Scene, forward: Forward) -> None:
        if self._supervised or not forward.grad or len(self._passes) > 2:
            return
        given = [a for a in forward.args if isinstance(a, Tensor)]
        made = forward.output if isinstance(forward.output, list | tuple) else (forward.output,)
        if not given or not all(_embeds(o) for o in made) or len({o.shape for o in made}) != 1:
            return
        both = len(given) > 1 and len(made) > 1 and given[0].shape == given[1].shape
        if both or len(made) == 1:
            self._passes.append((id(forward.model), tuple(given[0].shape), both, made[0].detach()[:_ROWS]))

    def on_loss(self, scene: Scene, call: LossCall) -> None:
        if call.grad and (said := losses.read(call)) is not None and said.target is not None:
            self._supervised = True

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        passes, self._passes = self._passes, []
        if self._supervised or not passes or len(scene.optimizers) > 1:
            return None
        alike = len({p[:2] for p in passes}) == 1
        if not alike or len(passes) != (1 if passes[0][2] else 2):
            return None
        scene.fact("ssl", True)
        rows = normalize(passes[0][3].float(), dim=1)
        return {"ssl/embedding_spread": rows.std(0).mean() * rows.shape[1] ** 0.5}


def _embeds(made: Any) -> bool:
    return plain(made) and made.is_floating_point() and made.ndim == 2 and made.shape[0] >= _FEW and made.shape[1] >= _WIDE


PROBES = [Players, Policy, Latents, Views]
