"""Checks every text a user can see against the rules of docs/contributing/voice.md.

`python -m tools.voice` names each place that breaks a rule. Files that broke rules when the check was introduced are
listed in `voice_debt.txt` with a count; a count may only fall. `--pay` writes the lower counts.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
DEBT = Path(__file__).parent / "voice_debt.txt"
MOST_WORDS = 30  # in a sentence
GENERATED = "<!-- generated"  # such pages repeat texts of the source: only what the generator adds can be wrong in them
# Python files whose docstrings users read: manual pages, command-line help, the public interface.
SHOWN_DOCSTRINGS = ("rules/", "trials/", "cli/", "kit/", "testing/", "integrations/", "api.py", "diagnosis/__init__.py")
# Other people's words, to be recognised in logs: they follow no rule of ours.
FOREIGN = ("importers/phrases.py", "importers/lexicon.py", "importers/aliases.py")

# What must not be said, and what to say instead.
BANNED = {
    r"mend(s|ed|ing)?": "fix",
    r"ail(s|ed|ing|ment)?": "say what is wrong",
    r"apart from that": "separate issue",
    r"not excluded": "unlikely",
    r"change (our|my|your) mind": "to confirm: …",
    r"so many": "give the number",
    r"is worth less": "say what is lost",
    r"[a-z]{3,}\(e?s\)": "write the plural, or count",
    r"anew|afresh": "again",
    r"(something|anything) (about it )?bothers?( you)?": "other possible issues",
    r"send(s)? word|word of each": "send an alert",
    r"a statue": "froze",
    r"of this model minds": "has no effect",
    r"is same": "no difference",
    r"do not part|parts? (from|beyond)|(is|are|was|were|have) parted": "differ",
    r"are remembered": "the model is memorising",
    r"in vain|for nothing": "wasted",
    r"by heart": "memorise",
    r"nothing but": "only",
    r"as it comes": "by default",
    r"speaks? (for|against)|what speaks": "supports, contradicts",
    r"woken( up)?": "set back to train mode",
    r"died away|for ever": "went to zero, permanently",
    r"thereof|whence|whilst|amongst|upon|wherein|thereby|therein|hitherto|forthwith|lest|ought": "plain English",
    r"shall": "will, should",
    r"beside": "next to, besides, compared with",
    r"stands? at|stood": "is at, was",
    r"all along": "throughout",
    r"wins? back": "recovers",
    r"owns the gradient": "dominates the gradient",
    r"now and then": "occasionally",
    r"next to nothing": "almost nothing",
    r"the very (data|one|same|parameters|samples|weights)": "the same",
    r"ever (more|wider|less|longer)": "more and more",
    r"is no more": "is over",
    r"at fault": "name the fault",
    r"(goes|went|go|gone|going) on": "continue",
    r"lay(s|ing)? (the schedule |it |them )?out|laid out": "set the length of the schedule",
    r"met|meets": "say what happens",
    r"what is fed": "the input",
    r"noise ball": "noise floor",
    r"needs doing": "no action needed",
    r"(the|a) fault of ours|our fault|bug of ours": "a bug in traindx",
    r"no rarity": "not rare",
    r"as good as": "almost",
    r"is to hand|at hand": "available",
    r"of old": "earlier",
    r"be it": "whether",
    r"(was|is|are|were) to be \w+ed": "say who does it",
    r"what it was": "the cause",
    r"something to look at|things to play with": "name the thing",
    r"in good time|by and by|by now": "say when",
    r"let us|let's": "imperative",
    r"much the same": "about the same",
    r"how to say it": "output format",
    r"come(s)? to (its|their) end": "ends",
    r"is done with": "has finished",
}
_WHOLE = r"(?<![\w-])(?:{})(?![\w-])"
_ANY_BANNED = re.compile(_WHOLE.format("|".join(BANNED)), re.IGNORECASE)
_UNITS = {"ms": r"ms\b", "s": r"(s|seconds)\b", "mb": r"MB\b", "gb": r"GB\b", "bytes": r"bytes\b", "percent": r"%"}
_WITH_UNIT = re.compile(rf"\{{\w*?_({'|'.join(_UNITS)})(:[^}}]*)?\}}")
_STEP = re.compile(r"\bsteps? \{", re.IGNORECASE)
_LEAK = re.compile(r"\[\[|\]\]|(?<![\w$`])\{[a-z_]\w*(?:[:.][^{}\s]*)?\}")
_SENTENCE = re.compile(r"(?<=[.!?…])[)*_\"']*\s+|\n\s*\n|\n\s*(?:[-*|#>]|\d+\.)")


@dataclass(frozen=True)
class Text:
    """A text users see, and where it is written."""

    path: str
    line: int
    text: str


def texts() -> Iterator[Text]:
    """Everything a user can see: strings and shown docstrings of the package, its pages' scripts, the documentation."""
    package = ROOT / "src" / "traindx"
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package).as_posix()
        if not inside.endswith(FOREIGN):
            yield from of_python(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    for path in sorted([*package.rglob("*.js"), *package.rglob("*.html")]):
        yield from of_page(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    for path in sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]):
        if path.name != "CHANGELOG.md":
            yield from of_markdown(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def of_python(path: str, source: str) -> Iterator[Text]:
    """The strings of a module that read as words, f-strings as templates; docstrings only where users read them."""
    tree = ast.parse(source)
    shown = path.removeprefix("src/traindx/").startswith(SHOWN_DOCSTRINGS)
    docstrings = dict(_docstrings(tree))
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if _is_pattern(node):
            continue  # it is matched, not shown
        if isinstance(node, ast.JoinedStr):
            yield from _words(path, node.lineno, "".join(map(_template, node.values)))
            todo.extend(v.value for v in node.values if isinstance(v, ast.FormattedValue))
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            public = docstrings.get(node)
            if public is None or (public and shown):
                yield from _words(path, node.lineno, node.value)
        todo.extend(ast.iter_child_nodes(node))


def _is_pattern(node: ast.AST) -> bool:
    """Whether this is a call of the module `re`."""
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "re"


def _docstrings(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    """Each docstring of a module, and whether what it describes is public."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
            continue
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            yield first.value, not getattr(node, "name", "").startswith("_")


def _template(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else _field(part)


def _field(part: ast.expr) -> str:
    return "{" + ast.unparse(part.value if isinstance(part, ast.FormattedValue) else part)[:40] + "}"


def _words(path: str, line: int, text: str) -> Iterator[Text]:
    if len(re.findall(r"[A-Za-z']{2,}", re.sub(r"<[^>]*>|\{[^}]*\}", " ", text))) >= 2 and " " in text:
        yield Text(path, line, text)


def of_page(path: str, source: str) -> Iterator[Text]:
    """The quoted texts of a script, or what stands between the tags of a page."""
    source = re.sub(r"(?m)^\s*//.*$", "", source)  # comments
    pattern = r">([^<>{}]+)<" if path.endswith(".html") else r"\"((?:[^\"\\\n]|\\.)*)\"|`((?:[^`\\]|\\.)*)`"
    for match in re.finditer(pattern, source):
        text = next(g for g in match.groups() if g is not None)
        yield from _words(path, source.count("\n", 0, match.start()) + 1, re.sub(r"\$\{[^}]*\}", "{…}", text))


def of_markdown(path: str, source: str) -> Iterator[Text]:
    """The paragraphs of a page, without code."""
    prose = re.sub(r"```.*?```|`[^`\n]*`|<!--.*?-->", lambda m: "\n" * m[0].count("\n") or "code", source, flags=re.S)
    line = 1
    for paragraph in prose.split("\n\n"):
        yield Text(path, line, paragraph)
        line += paragraph.count("\n") + 2


def faults(text: Text, *, generated: bool = False) -> Iterator[str]:
    """What breaks a rule in a text."""
    if text.path.endswith(".md"):
        yield from (f"{m[0]!r} is a template that was never filled in" for m in _LEAK.finditer(text.text))
    if generated or text.path == "docs/contributing/voice.md":  # that page quotes what must not be said
        return
    for m in _ANY_BANNED.finditer(text.text):
        instead = next(i for phrase, i in BANNED.items() if re.fullmatch(phrase, m[0], re.IGNORECASE))
        yield f"{m[0]!r}: {instead}"
    for sentence in _SENTENCE.split(text.text):
        count = len(re.findall(r"[A-Za-z][\w'’-]*|\{[^}]*\}", re.sub(r"<[^>]*>|\]\([^)]*\)", " ", sentence)))
        code = len(re.findall(r"[=(){}\[\];_]", sentence)) > count / 4
        if count > MOST_WORDS and "|" not in sentence and not code:
            yield f"a sentence of {count} words (at most {MOST_WORDS}): {' '.join(sentence.split())[:60]}…"
    for m in _WITH_UNIT.finditer(text.text):
        if not re.search(_UNITS[m[1]], text.text[m.end() : m.end() + 40]):
            yield f"{m[0]} has no unit behind it"
    if text.path.startswith("src/traindx/report/"):
        yield from (f"{m[0]!r}: the axis may be epochs; use words.span" for m in _STEP.finditer(text.text))


def found() -> dict[str, list[str]]:
    """Every fault by file."""
    out: dict[str, list[str]] = {}
    made = {p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md") if p.read_text("utf-8").startswith(GENERATED)}
    for text in texts():
        for fault in faults(text, generated=text.path in made):
            out.setdefault(text.path, []).append(f"{text.path}:{text.line}: {fault}")
    return out


def debts() -> dict[str, int]:
    """How many faults each file may still have."""
    rows = (line.split() for line in DEBT.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#"))
    return {path: int(count) for count, path in rows}


def overdue(found_: dict[str, list[str]], allowed: dict[str, int]) -> list[str]:
    """What fails the check: faults beyond a file's debt, and debts that are paid but still listed."""
    out = [line for path, lines in found_.items() if len(lines) > allowed.get(path, 0) for line in lines]
    return out + [f"{path} has no faults left: remove it from tools/voice_debt.txt" for path in allowed if path not in found_]


def main(pay: bool) -> None:
    """Check, or lower the debts to what is left."""
    now, allowed = found(), debts() if DEBT.exists() else {}
    if pay:
        left = Counter({p: min(len(now[p]), allowed[p]) for p in allowed if p in now})
        rows = [f"{count} {path}" for path, count in sorted(left.items())]
        DEBT.write_text("\n".join(["# faults still to be rewritten, by file; counts may only fall", *rows]) + "\n", "utf-8")
        print(f"{sum(left.values())} faults left in {len(left)} files")
        return
    if late := overdue(now, allowed):
        sys.exit("\n".join([*late, f"{len(late)} places break docs/contributing/voice.md"]))


if __name__ == "__main__":
    main("--pay" in sys.argv)
