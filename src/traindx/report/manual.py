"""The manual page of a condition, for `traindx explain` and for the documentation: the same text in both.

What was measured on the clinic and which of its runs is pictured stands in `measured.json`, made by `tools/pages.py`.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from traindx.cause import Cause
from traindx.rule import Rule


@cache
def measured() -> dict[str, Any]:
    """Per code what the clinic measured and what its picture shows."""
    table: dict[str, Any] = json.loads(files("traindx.report").joinpath("measured.json").read_text(encoding="utf-8"))
    return table


def page(rule: Rule, told: dict[str, Any] | None = None, *, site: bool = False) -> str:
    """A rule's page as Markdown: its docstring, a picture, its limits, what it needs, what it was measured to do.

    On the `site` the picture is shown and other pages are linked; elsewhere it is said where it stands.
    """
    about = (measured() if told is None else told).get(rule.code, {})
    third = [f"A third-party condition, from the package {rule.origin}.", ""] if rule.origin else []
    lines = [f"# {rule.code} {rule.name}", "", *third, rule.page, ""]
    if "picture" in about:
        lines += [*_picture(rule.code, about["picture"], site), ""]
    elif "unshown" in about:
        lines += [f"No run of the clinic is pictured here: {about['unshown']}.", ""]
    lines += ["## Limits", ""]
    lines += [f"- `{k}` = `{v!r}`" for k, v in rule.settings.items()] or ["none"]
    lines += ["", f"Set them in `[tool.traindx.rules.{rule.code}]`.", "", "## Needs", ""]
    lines += [f"- `{need}`" + (f", at least {n} records" if n > 1 else "") for need, n in rule.needs.items()]
    lines += ["", f"Default severity **{rule.severity.value}**, confidence **{rule.confidence.value}**."]
    if rule.explains:
        listed = ", ".join(f"[{c}]({c.lower()}.md)" if site else c for c in rule.explains)
        lines += ["", f"When it is found it accounts for {listed}."]
    if "healthy" in about:
        lines += ["", f"On the clinic: {_figures(about)}."]
    return "\n".join(lines) + "\n"


def cause_page(cause: Cause, *, site: bool = False) -> str:
    """A cause's page as Markdown: what it is, what to do, how to confirm it, which conditions it shows as."""
    codes = dict.fromkeys(key.partition(":")[0] for key in cause.likely)
    shows = ", ".join(f"[{c}](rules/{c.lower()}.md)" if site else c for c in codes)
    lines = [
        f"{cause.title[:1].upper()}{cause.title[1:]}. Verdict: **{cause.verdict}**.",
        "",
        f"What to do: {cause.advice}",
        "",
    ]
    lines += [f"Note: {warning}\n" for warning in cause.not_yet]
    if cause.settle:
        cost = f" ({cause.cost})" if cause.cost_steps else ""
        lines += [f"To confirm: `{cause.command()}`{cost}.", ""]
    return "\n".join([*lines, f"Shows as {shows}.", ""])


def _picture(code: str, p: dict[str, Any], site: bool) -> list[str]:
    name = f"pictures/{code.lower()}.svg"
    since = f" from step {p['step']}" if p["step"] is not None else ""
    caption = f"The clinic's run `{p['case']}`: {p['fault']}. Found{since}: {p['said']}."
    if site:
        return [f"![{p['alt']}]({name})", "", f"*{caption}*"]
    return [caption]


def _figures(about: dict[str, Any]) -> str:
    n = about["false_alarms"]
    alarms = f"{n or 'no'} false alarm{'' if n == 1 else 's'} on {about['healthy']} healthy runs"
    if not about["sick"]:
        return f"{alarms}; no sick run was made for it alone"
    return f"found in {about['found']} of {about['sick']} sick runs made for it; {alarms}"
