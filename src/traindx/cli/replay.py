"""`traindx replay CAPSULE TARGET`"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import rich_click as click

from traindx.cli import options
from traindx.report.words import safe


@click.command("replay")
@click.argument("capsule", metavar="CAPSULE", type=click.Path(path_type=Path))
@click.argument("target", metavar="TARGET")
@click.option("--fp32", is_flag=True, help="Leave autocast off: is precision to blame?")
@click.option("--lr-scale", type=float, default=None, metavar="F", help="Make the update too, with F times the learning rate.")
@click.option("--other-batch", type=int, default=None, metavar="K", help="Batch K of the task instead of the capsule's.")
@click.option("--format", "format_", type=click.Choice(("rich", "json")), default="rich", show_default=True)
@click.option("--no-color", is_flag=True)
@click.option("--debug", is_flag=True, hidden=True)
def command(
    capsule: Path,
    target: str,
    fp32: bool,
    lr_scale: float | None,
    other_batch: int | None,
    format_: str,
    no_color: bool,
    debug: bool,
) -> int:
    """Make the step of a capsule again and name its first non-finite operation. TARGET is a task factory, run as you.

    Example:  traindx replay runs/exp1/capsules/capsule-000000042-000 train.py:make_task --fp32
    """
    from traindx.forensics.replay import replay

    found = replay(capsule, target, fp32=fp32, lr_scale=lr_scale, other_batch=other_batch)
    if format_ == "json":
        sys.stdout.write(json.dumps({"schema": "traindx.replay/1", **found}, indent=2) + "\n")
        return 0
    screen = options.console(no_color=no_color)
    for line in _lines(found):
        screen.print(safe(line), highlight=False)
    return 0


def _lines(found: dict[str, Any]) -> list[str]:
    head = f"step {found['step']}, {found['precision']}, batch: {found['batch']}"
    lines = [f"{head}: {'loss and gradients are finite' if found['finite'] else 'not finite'}"]
    origin = found["origin"] or next(iter(found["origins"]), None)
    if origin and not found["finite"]:
        sure = "" if origin["proven"] else "probably "
        back = "the backward of " if origin["phase"] == "backward" else ""
        lines.append(f"{sure}{back}{origin['op']} at {origin['file']}:{origin['line']} {origin['module']}".rstrip())
        lines.append(f"  {origin['text']}")
        lines.append(f"{origin['why']} → {origin['advice']}")
    if "after" in found:
        after = found["after"]
        lines.append(f"after the update with {after['lr_scale']:g} × the learning rate the loss is {after['loss']:.6g}")
    if "error" in found:
        lines.append(f"the step failed: {found['error']}")
    return lines
