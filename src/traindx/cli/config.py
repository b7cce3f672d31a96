"""`traindx config`"""

from __future__ import annotations

import json
from pathlib import Path

import rich_click as click
from rich.table import Table
from rich.text import Text

from traindx import settings as settings_
from traindx.cli import options
from traindx.report.json import plain
from traindx.report.words import safe


@click.command("config")
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="Read project settings from this file.")
@click.option("--format", "format_", type=click.Choice(("rich", "json")), default="rich", show_default=True)
def command(config: Path | None, format_: str) -> int:
    """Show every setting and where it comes from: site, user or project file, environment, or our default.

    Example:  traindx config
    """
    chosen = options.settings(config, (), (), None, "")
    rows = []
    for key in settings_.KEYS:
        field = {"records": "mode"}.get(key, key.replace("-", "_"))
        value = getattr(chosen, field)
        rows.append({"key": key, "value": plain(value) if value != "" else None, "from": chosen.origins.get(key, "default")})
    if format_ == "json":
        click.echo(json.dumps({"schema": "traindx.config/1", "settings": rows, "ignored": dict(chosen.reasons)}, indent=2))
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("setting", "value", "from"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(safe(word, 200)) for word in (row["key"], json.dumps(row["value"]), row["from"])))
    for code, why in chosen.reasons.items():
        table.add_row(*(Text(safe(word, 200)) for word in ("", f"{code} {why}", chosen.origins["ignore"])))
    options.console().print(table)
    return 0
