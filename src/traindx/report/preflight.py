"""The pre-flight as a page: the answered checklist, the contact sheet of the data, the table of modules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from traindx.report.words import number, safe

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
td,th{padding:.25rem .7rem;text-align:left;vertical-align:top;border-bottom:1px solid #e6e6e6}
.pass{color:#1c7a3f}.fail{color:#b3261e;font-weight:bold}.cannot-tell{color:#8a6d00}.soft{color:#666;font-size:.9em}
.batch{border:1px solid #ddd;border-radius:6px;padding:.6rem;margin:.6rem 0;overflow-x:auto}
figure{display:inline-block;margin:.2rem;text-align:center}img{width:72px;image-rendering:pixelated;border:1px solid #ccc}
"""


def render(items: Sequence[Any], modules: Sequence[Mapping[str, Any]], sheet: Mapping[str, Any], seconds: float) -> str:
    """A self-contained page; the samples in it leave no other trace."""
    rows = "".join(
        f'<tr><td class="{i.result}">{i.result.replace("-", " ")}</td><td><b>{_text(i.item)}</b><br><span class=soft>{_text(i.message, 500)}</span>'
        f"{f'<br>→ {_text(i.fix, 500)}' if i.result == 'fail' and i.fix else ''}</td></tr>"
        for i in items
    )
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f"<title>traindx check</title><style>{STYLE}</style></head><body><h1>Pre-flight</h1><table>{rows}</table>"
        f"<p class=soft>{seconds:.1f} s</p>{_sheet(sheet)}{_modules(modules)}</body></html>\n"
    )


def _text(value: Any, most: int = 200) -> str:
    return escape(safe(str(value), most))


def _sheet(sheet: Mapping[str, Any]) -> str:
    parts = []
    for which, title in (("train", "Training"), ("val", "Validation")):
        batches = sheet.get(which) or []
        parts.append(f"<h2>{title} data: look at it</h2>" if batches else "")
        parts += [f"<div class=batch><span class=soft>{_text(about(b), 400)}</span><br>{_samples(b)}</div>" for b in batches]
    return "".join(parts)


def about(batch: Mapping[str, Any]) -> str:
    """A batch in a line: shapes, types, ranges, first targets."""
    inputs = ", ".join(
        f"{t['dtype']} {'×'.join(map(str, t['shape']))}"
        + (f" in [{number(t['min'])}, {number(t['max'])}]" if "min" in t else "")
        for t in batch.get("inputs", [])
    )
    return f"{inputs}; targets {' '.join(map(_short, batch.get('targets', [])))}"


def _short(value: Any) -> str:
    return number(float(value)) if isinstance(value, int | float) else "[" + " ".join(_short(v) for v in value[:4]) + "]"


def _samples(batch: Mapping[str, Any]) -> str:
    targets = [*batch.get("targets", []), *[""] * 20]
    if batch.get("kind") == "image":
        return "".join(
            f'<figure><img alt="sample" src="data:image/png;base64,{escape(data)}"><figcaption>{_text(_short(t) if t != "" else "", 20)}</figcaption></figure>'
            for data, t in zip(batch["png"], targets, strict=False)
        )
    return "<table>" + "".join(_row([_short(v) for v in row]) for row in batch.get("rows", [])) + "</table>"


def _modules(modules: Sequence[Mapping[str, Any]]) -> str:
    if not modules:
        return ""
    head = _row(("module", "class", "in", "out", "dtype", "device", "RMS", "parameters"), "th")
    return f"<h2>Modules</h2><table>{head}{''.join(_row(module_row(m)) for m in modules)}</table>"


def module_row(m: Mapping[str, Any]) -> list[str]:
    """A module's row: name, class, shapes, dtype, device, RMS of its output, own parameters."""
    shapes = ", ".join("×".join(map(str, s)) for s in m["in"])
    rms = number(float(m["rms"])) if m["rms"] is not None else "–"
    return [m["name"], m["class"], shapes, "×".join(map(str, m["out"])), m["dtype"], m["device"], rms, str(m["parameters"])]


def _row(cells: Iterable[Any], kind: str = "td") -> str:
    return "<tr>" + "".join(f"<{kind}>{_text(c, 80)}</{kind}>" for c in cells) + "</tr>"
