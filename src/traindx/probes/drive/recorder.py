"""Drives the probes: calls their moments, keeps their errors away from the user, collects readings and writes records."""

from __future__ import annotations

import importlib
import math
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from traindx import innards
from traindx.plain import say
from traindx.probe import MOMENTS, PASS, Failure, Later, Probe, Reading, Row, Scene
from traindx.probes.drive.plan import FIRST, Costs, Plan
from traindx.probes.drive.sink import MemorySink, Post, Sink
from traindx.probes.read.common.names import cast_of
from traindx.probes.read.common.tracebacks import thrown_in
from traindx.signals import REFINED

_EACH_TIME = (
    "mode",
    "epoch",
    "evaluation",
    "checkpoint",
    "load",
    "lr_jump",
    "sensor_off",
    "spike",
    "resume",
    "skip_guard",
    "grad_alert",
)
MOST_EVENTS = 2000  # of each of these kinds
SENSOR_ERRORS, ALL_ERRORS = 3, 10  # PROMISES part 1
FACTS_S = 30.0  # facts are asked for this often,
FACTS_SHARE = 0.001  # and no more of the time than this is spent on it
Listeners = tuple[tuple[Probe, Callable[..., Any]], ...]
_grad_enabled, _set_grad_enabled = torch.is_grad_enabled, innards.set_grad_enabled
_autocasting = innards.autocasting
FAMILIES = (
    "gradient.gradients", "gradient.weights", "activation.activations", "activation.liveness", "gradient.optimizers",
    "machine.memory", "machine.replicas", "loss.contract", "data.data", "loss.validation", "model.wiring", "machine.checkpoint",
    "machine.compilation", "loss.kinds_of_training", "model.experts", "model.recurrent_memory", "model.weights_from_files",
    "machine.unrestored", "machine.profiler_window", "model.origins",
)  # fmt: skip


def every_probe() -> tuple[list[Probe], list[Failure]]:
    """One of each probe, from the modules of this package that export `PROBES`; a module that fails leaves its error."""
    found: list[Probe] = []
    broken: list[Failure] = []
    for family in FAMILIES:
        try:
            module = importlib.import_module(f"traindx.probes.read.{family}")
            found.extend(make() for make in module.PROBES)
        except Exception as error:  # a family that cannot start is a missing sensor, not a broken training
            broken.append(Failure(family, "import", f"{type(error).__name__}: {error}", traceback.format_exc()))
    return found, broken


class Recorder:
    """One record in the making. `follow` tells it what happens; it asks the probes and writes."""

    def __init__(self, sink: Sink | None = None, *, budget: float | None = 0.01, probes: Iterable[Probe] | None = None) -> None:
        self.scene = Scene()
        self.scene.bind(self.event, self.nonfinite, self.owned)
        self.sink: Sink = sink if sink is not None else MemorySink()
        self.plan, self.costs = Plan(budget), Costs()
        self.post = Post(self.sink, self._arrived)
        self.off = False
        self.busy = False
        self.spent_s = 0.0  # since the last step was booked
        self.detour_s = 0.0  # to be added for each patched call: what its own clock cannot see (`launch/attach.py`)
        self.on_step: list[Callable[[int, Mapping[str, Any]], None]] = []  # called with each update's plain numbers
        self.on_arrival: list[Callable[[int, Mapping[str, Any]], None]] = []  # called when a step's tensors are numbers
        self.behind: list[Callable[[], None]] = []  # those who have kept records back: called before another one is sent
        self.sources: list[Callable[[], Mapping[str, Any]]] = []  # facts of the story
        self.lost_at = -1  # since when the loss has not been finite, and that was told; -1: it is
        self.on_nonfinite: list[Callable[[Scene, str], None]] = []  # forensics: called once, at the first bad loss or gradient
        self.on_inplace: list[Callable[[Scene, str], Mapping[str, Any]]] = []  # forensics: more about a version-counter error
        self.on_error: list[Callable[[Scene, BaseException], None]] = []  # forensics: the program is ending with this error
        self._probes, self.failures = every_probe() if probes is None else (list(probes), [])
        self._writers: dict[str, str] = {}  # signal → from whom it is taken
        self.row: dict[str, Any] = {}
        self.tensors: list[tuple[str, Tensor | Row | Later]] = []
        self._first: dict[str, list[Any]] = {}  # events that are counted: step, kind, data, count
        self._each: dict[str, int] = {}
        self._facts_written: dict[str, str] = {}
        self._owned: dict[int, tuple[list[int] | None, tuple[str, ...]]] = {}  # optimizer → places of its parameters
        self._facts_due = time.perf_counter() + FACTS_S
        self._errors: dict[str, int] = {}
        self._pid = os.getpid()
        self._closed = False
        self.started = False
        self.attempted = False  # a loss or a backward raised: training was meant, even if no update was ever made
        self.skipped = 0  # updates that a gradient scaler did not make
        self._index()

    def add(self, probe: Probe) -> None:
        """One more probe."""
        self._probes.append(probe)
        self._index()

    def joins(self, step: int) -> None:
        """The run is under way and has made so many updates: its beginning is not known, what comes is looked at."""
        self.scene.step = self.scene.begun = step
        self.scene.first = False
        self.scene.facts["attached"] = step
        self.plan.insist(step, FIRST)

    # -- asking the probes

    def _index(self) -> None:
        """Per moment, the probes that override it: all of them, those that want every step, those that want ordinary ones."""
        self._light: dict[str, bool] = {}  # every one of those that are always asked is
        self._all: dict[str, Listeners] = {}
        self.lean: dict[str, Listeners] = {}
        self.ordinary: dict[str, tuple[Listeners, Listeners]] = {}  # whatever they say of themselves; while not idle
        for moment in MOMENTS:
            own = tuple((p, getattr(p, moment)) for p in self._probes if getattr(type(p), moment) is not getattr(Probe, moment))
            lean = tuple((p, m) for p, m in own if p.cadence == "step")
            mine = tuple((p, m) for p, m in lean if moment not in PASS or p.ordinary is None or moment in p.ordinary)
            sleepers = tuple((p, m) for p, m in mine if "idle" in vars(p) and moment in PASS and moment not in p.wakes)
            self._all[moment], self.lean[moment] = own, lean
            always = tuple(one for one in mine if one not in sleepers)
            self.ordinary[moment], self._light[moment] = (always, sleepers), all(p.light for p, _ in always)

    def listeners(self, moment: str, training: bool = True) -> Listeners:
        """Who hears this moment now; `training` False: it is none of an ordinary training step."""
        if self.scene.full:
            return self._all[moment]
        if not training:
            return self.lean[moment]
        always, sleepers = self.ordinary[moment]
        if sleepers:
            awake = tuple([one for one in sleepers if not one[0].idle])
            return always + awake if awake else always
        return always

    def tell(self, moment: str, *args: Any, training: bool = True) -> None:
        """Call a moment on every probe that has it and take the readings."""
        listeners = self.listeners(moment, training)
        if listeners:
            if self._light[moment] and listeners is self.ordinary[moment][0] and not self.scene.full:
                self._ask(moment, listeners, args)
            else:
                self.hear(listeners, moment, args)

    def hear(self, listeners: Listeners, moment: str, args: tuple[Any, ...]) -> None:
        """Ask these, without gradients and without autocast."""
        grad = _grad_enabled()
        if grad:
            _set_grad_enabled(False)
        try:
            self.scene.autocast = innards.autocast() if _autocasting() else None
            if self.scene.autocast is not None:
                with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
                    self._ask(moment, listeners, args)
            else:
                self._ask(moment, listeners, args)
        finally:
            if grad:
                _set_grad_enabled(True)

    def _ask(self, moment: str, listeners: Listeners, args: tuple[Any, ...]) -> None:
        for probe, method in listeners:
            try:
                reading = method(self.scene, *args)
                if reading:
                    self.take(reading, type(probe).__module__.rpartition(".")[2])
            except Exception as error:  # a probe's error is ours to keep: the training must continue
                self.failed(type(probe).__name__, moment, error, probe)

    def take(self, reading: Reading, writer: str) -> None:
        """Add readings to the record of the step on the way; a signal is taken from one writer only (`signals.py`)."""
        for name, value in reading.items():
            if self._writers.setdefault(name, writer) != writer and name not in REFINED:
                raise ValueError(f"{name} is written by {self._writers[name]}, not by {writer}")
            if isinstance(value, float | int):
                self.row[name] = float(value)
            else:
                self.tensors.append((name, value))

    # -- errors

    def failed(self, who: str, moment: str, error: BaseException, probe: Probe | None = None) -> None:
        """Keep an error; switch the probe off at the third, everything at the tenth. What was thrown in passes through."""
        if thrown_in(error):
            raise error
        try:
            self._failed(who, moment, error, probe)
        except Exception as worse:  # the script has changed the clock, say, or its error has no text: nobody is left to tell
            if thrown_in(worse):
                raise
            self.off = True

    def _failed(self, who: str, moment: str, error: BaseException, probe: Probe | None) -> None:
        self.failures.append(Failure(who, moment, f"{type(error).__name__}: {error}", traceback.format_exc()))
        self._errors[who] = self._errors.get(who, 0) + 1
        if probe is not None and self._errors[who] >= SENSOR_ERRORS and probe in self._probes:
            self._probes.remove(probe)
            self._index()
            self.event("sensor_off", {"name": who, "error": self.failures[-1].error, "moment": moment})
        if len(self.failures) >= ALL_ERRORS and not self.off:
            self.off = True
            self.event("traindx_off", {"why": self.failures[-1].error})
            say(f"switched off after {ALL_ERRORS} internal errors; your run continues ({self.failures[-1].error})")

    # -- who is on stage

    def refresh(self, models: list[nn.Module], optimizers: list[Any]) -> None:
        """Look up parameters and names again."""
        self._cast(models, optimizers, *cast_of(models, optimizers))

    def _cast(self, models: list[nn.Module], optimizers: list[Any], params: list[Tensor], names: tuple[str, ...]) -> None:
        self.scene.cast(models, optimizers, params, names)
        self.plan.measure(len(params), sum(p.numel() for p in params))
        self.scene.version += 1
        self._owned.clear()
        if self.started:
            self.tell("changed")

    def cast(self, leaves: list[Tensor]) -> None:
        """Parameters that belong to no module: named by order and shape. New tensors of the same shapes keep their names."""
        names = tuple(f"p{i}[{'x'.join(map(str, p.shape))}]" for i, p in enumerate(leaves))
        if names != self.scene.names:
            self._cast(self.scene.models, self.scene.optimizers, leaves, names)
        else:
            self.scene.cast(self.scene.models, self.scene.optimizers, leaves, names)

    def nonfinite(self, what: str, names: list[str], value: float, when: str, step: int | None = None) -> None:
        """Something that must be finite is not: note it, and call the forensics at the first time."""
        word = "nan" if value != value else "inf" if value > 0 else "-inf"
        self.event("nonfinite", {"what": what, "names": names[:20], "value": word, "when": when}, step)
        self.plan.alarm(self.scene.step)
        if what == "loss" and self.lost_at < 0:
            self.lost_at = self.scene.step
        if what in ("loss", "grad"):
            callbacks, self.on_nonfinite = self.on_nonfinite, []
            for callback in callbacks:
                try:
                    callback(self.scene, what)
                except Exception as error:  # as in _ask
                    self.failed("forensics", what, error)

    def fails(self, error: BaseException, told: Mapping[str, Any]) -> None:
        """The program ends with this error: note it, and let forensics look while everything is still alive."""
        if self.attempted and not self.started:
            self.start()  # it broke on the way to its first update: what was seen until then is worth a record
        self.scene.fact("exception", dict(told))
        self.event("exception", told)
        for callback in self.on_error:
            try:
                callback(self.scene, error)
            except Exception as own:  # as in _ask
                self.failed("forensics", "error", own)

    def _arrived(self, step: int, row: dict[str, Any]) -> None:
        """Numbers that had to come from a device: look at them late rather than never."""
        for listener in self.on_arrival:
            listener(step, row)
        loss, norm = row.get("loss/train"), row.get("grad_norm")
        if isinstance(loss, float) and not math.isfinite(loss) and ("nonfinite/loss" not in self._first):
            self.nonfinite("loss", ["loss"], loss, "before", step)
        if norm == 0.0:
            row["loop/empty_step"] = 1

    def owned(self, optimizer: Any) -> tuple[list[Tensor], tuple[str, ...]]:
        """The parameters this optimizer's step is the moment for; those of no optimizer belong to the primary one."""
        params = self.scene.params
        if len(params) != len(self.scene.names):  # some of them are gone: look again
            self.refresh(self.scene.models, self.scene.optimizers)
            params = self.scene.params
        key = id(optimizer)
        if key not in self._owned:
            self._owned[key] = self._own(optimizer, params)
        places, names = self._owned[key]
        return (params, names) if places is None else ([params[i] for i in places], names)

    def _own(self, optimizer: Any, params: list[Tensor]) -> tuple[list[int] | None, tuple[str, ...]]:
        optimizers, names = self.scene.optimizers, self.scene.names
        if len(optimizers) < 2:
            return None, names
        mine = {id(p) for g in optimizer.param_groups for p in g["params"]} if optimizer is not None else set()
        others = {id(p) for o in optimizers if o is not optimizer for g in o.param_groups for p in g["params"]}
        primary = optimizer is optimizers[0]
        places = [i for i, p in enumerate(params) if id(p) in mine or (primary and id(p) not in others)]
        return places, tuple(names[i] for i in places)

    def start(self) -> None:
        """The first update is about to be made."""
        self.started = True
        self.tell("start")

    # -- records

    def event(self, kind: str, data: Mapping[str, Any], step: int | None = None) -> None:
        """Write an event: some kinds each time, the others once, their count completed at the end."""
        at = self.scene.step if step is None else step
        own = dict(data)
        if kind in _EACH_TIME:
            self._each[kind] = self._each.get(kind, 0) + 1
            if self._each[kind] <= MOST_EVENTS:
                self.sink.event(at, kind, own)
        else:
            key = f"{kind}/{own.get('what') or own.get('how') or ''}"
            first = key not in self._first
            if first:
                self._first[key] = [at, kind, own, 0]
            self._first[key][3] += 1
            if first:
                self.sink.event(at, kind, {**own, "count": 1})
        self.tell("on_event", kind, own)

    def _count_events(self) -> None:
        for at, kind, own, count in self._first.values():
            if count > 1:
                self.sink.event(at, kind, {**own, "count": count})

    def close_step(self, row: dict[str, float], step_s: float, aside_s: float = 0.0) -> None:
        """The update of `scene.step` was made: send its record, go to the next step, decide how closely to look."""
        scene = self.scene
        self.row.update(row)
        for listener in self.on_step:
            listener(scene.step, self.row)
        self.send(scene.step)
        self.costs.account(scene.step, step_s - aside_s, self.spent_s, scene.full)
        self.next_step()
        self.look_ahead(time.perf_counter())

    def next_step(self) -> None:
        """Go to the next step; what was read so far has been taken away."""
        self.row, self.tensors, self.spent_s = {}, [], 0.0
        self.scene.step += 1

    def look_ahead(self, now: float) -> None:
        """Decide how closely to look at the step to come."""
        scene = self.scene
        scene.full = self.plan.full(scene.step)
        scene.first = scene.full and scene.step < FIRST
        scene.loss = None
        self.post.drain()
        if now > self._facts_due or scene.step - scene.begun in (1, FIRST):
            self.write_facts()
            self._facts_due = now + max(FACTS_S, (time.perf_counter() - now) / FACTS_SHARE)

    def send(self, step: int) -> None:
        """Send what was read so far as a record of `step`."""
        row, tensors = self.row, self.tensors
        self.row, self.tensors = {}, []
        self._catch_up()
        if row or tensors:
            self.post.send(step, row, tensors)

    def _catch_up(self) -> None:
        for settle in self.behind:
            settle()

    def apart(self) -> Callable[[int], None]:
        """Put the readings so far aside; the function it gives sends what came since and takes them up again."""
        kept = self.row, self.tensors
        self.row, self.tensors = {}, []

        def back(step: int) -> None:
            self.send(step)
            self.row, self.tensors = kept

        return back

    def write_facts(self) -> None:
        """Ask for facts and write those that changed."""
        self._catch_up()
        for source in self.sources:
            self.scene.facts.update(source())
        for probe, method in self._all["facts"]:
            try:
                self.scene.facts.update(method(self.scene) or {})
            except Exception as error:  # as in _ask
                self.failed(type(probe).__name__, "facts", error, probe)
        self.scene.facts["cost"] = {**self.costs.told(), "records": self.post.records}
        self.scene.facts["looks"] = self.plan.told()
        for key, value in self.scene.facts.items():
            seen = repr(value)
            if self._facts_written.get(key) != seen:
                self._facts_written[key] = seen
                self.sink.fact(key, value)

    def flush(self) -> None:
        """Bring everything that was read to the sink (waits for copies under way)."""
        self.post.drain(all=True)
        self.write_facts()
        self.sink.flush()

    def close(self, ended: str = "closed") -> None:
        """Write the rest and let go of the record; safe to call twice and in a forked child (where it does nothing)."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        self.scene.facts["ended"], self.scene.ended, self.scene.full = ended, True, True
        self.scene.step = max(self.scene.step - 1, 0)
        if self.skipped and not self.started:
            self.start()  # every update was skipped: that is worth a record
        if self.started:  # a program that trained nothing leaves no record
            self.tell("last")
            self.send(self.scene.step)
            self.flush()
            self._count_events()
        self.sink.close(ended)


def owner() -> int:
    """The calling thread."""
    return threading.get_ident()
