"""Watch every operation of a step and name the ones that turned finite inputs into NaN or infinity.

The tracer sits below autograd, so it sees forward and backward operations alike. Under `detect_anomaly(check_nan=False)` each
backward node keeps the Python stack of the forward call that made it: that is how a backward operation gets its source line.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

Step = Callable[[], Sequence[Tensor]]
"""One step: runs forward, loss and backward, and gives what must be finite (the loss and the gradients)."""

MOST_ORIGINS = 64
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

    op: str
    phase: str  # forward or backward
    module: str
    file: str
    line: int
    function: str
    text: str  # the source line itself
    operands: tuple[Operand, ...]
    scalars: tuple[float, ...]
    value: str  # nan, inf or -inf
    index: tuple[int, ...]  # first bad element of the output
    count: int  # bad elements
    size: int  # elements
    call: int  # running number of the operation in the step
    dtype: str
    proven: bool = False  # patching this output alone (or with earlier ones) made the step finite


@dataclass
class Trace:
    """What one traced run of the step showed."""

    origins: list[Origin] = field(default_factory=list)
    finite: bool = True  # loss and gradients
    bad_inputs: bool = False  # something was non-finite before the first operation
    calls: int = 0
    seconds: float = 0.0
    error: str = ""
    complete: bool = True  # False: the time was up before the step ended


class TimeIsUp(Exception):
    """The trace took longer than it was given."""


class Tracer(TorchDispatchMode):
    """Runs every operation, notes the origins, and replaces the outputs of `patched` calls by finite numbers."""

    def __init__(self, names: dict[int, str], patched: frozenset[int] = frozenset(), deadline: float = float("inf")) -> None:
        super().__init__()
        self.names = names  # id of a module → its path
        self.stack: list[str] = []
        self.patched = patched
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
        before = _health((args, kwargs)) if in_place else None  # in place: the inputs are gone afterwards
        out = func(*args, **kwargs)
        if _NOT_ARITHMETIC.match(name):
            return out
        bad = [t for t in _tensors(out) if not _finite(t)]
        if not bad:
            return out
        was = before if before is not None else _health((args, kwargs))
        # an infinity is born of finite inputs, a NaN of inputs without NaN: softmax over an all -inf row, inf - inf, 0 · inf
        if was == "finite" or (was == "infinite" and any(_has_nan(t) for t in bad)):
            if len(self.origins) < MOST_ORIGINS:
                self.origins.append(self._origin(name, args, kwargs, bad[0], call, in_place))
        elif was == "nan":
            self.saw_bad_input = True
        if call in self.patched:
            for t in bad:
                t.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        return out

    def _origin(self, name: str, args: Any, kwargs: Any, out: Tensor, call: int, in_place: bool) -> Origin:
        backward = torch._C._current_graph_task_id() != -1
        file, line, function = _forward_line() if backward else _user_line(sys._getframe(2))
        flat = out.detach().reshape(-1)
        wrong = ~torch.isfinite(flat)
        first = int(wrong.to(torch.uint8).argmax())
        index = _unravel(first, tuple(out.shape))
        operands = () if in_place else tuple(_operand(t) for t in _tensors((args, kwargs))[:4])
        return Origin(
            op=name.removeprefix("aten::"),
            phase="backward" if backward else "forward",
            module="" if backward else (self.stack[-1] if self.stack else ""),
            file=file,
            line=line,
            function=function,
            text=_source(file, line),
            operands=operands,
            scalars=tuple(_scalars((args, kwargs)))[:4],
            value=_kind(float(flat[first])),
            index=index,
            count=int(wrong.sum()),
            size=flat.numel(),
            call=call,
            dtype=str(out.dtype).removeprefix("torch."),
        )

    @contextmanager
    def modules(self) -> Iterator[None]:
        """Keep the stack of modules while inside; their paths come from `names`."""

        def enter(module: nn.Module, args: Any) -> None:
            self.stack.append(self.names.get(id(module), type(module).__name__))

        def leave(module: nn.Module, args: Any, output: Any) -> None:
            if self.stack:
                self.stack.pop()

        handles = [
            nn.modules.module.register_module_forward_pre_hook(enter),
            nn.modules.module.register_module_forward_hook(leave, always_call=True),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def trace(step: Step, model: nn.Module | None = None, *, patched: frozenset[int] = frozenset(), seconds: float = 10.0) -> Trace:
    """Run the step once under the tracer."""
    names = {id(m): name or type(m).__name__ for name, m in model.named_modules()} if model is not None else {}
    began = time.monotonic()
    tracer = Tracer(names, patched, began + seconds)
    result = Trace()
    try:
        with torch.autograd.set_detect_anomaly(True, check_nan=False), tracer.modules(), tracer:
            ends = step()
        result.finite = all(_finite(t) for t in ends)
    except TimeIsUp:
        result.complete, result.finite = False, False
    except (
        Exception
    ) as error:  # the step may fail in its own way (e.g. a BCE input that is NaN); what was seen until then counts
        result.error, result.finite = f"{type(error).__name__}: {error}", False
    result.origins = tracer.origins
    result.calls, result.bad_inputs = tracer.calls, tracer.saw_bad_input
    result.seconds = time.monotonic() - began
    return result


def explain(step: Step, model: nn.Module | None = None, *, seconds: float = 10.0) -> Trace:
    """Trace the step, then prove which origins matter: those whose repair makes loss and gradients finite.

    An infinity that was meant (a mask, a log-probability of zero) is an origin too, but repairing it changes nothing.
    """
    began = time.monotonic()
    seen = trace(step, model, seconds=seconds)
    if seen.finite or not seen.origins:
        return seen
    proven: set[int] = set()
    for calls in _attempts(seen.origins):
        left = seconds - (time.monotonic() - began)
        if left <= 0:
            break
        again = trace(step, model, patched=calls, seconds=left)
        if again.finite:
            proven = set(calls)
            break
    if len(proven) > 1:
        proven = _least(step, model, proven, began + seconds)
    seen.origins = [replace(o, proven=o.call in proven) for o in seen.origins]
    seen.seconds = time.monotonic() - began
    return seen


def _attempts(origins: Sequence[Origin]) -> Iterator[frozenset[int]]:
    """Each origin alone, first to last; then the first two, three … together."""
    for o in origins[:8]:
        yield frozenset({o.call})
    for n in range(2, len(origins) + 1):
        yield frozenset(o.call for o in origins[:n])


def _least(step: Step, model: nn.Module | None, proven: set[int], deadline: float) -> set[int]:
    """Drop from the repaired calls those that need no repair."""
    for call in sorted(proven):
        left = deadline - time.monotonic()
        if left <= 0 or len(proven) == 1:
            break
        if trace(step, model, patched=frozenset(proven - {call}), seconds=left).finite:
            proven = proven - {call}
    return proven


def _finite(t: Tensor) -> bool:
    # The product with zero is NaN exactly where the value is not finite, and a sum is far cheaper than isfinite().all()
    if not (t.is_floating_point() or t.is_complex()) or t.numel() == 0 or t.is_meta:
        return True
    if t.is_sparse or t.layout is not torch.strided:
        t = t.coalesce().values() if t.layout is torch.sparse_coo else t.values()
    total = (t.detach() * 0).sum()
    return bool(total == 0)


def _has_nan(t: Tensor) -> bool:
    return (t.is_floating_point() or t.is_complex()) and bool(torch.isnan(t.detach()).any())


def _health(value: Any) -> str:
    """The worst thing among the tensors and numbers of a call: finite, infinite or nan."""
    tensors, scalars = _tensors(value), _scalars(value)
    if all(_finite(t) for t in tensors) and all(abs(s) < float("inf") for s in scalars):
        return "finite"
    return "nan" if any(s != s for s in scalars) or any(_has_nan(t) for t in tensors) else "infinite"


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _tensors(v)]
    if isinstance(value, list | tuple):
        return [t for v in value for t in _tensors(v)]
    return []


def _scalars(value: Any) -> list[float]:
    if isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [float(value)]
    if isinstance(value, dict):
        return [s for v in value.values() for s in _scalars(v)]
    if isinstance(value, list | tuple):
        return [s for v in value for s in _scalars(v)]
    return []


def _operand(t: Tensor) -> Operand:
    if not (t.is_floating_point()) or t.numel() == 0 or t.layout is not torch.strided:
        return Operand(tuple(t.shape), str(t.dtype).removeprefix("torch."), float("nan"), float("nan"), float("nan"))
    x = t.detach().float()
    low, high = x.aminmax()
    return Operand(tuple(t.shape), str(t.dtype).removeprefix("torch."), float(low), float(high), float(x.abs().min()))


def _kind(value: float) -> str:
    return "nan" if value != value else ("inf" if value > 0 else "-inf")


def _unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    out = []
    for size in reversed(shape):
        flat, rest = divmod(flat, max(size, 1))
        out.append(rest)
    return tuple(reversed(out))


_LIBRARIES = tuple(
    f"{folder}{os.sep}" for folder in (Path(torch.__file__).resolve().parent, Path(__file__).resolve().parents[1])
)
_STANDARD = f"{Path(os.__file__).resolve().parent}{os.sep}"


def ours(file: str) -> bool:
    """Whether a file belongs to torch, traindx, the standard library or an installed package, and not to the user."""
    if file.startswith("<"):
        return not file.startswith(("<ipython", "<stdin"))
    real = os.path.realpath(file)
    return real.startswith(_LIBRARIES) or "site-packages" in real or real.startswith(_STANDARD)


def _user_line(frame: FrameType | None) -> tuple[str, int, str]:
    """The innermost line of the user's own code; the innermost line at all when there is none."""
    first: tuple[str, int, str] | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not ours(file):
            return file, frame.f_lineno, frame.f_code.co_name
        if first is None and not file.startswith(_LIBRARIES):
            first = file, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back
    return first or ("", 0, "")


_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


def _forward_line() -> tuple[str, int, str]:
    """The user's line that created the backward node which is running now."""
    node = torch._C._current_autograd_node()
    stack = node.metadata.get("traceback_", []) if node is not None else []
    frames = [m for entry in stack for m in _FRAME.finditer(entry)]
    users = [m for m in frames if not ours(m["file"])]
    best = users[-1] if users else (frames[-1] if frames else None)
    return (best["file"], int(best["line"]), best["function"]) if best else ("", 0, "")


def _source(file: str, line: int) -> str:
    import linecache

    return linecache.getline(file, line).strip()[:200] if file else ""
