"""Runs a program with a peer attached: `python -m clinic.peer_driver PEER OUT.json SCRIPT`.

The peer is attached at the first update: that is when model and optimizer are both known.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook


class Watch:
    """Finds the outermost module and the loss of each step, and drives the peer."""

    def __init__(self, peer: str) -> None:
        self.peer, self.model, self.depth, self.loss, self.tool = peer, None, 0, 0.0, None
        torch.nn.modules.module.register_module_forward_pre_hook(self._enter)
        torch.nn.modules.module.register_module_forward_hook(self._leave, always_call=True)
        register_optimizer_step_pre_hook(self._before)
        register_optimizer_step_post_hook(self._after)
        plain = torch.Tensor.backward

        def backward(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            self.loss = float(tensor.detach().float().mean())
            return plain(tensor, *args, **kwargs)

        torch.Tensor.backward = backward  # type: ignore[method-assign]

    def _enter(self, module: Any, args: Any) -> None:
        is_loss = isinstance(module, torch.nn.modules.loss._Loss)
        if self.depth == 0 and self.model is None and not is_loss and any(True for _ in module.parameters()):
            self.model = module
        self.depth += 1

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        self.depth -= 1

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.tool is None and self.model is not None:
            self.tool = _attach(self.peer, self.model, optimizer)

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.peer == "torchmortem" and self.tool is not None:
            self.tool.step(loss=self.loss)

    def said(self) -> list[tuple[str, str]]:
        if self.tool is None:
            return []
        if self.peer == "torchmortem":
            self.tool.detach()  # analyses, too
            return [(f.severity.name.lower(), str(f.category)) for f in self.tool.get_report().findings]
        return [(f.severity.name.lower(), str(f.rule_id)) for f in self.tool.finish(report=False).findings]


def _attach(peer: str, model: Any, optimizer: Any) -> Any:
    if peer == "torchmortem":
        from torchmortem import Autopsy

        tool = Autopsy(model, optimizer=optimizer)
        tool.attach()
        return tool
    from torch_audit import autopatch

    return autopatch(
        model, optimizer=optimizer, every_n_steps=20, reporters=[], run_static=True, run_init=True, fail_level="FATAL"
    )


def drive(peer: str, out: str, script: str) -> None:
    """Run the script under the peer and write what it said as [severity, kind] pairs."""
    watch = Watch(peer)
    sys.argv = [script]
    try:
        runpy.run_path(script, run_name="__main__")
    except Exception as why:  # the program's own failure must not hide what the peer saw until then
        print(f"{type(why).__name__}: {why}", file=sys.stderr)
    Path(out).write_text(json.dumps(sorted(set(watch.said()))), encoding="utf-8")


if __name__ == "__main__":
    drive(*sys.argv[1:4])
