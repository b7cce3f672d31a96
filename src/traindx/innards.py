"""The private names of torch that we lean on, all of them here. A torch without one of them is told which.

torch may drop such a name in any version; the oldest and the newest that were tried are in docs/frameworks.md.
"""

from __future__ import annotations

from typing import Any

import torch

from traindx.errors import EnvironmentFault


def _named(path: str) -> Any:
    thing: Any = torch
    for part in path.split("."):
        thing = getattr(thing, part, None)
        if thing is None:
            raise EnvironmentFault(
                f"torch {torch.__version__} has no torch.{path}, which traindx needs to observe a training;"
                " another version of torch or a newer traindx will do (docs/frameworks.md says which were tried)"
            )
    return thing


BatchNorm = _named("nn.modules.batchnorm._BatchNorm")
DispatchMode = _named("utils._python_dispatch.TorchDispatchMode")
Dropout = _named("nn.modules.dropout._DropoutNd")
FunctionsOff = _named("_C.DisableTorchFunction")
NormBase = _named("nn.modules.batchnorm._NormBase")
OpOverload = _named("_ops.OpOverload")
autocasting = _named("_C._is_any_autocast_enabled")
autograd_node = _named("_C._current_autograd_node")
call_impl = _named("nn.Module._call_impl")
dispatch_modes = _named("_C._len_torch_dispatch_stack")
foreach_add = _named("_foreach_add")
foreach_mul_ = _named("_foreach_mul_")
foreach_norm = _named("_foreach_norm")
function_modes = _named("_C._len_torch_function_stack")
functorch_wrapped = _named("_C._functorch.is_functorch_wrapped_tensor")
graph_task = _named("_C._current_graph_task_id")  # -1 outside a backward; checkpointing runs forwards inside one
interpreters = _named("_C._functorch.peek_interpreter_stack")
losses = _named("_C._nn")  # the compiled functions behind torch.nn.functional
modes_off = _named("utils._python_dispatch._disable_current_modes")
saved_tensors_hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", bool)  # 2.4 cannot say: as if there were
sequence_nr = _named("_C._autograd._get_sequence_nr")
set_grad_enabled = _named("_C._set_grad_enabled")
tracing_state = _named("_C._get_tracing_state")


def autocast() -> tuple[str, torch.dtype] | None:
    """Device and type of the autocast that is on."""
    on = (device for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)) if autocasting() else ()
    return next(((device, torch.get_autocast_dtype(device)) for device in on), None)


def profiling() -> bool:
    """Whether a profiler of the user's is on."""
    return bool(getattr(torch.autograd.profiler, "_is_profiler_enabled", False))
