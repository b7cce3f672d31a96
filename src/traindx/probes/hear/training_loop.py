"""The patched points around the pass: clearing, clipping, scaling, schedules, modes, files, seeds, compilers, read scalars."""

from __future__ import annotations

import builtins
import importlib
import logging
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributions, nn
from torch.nn import utils
from torch.nn.utils import clip_grad
from torch.optim import Optimizer, lr_scheduler

from traindx.probes.hear.forward_backward import around
from traindx.probes.hear.users_line import calls_as
from traindx.probes.read.common.sites import site

if TYPE_CHECKING:
    from traindx.probes.drive.patches import Patches

clock = time.perf_counter
Function = Callable[..., Any]
Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def install(patches: Patches) -> None:
    """Patch every point; each is undone by `Patches.remove`."""
    _clearing(patches)
    _clipping(patches)
    _scaling(patches)
    _schedules(patches)
    _modules(patches)
    _files(patches)
    _seeds(patches)
    _compilers(patches)
    _scalars(patches)
    _hiding(patches)
    _distributions(patches)
    _printing(patches)
    patches.comparisons = comparing


def _argument(args: Args, kwargs: Kwargs, position: int, name: str, default: Any = None) -> Any:
    return args[position] if len(args) > position else kwargs.get(name, default)


def _clearing(patches: Patches) -> None:
    def make(original: Function) -> Function:
        def zero_grad(*args: Any, **kwargs: Any) -> Any:
            try:
                patches.report("zero_grad")
                return original(*args, **kwargs)
            except BaseException as error:
                error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
                raise

        return zero_grad

    patches.replace(Optimizer, "zero_grad", make, rests=True)
    patches.replace(nn.Module, "zero_grad", make, rests=True)


def _clipping(patches: Patches) -> None:
    def by_norm(out: Any, args: Args, kwargs: Kwargs) -> None:
        limit, kind = _argument(args, kwargs, 1, "max_norm"), _argument(args, kwargs, 2, "norm_type", 2.0)
        patches.report("clipped", out, limit, kind)

    def by_value(out: Any, args: Args, kwargs: Kwargs) -> None:
        patches.report("clipped_value", _argument(args, kwargs, 1, "clip_value"))

    for name, then in (("clip_grad_norm_", by_norm), ("clip_grad_value_", by_value)):
        rests = then is by_norm
        patches.replace(clip_grad, name, partial(around, after=then), rests=rests)
        wrapped = partial(around, getattr(clip_grad, name))
        patches.replace(utils, name, lambda original, wrapped=wrapped: wrapped(), rests=rests)  # type: ignore[misc]


def _scaling(patches: Patches) -> None:
    kind = torch.amp.GradScaler

    def scaled(out: Any, args: Args, kwargs: Kwargs) -> None:
        if args[0].is_enabled():
            patches.report("scaled", args[0], _argument(args, kwargs, 1, "outputs"), out)

    def unscaled(out: Any, args: Args, kwargs: Kwargs) -> None:
        if args[0].is_enabled():
            patches.report("unscaled", args[0], _argument(args, kwargs, 1, "optimizer"))

    def steps(args: Args, kwargs: Kwargs) -> None:
        if args[0].is_enabled():
            patches.report("scaler_steps", args[0], _argument(args, kwargs, 1, "optimizer"))

    def stepped(out: Any, args: Args, kwargs: Kwargs) -> None:
        if args[0].is_enabled():
            patches.report("scaler_stepped", args[0], _argument(args, kwargs, 1, "optimizer"))

    def updated(out: Any, args: Args, kwargs: Kwargs) -> None:
        if args[0].is_enabled():
            patches.report("scaler_updated", args[0])

    def made(out: Any, args: Args, kwargs: Kwargs) -> None:
        patches.report("built", "scaler", args[0])

    patches.replace(kind, "__init__", partial(around, after=made))
    patches.replace(kind, "scale", partial(around, after=scaled))
    patches.replace(kind, "unscale_", partial(around, after=unscaled))
    patches.replace(kind, "step", partial(around, before=steps, after=stepped))
    patches.replace(kind, "update", partial(around, after=updated))


def _schedules(patches: Patches) -> None:
    depth = [0]  # schedulers step themselves when they are built, and one another

    def begins(args: Args, kwargs: Kwargs) -> None:
        depth[0] += 1

    def fails(error: BaseException, args: Args, kwargs: Kwargs) -> None:
        depth[0] -= 1

    def built(out: Any, args: Args, kwargs: Kwargs) -> None:
        depth[0] -= 1
        if not depth[0]:
            patches.report("built", "scheduler", args[0])

    def stepped(out: Any, args: Args, kwargs: Kwargs) -> None:
        depth[0] -= 1
        if not depth[0]:
            patches.report("scheduled", args[0])

    kinds = [k for k in vars(lr_scheduler).values() if isinstance(k, type) and issubclass(k, lr_scheduler.LRScheduler)]
    for kind in kinds:
        if "__init__" in vars(kind):
            patches.replace(kind, "__init__", partial(around, before=begins, after=built, failed=fails))
        if "step" in vars(kind):
            patches.replace(kind, "step", partial(around, before=begins, after=stepped, failed=fails), rests=True)

    def made(out: Any, args: Args, kwargs: Kwargs) -> None:
        patches.report("built", "optimizer", args[0])

    def builds(args: Args, kwargs: Kwargs) -> None:
        bring_compiler(patches)

    patches.replace(Optimizer, "__init__", partial(around, before=builds, after=made))


def bring_compiler(patches: Patches) -> None:
    """Import what every optimizer's first step imports, but while torch is as it was: it makes lists of torch's functions."""
    if "torch._dynamo" not in sys.modules:
        back = patches.lift()
        try:
            importlib.import_module("torch._dynamo")
        finally:
            back()


def _modules(patches: Patches) -> None:
    depth = [0]  # train() walks down the tree by calling itself

    was = [True]

    def begins(args: Args, kwargs: Kwargs) -> None:
        if not depth[0]:
            was[0] = args[0].training
        depth[0] += 1

    def switched(out: Any, args: Args, kwargs: Kwargs) -> None:
        depth[0] -= 1
        if not depth[0] and args[0].training != was[0]:
            patches.report("switched", args[0], not was[0])

    def fails(error: BaseException, args: Args, kwargs: Kwargs) -> None:
        depth[0] -= 1

    def noting(original: Function) -> Function:
        def parameters(self: Any, *args: Any, **kwargs: Any) -> Any:
            skip = patches.skip
            if skip is None or id(self) not in skip.models:  # clipping asks for those of a known model at every step
                patches.report("noted", self)
            try:
                return original(self, *args, **kwargs)
            except BaseException as error:
                error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
                raise

        return parameters

    patches.replace(nn.Module, "train", partial(around, before=begins, after=switched, failed=fails))
    patches.replace(nn.Module, "parameters", noting, rests=True)  # it asks for the named ones
    patches.replace(nn.Module, "named_parameters", noting)


def _files(patches: Patches) -> None:
    begun = [0.0]

    def saves(args: Args, kwargs: Kwargs) -> None:
        begun[0] = clock()

    def saved(out: Any, args: Args, kwargs: Kwargs) -> None:
        target = _argument(args, kwargs, 1, "f", "")
        patches.report("saved", _argument(args, kwargs, 0, "obj"), str(target)[:300], begun[0])

    def loaded(out: Any, args: Args, kwargs: Kwargs) -> None:
        patches.report("loaded", args[0], _argument(args, kwargs, 1, "state_dict"), out)

    def read(out: Any, args: Args, kwargs: Kwargs) -> None:
        patches.report("read", out)

    patches.replace(torch, "save", partial(around, before=saves, after=saved))
    patches.replace(torch, "load", partial(around, after=read))
    patches.replace(nn.Module, "load_state_dict", partial(around, after=loaded))
    patches.replace(Optimizer, "load_state_dict", partial(around, after=loaded))


def _seeds(patches: Patches) -> None:
    def teller(what: str) -> Function:
        return lambda args, kwargs: patches.report("seeded", what, args[0] if args else next(iter(kwargs.values()), None))

    # torch.manual_seed itself is left alone: torch compares and wraps it at its own imports; its seed is read at the start
    points: list[tuple[Any, str, str]] = [(random, "seed", "python"), (random, "setstate", "python")]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        points += [(numpy.random, "seed", "numpy"), (numpy.random, "set_state", "numpy")]
    for owner, name, what in points:
        patches.replace(owner, name, partial(around, before=teller(what)))


def _compilers(patches: Patches) -> None:
    """Compilers read Python code: before they look, modules are left alone for good, scripting sees the originals."""

    def compiles(args: Args, kwargs: Kwargs) -> None:
        patches.leave_traced()
        patches.report("compiles")

    patches.replace(torch, "compile", partial(around, before=compiles))

    def make(original: Function) -> Function:
        def script(*args: Any, **kwargs: Any) -> Any:
            back = patches.lift()
            try:
                if original.__name__ == "script" and len(args) < 3:  # it looks names up in its caller: one frame further now
                    kwargs["_frames_up"] = kwargs.get("_frames_up", 0) + 1
                return original(*args, **kwargs)
            except BaseException as error:
                error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
                raise
            finally:
                back()

        return script

    for name in ("script", "trace", "trace_module"):
        patches.replace(torch.jit, name, make, traced=True)


def _scalars(patches: Patches) -> None:
    """Numbers the script reads off tensors: how a hand-written validation loss is seen."""

    def make(original: Function) -> Function:
        def read(self: Tensor) -> Any:
            warns = self.requires_grad  # torch warns of reading such a tensor, and must point to the script's line
            try:  # Adam reads a step count per parameter: the usual way must be short
                value = calls_as(sys._getframe(1))(original, (self,), {}) if warns else original(self)
            except BaseException as error:
                inner = error.__traceback__ and error.__traceback__.tb_next
                error.__traceback__ = inner.tb_next if inner and warns else inner
                raise
            if patches.scalars and (isinstance(value, float) or patches.comparing):
                patches.report("scalar_read", self, value, site(to_the_call=True))
            return value

        return read

    item = Tensor.item
    patches.replace(Tensor, "item", make, traced=True, rests=True)
    patches.replace(Tensor, "__float__", make, traced=True, rests=True)

    def own(original: Function) -> Function:
        """What optimizers read off their step counts, once per parameter: not for us, and so no detour."""

        def _get_value(x: Any) -> Any:
            return item(x) if type(x) is Tensor and not torch.compiler.is_compiling() else original(x)

        return _get_value

    for module in [m for name, m in sys.modules.items() if name.startswith("torch.optim.") and hasattr(m, "_get_value")]:
        patches.replace(module, "_get_value", own, traced=True, rests=True)


def _hiding(patches: Patches) -> None:
    def hidden(args: Args, kwargs: Kwargs) -> None:
        patches.report("nan_replaced", _argument(args, kwargs, 0, "input"))

    for owner in (torch, Tensor):
        for name in ("nan_to_num", "nan_to_num_"):
            patches.replace(owner, name, partial(around, before=hidden), traced=True, rests=True)


def _distributions(patches: Patches) -> None:
    """Policies and latent codes, on full steps. A likelihood of data is scored, too, but hardly ever sampled from."""
    drawn, scored = [0], [0]

    def samples(args: Args, kwargs: Kwargs) -> None:
        drawn[0] += 1
        if patches.scalars and not torch.is_grad_enabled():
            patches.report("sampled")

    def scores(args: Args, kwargs: Kwargs) -> None:
        scored[0] += 1
        if patches.modules is not None and patches.modules.wide and 2 * drawn[0] >= scored[0]:
            patches.report("scored", args[0])

    def diverges(args: Args, kwargs: Kwargs) -> None:
        if patches.modules is not None and patches.modules.wide:
            patches.report("diverged", _argument(args, kwargs, 0, "p"), _argument(args, kwargs, 1, "q"))

    for kind in (distributions.Categorical, distributions.Bernoulli, distributions.Normal, distributions.MultivariateNormal):
        if "sample" in vars(kind):
            patches.replace(kind, "sample", partial(around, before=samples), traced=True, rests=True)
        patches.replace(kind, "log_prob", partial(around, before=scores), traced=True, rests=True)
    patches.replace(distributions.Distribution, "sample", partial(around, before=samples), traced=True, rests=True)
    for owner in (distributions, distributions.kl):
        patches.replace(owner, "kl_divergence", partial(around, before=diverges), traced=True, rests=True)


def comparing(patches: Patches) -> Callable[[], None]:
    """Hear which tensors are found equal; gives the function that ends it. On while an evaluation is under way."""

    def compared(out: Any, args: Args, kwargs: Kwargs) -> None:
        other = _argument(args, kwargs, 1, "other")
        if isinstance(out, Tensor) and isinstance(other, Tensor):
            patches.report("compared", _argument(args, kwargs, 0, "input"), other, out)

    points: tuple[tuple[Any, str], ...] = ((Tensor, "__eq__"), (Tensor, "eq"), (torch, "eq"))
    undo = [patches.replace(owner, name, partial(around, after=compared)) for owner, name in points]

    def end() -> None:
        for one in reversed(undo):
            one()

    return end


def _printing(patches: Patches) -> None:
    """What is printed or logged while an evaluation is under way: how a mean that was taken in Python is seen. And accuracies
    at any time: perhaps nothing is evaluated for them."""

    def prints(args: Args, kwargs: Kwargs) -> None:
        if patches.scalars or any(isinstance(a, str) and ("acc" in a or "Acc" in a) for a in args):
            patches.report("printed", args)

    def logs(args: Args, kwargs: Kwargs) -> None:
        record = _argument(args, kwargs, 1, "record")
        text = getattr(record, "msg", None)
        if isinstance(text, str) and (patches.scalars or "acc" in text or "Acc" in text):
            try:
                said = record.getMessage()
            except Exception:  # what does not fit its format is logging's own to report
                return
            patches.report("printed", (said,))

    patches.replace(builtins, "print", partial(around, before=prints))
    patches.replace(logging.Logger, "handle", partial(around, before=logs))
