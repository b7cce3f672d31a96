"""`traindx doctor`"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

import rich_click as click
from rich.markup import escape
from rich.table import Table

from traindx import __version__
from traindx.cli import options

USES: dict[str, str] = {
    "torch": "run, watch, check, trial, replay",
    "pyarrow": "export --to parquet  (pip install traindx[arrow])",
    "textual": "top  (pip install traindx[tui])",
    "mcp": "mcp  (pip install traindx[mcp])",
    "apprise": "alerts to chat services  (pip install traindx[notify])",
    "cleanlab": "label-noise estimates  (pip install traindx[data])",
    "fsspec": "records on s3://, gs://, ssh://  (pip install traindx[remote])",
    "ray": "diagnose --on ray  (pip install traindx[ray])",
}


@click.command("doctor")
def command() -> int:
    """Show what traindx can and cannot observe in this environment, and why.

    Example:  traindx doctor
    """
    screen = options.console()
    screen.print(
        f"[bold]traindx {__version__}[/] · Python {platform.python_version()} · {platform.system()} {platform.machine()}"
    )
    table = Table.grid(padding=(0, 2))
    for module, use in USES.items():
        there = importlib.util.find_spec(module) is not None
        table.add_row(
            "[green]yes[/]" if there else "[yellow]no[/]", module, _version(module) if there else "", f"[dim]{escape(use)}[/]"
        )
    screen.print(table)
    for line in (*_accelerators(), *_places()):
        screen.print(line)
    return 0


def _version(module: str) -> str:
    try:
        return importlib.metadata.version(module)
    except importlib.metadata.PackageNotFoundError:
        return "?"


def _accelerators() -> list[str]:
    if importlib.util.find_spec("torch") is None:
        return ["torch is missing: scripts cannot be observed; `diagnose` works on logs."]
    torch = importlib.import_module("torch")
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        devices = "1 CUDA device" if count == 1 else f"{count} CUDA devices"
        return [f"{devices}: non-finite values may be noticed one step late, because traindx never waits for the device."]
    return ["No CUDA device: accelerator memory and kernels cannot be observed."]


def _places() -> list[str]:
    folder = Path(os.environ.get("TRAINDX_DIR", "traindx-runs"))
    probe = next((p for p in (folder, *folder.resolve().parents) if p.exists()), Path.cwd())
    writable = os.access(probe, os.W_OK)
    free = shutil.disk_usage(probe).free / 2**30
    lines = [f"Records go to {folder} ({free:.0f} GiB free{'' if writable else ', [red]not writable[/]'})."]
    if os.environ.get("TRAINDX_DISABLE", "") not in ("", "0"):
        lines.append("[yellow]TRAINDX_DISABLE is set: traindx observes nothing.[/]")
    if not os.access(tempfile.gettempdir(), os.W_OK):
        lines.append("[yellow]The temporary folder is not writable.[/]")
    lines.append(f"Terminal: {'colour' if sys.stdout.isatty() else 'piped'}, encoding {sys.stdout.encoding}.")
    return lines
