"""The pre-flight as a page: the answered checklist, the contact sheet of the data, the table of modules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from traindx.report.words import number, safe

MARK = {"pass": "✔", "fail": "✖", "cannot-tell": "?"}  # never colour alone
TONE = {"pass": "good", "fail": "critical", "cannot-tell": "info"}
STYLE = """
td.mark{width:1%;white-space:nowrap;font-weight:650}td.good,li .good{color:var(--good)}td.info,li .info{color:var(--info)}
td.critical,li .critical,.card.critical h3{color:var(--critical)}
.lists{display:grid;grid-template-columns:repeat(auto-fit,minmax(240px,1fr));gap:14px}.lists .card{margin:0;padding:14px 16px}
.lists ol{list-style:none;margin:8px 0 0;padding:0;font-size:.86rem}.lists li{display:grid;grid-template-columns:1.2em 1fr;gap:6px;margin:3px 0}
"""
SHEET = Path(__file__).with_name("style.css")


def render(items: Sequence[Any], modules: Sequence[Mapping[str, Any]], sheet: Mapping[str, Any], seconds: float) -> str:
    """A self-contained page; the samples in it leave no other trace."""
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f"<title>traindx check</title><style>{SHEET.read_text(encoding='utf-8')}{STYLE}</style></head><body><main>"
        f"{_inner(items, modules, sheet, seconds)}</main></body></html>\n"
    )


def text(checked: Any) -> str:
    """The answers in plain lines, for print() and interactive sessions."""
    told = []
    for i in checked.items:
        todo = f"\n    → {safe(i.fix)}" if i.result == "fail" and i.fix else ""
        told.append(f"{MARK[i.result]} {i.item}: {safe(i.message)}{todo}")
    return "\n".join((*told, "", f"{verdict(checked.items)}: {counted(checked.items)}, in {checked.seconds:.1f} s"))


def fragment(checked: Any) -> str:
    """The same for a notebook, in the one style of all fragments."""
    from traindx.report.notebook import framed

    inner = _inner(checked.items, checked.modules, checked.sheet, checked.seconds)
    return framed(f"<style>@scope (.traindx) {{ {STYLE} }}</style>{inner}")


def _inner(items: Sequence[Any], modules: Sequence[Mapping[str, Any]], sheet: Mapping[str, Any], seconds: float) -> str:
    failed = [i for i in items if i.result == "fail"]
    head = (
        f'<header class="verdict {"restart" if failed else "healthy"}"><h1>{_text(verdict(items), 300)}</h1>'
        f"<p class=soft>{_text(counted(items))}, in {seconds:.1f} s</p></header>"
    )
    return (
        f"{head}{''.join(_card(i) for i in failed)}{looked_at(sheet)}<h2>Every question</h2>{_table(items)}"
        f"{_lists(items)}{_modules(modules)}"
    )


def verdict(items: Sequence[Any]) -> str:
    """Whether to start, in a sentence."""
    failed = [i for i in items if i.result == "fail"]
    if failed:
        rest = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        return f"Not ready: it does not hold that {failed[0].item}{rest}"
    unknown = sum(i.result == "cannot-tell" for i in items)
    return "Ready to train" + (f" as far as can be told: {unknown} questions stay open" if 2 * unknown > len(items) else "")


def counted(items: Sequence[Any]) -> str:
    """How many questions had which answer."""
    counts = {k: sum(i.result == k for i in items) for k in MARK}
    return f"{counts['pass']} pass, {counts['fail']} fail, {counts['cannot-tell']} cannot tell"


def by_list(items: Sequence[Any]) -> dict[str, list[tuple[int, str, str]]]:
    """The lines of the well-known checklists: number, words, answer. Where several questions answer one, the worst counts."""
    worst = {"fail": 0, "cannot-tell": 1, "pass": 2}
    lines: dict[str, dict[int, tuple[int, str, str]]] = {}
    for item in items:
        for told in item.lists:
            place, _, words = told.partition(": ")
            name, _, at = place.rpartition(", ")
            have = lines.setdefault(name, {}).get(int(at))
            if have is None or worst[item.result] < worst[have[2]]:
                lines[name][int(at)] = (int(at), words, item.result)
    return {name: sorted(rows.values()) for name, rows in sorted(lines.items(), key=lambda kv: -len(kv[1]))}


def _card(i: Any) -> str:
    todo = f"<div class=do><b>do</b><span class=copy>{_text(i.fix, 500)}</span></div>" if i.fix else ""
    return f'<section class="card critical"><h3>✖ not so: {_text(i.item)}</h3><p>{_text(i.message, 800)}</p>{todo}</section>'


def _table(items: Sequence[Any]) -> str:
    rows = "".join(
        f'<tr><td class="mark {TONE[i.result]}">{MARK[i.result]} {i.result.replace("-", " ")}</td>'
        f"<td><b>{_text(i.item)}</b><br><span class='soft small'>{_text(i.message, 500)}</span></td></tr>"
        for i in items
    )
    return f"<table>{rows}</table>"


def _lists(items: Sequence[Any]) -> str:
    cards = "".join(
        f"<section class=card><h3>{_text(name[:1].upper() + name[1:])}</h3><ol>"
        + "".join(
            f'<li><span class="{TONE[r]}" title="{r}">{MARK[r]}</span><span>{at}. {_text(words)}</span></li>'
            for at, words, r in lines
        )
        + "</ol></section>"
        for name, lines in by_list(items).items()
    )
    return f"<h2>The checklists people use</h2><div class=lists>{cards}</div>" if cards else ""


def _text(value: Any, most: int = 200) -> str:
    return escape(safe(str(value), most, lines=True))


def looked_at(sheet: Any) -> str:
    """A few batches of each kind, as pictures or numbers with their targets; empty without any."""
    parts = []
    for which, title in (("train", "Training"), ("val", "Validation")):
        batches = [b for b in (sheet.get(which) or [] if isinstance(sheet, Mapping) else []) if _is_look(b)]
        parts.append(f"<h2>{title} data: look at it</h2>" if batches else "")
        parts += [f"<div class=batch><span class=soft>{_text(about(b), 400)}</span><br>{_samples(b)}</div>" for b in batches]
    return "".join(parts)


def _is_look(batch: Any) -> bool:
    """Whether it has the form of a batch that was kept: a record on disk may hold anything."""
    if not isinstance(batch, Mapping) or not all(
        isinstance(batch.get(k, []), list) for k in ("inputs", "targets", "rows", "png")
    ):
        return False
    inputs, rows = batch.get("inputs", []), batch.get("rows", [])
    whole = all(isinstance(t, Mapping) and {"dtype", "shape"} <= t.keys() and isinstance(t["shape"], list) for t in inputs)
    return whole and all(isinstance(r, list) for r in rows) and all(isinstance(p, str) for p in batch.get("png", []))


def about(batch: Mapping[str, Any]) -> str:
    """A batch in a line: shapes, types, ranges, first targets."""
    inputs = ", ".join(
        f"{t['dtype']} {'×'.join(map(str, t['shape']))}"
        + (f" in [{number(t['min'])}, {number(t['max'])}]" if "min" in t else "")
        for t in batch.get("inputs", [])
    )
    return f"{inputs}; targets {' '.join(map(_short, batch.get('targets', [])))}"


def _short(value: Any) -> str:
    if isinstance(value, list):
        return "[" + " ".join(_short(v) for v in value[:4]) + "]"
    return number(float(value)) if isinstance(value, int | float) else str(value)


def _samples(batch: Mapping[str, Any]) -> str:
    targets = [*batch.get("targets", []), *[""] * 20]
    if batch.get("kind") == "image":
        return "".join(
            f'<figure><img alt="sample" src="data:image/png;base64,{escape(data)}"><figcaption>{_text(_short(t) if t != "" else "", 20)}</figcaption></figure>'
            for data, t in zip(batch.get("png", []), targets, strict=False)
        )
    return "<table>" + "".join(_row([_short(v) for v in row]) for row in batch.get("rows", [])) + "</table>"


def _modules(modules: Sequence[Mapping[str, Any]]) -> str:
    if not modules:
        return ""
    head = _row(("module", "class", "in", "out", "dtype", "device", "RMS", "parameters"), "th")
    return f"<h2>Modules</h2><div class=scroll><table>{head}{''.join(_row(module_row(m)) for m in modules)}</table></div>"


def module_row(m: Mapping[str, Any]) -> list[str]:
    """A module's row: name, class, shapes, dtype, device, RMS of its output, own parameters."""
    shapes = ", ".join("×".join(map(str, s)) for s in m["in"])
    rms = number(float(m["rms"])) if m["rms"] is not None else "–"
    return [m["name"], m["class"], shapes, "×".join(map(str, m["out"])), m["dtype"], m["device"], rms, str(m["parameters"])]


def _row(cells: Iterable[Any], kind: str = "td") -> str:
    return "<tr>" + "".join(f"<{kind}>{_text(c, 80)}</{kind}>" for c in cells) + "</tr>"
