"""A stand-alone script of one step: its operations written out one by one, its tensors next to it, nothing of the program.

Traced below autograd with `make_fx`, so that what stands there is what ran: no module, no data set, no traindx is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from traindx import innards
from traindx.errors import TraindxError
from traindx.forensics.again import again, spoilt_before
from traindx.forensics.moment import Moment

MOST_OPS, MOST_BYTES = 20_000, 512 << 20

_HEAD = '''"""The step {step} of a training run, on its own: every operation that led to the loss, then backward.

Written by traindx. Needs torch and safetensors, and the tensors in {tensors} next to it.
{origin}"""

from pathlib import Path

import torch
from safetensors.torch import load_file

held = load_file(Path(__file__).with_name({tensors!r}))
torch.set_rng_state(held.pop("random"))


def worst(values):
    """nan, inf, -inf or "" for finite: the worst among tensors and plain numbers."""
    found = set()
    for value in values:
        if isinstance(value, (tuple, list)):
            found.add(worst(value))
        elif isinstance(value, float) or (isinstance(value, torch.Tensor) and value.is_floating_point()):
            x = torch.as_tensor(value).detach()
            bad = x[~x.isfinite()]
            found.add("nan" if bad.isnan().any() else "inf" if (bad > 0).any() else "-inf" if bad.numel() else "")
    return next((kind for kind in ("nan", "inf", "-inf") if kind in found), "")


def born(name, before, after):
    """Say so when an operation makes what is not finite of what was finite, or NaN of what held none."""
    if after and (not before or (after == "nan" and before != "nan")):
        print(f"{{after}} comes from {{name}}")


def call(function, *args, **kwargs):
    """Call one operation, and watch it forwards and backwards."""
    before = worst([args, tuple(kwargs.values())])
    out = function(*args, **kwargs)
    born(function, before, worst([out]))
    node = getattr(out[0] if isinstance(out, (tuple, list)) else out, "grad_fn", None)
    if node is not None:
        node.register_hook(lambda gives, given: born(f"the backward of {{function}}", worst(given), worst(gives)))
    return out


params = {params!r}
for name in params.values():
    held[name].requires_grad_(True)
for name, value in held.items():
    if worst([value]):
        own = ["weights " + own for own, key in params.items() if key == name] or ["input " + name]
        print(f"{{worst([value])}} was there before the first operation: {{own[0]}}, shape {{tuple(value.shape)}}")


def step():
'''
_TAIL = """

loss = step()
print("loss:", loss.item())
if loss.requires_grad:
    loss.backward()
    for own, name in params.items():
        if held[name].grad is not None and worst([held[name].grad]):
            print(f"gradient that is not finite: {own}")
"""


class CannotExport(TraindxError):
    """Why there is no reproducer."""


def forward_of(moment: Moment) -> Callable[[], Tensor]:
    """The forward of a step and its loss, as a function."""
    happened = [*spoilt_before(moment), *moment.happened]

    def forward() -> Tensor:
        made: dict[int, Tensor] = {}
        for thing in happened:
            if thing.output is not None:
                again(thing, made, False)
        loss = made.get(id(moment.root))
        if loss is None:
            raise CannotExport("the loss was not made from the model's output by calls we saw")
        return loss

    return forward


def write(
    forward: Callable[[], Tensor], params: Mapping[str, Tensor], random: Tensor, target: Path, about: Mapping[str, Any]
) -> Path:
    """Write the script and its tensors; `params` become leaves that want a gradient. Gives the script's path."""
    try:
        graph = make_fx(forward, tracing_mode="real")()
    except CannotExport:
        raise
    except Exception as why:  # make_fx runs the user's own code under a tracer: it may fail in any way
        raise CannotExport(f"the step cannot be written out: {type(why).__name__}: {why}"[:300]) from None
    names, table = _tensors(graph)
    lines = [line for node in graph.graph.nodes for line in _line(node, names)]
    if len(lines) > MOST_OPS:
        raise CannotExport(f"the step has {len(lines)} operations")
    if sum(t.numel() * t.element_size() for t in table.values()) > MOST_BYTES:
        raise CannotExport("its tensors take more than 512 MB")
    own = {name: key for name, p in params.items() for key, t in table.items() if t is p}
    plain = {key: t.detach().cpu().contiguous().clone() for key, t in table.items()}
    beside = target.with_suffix(".safetensors")
    save_file({**plain, "random": random}, beside)
    head = _HEAD.format(step=about.get("step"), tensors=beside.name, origin=_origin(about.get("origin")), params=own)
    target.write_text(head + "\n".join(f"    {line}" for line in lines) + "\n" + _TAIL)
    return target


def _tensors(graph: GraphModule) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Attribute of the graph → name in the file, and the file's tensors; one that is used twice is kept once."""
    names: dict[str, str] = {}
    table: dict[str, Tensor] = {}
    known: dict[int, str] = {}
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            tensor = getattr(graph, str(node.target))
            key = known.setdefault(id(tensor), f"t{len(table)}")
            names[str(node.target)], table[key] = key, tensor
    return names, table


def _line(node: Node, names: Mapping[str, str]) -> list[str]:
    if node.op == "get_attr":
        return [f"{node.name} = held[{names[str(node.target)]!r}]"]
    if node.op == "output":
        return [f"return {_word(node.args[0])}"]
    if node.op != "call_function":
        raise CannotExport(f"the step cannot be written out: it holds a {node.op}")
    target = node.target
    called = str(target) if isinstance(target, innards.OpOverload) else ""
    words = [_word(a) for a in node.args] + [f"{k}={_word(v)}" for k, v in node.kwargs.items()]
    if called:
        if called.startswith(("aten.empty", "aten.new_empty")):  # memory nobody has written yet
            return [f"{node.name} = torch.ops.{called}({', '.join(words)})"]
        return [f"{node.name} = call({', '.join([f'torch.ops.{called}', *words])})"]
    if getattr(target, "__name__", "") == "getitem":
        return [f"{node.name} = {words[0]}[{words[1]}]"]
    raise CannotExport(f"the step cannot be written out: it calls {target}")


def _word(value: Any) -> str:
    if isinstance(value, Node):
        return value.name
    if isinstance(value, list | tuple):
        inside = ", ".join(_word(v) for v in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return f"float('{value}')"
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return str(value)
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    raise CannotExport(f"the step cannot be written out: an argument is a {type(value).__name__}")


def _origin(origin: Any) -> str:
    if not isinstance(origin, dict):
        return ""
    told = f"{origin.get('op')} ({origin.get('phase')}) at {Path(str(origin.get('file'))).name}:{origin.get('line')}"
    return (
        "In the run the first non-finite operation was " + re.sub(r"[^\x20-\x5b\x5d-\x7e]", "?", told).replace('"', "'") + ".\n"
    )
