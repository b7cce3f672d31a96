"""Backwards and updates: what a step is, which loss is behind it, whether it looks abnormal."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor

from traindx.measures import peek
from traindx.probe import TRAIN, Row
from traindx.probes.drive.gate import GradGate, LossGate
from traindx.probes.follow.loop import Loop
from traindx.probes.follow.manual_updates import Manual
from traindx.probes.follow.models import Stage
from traindx.probes.follow.phases import Phases
from traindx.probes.follow.step import Micro, Step, mean_loss
from traindx.probes.read.common.passes import divisor, scalar, summed

clock = time.perf_counter
IDLE = 50  # steps of another optimizer after which a primary one that has stopped is given up
IDLE_ALONE = 10  # the same where the primary one has worked alone for longer than that: what follows is another training


class Updates:
    """Follows backwards and optimizer steps, and closes the record of each update."""

    def __init__(self, stage: Stage, phases: Phases, loop: Loop) -> None:
        self._stage, self._phases, self._loop = stage, phases, loop
        self._recorder, self._scene = stage.recorder, stage.scene
        self.loss_gate, self.grad_gate = LossGate(), GradGate()
        self._manual = Manual(stage)
        self._inside: Any = None  # the optimizer whose step is under way
        self._closure = False
        self._backwards_inside = 0
        self._begun = self._step_begun = 0.0
        self._losses_of: dict[int, Any] = {}
        self._optimizer_names: tuple[str, ...] = ()
        self.last_lr: float | None = None
        self.broke = False  # the latest backward left a gradient that is not finite
        self._shared = False  # the latest update was shared among several backwards
        self._site = ""  # where the latest backward was called
        self.on_close: list[Callable[[Step], None]] = []  # told of each step that is complete
        self._others = self._gap = 0  # steps of other optimizers since the primary one's last, and the most of them so far

    # -- backward

    def backward_begins(self, tensors: Any, site: str) -> None:
        """A backward is about to run."""
        self._begun = clock()
        root = tensors if isinstance(tensors, Tensor) else next((t for t in tensors if isinstance(t, Tensor)), None)
        if root is None or root.grad_fn is None:
            if root is not None and not root.requires_grad:  # it is about to raise
                self._recorder.event("detached_loss", {"site": site})
            return
        if self._manual.changed(root):
            self._close_manual()
        self._site = site
        nearest = self._phases.claim(root)
        self._phases.evaluations.end()
        self._scene.phase = TRAIN
        self._loop.before_backward()
        self._stage.step.backwards += 1
        self._backwards_inside += self._inside is not None
        broken = self._take_loss(root, site, nearest)
        self._manual.backward()
        self._recorder.tell("on_backward", root)
        if broken is not None:  # after the probes have seen the root: forensics makes the step again from what they keep
            self._recorder.nonfinite("loss", ["loss"], broken, "before")

    def _take_loss(self, root: Tensor, site: str, nearest: Any) -> float | None:
        """Note the loss behind this backward; gives it back when it is not finite."""
        loss, parts = self._loop.unscaled_loss(root), 1.0
        if loss is None:
            loss = root
        if loss.grad_fn is not None:
            parts = divisor(loss)
        value = scalar(loss)
        if value is None:
            return None
        self._scene.loss = loss.detach()
        whole = value * parts if parts != 1.0 else value
        alone = nearest is not None and nearest.value == whole and self._inside is None
        self._phases.evaluations.composed = not alone
        of = summed(loss) if parts != 1.0 else 0
        self._stage.step.losses.append(Micro(site, value, parts, nearest.site if alone else "", of))
        if isinstance(value, float) and not math.isfinite(value):
            return value
        if isinstance(value, float):
            self._recorder.lost_at = -1
            self._judge(value, parts)
        return None

    def _judge(self, loss: float, parts: float) -> None:
        self._phases.evaluations.trained(loss * parts if self._shared else loss)
        z = self.loss_gate.z(loss)
        if z > LossGate.ABNORMAL:
            self._scene.full = True  # gradients and weights of this step, activations from the next on
            self._recorder.plan.alarm(self._scene.step)
            self._recorder.event("spike", {"signal": "loss/train", "z": z})

    def backward_failed(self, error: BaseException) -> None:
        """A backward raised."""
        self._recorder.attempted = True
        text = str(error)
        if "modified by an inplace operation" in text:
            more = self._recorder.on_inplace[0](self._scene, text) if self._recorder.on_inplace else {}
            self._recorder.event("inplace_error", {"message": text[:300], **more})

    def backward_ends(self) -> None:
        """A backward is done: gradients are there."""
        self._stage.step.backward_s += clock() - self._begun
        self._loop.after_backward()
        primary = self._stage.primary
        self.broke = primary is not None and not self._stage.step.scaled and self.grad_gate.bad(self._scene, primary)
        if self._inside is not None and self._closure and self._backwards_inside == 1:
            self._before(self._inside)
        elif self._manual.on:
            if not self._recorder.started:
                self._recorder.start()
            self._loop.by_hand(self._manual.graded())
            self._before(None)

    def grad_begins(self, outputs: Any, site: str) -> None:
        """torch.autograd.grad in a loop without optimizers: the script's own way to get gradients for its update."""
        if self._manual.possible:
            self.backward_begins(outputs, site)

    def grad_ends(self) -> None:
        """Its end."""
        if self._manual.possible:
            self.backward_ends()

    # -- the update

    def step_begins(self, optimizer: Any, closure: bool) -> None:
        """An optimizer's step is about to be made."""
        stage = self._stage
        if stage.given_optimizers and all(o is not optimizer for o in stage.given_optimizers):
            return
        self._step_begun = clock()
        self._inside, self._closure, self._backwards_inside = optimizer, closure, 0
        if not stage.knows(optimizer):
            self._loop.meets(optimizer)
            if stage.stepped_first(optimizer):
                self._phases.anew()
        if optimizer is stage.primary:
            self._gap, self._others = max(self._gap, self._others), 0
        else:
            self._others += 1
            alone = not self._gap and self._scene.step > IDLE
            polishes = not self._gap and self._scene.step > IDLE_ALONE and stage.same_parameters(optimizer)
            if polishes or self._others > max(IDLE_ALONE if alone else IDLE, 4 * self._gap):
                self._hand_over(optimizer)
                self._others, self._gap = 0, int(polishes)  # should they take turns after all, then at their own pace
        stage.latest = weakref.ref(optimizer)
        if not self._recorder.started:
            self._recorder.start()
        self._loop.before_update(optimizer, closure)
        if not closure:
            self._before(optimizer)

    def _hand_over(self, optimizer: Any) -> None:
        """The primary optimizer has stopped for good; this one continues."""
        if self._stage.promote(optimizer):
            self._phases.anew()

    def _before(self, optimizer: Any) -> None:
        lost = 0 <= self._recorder.lost_at < self._scene.step  # a run that stays so is left alone
        broke, self.broke = self.broke, False
        bad = (broke or not (self._scene.full or lost)) and self.grad_gate.bad(self._scene, optimizer)
        if broke and not bad and optimizer is self._stage.primary:
            self._recorder.event("nan_hidden", {"how": "gradient"})
        if bad and not self._scene.full and not lost:
            self._scene.full = True  # the probes of gradients find out which
            self._recorder.plan.alarm(self._scene.step)
        if optimizer is not None and not self._closure and len(self._stage.optimizers) == 1:
            self._stage.patches.clear_above()  # the loss is known: the optimizer's calls and our own need not be heard
        self._recorder.tell("before_step", optimizer)

    def step_ends(self, optimizer: Any) -> None:
        """The update was made."""
        if self._inside is not optimizer:
            return
        self._inside = None
        self._stage.step.optimizer_s += clock() - self._step_begun
        self._recorder.tell("after_step", optimizer)
        self._loop.after_update(optimizer)
        losses = self._stage.step.losses
        if losses:
            self._losses_of[id(optimizer)] = mean_loss(losses)
        if optimizer is self._stage.primary:
            self.take_rate(optimizer)
            self._close()
        self._stage.step.losses = []

    def take_rate(self, optimizer: Any) -> None:
        groups = optimizer.param_groups
        now, before = _number(groups[0].get("lr")), self.last_lr
        if now is not None:
            self._recorder.row["lr"] = now
            if now != before and before and now and abs(math.log(abs(now / before))) > 0.4:
                self._recorder.event("lr_jump", {"from": before, "to": now})
            self.last_lr = now
        if len(groups) > 1:
            rates = [_number(group.get("lr")) for group in groups]
            names = self._loop.group_names(len(rates))
            self._recorder.take({"lr/group": Row(names, [math.nan if r is None else r for r in rates])}, "updates")

    def _close(self) -> None:
        stage, step, now = self._stage, self._stage.step, clock()
        loss = mean_loss(step.losses)
        self._shared = len(step.losses) > 1
        if loss is not None:
            self._recorder.take({"loss/train": loss}, "updates")
        if len(stage.optimizer_refs) > 1:
            self._take_losses_of()
        took = now - stage.last_end if stage.last_end is not None else 0.0
        row = step.row(took, self._recorder.spent_s)
        row["epoch"] = float(self._scene.epoch)
        if self._scene.world > 1:
            waited = step.backward_s + (step.forward_s if self._scene.waits_in_forward else 0.0)
            row["time/own"] = max(float(row["time/step"]) - waited - self._recorder.spent_s, 0.0)
        self._loop.closes(step, row)
        stage.step, stage.last_end = Step(), now
        self._recorder.close_step(row, took, step.eval_s + step.checkpoint_s)
        stage.set_view()
        for listener in self.on_close:
            listener(step)

    def _take_losses_of(self) -> None:
        every = [self._losses_of.get(id(o)) for o in self._stage.optimizers]
        if all(isinstance(v, float) for v in every):
            if len(self._optimizer_names) != len(every):
                self._optimizer_names = tuple(f"optimizer{i}" for i in range(len(every)))
            self._recorder.take({"loss/optimizer": Row(self._optimizer_names, every)}, "updates")

    # -- updates by hand

    def _close_manual(self) -> None:
        self._recorder.tell("after_step", None)
        lr = self._manual.rate()
        if lr is not None:
            self._recorder.take({"lr": lr}, "updates")
        self._loop.by_hand_ended()
        self._close()
        self._manual.closed()

    def finish(self) -> None:
        """The program ends."""
        if self._manual.changed(None):
            self._close_manual()


def _number(rate: Any) -> float | None:
    if isinstance(rate, float | int):
        return float(rate)
    return peek(rate) if isinstance(rate, Tensor) else None
