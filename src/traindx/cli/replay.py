"""`traindx replay CAPSULE [TARGET]`"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import rich_click as click

from traindx.cli import options
from traindx.errors import NothingReadable, UsageError
from traindx.record.listing import is_record, spoken
from traindx.report.words import safe

_CONTEXT = {"allow_interspersed_args": True, "ignore_unknown_options": False}


@click.command("replay", context_settings=_CONTEXT)
@click.argument("capsule", metavar="CAPSULE|RUN", type=click.Path(path_type=Path))
@click.argument("target", metavar="[TARGET [ARGS]...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--fp32", is_flag=True, help="Replay without autocast, to see whether precision is the cause.")
@click.option("--lr-scale", type=float, default=None, metavar="F", help="Also make the update, with F times the learning rate.")
@click.option(
    "--other-batch", type=int, default=None, metavar="K", help="Use batch K of the script or task instead of the recorded one."
)
@click.option(
    "--reproducer",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    metavar="FILE.py",
    help="Write the step as a separate script, with its tensors next to it.",
)
@click.option("--format", "format_", type=click.Choice(("rich", "json")), default="rich", show_default=True)
def command(
    capsule: Path,
    target: tuple[str, ...],
    fp32: bool,
    lr_scale: float | None,
    other_batch: int | None,
    reproducer: Path | None,
    format_: str,
) -> int:
    """Repeat a recorded step and name the operation that made the first NaN or infinity.

    A RUN, such as @last, stands for its newest capsule.

    TARGET is the script with its arguments (after `--` if they begin with a dash), or a task factory. The script is launched
    again up to its second step. That step gets the recorded weights, optimizer state, random numbers and batch. The program
    runs with your permissions, so you must name it. Without TARGET, traindx shows the recorded command and runs nothing.

    Example:  traindx replay runs/exp1/capsules/capsule-000000042-000 --fp32 -- train.py --lr 0.1

    Example:  traindx replay runs/exp1/capsules/capsule-000000042-000 train.py:make_task
    """
    capsule = _capsule(capsule)
    if other_batch is not None and other_batch < 0:
        raise UsageError(f"--other-batch counts from 0; got {other_batch}")
    variants: dict[str, Any] = {"fp32": fp32, "lr_scale": lr_scale, "other_batch": other_batch}
    variants["reproducer"] = str(reproducer.absolute()) if reproducer else None
    if target and _is_task(target):
        from traindx.forensics.replay import replay

        found = replay(capsule, target[0], **variants)
    else:
        from traindx.forensics.command import given, recorded, relaunch

        if not target:
            raise UsageError(f"name the program, it runs as you. The capsule says it comes from:\n{recorded(capsule)}")
        found = relaunch(capsule, given(target), **variants)
    if format_ == "json":
        sys.stdout.write(json.dumps({"schema": "traindx.replay/1", **found}, indent=2) + "\n")
        return 0
    screen = options.console()
    for line in _lines(found):
        screen.print(safe(line), highlight=False, markup=False)
    return 0


def _capsule(path: Path) -> Path:
    """The capsule, or the newest one of a run that is named."""
    run = spoken(path)
    if not is_record(run):
        return path
    kept = sorted(run.rglob("capsules/capsule-*/capsule.json"), key=lambda p: p.stat().st_mtime)
    if not kept:
        raise NothingReadable(f"{run} holds no capsule: no step of it was seen to turn non-finite")
    return kept[-1].parent


def _is_task(target: tuple[str, ...]) -> bool:
    return len(target) == 1 and target[0] != "-m" and ":" in target[0] and not Path(target[0]).exists()


def _lines(found: dict[str, Any]) -> list[str]:
    head = f"step {found['step']}, {found['precision']}, batch: {found['batch']}"
    lines = [f"{head}: {'loss and gradients are finite' if found['finite'] else 'not finite'}"]
    if found["finite"] and "loss" in found:
        lines[0] += f" (loss {found['loss']:.6g})"
    if found["finite"] and found["batch"] == "the script's own":
        lines.append("The capsule holds no batch, so this was another one; `traindx run --capture-batch` keeps it next time.")
    origin = found["origin"] or next(iter(found["origins"]), None)
    if origin and not found["finite"]:
        sure = "" if origin["proven"] else "probably "
        back = "the backward of " if origin["phase"] == "backward" else ""
        lines.append(f"{sure}{back}{origin['op']} at {origin['file']}:{origin['line']} {origin['module']}".rstrip())
        if origin.get("text"):  # what came with the batch has no line of its own
            lines.append(f"  {origin['text']}")
        lines.append(f"{origin['why']} → {origin['advice']}")
    if "after" in found:
        after = found["after"]
        lines.append(f"after the update with {after['lr_scale']:g} × the learning rate the loss is {after['loss']:.6g}")
    if found.get("reproducer"):
        lines.append(f"the step as a script of its own: {found['reproducer']}")
    if found.get("reproducer_failed"):
        lines.append(f"no reproducer: {found['reproducer_failed']}")
    if "error" in found:
        lines.append(f"the step failed: {found['error']}")
    return lines
