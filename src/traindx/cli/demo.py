"""`traindx demo`"""

from __future__ import annotations

import os
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

import rich_click as click

from traindx.children import ours
from traindx.cli import options
from traindx.errors import EnvironmentFault

STORIES = (
    ("sick", "A digits classifier whose schedule is stepped once per batch instead of once per epoch."),
    ("healed", "The same program with that one line moved."),
)


@click.command("demo")
@click.option("--dir", "folder", type=click.Path(path_type=Path, file_okay=False), help="Keep records and reports here.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR).")
@click.option("--debug", is_flag=True, hidden=True)
def command(folder: Path | None, no_color: bool, debug: bool) -> int:
    """Train a small model with a bug and again without it, and diagnose both; takes about half a minute.

    Example:  traindx demo --dir /tmp/traindx-demo
    """
    for module in ("torch", "sklearn"):
        if _missing(module):
            raise EnvironmentFault(f"the demo trains a real model and needs {module}: pip install torch scikit-learn")
    keep = folder or Path(tempfile.mkdtemp(prefix="traindx-demo-"))
    screen = options.console(no_color=no_color)
    for name, story in STORIES:
        screen.print(f"\n[bold]{name.capitalize()}[/]  [dim]{story}[/]")
        script = keep / f"train_{name}.py"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text((resources.files("traindx.cli") / "demo_scripts" / f"train_{name}.py").read_text(encoding="utf-8"))
        args = ours("traindx", "run", "--dir", str(keep / name), str(script))
        screen.print(f"[dim]$ traindx run {script.name}[/]\n")
        done = subprocess.run(
            [*args], check=False, env=os.environ | {"FORCE_COLOR": "1" if screen.is_terminal and not no_color else ""}
        )
        if done.returncode:
            raise EnvironmentFault(f"the demo script ended with exit code {done.returncode}")
    screen.print("\n✖ and ▲ are alarms; ● is a remark, nothing to act on tonight.", style="dim")
    screen.print(f"\nScripts and records are in [bold]{keep}[/]. Next:")
    screen.print(
        f"  traindx report {keep / 'sick'} -o report.html\n  traindx serve {keep}\n  traindx run your_script.py",
        highlight=False,
    )
    return 0


def _missing(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is None
