"""`traindx explain CODE`"""

from __future__ import annotations

import rich_click as click
from rich.markdown import Markdown

from traindx import cause
from traindx.cli import options
from traindx.errors import UsageError
from traindx.report import manual
from traindx.rule import catalogue


@click.command("explain")
@click.argument("code", metavar="CODE")
@click.option("--no-color", is_flag=True)
@click.option("--debug", is_flag=True, hidden=True)
def command(code: str, no_color: bool, debug: bool) -> int:
    """The manual page of one condition or cause: what it sees, why it matters, what looks like it, what to do.

    Example:  traindx explain GRAD002
    """
    screen = options.console(no_color=no_color)
    rules, causes = catalogue(), cause.catalogue()
    if code.upper() in rules:
        screen.print(Markdown(manual.page(rules[code.upper()])))
    elif code.lower() in causes:
        c = causes[code.lower()]
        screen.print(
            Markdown(
                f"# {c.name}\n\n{c.title}\n\n## What to do\n\n{c.cure}\n\n## Shows as\n\n"
                + "\n".join(f"- {k}" for k in c.likely)
            )
        )
    else:
        near = [k for k in (*rules, *causes) if k.upper().startswith(code.upper()[:4])][:6]
        hint = f"; did you mean {', '.join(near)}?" if near else "; `traindx rules` lists them"
        raise UsageError(f"there is no condition or cause '{code}'{hint}")
    return 0
