"""`traindx demo`"""

from __future__ import annotations

import os
import subprocess
import tempfile
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import rich_click as click

from traindx.children import ours
from traindx.cli import options
from traindx.errors import EnvironmentFault

STORIES = (
    ("wiring.py", "A classifier whose schedule is stepped once per batch instead of once per epoch."),
    ("broken.py", "A loss written by hand that becomes NaN."),
    ("overfitting.csv", "A log of somebody else's training: only a CSV file."),
)


@click.command("demo")
@click.option("--dir", "folder", type=click.Path(path_type=Path, file_okay=False), help="Keep records and reports here.")
def command(folder: Path | None) -> int:
    """Diagnose two small trainings and a log, each with a different problem; takes about half a minute.

    Example:  traindx demo --dir /tmp/traindx-demo
    """
    if find_spec("torch") is None:
        raise EnvironmentFault("the demo trains real models and needs torch: pip install torch")
    keep = folder or Path(tempfile.mkdtemp(prefix="traindx-demo-"))
    keep.mkdir(parents=True, exist_ok=True)
    screen = options.console()
    colours = {"FORCE_COLOR": "1" if screen.is_terminal and not screen.no_color else ""}
    for name, story in STORIES:
        file = keep / name
        file.write_text((resources.files("traindx.cli") / "demo_scripts" / name).read_text(encoding="utf-8"), encoding="utf-8")
        words = ("run", "--dir", str(keep / file.stem), str(file)) if file.suffix == ".py" else ("diagnose", str(file))
        screen.print(f"\n[bold]{story}[/]\n[dim]$ traindx {words[0]} {name}[/]\n")
        done = subprocess.run([*ours("traindx", *words)], check=False, env=os.environ | colours)
        if done.returncode:
            raise EnvironmentFault(f"traindx {words[0]} {name} ended with exit code {done.returncode}")
    screen.print("\n✖ and ▲ are alarms; ● is a remark that needs no action.", style="dim")
    screen.print(f"\nScripts and records are in [bold]{keep}[/]. Try next:")
    screen.print(
        f"  traindx report {keep / 'wiring'} -o report.html\n  traindx serve {keep}\n  traindx run your_script.py",
        highlight=False,
    )
    return 0
