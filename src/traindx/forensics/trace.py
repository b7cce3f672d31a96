"""Watch every operation of a step and name the ones that turned finite inputs into NaN or infinity.

The tracer sits below autograd, so it sees forward and backward operations alike. Under `detect_anomaly(check_nan=False)` each
backward node keeps the Python stack of the forward call that made it: that is how a backward operation gets its source line.
"""

from __future__ import annotations

import re
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from traindx import innards
from traindx.forensics.places import line_in, source, user_line
from traindx.forensics.tensors import finite, has_nan, health, kind, scalars_in, tensors_in, unravel

Step = Callable[[], Sequence[Tensor]]
"""One step: runs forward, loss and backward, and gives what must be finite (the loss and the gradients)."""

MOST_ORIGINS = 64
ROUNDS = 5  # of repairing what breaks behind a repaired call
REPAIR = 1e3  # an infinity is repaired by a number of its sign: zero would make a 0 / 0 of many a sum
_AT_WORK: list[Tracer] = []
_next_number = innards.sequence_nr
# Operations whose output is memory nobody wrote, or the same storage seen differently: never an origin.
_NOT_ARITHMETIC = re.compile(
    r"aten::(empty|new_empty|resize_|set_|view|_unsafe_view|reshape|t$|transpose|permute|expand|alias|detach|lift|slice|select|as_strided|squeeze|unsqueeze|split|chunk|unbind|is_|_local_scalar|item)"
)


@dataclass(frozen=True)
class Operand:
    """The range of one tensor that went into an operation."""

    shape: tuple[int, ...]
    dtype: str
    low: float
    high: float
    smallest: float  # smallest magnitude: the distance to a singularity


@dataclass(frozen=True)
class Origin:
    """An operation whose inputs were finite and whose output was not."""

    op: str  # in backward: the forward operation whose derivative it is
    aten: str  # the operation that ran
    phase: str  # forward or backward
    module: str
    file: str
    line: int
    function: str
    text: str  # the source line itself
    operands: tuple[Operand, ...]
    scalars: tuple[float, ...]
    value: str  # the worst of the output: nan, else inf, else -inf
    index: tuple[int, ...]  # first such element of the output
    count: int  # bad elements
    size: int  # elements
    call: int  # running number of the operation in the step
    dtype: str
    place: str = ""  # which part of the step it lies in: between (loader and model), model or loss
    proven: bool = False  # patching this output alone (or with earlier ones) made the step finite


@dataclass
class Trace:
    """What one traced run of the step showed."""

    origins: list[Origin] = field(default_factory=list)
    broke: list[int] = field(default_factory=list)  # running numbers of all origins
    finite: bool = True  # loss and gradients
    loss_finite: bool = True
    bad_inputs: bool = False  # something was non-finite before the first operation
    calls: int = 0
    seconds: float = 0.0
    error: str = ""
    complete: bool = True  # False: the time was up before the step ended


class TimeIsUp(Exception):
    """The trace took longer than it was given."""


class Tracer(innards.DispatchMode):
    """Runs every operation, notes the origins, and replaces the outputs of `patched` calls by finite numbers."""

    def __init__(
        self,
        names: dict[int, str],
        patched: frozenset[int] = frozenset(),
        deadline: float = float("inf"),
        light: bool = False,
    ) -> None:
        super().__init__()
        self.names = names  # id of a module → its path
        self.light = light  # note which calls are origins and nothing about them
        self.broke: list[int] = []
        self.stack: list[str] = []
        self.numbers: list[int] = []  # autograd numbers at which the running module changed …
        self.running: list[tuple[str, str]] = []  # … and to which, with the part of the step
        self.place = ""
        self.patched = patched
        self.repaired: set[int] = set()  # autograd numbers of patched forward calls
        self.deadline = deadline
        self.origins: list[Origin] = []
        self.calls = 0
        self.saw_bad_input = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.calls += 1
        call = self.calls
        if call % 64 == 0 and time.monotonic() > self.deadline:
            raise TimeIsUp
        name = func._schema.name
        in_place = func._schema.is_mutable
        before = health((args, kwargs)) if in_place else None  # in place: the inputs are gone afterwards
        out = func(*args, **kwargs)
        if _NOT_ARITHMETIC.match(name):
            return out
        bad = [t for t in tensors_in(out) if not finite(t)]
        if not bad:
            return out
        was = before if before is not None else health((args, kwargs))
        # an infinity is born of finite inputs, a NaN of inputs without NaN: softmax over an all -inf row, inf - inf, 0 · inf
        born = was == "finite" or (was == "infinite" and any(has_nan(t) for t in bad))
        if born and len(self.broke) < MOST_ORIGINS:
            self.broke.append(call)
            if not self.light:
                self.origins.append(self._origin(name, args, kwargs, bad[0], call, in_place))
        elif was == "nan":
            self.saw_bad_input = True
        self._repair(born and call in self.patched, bad)
        return out

    def _repair(self, patched: bool, bad: list[Tensor]) -> None:
        """Make the result of a patched call finite; with a forward call, its own derivative is repaired too.

        What came in broken goes out broken: otherwise a repair further down would hide what is above it.
        """
        node = innards.autograd_node() if innards.graph_task() != -1 else None
        if node is None and patched:
            self.repaired.add(_next_number() - 1)  # the node of this operation has just been numbered
            for t in bad:
                t.nan_to_num_(nan=1.0, posinf=REPAIR, neginf=-REPAIR)
        elif node is not None and (patched or int(node._sequence_nr()) in self.repaired):
            for t in bad:
                t.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)

    def _origin(self, name: str, args: Any, kwargs: Any, out: Tensor, call: int, in_place: bool) -> Origin:
        node = innards.autograd_node() if innards.graph_task() != -1 else None
        op = name.removeprefix("aten::")
        module, place = self.stack[-1] if self.stack else "", self.place
        if node is None:
            file, line, function = user_line(sys._getframe(2))
        else:
            file, line, function = line_in(node.metadata.get("traceback_", []))
            op = forward_name(node)
            module, place = self._module_of(node)
        flat = out.detach().reshape(-1)
        wrong = ~torch.isfinite(flat)
        worst = next(w for w in (flat.isnan(), flat == float("inf"), wrong) if bool(w.any()))
        first = int(worst.to(torch.uint8).argmax())
        return Origin(
            op=op,
            aten=name.removeprefix("aten::"),
            phase="forward" if node is None else "backward",
            module=module,
            file=file,
            line=line,
            function=function,
            text=source(file, line),
            operands=() if in_place else tuple(_operand(t) for t in tensors_in((args, kwargs))[:4]),
            scalars=tuple(scalars_in((args, kwargs)))[:4],
            value=kind(float(flat[first])),
            index=unravel(first, tuple(out.shape)),
            count=int(wrong.sum()),
            size=flat.numel(),
            call=call,
            dtype=str(out.dtype).removeprefix("torch."),
            place=place,
        )

    def _module_of(self, node: Any) -> tuple[str, str]:
        """The module whose forward made this node, and the part of the step: as they were when the node got its number."""
        at = bisect_right(self.numbers, int(node._sequence_nr())) - 1
        return self.running[at] if at >= 0 else ("", "")

    def _mark(self) -> None:
        self.numbers.append(_next_number())
        self.running.append((self.stack[-1] if self.stack else "", self.place))

    def enter(self, place: str) -> None:
        """The step has come to this part of it."""
        self.place = place
        self._mark()

    @contextmanager
    def modules(self) -> Iterator[None]:
        """Keep the stack of modules while inside; their paths come from `names`."""

        def enter(module: nn.Module, args: Any) -> None:
            self.stack.append(self.names.get(id(module), type(module).__name__))
            self._mark()

        def leave(module: nn.Module, args: Any, output: Any) -> None:
            if self.stack:
                self.stack.pop()
            self._mark()

        handles = [
            nn.modules.module.register_module_forward_pre_hook(enter),
            nn.modules.module.register_module_forward_hook(leave, always_call=True),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def entering(place: str) -> None:
    """Said by a step that is made again: what follows belongs to this part of it."""
    if _AT_WORK:
        _AT_WORK[-1].enter(place)


def paths(models: Sequence[nn.Module]) -> dict[int, str]:
    """Modules by id with their paths; those of a second model are preceded by its class."""
    out: dict[int, str] = {}
    for i, model in enumerate(models):
        own = type(model).__name__
        for name, module in model.named_modules():
            out.setdefault(id(module), (f"{own}.{name}" if i else name) if name else own)
    return out


def trace(
    step: Step,
    models: Sequence[nn.Module] = (),
    *,
    patched: frozenset[int] = frozenset(),
    seconds: float = 10.0,
    light: bool = False,
) -> Trace:
    """Run the step once under the tracer; `light` gives the numbers of the calls that broke and not their places."""
    names = paths(models)
    began = time.monotonic()
    tracer = Tracer(names, patched, began + seconds, light)
    result = Trace()
    places = nullcontext() if light else torch.autograd.set_detect_anomaly(True, check_nan=False)
    _AT_WORK.append(tracer)
    try:
        with places, nullcontext() if light else tracer.modules(), tracer:
            ends = step()
        result.loss_finite = finite(ends[0])
        result.finite = all(finite(t) for t in ends)
    except TimeIsUp:
        result.complete, result.finite, result.loss_finite = False, False, False
    except (
        Exception
    ) as error:  # the step may fail in its own way (e.g. a BCE input that is NaN); what was seen until then counts
        result.error = f"{type(error).__name__}: {error}"
        result.finite = result.loss_finite = False
    finally:
        _AT_WORK.pop()
    result.origins, result.broke = tracer.origins, tracer.broke
    result.calls, result.bad_inputs = tracer.calls, tracer.saw_bad_input
    result.seconds = time.monotonic() - began
    return result


def explain(step: Step, models: Sequence[nn.Module] = (), *, seconds: float = 10.0) -> Trace:
    """Trace the step, then prove which origins matter: those whose repair makes loss and gradients finite.

    An infinity that was meant (a mask, a log-probability of zero) is an origin too, but repairing it changes nothing.
    """
    began = time.monotonic()
    seen = trace(step, models, seconds=seconds)
    if seen.finite or not seen.origins:
        return seen

    def again(calls: frozenset[int]) -> Trace | None:
        left = began + seconds - time.monotonic()
        return trace(step, patched=calls, seconds=left, light=True) if left > 0 else None

    def heals(calls: frozenset[int]) -> bool:
        made = again(calls)
        return made is not None and made.finite

    # with a finite loss it is the backward that broke: an infinity of the forward has been masked, rightly or not
    order = sorted(seen.origins, key=lambda o: o.phase == "forward") if seen.loss_finite else seen.origins
    proven = _roots(_least(heals, _enough(again, order)), seen.origins)
    seen.origins = [replace(o, proven=o.call in proven) for o in seen.origins]
    seen.seconds = time.monotonic() - began
    return seen


def _enough(again: Callable[[frozenset[int]], Trace | None], origins: Sequence[Origin]) -> frozenset[int]:
    """Calls whose repair heals the step, from the first origins on; empty when none does.

    Behind a repaired call the next one may break in its turn (a number that is merely huge): it is repaired as well.
    """
    for start in [[o.call] for o in origins[:3]] + [[o.call for o in origins]]:
        calls = frozenset(start)
        for _ in range(ROUNDS):
            made = again(calls)
            if made is None:
                return frozenset()
            if made.finite:
                return calls
            new = frozenset(made.broke) - calls
            if not new:
                break
            calls |= new
    return frozenset()


def _least(heals: Callable[[frozenset[int]], bool], proven: frozenset[int], most: int = 12) -> frozenset[int]:
    """Drop from the repaired calls those that need no repair, benign ones first of all."""
    for call in sorted(proven)[:most]:
        if len(proven) > 1 and heals(proven - {call}):
            proven = proven - {call}
    return proven


def _roots(proven: frozenset[int], origins: Sequence[Origin]) -> frozenset[int]:
    """Blame what made a +inf, not the operation that it reached: only −inf is ever put there on purpose, as a mask."""
    first = next((o for o in origins if o.call in proven), None)
    if first is None or not any(x.high == float("inf") for x in first.operands):
        return proven
    made = next((o.call for o in origins if o.call < first.call and o.phase == first.phase and o.value == "inf"), None)
    return proven if made is None else proven - {first.call} | {made}


def _operand(t: Tensor) -> Operand:
    if not (t.is_floating_point()) or t.numel() == 0 or t.layout is not torch.strided:
        return Operand(tuple(t.shape), str(t.dtype).removeprefix("torch."), float("nan"), float("nan"), float("nan"))
    x = t.detach().float()
    low, high = x.aminmax()
    return Operand(tuple(t.shape), str(t.dtype).removeprefix("torch."), float(low), float(high), float(x.abs().min()))


def forward_name(node: Any) -> str:
    """The forward operation a backward node belongs to: `SqrtBackward0` is sqrt, a custom `CubeBackward` is Cube."""
    name = re.sub(r"Backward\d*$", "", str(node.name()).rpartition("::")[2])
    if isinstance(node, torch.autograd.function.BackwardCFunction) or not re.search(r"Backward\d+$", node.name()):
        return name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
