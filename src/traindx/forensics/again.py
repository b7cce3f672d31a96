"""Make the broken step again, in a forked child, under the tracer; the child's answer comes back through a pipe.

The fork has its own copy of everything, so nothing the model's `forward` does can reach the user's run. It gets a time limit
and is killed when it passes.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from traindx.forensics import cure
from traindx.forensics.advice import FUSED, advise
from traindx.forensics.moment import Called, Moment, Taped
from traindx.forensics.places import ours
from traindx.forensics.tensors import finite, has_nan, tensors_in
from traindx.forensics.trace import Origin, Trace, entering, explain, forward_name

SECONDS = 10.0
_PASS_ON = ("add", "sub", "neg", "mul", "div", "mean", "sum", "view", "to_copy", "squeeze", "unsqueeze", "select")
MOST_NODES = 100  # of the graph, between the loss and the operation that broke
_COLLECTIVES = (
    "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_reduce_coalesced",
    "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list", "gather",
    "gather_object", "irecv", "isend", "monitored_barrier", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor",
    "scatter", "scatter_object_list", "send", "_all_gather_base", "_reduce_scatter_base",
)  # fmt: skip


class CannotReplay(Exception):
    """Why the step cannot be made again."""


def investigate(moment: Moment, params: Sequence[Tensor], names: Sequence[str], seconds: float = SECONDS) -> dict[str, Any]:
    """The facts of the breakdown: `origin`, `origins`, or `replay.failed` with the reason."""
    try:
        calls = _calls(moment)
        _replayable(moment, calls)
        if any(type(p).__name__ == "DTensor" or "FlatParameter" in type(p).__name__ for p in params):
            raise CannotReplay("the parameters are sharded over ranks: a replay would have to talk to them")
        if any(t.device.type != "cpu" for c in calls for t in tensors_in((c.args, c.kwargs))):
            raise CannotReplay("the step ran on an accelerator, and a replay in this process could touch the run")
        found = in_child(lambda: _work(moment, params, names, seconds * 0.9), seconds)
        return found if "origin" in found else {**_without_replay(moment), **found}
    except CannotReplay as why:
        return {"replay.failed": str(why), **_without_replay(moment)}


def _replayable(moment: Moment, calls: Sequence[Called]) -> None:
    if not calls:
        raise CannotReplay("no forward of a module was seen before the loss")
    if moment.overflow:
        raise CannotReplay("there were too many torch calls between the model and backward() to keep")
    for call in calls:
        now = tuple(t._version for t in tensors_in((call.args, call.kwargs)) if not t.is_inference())
        if now != call.versions:
            raise CannotReplay("an input of the model was changed in place after it was used")


def _calls(moment: Moment) -> list[Called]:
    return [c for c in moment.happened if isinstance(c, Called) and c.output is not None]


def in_child(work: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """What `work` gives in a forked child, or `replay.failed` with the reason. Nothing it does reaches this process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            torch.set_num_threads(1)  # the parent's worker threads did not come along
            gc.disable()
            answer = json.dumps(work())
        except CannotReplay as why:
            answer = json.dumps({"replay.failed": str(why)})
        except BaseException as error:  # the child has nobody to raise to; its parent reads the reason
            answer = json.dumps({"replay.failed": f"{type(error).__name__}: {error}"[:500]})
        try:
            _write_all(write, answer.encode())
        finally:
            os._exit(0)
    os.close(write)
    return _answer(read, child, seconds)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _answer(read: int, child: int, seconds: float) -> dict[str, Any]:
    """What the child says within its time; it is ended in any case."""
    data, deadline = b"", time.monotonic() + seconds
    try:
        while (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([read], [], [], left)
            if not ready:
                break
            chunk = os.read(read, 1 << 16)
            if not chunk:
                break
            data += chunk
    finally:
        os.close(read)
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):  # a script that ignores SIGCHLD, or waits for any child, was faster
            os.waitpid(child, 0)
    try:
        found: dict[str, Any] = json.loads(data)
    except ValueError:
        return {"replay.failed": f"the replay took longer than {seconds:g} s"}
    return found


# -- in the child


def alone(models: Sequence[nn.Module]) -> None:
    """Cut this child off from the other ranks: nothing it does may reach a collective, whose sockets it has inherited."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise CannotReplay("the step talks to the other ranks, and a replay must not")

    for name in _COLLECTIVES:
        if hasattr(torch.distributed, name):
            setattr(torch.distributed, name, refuse)
    for module in (part for model in models for part in model.modules()):
        if isinstance(module, nn.parallel.DistributedDataParallel):
            module.require_backward_grad_sync = module.require_forward_param_sync = module.broadcast_buffers = False


def _work(moment: Moment, params: Sequence[Tensor], names: Sequence[str], seconds: float) -> dict[str, Any]:
    ends = time.monotonic() + seconds
    calls = _calls(moment)
    alone([c.model for c in calls])
    models = list({id(m): m for m in (unwrapped(c.model) for c in calls)}.values())
    held, given = _broken(tensors_in(moment.batch)), _broken(_inputs(calls))
    targets = [] if held or given else _broken(_targets(moment))
    moment = replace(moment, before=spoilt_before(moment))
    trace = explain(step_of(moment, params), models, seconds=seconds)
    if trace.finite and not trace.origins:
        touched = [n for n, p in zip(names, params, strict=False) if p.grad is not None and not finite(p.grad)]
        if touched and moment.root is not None and finite(moment.root):
            return {"origin": _touched(touched[0])}
        raise CannotReplay(
            "the step came out finite when it was made again: it rests on random numbers or state we do not hold"
        )
    bad = [n for n, p in zip(names, params, strict=False) if not finite(p)]
    whole: bool | None = None
    if any(thing.autocast is not None for thing in moment.happened) and time.monotonic() < ends:
        whole = _comes_out_finite(step_of(moment, params, whole=True))
    spoilt = [*held, *given, *targets]
    healed = spoilt and time.monotonic() < ends and _comes_out_finite(step_of(moment, params, instead=_cleaned(spoilt)))
    source = spoilt[0] if healed else None
    if source is not None and given and not held and (moment.before or moment.batch is not None):
        found = _facts(trace, calls, bad, whole, None) if moment.before and trace.origins else _between(calls[0], source)
    else:
        found = _facts(trace, calls, bad, whole, source)
    if source is not None and targets:
        taker = next(thing for thing in moment.happened if any(t is source for t in tensors_in((thing.args, thing.kwargs))))
        why = "the targets hold NaN or infinity"
        found["origin"] |= {"op": "target", "why": why, "file": taker.file, "line": taker.line}
    sample, rows = found["origin"].get("sample"), _rows(calls)
    drawn = moment.drawn if isinstance(moment.drawn, list | tuple) and len(moment.drawn) == rows else ()
    if sample is not None and sample < len(drawn) and isinstance(drawn[sample], int):
        found["origin"]["sample_in_data"] = drawn[sample]
    return found


def spoilt_before(moment: Moment) -> list[Taped]:
    """The calls between loader and model, where they spoilt a good batch; else what the model got is kept, and that will do."""
    spoilt = not _broken(tensors_in(moment.batch)) and _broken(_inputs(_calls(moment)))
    return moment.before if spoilt else []


def _comes_out_finite(step: Callable[[], list[Tensor]]) -> bool | None:
    """Whether a variant of the step is finite; None when it fails, as with dtypes that only autocast had reconciled."""
    try:
        return all(finite(t) for t in step())
    except (RuntimeError, ValueError):
        return None


def _inputs(calls: Sequence[Called | Taped]) -> list[Tensor]:
    return [t for c in calls for t in tensors_in((c.args, c.kwargs)) if t.grad_fn is None]


def _targets(moment: Moment) -> list[Tensor]:
    """What the calls of the loss got from outside the step."""
    made = {id(t) for thing in moment.happened for t in tensors_in(thing.output)}
    return [t for t in _inputs([c for c in moment.happened if isinstance(c, Taped)]) if id(t) not in made]


def _broken(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Those with NaN or +inf (minus infinity is what masks are made of)."""
    return [t for t in tensors if not finite(t) and (has_nan(t) or bool((t == float("inf")).any()))]


def _cleaned(tensors: Sequence[Tensor]) -> dict[int, Tensor]:
    """Each with zeros for what is not finite, by its id."""
    return {id(t): t.nan_to_num(0.0, 0.0, 0.0) for t in tensors}


def step_of(
    moment: Moment, params: Sequence[Tensor], whole: bool = False, instead: Mapping[int, Tensor] | None = None
) -> Callable[[], list[Tensor]]:
    """The step as a function: forwards from their inputs, the loss from the tape, then backward.

    With the calls before the model where the moment has them; `instead`: tensors to take in place of others, by their ids.
    """
    root = moment.root
    if root is None:
        raise CannotReplay("no loss was seen")

    def run() -> list[Tensor]:
        made: dict[int, Tensor] = dict(instead or {})
        entering("between")
        for thing in [*moment.before, *moment.happened]:
            if thing.output is not None:
                if isinstance(thing, Called):
                    entering("model")
                again(thing, made, whole)
                if isinstance(thing, Called):
                    entering("loss")
        loss = made.get(id(root))
        if loss is None:
            raise CannotReplay(moment.untaped or "the loss was not made from the model's output by calls we saw")
        with torch.enable_grad():
            # not backward(): hooks that wrappers hang on the accumulation of gradients (a reduction over ranks) stay silent
            wanted = [p for p in params if p.requires_grad]
            grads = torch.autograd.grad(loss, wanted, torch.ones_like(loss), allow_unused=True) if wanted else ()
        return [loss, *[g for g in grads if g is not None]]

    return run


def again(thing: Called | Taped, made: dict[int, Tensor], whole: bool) -> None:
    """Make one forward or one call of the loss again, in the state of then, and note what stands for what."""
    cast: Any = nullcontext()
    if thing.autocast and not whole:
        cast = torch.autocast(thing.autocast[0], dtype=thing.autocast[1])
    func: Any = unwrapped(thing.model) if isinstance(thing, Called) else thing.func
    if isinstance(thing, Called):
        if thing.random is not None:
            torch.set_rng_state(thing.random)
        if thing.model.training is not thing.training:
            thing.model.train(thing.training)
    with cast, torch.set_grad_enabled(isinstance(thing, Called) or thing.grad):
        new = _placed(func, _replaced(thing.args, made), _replaced(thing.kwargs, made), thing.file, thing.line)
        _map(thing.output, new, made)


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside a wrapper that talks to other ranks."""
    while isinstance(model, nn.parallel.DistributedDataParallel):
        model = model.module
    return model


def _placed(func: Any, args: Any, kwargs: Any, file: str, line: int) -> Any:
    """Call it from a line of code that has the user's file and number, so that every stack of the call points there."""
    code = _code(file or "<unknown>", line)
    scope: dict[str, Any] = {"func": func, "args": args, "kwargs": kwargs}
    _run(code, scope)
    return scope["result"]


@cache
def _code(file: str, line: int) -> Any:
    tree = ast.parse("result = func(*args, **kwargs)")
    ast.increment_lineno(tree, max(line - 1, 0))
    return compile(tree, file, "exec")


def _run(code: Any, scope: dict[str, Any]) -> None:
    import builtins

    getattr(builtins, "exec")(code, scope)  # noqa: B009 our own few words of code, placed on the user's line


def _map(old: Any, new: Any, made: dict[int, Tensor]) -> None:
    """Remember which new tensor stands for which old one, through lists, tuples, dicts and model outputs."""
    if isinstance(old, Tensor) and isinstance(new, Tensor):
        made[id(old)] = new
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in old:
            if key in new:
                _map(old[key], new[key], made)
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple):
        for a, b in zip(old, new, strict=False):
            _map(a, b, made)
    elif hasattr(old, "__dict__") and type(old) is type(new):
        _map(vars(old), vars(new), made)


def _replaced(value: Any, made: dict[int, Tensor]) -> Any:
    if isinstance(value, Tensor):
        return made.get(id(value), value)
    if type(value) is dict:
        return {k: _replaced(v, made) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_replaced(v, made) for v in value))
    if type(value) in (list, tuple):
        return type(value)(_replaced(v, made) for v in value)
    return value


# -- what is told


def _facts(
    trace: Trace, calls: Sequence[Called], bad_weights: Sequence[str], whole: bool | None, bad: Tensor | None
) -> dict[str, Any]:
    said: dict[str, Any] = {"bad_batch": bad is not None, "bad_weights": bool(bad_weights), "finite_in_fp32": whole}
    rows_told = [told(o, _rows(calls), said) for o in trace.origins[:20]]
    more = {"origins": rows_told, "replay.seconds": round(trace.seconds, 3)}
    if trace.error:
        more["replay.failed"] = trace.error
    if bad is not None:
        return {"origin": _input_origin(calls[0], bad), **more}
    if bad_weights:
        advice = "go back to a checkpoint whose weights are finite"
        why = f"{bad_weights[0]} was not finite before the step"
        return {"origin": {**_plain("weights", "weights", why, advice, "weights"), "name": bad_weights[0]}, **more}
    first = next((i for i, o in enumerate(trace.origins[:20]) if o.proven), 0)
    if not rows_told:
        raise CannotReplay(trace.error or "no operation with finite inputs and a non-finite result was found")
    return {"origin": rows_told[first], **more}


def _rows(calls: Sequence[Called]) -> int | None:
    """How many samples the model was called with."""
    return next((t.shape[0] for t in _inputs(calls) if t.ndim), None)


def _input_origin(call: Called, bad: Tensor) -> dict[str, Any]:
    advice = "drop or clean those samples before they reach the model"
    return _at_input(_plain("input", "batch", "the batch holds NaN or infinity", advice, "data"), call, bad)


def _between(call: Called, bad: Tensor) -> dict[str, Any]:
    """The batch was finite and the model's input was not, and which call made it so was not heard."""
    why = "the loader's batch was finite, and what the model got was not"
    advice = "look at what happens to the batch before the model is called"
    return {"origin": _at_input(_plain("input", "operation", why, advice, "between"), call, bad)}


def _touched(name: str) -> dict[str, Any]:
    """Gradients that the backward left finite, and that were not when the update was to be made."""
    why = f"backward left the gradient of {name} finite, and it was not when the update came"
    advice = "look at what happens to the gradients between `backward()` and `step()`: a norm of zero that they are divided by"
    return {**_plain("", "operation", why, advice, "gradients"), "name": name}


def _at_input(said: dict[str, Any], call: Called, bad: Tensor) -> dict[str, Any]:
    at = (~torch.isfinite(bad)).nonzero()[0].tolist()
    return {**said, "file": call.file, "line": call.line, "index": at, "sample": at[0] if at else None}


def _plain(op: str, blame: str, why: str, advice: str, place: str, *, proven: bool = True) -> dict[str, Any]:
    at = {"op": op, "phase": "forward", "module": "", "file": "", "line": 0, "place": place}
    return {**at, "blame": blame, "why": why, "advice": advice, "proven": proven}


def told(o: Origin, batch: int | None, said: Mapping[str, Any]) -> dict[str, Any]:
    """An origin as plain JSON, with its blame and its remedy."""
    own = advise(o, **said)
    low = o.operands[-1].low if o.operands else float("nan")
    guarded = cure.instead(o.op, o.file, o.line, low=low, dtype=o.dtype) if own.blame == "operation" else None
    per_sample = o.index and batch is not None and any(x.shape[:1] == (batch,) for x in o.operands)
    plain = asdict(replace(o, operands=()))
    del plain["operands"]
    plain["inputs"] = [{**asdict(x), "shape": list(x.shape)} for x in o.operands]
    plain |= {"sample": o.index[0] if per_sample else None, "blame": own.blame, "why": own.why, "advice": own.write}
    if guarded:
        better = f"; in a loss, {FUSED[o.op]} needs no guard" if o.op in FUSED else ""
        plain |= {"advice": f"write `{guarded[1]}` instead of `{guarded[0]}`{better}", "instead": guarded}
    if o.file and ours(o.file):
        plain["library"] = True
    return {k: _json(v) for k, v in plain.items()}


def _json(value: Any) -> Any:
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return "nan" if value != value else ("inf" if value > 0 else "-inf")
    if isinstance(value, dict):
        return {k: _json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_json(v) for v in value]
    return value


# -- without a replay


def _without_replay(moment: Moment) -> dict[str, Any]:
    """What is known all the same: the first call of the tape or the model whose output is not finite, or a node of the graph."""
    for thing in moment.happened:
        if thing.output is not None and not all(finite(t) for t in tensors_in(thing.output)):
            op = getattr(thing.func, "__name__", "") if isinstance(thing, Taped) else "forward"
            module = "" if isinstance(thing, Taped) else type(thing.model).__name__
            why = "the first result that was not finite"
            out = _plain(op, "", why, "", "loss" if isinstance(thing, Taped) else "model", proven=False)
            return {"origin": {**out, "module": module, "file": thing.file, "line": thing.line}}
    op = _broken_node(moment.root.grad_fn) if moment.root is not None and not finite(moment.root) else ""
    if not op:
        return {}
    why = "the loss of this step was made in a way that was not seen before, so only the operation is known: line unknown"
    return {"origin": _plain(op, "operation", why, "", "loss", proven=False)}


def _broken_node(node: Any) -> str:
    """The operation, at or below a node whose result is not finite, that made it so; "" where the graph does not tell."""
    for _ in range(MOST_NODES):
        own, other, result = (getattr(node, f"_saved_{what}", None) for what in ("self", "other", "result"))
        name = forward_name(node)
        if isinstance(own, Tensor) and not finite(own):
            pass  # it came so
        elif own is not None or _breaks(name, other, result):
            return name
        elif name not in _PASS_ON:
            return ""
        below = [following for following, _ in node.next_functions if following is not None]
        if len(below) != 1:
            return ""
        node = below[0]
    return ""


def _breaks(name: str, other: Any, result: Any) -> bool:
    """Whether what a node keeps of its call shows that it is this one that broke."""
    if isinstance(result, Tensor) and not finite(result):
        return True
    return other is not None and (
        not finite(torch.as_tensor(other)) or (name == "div" and not bool(torch.as_tensor(other).all()))
    )
