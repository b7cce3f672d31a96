"""The shape of a probe: it reads signals off a living step and hands back numbers that are still on their device.

A probe overrides the moments it needs. Schedule, cost accounting, guarding, packing, transfer and names belong to the
recorder (`probes/drive/recorder.py`), the maths to `measures.py`. What every probe must keep to:

- never `.item()`, `float(tensor)`, `.tolist()`, `.cpu()`, `bool(tensor)` or anything else that waits for a device
  inside a moment; `facts` may (it is called off the step path), and `Later.result` gets floats already;
- never call the model, never draw from a global random generator, never change a tensor of the user's;
- keep no tensor of the user's after the moment ends (own reductions may be kept);
- work under `torch.no_grad()`: the recorder has already switched it on, and off-mode for autocast;
- raise freely: the recorder catches, counts, and switches a probe off after three errors.

    class GradNorm(Probe):
        def before_step(self, scene, optimizer):
            if scene.full:
                return {"grad_norm/param": Row(scene.names, norms([p.grad for p in scene.params]))}
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

TRAIN, VAL, OTHER = "train", "val", "other"  # OTHER: teacher, target and metric passes, and whatever has not been placed yet


class Row(NamedTuple):
    """One value per name (parameter, module, class …): the reading of a matrix signal."""

    names: tuple[str, ...]  # keep ONE tuple object per signal: the recorder compares by identity first
    values: Tensor | list[float]  # (N,), any floating dtype, any device


class Later(NamedTuple):
    """A reading whose numbers need host work: `tensors` travel with the packed copy, `result` gets them as floats.

    `result` is called when the copy has arrived (possibly steps later, never on a device thread) with one list of floats
    per tensor, and returns what a moment would have returned: plain floats and `Row`s of lists.
    """

    tensors: tuple[Tensor, ...]
    result: Callable[..., Mapping[str, Any]]


# signal name -> a float, a one-element tensor, a Row, or a Later (under any name: its result has the real names)
Reading = Mapping[str, "float | Tensor | Row | Later"]


@dataclass(slots=True)
class LossCall:
    """One call of a loss function of torch (a loss module ends in the function, so each call is seen once)."""

    serial: int
    name: str  # the function's name: cross_entropy, mse_loss, binary_cross_entropy_with_logits, nll_loss …
    args: tuple[Any, ...]  # as the function got them; valid during `on_loss` only, cleared afterwards
    kwargs: dict[str, Any]
    output: Any
    phase: str  # train, val or other: the best guess at call time; `on_settled` brings the final word
    site: str  # file:line of the user's call
    forward: int  # serial of the outermost forward before it; 0 when none was seen
    grad: bool  # a graph could be built
    module: nn.Module | None = None  # the loss module, when the call came through one
    producer: str | None = None  # name of the innermost module whose forward returned the first argument (full steps only)

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """The argument by position or keyword."""
        return self.args[position] if len(self.args) > position else self.kwargs.get(name, default)


@dataclass(slots=True)
class Forward:
    """One call of an outermost module."""

    serial: int
    model: nn.Module
    args: tuple[Any, ...]  # valid during `on_forward` only
    kwargs: dict[str, Any]
    output: Any
    phase: str  # best guess
    grad: bool  # a graph could be built
    training: bool  # model.training


@dataclass(slots=True)
class Evaluation:
    """One evaluation: the forwards without a backward between two updates."""

    step: int
    batches: int = 0
    samples: int = 0
    seconds: float = 0.0
    train_mode: int = 0  # forwards with model.training True
    grad_enabled: int = 0  # forwards that built a graph
    forwards: int = 0
    loader: Any = None  # the loader its batches came from, where one was seen
    other: bool = False  # not of the validation set: a test set, or a part of the training set, next to it
    mixed: bool = False  # training data were evaluated with it: of these only the losses are told apart, by what was printed
    part: bool = False  # its loss calls give only a part of the script's own loss
    models: frozenset[int] = frozenset()  # ids of the models that were evaluated, known at its end
    hits: tuple[float, int] | None = None  # predictions that the script found right when it compared them, of how many
    mean_hits: float | None = None  # the mean over its batches of the share that was found right
    answers: tuple[Any, Any] | None = None  # labels and predictions of all its samples as they were handed to a metric
    printed: float | None = None  # the mean loss of the evaluation as the script printed it
    formula: str = ""  # how that was taken (`claims.py`), where it was not taken as it should be
    claimed: tuple[float, float] | None = None  # the accuracy that the script printed, as a share, and half its last digit


class Scene:
    """What a probe may look at: the models, the optimizers, the parameters with their names, and where the run is."""

    def __init__(self) -> None:
        self._models: list[weakref.ref[nn.Module]] = []  # only the user's program keeps its things alive
        self.optimizer_refs: list[weakref.ref[Optimizer]] = []
        self.param_refs: list[weakref.ref[Tensor]] = []
        self.names: tuple[str, ...] = ()  # names of the parameters, wrappers' prefixes removed
        self.version = 0  # grows when params, names or models change
        self.step = 0  # the update on the way (0-based)
        self.begun = 0  # the first that we saw
        self.epoch = 0
        self.phase = OTHER
        self.full = True  # this step is one for everything: per-layer passes, contents of batches …
        self.first = True  # one of the first 20 steps, which are always full
        self.loss: Tensor | None = None  # detached loss of the latest backward of this step
        self.clipped: Any = None  # norm of the gradients before the clip call of this update, where one has told
        self.every_norm = False  # read the gradient norm at every step, not on full ones only
        self.loader: Any = None  # the loader that gave the latest batch
        self.drawn: Any = None  # its indices in the data set, where a DataLoader's sampler tells
        self.world = 1  # ranks of this run
        self.waits_in_forward = False  # ranks wait for one another in the forward, too: sharded weights, synchronised buffers
        self.ended = False  # the run is over: `facts` may do what is too dear before
        self.compiled = False  # torch.compile was seen: modules are left alone
        self.autocast: tuple[str, Any] | None = None  # device and dtype of the script's autocast at this moment
        self.facts: dict[str, Any] = {}  # facts so far
        self.taped_whole = False  # no call can be missing among them
        self.taped: Callable[[], Sequence[Any]] = (
            tuple  # the script's torch calls since the model returned, where they are kept
        )
        self._event: Callable[[str, dict[str, Any]], None] = lambda kind, data: None
        self._nonfinite: Callable[..., None] = lambda what, names, value, when, step=None: None
        self.remembered: Callable[..., tuple[int, float] | None] = lambda args, kwargs, known: None  # (`data.py`)
        self._owned: Callable[[Any], tuple[list[Tensor], tuple[str, ...]]] = lambda optimizer: (self.params, self.names)

    def bind(self, event: Callable[..., None], nonfinite: Callable[..., None], owned: Callable[[Any], Any]) -> None:
        """Who answers for it (the recorder)."""
        self._event, self._nonfinite, self._owned = event, nonfinite, owned

    def cast(self, models: Iterable[Any], optimizers: Iterable[Any], params: Iterable[Tensor], names: tuple[str, ...]) -> None:
        """Who is on stage from now on (the recorder's business)."""
        self._models = [weakref.ref(m) for m in models]
        self.optimizer_refs = [weakref.ref(o) for o in optimizers]
        self.param_refs = [weakref.ref(p) for p in params]
        self.names = names

    @property
    def models(self) -> list[nn.Module]:
        """Outermost modules that led to a loss, the first one first."""
        return [m for r in self._models if (m := r()) is not None]

    @property
    def optimizers(self) -> list[Optimizer]:
        """Optimizers in order of their first step."""
        return [o for r in self.optimizer_refs if (o := r()) is not None]

    @property
    def params(self) -> list[Tensor]:
        """Every distinct parameter of models and optimizers, in model order."""
        return [p for r in self.param_refs if (p := r()) is not None]

    @property
    def model(self) -> nn.Module | None:
        """The first model that led to a loss."""
        return next((m for r in self._models if (m := r()) is not None), None)

    @property
    def optimizer(self) -> Optimizer | None:
        """The primary optimizer: the first that stepped."""
        return next((o for r in self.optimizer_refs if (o := r()) is not None), None)

    def owned(self, optimizer: Any) -> tuple[list[Tensor], tuple[str, ...]]:
        """The parameters whose update this optimizer's step is, and their names (one tuple object until `version` grows)."""
        return self._owned(optimizer)

    def fact(self, key: str, value: Any) -> None:
        """State a fact of the run (keys: `signals.FACTS`); the last word counts."""
        self.facts[key] = value

    def blind(self, signal: str, reason: str) -> None:
        """Say that a signal cannot be seen, and why."""
        self.facts.setdefault("blind", {}).setdefault(signal, reason)

    def nonfinite(self, what: str, names: list[str], value: float, when: str, step: int | None = None) -> None:
        """Say that something (loss, grad, param, buffer, state, activation, input) is not finite, and when of the update."""
        self._nonfinite(what, names, value, when, step)

    def event(self, kind: str, **data: Any) -> None:
        """Note an event at this step; the same kind again only raises its count."""
        self._event(kind, data)


class Probe:
    """Base of all probes: every moment does nothing. `cadence` 'full' means: moments are called on full steps only.

    An ordinary step (neither full nor anything but training) must cost almost nothing: there a probe of cadence 'step' is
    asked only at the moments of the pass (`PASS`) that it lists in `ordinary`, and not at all while it is `idle`, except at
    those it lists in `wakes`.
    """

    cadence: ClassVar[str] = "step"
    ordinary: ClassVar[tuple[str, ...] | None] = None  # None: all that it has
    wakes: ClassVar[tuple[str, ...]] = ()
    idle: bool = False
    light: ClassVar[bool] = False  # on ordinary steps it touches no tensor's values: may be asked without any preparation

    def start(self, scene: Scene) -> Reading | None:
        """Models, optimizers and parameters are known; called once, before the first update is made."""

    def changed(self, scene: Scene) -> None:
        """`scene.params` or `scene.models` changed (a new optimizer, layers added): drop cached lists."""

    def on_loader(self, scene: Scene, loader: Any, phase: str) -> Reading | None:
        """An iteration over a loader begins; the phase is a guess from what it was used for before."""

    def on_loader_end(self, scene: Scene, loader: Any, complete: bool) -> Reading | None:
        """The iteration is over: it ran dry (complete) or another one began."""

    def on_batch(self, scene: Scene, batch: Any, phase: str) -> Reading | None:
        """A batch came from a loader (or `dx.batches`): `scene.loader`."""

    def before_forward(self, scene: Scene, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """An outermost module is about to be called (nothing of it has run yet)."""

    def on_forward(self, scene: Scene, forward: Forward) -> Reading | None:
        """An outermost module returned."""

    def on_skipped(self, scene: Scene, forwards: int, samples: int) -> None:
        """So many training forwards, of so many samples in all, went by unseen since the last one that was told."""

    def on_module(self, scene: Scene, name: str, module: nn.Module, args: tuple[Any, ...], output: Any) -> Reading | None:
        """A module below a known model returned: on full training steps and in the very first forwards only."""

    def on_attention(
        self, scene: Scene, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> Reading | None:
        """Attention in a full training forward: kind 'fused' (scaled_dot_product_attention) or 'softmax' (out: weights)."""

    def on_activation(self, scene: Scene, kind: str, layer: str, output: Any) -> Reading | None:
        """A functional relu, tanh or sigmoid in a full training forward, applied to the output of module `layer`."""

    def on_policy(self, scene: Scene, distribution: Any) -> Reading | None:
        """The log-probability of actions drawn from such a distribution is being trained (full steps only)."""

    def on_divergence(self, scene: Scene, one: Any, two: Any) -> Reading | None:
        """`torch.distributions.kl_divergence(one, two)` was computed with a graph (full steps only)."""

    def on_loss(self, scene: Scene, call: LossCall) -> Reading | None:
        """A loss function returned. For validation calls, reduce to small own tensors and keep them by `call.serial`."""

    def on_call(
        self, scene: Scene, name: str, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any, site: str
    ) -> None:
        """A loss function of torch returned: told first, and on every step (`on_loss` has the reading)."""

    def on_loss_error(self, scene: Scene, call: LossCall, error: BaseException) -> Reading | None:
        """A loss function raised `error`; `call.output` is None."""

    def on_settled(self, scene: Scene, call: LossCall, phase: str) -> Reading | None:
        """The final word on a loss call's phase (its tensors are gone): train when a backward went through it."""

    def on_backward(self, scene: Scene, loss: Tensor) -> Reading | None:
        """A backward is about to begin from `loss`."""

    def before_step(self, scene: Scene, optimizer: Optimizer | None) -> Reading | None:
        """Gradients are final (clipped, unscaled), weights are still the old ones. None: a manual update."""

    def after_step(self, scene: Scene, optimizer: Optimizer | None) -> Reading | None:
        """The update was made; readings still belong to `scene.step`."""

    def on_eval_begin(self, scene: Scene, evaluation: Evaluation) -> Reading | None:
        """An evaluation began (its first loss call or forward follows or has just settled)."""

    def on_eval_end(self, scene: Scene, evaluation: Evaluation) -> Reading | None:
        """The evaluation is over; readings are recorded once, at `evaluation.step`."""

    def on_eval_dropped(self, scene: Scene, evaluation: Evaluation) -> None:
        """What had begun as one was none (a teacher, a target network, a look at training data): forget what it brought."""

    def on_mode(self, scene: Scene, module: nn.Module, training: bool) -> None:
        """`module.train()` or `.eval()` was called on a known model."""

    def on_save(self, scene: Scene, obj: Any, path: str) -> None:
        """torch.save wrote `obj`."""

    def on_read(self, scene: Scene, obj: Any) -> None:
        """torch.load read `obj`."""

    def on_load(self, scene: Scene, module: Any, keys: tuple[str, ...], missing: list[str], unexpected: list[str]) -> None:
        """load_state_dict was called on a module or optimizer (`module`); `keys` are those of the state that was given."""

    def on_seed(self, scene: Scene, what: str, value: Any) -> None:
        """A seed was set: python, numpy, torch, cuda."""

    def on_built(self, scene: Scene, kind: str, thing: Any) -> None:
        """A 'scheduler', 'scaler', 'optimizer' or 'loader' was constructed; keep weak references only."""

    def on_metric(self, scene: Scene, name: str, value: Any, phase: str) -> Reading | None:
        """The user logged a metric (`dx.log`, tapped loggers)."""

    def on_columns(self, scene: Scene, columns: Mapping[str, Any]) -> None:
        """The user gave columns for the samples of the latest batch (`dx.log(slices=…)`)."""

    def on_event(self, scene: Scene, kind: str, data: Mapping[str, Any]) -> None:
        """Another part noted an event."""

    def last(self, scene: Scene) -> Reading | None:
        """The run is over: readings that were still being gathered."""

    def facts(self, scene: Scene) -> Mapping[str, Any] | None:
        """Facts so far (`signals.FACTS`); called off the step path occasionally and at the end; reading own tensors is fine."""


class Noted(NamedTuple):
    """A call of a model in a skipped step."""

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    versions: tuple[int, ...]  # of the tensors in them
    random: Tensor | None  # state before it; None: it draws no random numbers
    autocast: tuple[str, Any] | None
    begun: float
    first: int  # autograd's number before it


class Keeper(Probe):
    """Keeps what a step was made of until the step ends: the only kind of probe that is asked of skipped steps, too.

    Where `patient` says so, such a step is not told to it at all: the calls of the model are noted, and when somebody wants to
    know, `untold` brings it all with one `recall`.
    """

    light = True
    on = True  # it keeps something; not after it has seen what it was there for
    untold: Callable[[], None] | None = None  # brings what was kept back, if anything was

    def patient(self, model: nn.Module | None) -> bool:
        """Whether a step through this model may be told afterwards."""
        raise NotImplementedError

    def draws(self, model: nn.Module | None) -> bool:
        """Whether its forward draws random numbers."""
        raise NotImplementedError

    def versions(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
        """The versions of the tensors in a call."""
        raise NotImplementedError

    def recall(self, calls: Sequence[Noted], outputs: Sequence[Any], batch: Any, root: Tensor | None) -> None:
        """What the step was made of so far: calls of its models, the loader's batch, what backward was called on."""
        raise NotImplementedError


PASS = (
    "before_forward", "on_forward", "on_call", "on_loss", "on_settled", "on_backward", "before_step", "after_step",
)  # fmt: skip
MOMENTS = tuple(name for name, thing in vars(Probe).items() if callable(thing) and not name.startswith("_"))


@dataclass(frozen=True)
class Failure:
    """An error a probe made: kept in the record, never shown to the user's code."""

    probe: str
    moment: str
    error: str
    traceback: str = field(default="", repr=False)
