"""Make the broken step again, in a forked child, under the tracer; the child's answer comes back through a pipe.

The fork has its own copy of everything, so nothing the model's `forward` does can reach the user's run. It gets a time limit
and is killed when it passes.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor, nn

from traindx.forensics.advice import advise
from traindx.forensics.trace import Origin, Trace, _finite, explain, ours
from traindx.forensics.witness import Called, Moment, Taped, _tensors

SECONDS = 10.0


class CannotReplay(Exception):
    """Why the step cannot be made again."""


def investigate(moment: Moment, params: Sequence[Tensor], names: Sequence[str], seconds: float = SECONDS) -> dict[str, Any]:
    """The facts of the breakdown: `origin`, `origins`, `unstable_forms`, or `replay.failed` with the reason."""
    try:
        calls = [c for c in moment.happened if isinstance(c, Called)]
        _replayable(moment, calls)
        if any(t.device.type != "cpu" for c in calls for t in _tensors((c.args, c.kwargs))):
            raise CannotReplay("the step ran on an accelerator, and a replay in this process could touch the run")
        return _in_child(moment, params, names, seconds)
    except CannotReplay as why:
        return {"replay.failed": str(why), **_first_module(moment)}


def _replayable(moment: Moment, calls: Sequence[Called]) -> None:
    if not calls:
        raise CannotReplay("no forward of a module was seen before the loss")
    if moment.overflow:
        raise CannotReplay("there were too many torch calls between the model and backward() to keep")
    for call in calls:
        now = tuple(t._version for t in _tensors((call.args, call.kwargs)) if not t.is_inference())
        if now != call.versions:
            raise CannotReplay("an input of the model was changed in place after it was used")


def _in_child(moment: Moment, params: Sequence[Tensor], names: Sequence[str], seconds: float) -> dict[str, Any]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            answer = json.dumps(_work(moment, params, names, seconds * 0.9))
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
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended by itself
        os.waitpid(child, 0)
    try:
        found: dict[str, Any] = json.loads(data)
    except ValueError:
        return {"replay.failed": f"the replay took longer than {seconds:g} s"}
    return found


# -- in the child


def _work(moment: Moment, params: Sequence[Tensor], names: Sequence[str], seconds: float) -> dict[str, Any]:
    torch.set_num_threads(1)  # the parent's worker threads did not come along
    calls = [c for c in moment.happened if isinstance(c, Called)]
    bad_batch = not all(_finite(t) for c in calls for t in _tensors((c.args, c.kwargs)))
    bad_weights = [n for n, p in zip(names, params, strict=False) if not _finite(p)]
    sites: dict[int, tuple[str, int]] = {}
    step = _step(moment, list(params), sites)
    model = calls[0].model
    trace = explain(step, model, seconds=seconds)
    if trace.finite and not trace.origins:
        return {
            "replay.failed": "the step came out finite when it was made again: it depends on random numbers or state we do not hold"
        }
    return _facts(trace, model, calls, bad_batch, bad_weights, step, seconds)


def _step(moment: Moment, params: list[Tensor], sites: dict[int, tuple[str, int]]) -> Any:
    """The step as a function: forwards from their inputs, the loss from the tape, then backward."""
    root = _root(moment)

    def run() -> list[Tensor]:
        made: dict[int, Tensor] = {}
        for p in params:
            p.grad = None
        with torch.enable_grad():
            for thing in moment.happened:
                if isinstance(thing, Called):
                    torch.set_rng_state(thing.random)
                    thing.model.train(thing.training)
                    cast = torch.autocast(thing.autocast[0], dtype=thing.autocast[1]) if thing.autocast else nullcontext()
                    with cast:
                        _map(thing.output, thing.model(*thing.args, **thing.kwargs), made)
                else:
                    _map(thing.output, _call(thing, made), made)
            loss = made.get(id(root))
            if loss is None:
                raise CannotReplay("the loss was not made from the model's output by calls we saw")
            loss.backward(torch.ones_like(loss))
        return [loss, *[p.grad for p in params if p.grad is not None]]

    return run


def _call(thing: Taped, made: dict[int, Tensor]) -> Any:
    args, kwargs = _replaced(thing.args, made), _replaced(thing.kwargs, made)
    # compiled with the user's file and line, so that every stack (ours, and autograd's own record) points there
    code = compile("\n" * (thing.line - 1) + "result = func(*args, **kwargs)", thing.file, "exec")
    scope: dict[str, Any] = {"func": thing.func, "args": args, "kwargs": kwargs}
    _run(code, scope)
    return scope["result"]


def _run(code: Any, scope: dict[str, Any]) -> None:
    import builtins

    getattr(builtins, "exec")(code, scope)  # noqa: B009 our own two words of code, placed on the user's line


def _root(moment: Moment) -> Tensor:
    if moment.root is not None:
        return moment.root
    for thing in reversed(moment.happened):
        for t in reversed(_tensors(thing.output if not hasattr(thing.output, "loss") else [thing.output.loss])):
            if t.numel() == 1 and t.requires_grad:
                return t
    raise CannotReplay("no loss was seen")


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
    if isinstance(value, dict):
        return {k: _replaced(v, made) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_replaced(v, made) for v in value))
    if isinstance(value, list | tuple):
        return type(value)(_replaced(v, made) for v in value)
    return value


def _facts(
    trace: Trace,
    model: nn.Module,
    calls: Sequence[Called],
    bad_batch: bool,
    bad_weights: Sequence[str],
    step: Any,
    seconds: float,
) -> dict[str, Any]:
    first = next((o for o in trace.origins if o.proven), None) or (trace.origins[0] if trace.origins else None)
    if first is None:
        if bad_batch:
            return {"origin": _input_origin("batch", "the batch holds NaN or infinity", "drop or clean those samples")}
        if bad_weights:
            return {"origin": _input_origin("weights", f"{bad_weights[0]} is not finite", "go back to a finite checkpoint")}
        return {"replay.failed": trace.error or "no operation with finite inputs and a non-finite result was found"}
    size = next((t.shape[0] for c in calls for t in _tensors((c.args, c.kwargs)) if t.ndim), None)
    told = _told(first, size, bad_batch, bool(bad_weights))
    return {
        "origin": told,
        "origins": [_told(o, size, bad_batch, bool(bad_weights)) for o in trace.origins[:20]],
        "replay.seconds": round(trace.seconds, 3),
    }


def _input_origin(blame: str, why: str, advice: str) -> dict[str, Any]:
    return {
        "op": "",
        "phase": "forward",
        "module": "",
        "file": "",
        "line": 0,
        "blame": blame,
        "why": why,
        "advice": advice,
        "proven": True,
    }


def _told(o: Origin, batch: int | None, bad_batch: bool, bad_weights: bool) -> dict[str, Any]:
    said = advise(o, bad_batch=bad_batch, bad_weights=bad_weights)
    sample = (
        o.index[0]
        if o.index and batch is not None and o.operands and any(x.shape[:1] == (batch,) for x in o.operands)
        else None
    )
    plain = asdict(replace(o, operands=()))
    plain["inputs"] = [{**asdict(x), "shape": list(x.shape)} for x in o.operands]
    plain |= {
        "index": list(o.index),
        "scalars": list(o.scalars),
        "sample": sample,
        "blame": said.blame,
        "why": said.why,
        "advice": said.write,
    }
    if o.file and ours(o.file):
        plain["library"] = True
    return {k: _json(v) for k, v in plain.items() if k not in ("operands",)}


def _json(value: Any) -> Any:
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return "nan" if value != value else ("inf" if value > 0 else "-inf")
    if isinstance(value, dict):
        return {k: _json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_json(v) for v in value]
    return value


# -- without a replay


def _first_module(moment: Moment) -> dict[str, Any]:
    """What is known without a replay: the first call of the tape or the model whose output is not finite."""
    for thing in moment.happened:
        if thing.output is not None and not all(_finite(t) for t in _tensors(thing.output)):
            if isinstance(thing, Taped):
                return {
                    "origin": {
                        "op": getattr(thing.func, "__name__", ""),
                        "phase": "forward",
                        "module": "",
                        "file": thing.file,
                        "line": thing.line,
                        "blame": "operation",
                        "why": "",
                        "advice": "",
                        "proven": False,
                    }
                }
            return {
                "origin": {
                    "op": "",
                    "phase": "forward",
                    "module": type(thing.model).__name__,
                    "file": "",
                    "line": 0,
                    "blame": "operation",
                    "why": "",
                    "advice": "",
                    "proven": False,
                }
            }
    return {}
