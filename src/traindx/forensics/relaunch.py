"""Make the step of a capsule again in the script's own loop: the re-launched program, up to its second step.

The script runs as it did. After its first update the capsule's state is put in the place of its own, its loader is made to give
the capsule's batch, and the step that follows is judged before its update is made; there the program is ended. This module is
the child: `traindx.forensics.command` starts it and reads its answer.
"""

from __future__ import annotations

import json
import os
import sys
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as loaders

from traindx.forensics import capsule as capsules
from traindx.forensics import reproducer
from traindx.forensics.again import CannotReplay, investigate
from traindx.forensics.moment import Called, Moment, Taped
from traindx.forensics.replay import precision_of, set_random
from traindx.forensics.tensors import finite, tensors_in
from traindx.forensics.witness import Witness
from traindx.probe import Probe, Reading, Scene
from traindx.probes.drive.recorder import Recorder
from traindx.probes.launch import script_runner
from traindx.probes.launch.attach import attach, detach

PATIENCE = 50  # updates within which every model and optimizer of the capsule must have shown itself
Done = Callable[[dict[str, Any]], None]


class Feed:
    """Stands between the script and its loaders: gives the capsule's batch when it is time."""

    def __init__(self, batch: Any, other: int | None) -> None:
        self.batch, self.other = batch, other
        self.due = False  # the next batch of the training loader is ours to choose
        self.fed = ""  # what was given in the end
        self.latest: Any = None  # the loader that gave the latest batch
        self.training: Any = None
        self._first: Any = None
        self._loader_of: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def install(self) -> None:
        """Patch the loaders of this process, for good: it ends with the replay."""
        begin, give = DataLoader.__iter__, loaders._BaseDataLoaderIter.__next__
        feed = self

        def __iter__(loader: Any) -> Any:
            made = begin(loader)
            feed._loader_of[made] = loader
            return made

        def __next__(iterator: Any) -> Any:
            return feed._next(iterator, give)

        DataLoader.__iter__ = __iter__
        loaders._BaseDataLoaderIter.__next__ = __next__

    def _next(self, iterator: Any, give: Callable[[Any], Any]) -> Any:
        loader = self._loader_of.get(iterator)
        if not self.due or (self.training is not None and loader is not self.training):
            batch = give(iterator)
            self.latest = loader
            if self._first is None and self.training is None:
                self._first = batch
            return batch
        if self.other is not None:
            return self._another(iterator, give)
        template = self._own(iterator, give)
        self.fed = "the capsule's" if self.batch is not None else "the script's own"
        return template if self.batch is None else like(template, self.batch)

    def _own(self, iterator: Any, give: Callable[[Any], Any]) -> Any:
        try:
            return give(iterator)
        except StopIteration:
            return self._first

    def _another(self, iterator: Any, give: Callable[[Any], Any]) -> Any:
        """Batch K of the script's own, counted from the first it asked for."""
        self.fed = f"number {self.other} of the script"
        batch = self._first
        for _ in range(self.other or 0):
            batch = self._own(iterator, give)
        return batch


def like(template: Any, held: Any) -> Any:
    """What a capsule kept, in the types of the script's own batches; what it could not keep is the script's."""
    if isinstance(held, Tensor):
        return held.to(template.device) if isinstance(template, Tensor) else held
    if isinstance(held, Mapping) and isinstance(template, Mapping):
        made = {k: like(template.get(k), v) for k, v in held.items()}
        return made if type(template) is dict else type(template)(made)  # type: ignore[call-arg]
    if isinstance(held, list | tuple):
        old = list(template) if isinstance(template, list | tuple) and len(template) == len(held) else [None] * len(held)
        items = [like(a, b) for a, b in zip(old, held, strict=True)]
        if isinstance(template, tuple) and hasattr(template, "_fields"):
            return type(template)(*items)
        return type(template)(items) if isinstance(template, list | tuple) else type(held)(items)
    return template if held is None else held


class Stage(Probe):
    """Waits for the script's first update, then sets the scene of the capsule. Must hear of things before the witness."""

    def __init__(self, held: capsules.Capsule, feed: Feed, witness: Witness, judge: Judge) -> None:
        self.held, self.feed, self.witness, self.judge = held, feed, witness, judge
        self.ready = False

    def before_forward(self, scene: Scene, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.judge.running and self.witness.moment.root is not None:
            self.judge.conclude(scene)  # a second micro-batch, or a scaler that skipped the update
        elif self.ready and not self.judge.running and (self.feed.fed or self.feed.training is None) and model.training:
            self.ready = False
            try:
                restore(self.held, scene, self.witness)
            except CannotReplay as why:
                self.judge.done({"error": str(why)})
            if self.held.batch is not None and self.held.about.get("batch_is") == "inputs" and self.feed.other is None:
                self._put(args, kwargs)
            set_random(self.held)
            self.judge.running = True

    def _put(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Give the model the capsule's inputs in the script's own tensors: this process is there for nothing else."""
        ours, theirs = tensors_in(self.held.batch), tensors_in((args, kwargs))
        if len(ours) == len(theirs) and all(a.dtype == b.dtype for a, b in zip(ours, theirs, strict=True)):
            for new, old in zip(ours, theirs, strict=True):
                old.data = new.to(old.device)
            self.feed.fed = "the capsule's inputs, the script's own targets"

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        if self.judge.running or self.ready:
            return None
        wanted = self.held.state
        found = len(scene.optimizers) >= len(wanted.get("optimizers") or []) and matches(wanted, scene) is not None
        if not found and scene.step < PATIENCE:
            return None
        self.feed.training = self.feed.latest
        self.feed.due = self.ready = True
        return None


class Judge(Probe):
    """Judges the staged step before its update is made. Must hear of things after the witness."""

    def __init__(self, held: capsules.Capsule, feed: Feed, witness: Witness, done: Done, options: Mapping[str, Any]) -> None:
        self.held, self.feed, self.witness, self.options = held, feed, witness, options
        self.running = False
        self._done = done
        self._result: dict[str, Any] | None = None

    def on_backward(self, scene: Scene, loss: Tensor) -> Reading | None:
        if self._result is not None:
            value = float(loss.detach().sum())
            self._result["after"] = {"lr_scale": self.options["lr_scale"], "loss": value, "finite": finite(loss)}
            self.done(self._result)
        if self.running and not finite(loss):
            self.conclude(scene)
        return None

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        if self.running:
            self.conclude(scene)
        return None

    def last(self, scene: Scene) -> Reading | None:
        if self.running and self.witness.moment.happened:
            self._root_by_guess(self.witness.moment)
            self.conclude(scene)
        self.done({"error": "the script ended before its second step: there is no step to put the capsule into"})
        return None

    def _root_by_guess(self, moment: Moment) -> None:
        """A script that looks at its loss before it goes backward: the last number of its tape is the loss."""
        if moment.root is None:
            made = [t.output for t in moment.happened if isinstance(t, Taped) and isinstance(t.output, Tensor)]
            moment.root = next((t for t in reversed(made) if t.numel() == 1 and t.requires_grad), None)

    def conclude(self, scene: Scene) -> None:
        """Say how the staged step came out."""
        self.running = False
        moment = self.witness.moment
        root = moment.root
        bad = (root is not None and not finite(root)) or any(not finite(p.grad) for p in scene.params if p.grad is not None)
        out: dict[str, Any] = {"step": self.held.step, "finite": not bad, "batch": self.feed.fed or "the script's own"}
        out["precision"] = "fp32" if self.options.get("fp32") else precision_of(self.held)
        if root is not None and not bad:
            out["loss"] = float(root.detach().sum())
        found = investigate(moment, scene.params, scene.names, float(self.options.get("seconds", 60.0))) if bad else {}
        out |= {"origin": found.get("origin"), "origins": found.get("origins", [])}
        if "replay.failed" in found:
            out["error"] = found["replay.failed"]
        self._reproduce(moment, scene, out)
        scale = self.options.get("lr_scale")
        if scale is None:
            self.done(out)
        for optimizer in scene.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = float(group["lr"]) * float(scale or 1.0)
        self._result = out

    def _reproduce(self, moment: Moment, scene: Scene, out: dict[str, Any]) -> None:
        target = self.options.get("reproducer")
        if not target:
            return
        calls = [c for c in moment.happened if isinstance(c, Called)]
        try:
            kept = calls[0].random if calls else None
            first = torch.get_rng_state() if kept is None else kept
            named = dict(zip(scene.names, scene.params, strict=False))
            out["reproducer"] = str(reproducer.write(reproducer.forward_of(moment), named, first, Path(target), out))
        except (CannotReplay, reproducer.CannotExport) as why:
            out["reproducer_failed"] = str(why)

    def done(self, result: dict[str, Any]) -> None:
        """Hand the result over and end the program: nothing of the script runs after this."""
        self._done(result)


def matches(state: Mapping[str, Any], scene: Scene) -> list[tuple[nn.Module, Mapping[str, Any]]] | None:
    """Each model of the capsule with the script's model of the same names and shapes; None when one is missing."""
    free = list(scene.models)
    out: list[tuple[nn.Module, Mapping[str, Any]]] = []
    for kept in state.get("models") or []:
        own = next((m for m in free if isinstance(kept, dict) and fits(m.state_dict(), kept)), None)
        if own is None:
            return None
        free.remove(own)
        out.append((own, kept))
    return out


def fits(own: Mapping[str, Any], kept: Mapping[str, Any]) -> bool:
    """Whether two states have the same names and shapes."""
    return set(own) == set(kept) and all(
        not isinstance(v, Tensor) or (isinstance(kept[k], Tensor) and kept[k].shape == v.shape) for k, v in own.items()
    )


def restore(held: capsules.Capsule, scene: Scene, witness: Witness) -> None:
    """Put the capsule's state into the living program."""
    found = matches(held.state, scene)
    if not found:
        raise CannotReplay("the script's model is not the one of the capsule: names or shapes of its weights differ")
    for model, kept in found:
        model.load_state_dict(kept)
    modes = held.state.get("modes")
    if isinstance(modes, dict):
        for name, module in found[0][0].named_modules():
            module.training = bool(modes.get(name, module.training))
    others = witness.others()
    for things, states in (
        (scene.optimizers, held.state.get("optimizers")),
        *((v, held.state.get(k)) for k, v in others.items()),
    ):
        for thing, state in zip(things, states or [], strict=False):
            if isinstance(state, dict):
                thing.load_state_dict(state)


def run(command: list[str], capsule: Path, options: Mapping[str, Any], done: Done) -> None:
    """Run the script with the stage set; `done` gets the result and does not come back."""
    held = capsules.load(capsule)
    if options.get("fp32"):
        _no_autocast()
    whole = held.about.get("batch_is") != "inputs"
    feed = Feed(held.batch if whole else None, options.get("other_batch"))
    feed.install()
    recorder = Recorder(budget=None, probes=[])
    witness = Witness(busy=lambda: bool(recorder.busy))
    judge = Judge(held, feed, witness, done, options)
    for probe in (Stage(held, feed, witness, judge), witness, judge):
        recorder.add(probe)
    observer = attach(recorder)
    script, *args = command
    ended = script_runner.run_module(args[0], args[1:]) if script == "-m" else script_runner.run_script(script, args)
    if ended.error is not None:
        done({"error": f"the script failed before the step came: {type(ended.error).__name__}: {ended.error}"[:500]})
    judge.last(recorder.scene)
    detach(observer)


def _no_autocast() -> None:
    """Every autocast of the script is one in name only."""
    kind = torch.amp.autocast_mode.autocast
    original = kind.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self._enabled = False

    kind.__init__ = __init__


def main() -> None:
    """The child's end of the pipe: `relaunch FD CAPSULE OPTIONS SCRIPT ARGS…`."""
    fd, capsule, options, *command = sys.argv[1:]

    def done(result: dict[str, Any]) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        data = json.dumps(result).encode()
        while data:
            data = data[os.write(int(fd), data) :]
        os._exit(0)

    run(command, Path(capsule), json.loads(options), done)


if __name__ == "__main__":
    main()
