"""`traindx explain CODE`"""

from __future__ import annotations

import rich_click as click
from rich.markdown import Markdown

from traindx import cause
from traindx.cli import options
from traindx.errors import UsageError
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
        r = rules[code.upper()]
        limits = "\n".join(f"- `{name}` = {value!r}" for name, value in r.settings.items())
        text = f"# {r.code} {r.name}\n\n{r.page}\n\n## Limits\n\n{limits or 'none'}\n\n## Needs\n\n"
        text += "\n".join(f"- `{name}`" + (f" ({n} records)" if n > 1 else "") for name, n in r.needs.items())
        screen.print(Markdown(text))
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
