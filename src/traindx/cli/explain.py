"""`traindx explain CODE`"""

from __future__ import annotations

import rich_click as click
from rich.markdown import Markdown
from rich.markup import escape

from traindx import cause
from traindx.cli import options
from traindx.errors import UsageError
from traindx.report import manual, search
from traindx.rule import catalogue, nearest


@click.command("explain")
@click.argument("words", metavar="CODE", nargs=-1, required=True)
def command(words: tuple[str, ...]) -> int:
    """Describe one condition or cause, or find the tool, condition or complaint that your words mean.

    Example:  traindx explain GRAD002   ·   traindx explain "learning rate finder"   ·   traindx explain loss is nan
    """
    code = " ".join(words)
    screen = options.console()
    rules, causes = catalogue(), cause.catalogue()
    if code.upper() in rules:
        screen.print(Markdown(manual.page(rules[code.upper()])))
    elif code.lower() in causes:
        c = causes[code.lower()]
        screen.print(Markdown(f"# {c.name}\n\n{manual.cause_page(c)}"))
    elif hits := search.find(code):
        for hit in hits:
            screen.print(f"[bold]{escape(hit.name)}[/]  [dim]{hit.kind}[/]")
            screen.print(f"  {escape(hit.call)}", highlight=False)
            if hit.said:
                screen.print(f"  {escape(hit.said)}", style="dim", highlight=False)
    else:
        hint = nearest(code, (*rules, *causes)) or "; `traindx rules` lists the conditions"
        raise UsageError(f"nothing here is called '{code}'{hint}")
    return 0
