"""Watches the first steps of a script and makes a Task of them: a copy of its model and optimizer, its batches, its loss."""

from __future__ import annotations

import copy
import math
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from traindx.capture.pairing import Pairing
from traindx.capture.recipe import Parts, Recipe, written
from traindx.forensics.moment import Called, Moment
from traindx.forensics.recipe import CannotCapture
from traindx.forensics.witness import Witness
from traindx.probe import TRAIN, Evaluation, Reading, Scene
from traindx.trials.state import random_kept
from traindx.trials.task import Task, evaluating, tensors

MOST_BATCHES = 512
HELD = 4  # every fourth batch is held back to judge by, where there are enough
MOST_BYTES = 512 * 2**20
MOST_VAL, MOST_VAL_BYTES = 40, 128 * 2**20  # validation batches that are kept
SAME = 1e-4  # relative difference of the loss of a step and of the same step made again
ALIKE = 0.98  # cosine between their gradients (clipping by value and weight decay in the gradient turn it a little)


@dataclass
class First:
    """The script's first step, kept to prove that the recipe makes the same."""

    loss: float
    random: Tensor | None
    gradients: list[Tensor | None]


class Capturer(Witness):
    """A witness that writes every step down as a recipe, and copies the model before its first update."""

    def __init__(self, busy: Any = lambda: False, rolling: bool = False) -> None:
        super().__init__(busy=busy)
        self.steps: deque[tuple[Recipe, tuple[Tensor, ...]]] = deque()
        self._rolling = rolling  # keep the latest batches, not the first ones
        self._opening: tuple[Recipe, tuple[Tensor, ...]] | None = None
        self._stepping: tuple[Any, Any] = (None, None)  # the script's own optimizer and schedule
        self.why = ""  # why nothing could be written down
        self.model: nn.Module | None = None  # the copy
        self.optimizer: Any = None
        self.scheduler: Any = None
        self._first_step: First | None = None
        self._parts: dict[int, int] = {}
        self._own: dict[int, str] = {}
        self._alive: nn.Module | None = None
        self._held_bytes = 0
        self._backwards = 0
        self._pairing = Pairing()
        self._raw: Any = None  # what a loader gave last
        self._others_raw: dict[int, list[Any]] = {}  # by loader, what was not trained on
        self._evaluated: int | None = None  # the loader of the first evaluation that is over
        self.evaluations = 0

    def on_batch(self, scene: Scene, batch: Any, phase: str) -> Reading | None:
        super().on_batch(scene, batch, phase)
        self._raw = batch
        kept = self._others_raw.setdefault(id(scene.loader), [])
        room = len(kept) < MOST_VAL and sum(_bytes(tuple(tensors(b))) for b in kept) < MOST_VAL_BYTES
        if phase != TRAIN and self._evaluated is None and room:
            kept.append(batch)
        return None

    def on_eval_end(self, scene: Scene, evaluation: Evaluation) -> Reading | None:
        self.evaluations += 1
        if self._evaluated is None and evaluation.loader is not None:
            self._evaluated = id(evaluation.loader)
        return None

    def on_backward(self, scene: Scene, loss: Tensor) -> Reading | None:
        super().on_backward(scene, loss)
        if self.model is None:
            self._backwards += 1
        if self._rolling and len(self.steps) == MOST_BATCHES:
            self._held_bytes -= _bytes(self.steps.popleft()[1])
        room = self._rolling or (len(self.steps) < MOST_BATCHES and self._held_bytes < MOST_BYTES)
        if room and loss.numel() == 1:
            try:
                self._write(self.moment)
            except CannotCapture as why:
                self.why = str(why)
        return None

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        super().before_step(scene, optimizer)
        if self.model is None and self._alive is not None and optimizer is not None:
            scheduler = next((s for s in self.others()["schedulers"] if getattr(s, "optimizer", None) is optimizer), None)
            if self._first_step is not None:
                self._first_step.gradients = [None if p.grad is None else p.grad.clone() for p in self._alive.parameters()]
            self._stepping = optimizer, scheduler
            try:
                self.model, self.optimizer, self.scheduler = copy.deepcopy((self._alive, optimizer, scheduler))
            except Exception as error:  # models may refuse to be copied in many ways; the user hears which
                self.why = f"the model cannot be copied ({type(error).__name__}: {error})"
                self._alive = None
        return None

    def _write(self, moment: Moment) -> None:
        calls = [c for c in moment.happened if isinstance(c, Called)]
        if not calls:
            raise CannotCapture("no forward of a module was seen before the loss")
        if self._alive is None:
            self._meet(calls)
        if any(id(c.model) not in self._parts for c in calls):
            raise CannotCapture("the steps do not call the same modules")
        recipe, batch = written(moment, self._own, self._parts)
        assert moment.root is not None
        if self._first_step is None or self._opening is None:
            self._opening = recipe, batch
            self._first_step = First(float(moment.root.detach()), calls[0].random, [])
        self.steps.append((recipe, batch))
        if self._raw is not None and self._pairing.wants:
            self._pairing.learn(self._raw, batch)
        self._raw = None
        self._held_bytes += _bytes(batch)
        while self._rolling and self._held_bytes > MOST_BYTES and len(self.steps) > 2:
            self._held_bytes -= _bytes(self.steps.popleft()[1])

    def _meet(self, calls: list[Called]) -> None:
        models = list({id(c.model): c.model for c in calls}.values())
        self._parts = {id(m): i for i, m in enumerate(models)}
        self._alive = models[0] if len(models) == 1 else Parts(models)
        named: dict[str, Tensor] = dict(self._alive.named_parameters()) | dict(self._alive.named_buffers())
        self._own = {id(t): name for name, t in named.items()}

    # -- the task

    def task(self, name: str, now: bool = False) -> Task:
        """The script as a Task, with its weights at the start or as they are `now`.

        Raises CannotCapture with the reason when its steps cannot be made again.
        """
        if self.model is None or not self.steps or self._opening is None:
            raise CannotCapture(self.why or "no optimizer step was seen")
        usual = Counter(r.key for r, _ in self.steps).most_common(1)[0][0]
        kept = [(r, b) for r, b in self.steps if r.key == usual]
        recipe = kept[0][0]
        if self._opening[0].key == usual:
            self._prove(*self._opening)
        model, optimizer, scheduler = self.model, self.optimizer, self.scheduler
        if now:
            model, optimizer, scheduler = copy.deepcopy((self._alive, *self._stepping))
        assert model is not None
        batches = [b for _, b in kept]
        held = batches[HELD - 1 :: HELD] if len(batches) >= 4 * HELD else []
        val, why = self._validation(recipe, model)
        return Task(
            model,
            recipe.kind,
            [b for i, b in enumerate(batches) if not held or i % HELD != HELD - 1],
            val or None,
            optimizer,
            scheduler,
            loss=recipe,
            output=recipe.output,
            name=name,
            held=held,
            captured=True,
            no_val=why,
        )

    def _validation(self, recipe: Recipe, model: nn.Module) -> tuple[list[tuple[Tensor, ...]], str]:
        """The batches of the script's own evaluation, prepared as its training batches are; or why there are none."""
        if not self.evaluations:
            return [], "the script made no evaluation in the steps that were watched"
        raws = self._others_raw.get(self._evaluated, []) if self._evaluated is not None else []
        if not raws:
            return [], "the script's evaluation takes its data from no DataLoader that was seen"
        made, why = self._pairing.prepared(raws)
        with random_kept(), evaluating(model):
            good = [b for b in made if _fits(recipe, model, b)]
        return good, why or ("" if good else "the script's validation batches do not fit its training step")

    def _prove(self, recipe: Recipe, batch: tuple[Tensor, ...]) -> None:
        """The first step made again must give the script's own loss, and its gradient."""
        assert self.model is not None and self._first_step is not None
        model = copy.deepcopy(self.model)
        with random_kept(), torch.enable_grad():
            if self._first_step.random is not None:
                torch.set_rng_state(self._first_step.random)
            model.zero_grad(set_to_none=True)
            try:
                loss = recipe(model, batch)
            except Exception as error:  # whatever the user's own code may raise
                raise CannotCapture(f"the first step cannot be made again ({type(error).__name__}: {error})") from None
            if not loss.requires_grad:
                raise CannotCapture("the way from the model to the loss is not seen whole (a custom autograd function?)")
            loss.backward()
        again, then = float(loss.detach()), self._first_step.loss
        if math.isfinite(then) and not abs(again - then) <= SAME * max(abs(then), 1e-6):
            raise CannotCapture(f"the first step made again gives another loss ({again:.6g}, in the script {then:.6g})")
        pairs = zip(model.parameters(), self._first_step.gradients, strict=False)
        both = [(p.grad.reshape(-1), g.reshape(-1)) for p, g in pairs if p.grad is not None and g is not None]
        if self._backwards == 1 and both:
            mine, theirs = (torch.cat(side).double() for side in zip(*both, strict=True))
            size = float(mine.norm() * theirs.norm())
            if math.isfinite(size) and size > 0 and float(mine @ theirs) / size < ALIKE:
                raise CannotCapture("the first step made again gives another gradient than the script's")


def _fits(recipe: Recipe, model: nn.Module, batch: tuple[Tensor, ...]) -> bool:
    """Whether the training step can be made on a validation batch."""
    try:
        return math.isfinite(float(recipe(model, batch)))
    except Exception:  # another shape or other labels: whatever the user's own code says to them
        return False


def _bytes(batch: tuple[Tensor, ...]) -> int:
    return sum(t.numel() * t.element_size() for t in batch)
