"""The line that decided a value: from the line that uses it back along the assignments of the user's own file.

    config = {"lr": 0.5}                                    # this line decided the rate
    opt = SGD(net.parameters(), lr=config["lr"])            # this one only passes it on

Names, keys of a dictionary, options of argparse, attributes, arguments and results of the file's own functions are followed.
What cannot be followed ends the walk; the last line that was reached counts. Nothing is run.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from traindx.probe import Probe, Scene

_STEPS = 12  # of a walk
_PASSING = {"iter", "next", "enumerate", "tqdm", "list", "DataLoader"}
_KEEPING = {
    "to", "cuda", "cpu", "long", "float", "double", "int", "view", "reshape", "unsqueeze", "squeeze", "astype", "detach",
    "clone", "flatten", "contiguous", "type", "numpy", "item",
}  # fmt: skip
_MIXING = {"shuffle", "sort", "sort_values", "append", "fill_", "clamp_", "mul_", "add_", "zero_"}


@dataclass(frozen=True)
class Bound:
    """A name got its value here; `place` is its position in an unpacked tuple."""

    line: int
    value: ast.expr | None = None
    place: int | None = None


class Source:
    """The assignments of one file."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self._nodes = list(ast.walk(self.tree))
        self._calls = [n for n in self._nodes if isinstance(n, ast.Call)]
        self._up = {child: node for node in self._nodes for child in ast.iter_child_nodes(node)}
        self._functions = {n.name: n for n in self._nodes if isinstance(n, ast.FunctionDef)}
        self._left = 0

    def calls(self, line: int) -> list[ast.Call]:
        """The calls that reach over a line, outermost first."""
        return [n for n in self._calls if n.lineno <= line <= (n.end_lineno or n.lineno)]

    def made(self, value: ast.expr | None) -> int:
        """The line that decided a value; 0 where it stands for itself."""
        self._left = _STEPS
        while isinstance(value, ast.Subscript) and not _key(value):  # a slice at the call itself decides nothing elsewhere
            value = value.value
        return self._walk(value, None)

    def within(self, line: int) -> Iterator[ast.AST]:
        """What stands in the simple statement of a line."""
        rows = [n for n in self._nodes if isinstance(n, ast.stmt) and not hasattr(n, "body") and n.lineno == line]
        return (part for row in rows for part in ast.walk(row))

    def number(self, name: ast.Name) -> bool:
        """Whether a name stands for a number that is written down."""
        bound = self._bound(name)
        value = self._bare(bound.value, bound.place)[0] if bound else None
        return isinstance(value, ast.BinOp) or (isinstance(value, ast.Constant) and isinstance(value.value, (int, float)))

    def stored(self, key: str) -> Iterator[int]:
        """Where an entry of that name is set (`group["lr"] = …`, `*= …`, `.update(lr=…)`); latest first, by what decided it."""
        for node in reversed(self._nodes):
            if isinstance(node, ast.Assign) and any(_key(t) == key for t in node.targets):
                yield self.made(node.value) or node.lineno
            named = [word.arg for word in node.keywords] if isinstance(node, ast.Call) and _name(node) == "update" else []
            changed = isinstance(node, ast.AugAssign) and _key(node.target) == key
            if isinstance(node, ast.stmt | ast.expr) and (key in named or changed):
                yield node.lineno

    def planned(self) -> Iterator[int]:
        """Where a schedule of the rate is made."""
        for node in self._calls:
            if _name(node).endswith(("LR", "ReduceLROnPlateau")):
                yield node.lineno

    def masked(self) -> Iterator[int]:
        """Where attention is masked, or made without a mask."""
        for node in self._calls:
            if _name(node) in ("triu", "tril"):
                given = [
                    n for n in (*node.args, *(k.value for k in node.keywords)) if isinstance(n, ast.Name) and self.number(n)
                ]
                yield (self.made(given[0]) if given else 0) or node.lineno
        for node in self._calls:
            if _name(node) == "scaled_dot_product_attention":
                yield node.lineno

    def written(self) -> Iterator[int]:
        """Where weights are written by hand, outside the loop that trains; the latest first, which holds."""
        for node in sorted(self._nodes, key=lambda n: -getattr(n, "lineno", 0)):
            if isinstance(node, ast.Call) and _name(node).endswith("_") and isinstance(node.func, ast.Attribute):
                target: ast.AST = node if isinstance(node.func.value, (ast.Name, ast.Attribute)) else node.func
            elif isinstance(node, (ast.Assign, ast.AugAssign)):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            else:
                continue
            parts = {n.attr for n in ast.walk(target) if isinstance(n, ast.Attribute) and not _own(n)}
            if parts & {"data", "weight", "bias", "init"} and not self._trains(node):
                yield node.lineno

    def _trains(self, node: ast.AST) -> bool:
        """Whether something stands in a loop that goes backward."""
        while (node := self._up.get(node, self.tree)) is not self.tree:
            if isinstance(node, (ast.For, ast.While)) and any(
                isinstance(n, ast.Call) and _name(n) == "backward" for n in ast.walk(node)
            ):
                return True
        return False

    def guarded(self, line: int) -> Iterator[int]:
        """The number that decides when a line is reached, or the condition over it, in its function."""
        for node in self._nodes:
            if isinstance(node, ast.If) and node.lineno < line <= (node.end_lineno or 0):
                yield from (self.made(n) for n in ast.walk(node.test) if isinstance(n, ast.Name) and self.number(n))
                if any(n in ast.walk(node) for n in self.calls(line)) and not _main(node):
                    yield node.lineno

    def drawn(self, line: int) -> Iterator[int]:
        """Where the targets of a loss were drawn."""
        for call in self.calls(line):
            for value in call.args[1:2]:
                while isinstance(value, ast.Subscript):
                    value = value.value
                bare = self._bare(value, None)[0]
                bound = self._bound(bare) if isinstance(bare, ast.Name) else None
                yield bound.line if bound else 0

    def _walk(self, value: ast.expr | None, place: int | None) -> int:
        self._left -= 1
        value, place = self._bare(value, place)
        if value is None or self._left < 0:
            return 0
        if isinstance(value, ast.Call):
            return self._result(value, place)
        if isinstance(value, ast.IfExp):
            named = [n for n in ast.walk(value) if isinstance(n, ast.Name) and self.number(n)]
            return self._walk(named[0], None) if named else value.lineno
        key = _key(value)
        if isinstance(value, ast.Name):
            bound = self._bound(value)
        elif key and isinstance(value, ast.Subscript):
            bound = self._entry(value.value, key)
        elif isinstance(value, ast.Attribute):
            bound = self._attribute(value)
        else:
            return value.lineno
        if bound is None:
            return 0
        return self._walk(bound.value, bound.place if bound.place is not None else place) or bound.line

    def _bare(self, value: ast.expr | None, place: int | None) -> tuple[ast.expr | None, int | None]:
        """What a value is before it was moved, indexed, or wrapped into a loader."""
        while value is not None:
            if isinstance(value, ast.Subscript) and _drawn(value.slice):
                value = value.value
            elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _KEEPING:
                value = value.func.value
            elif isinstance(value, ast.Call) and value.args and _name(value) in _PASSING:
                value = value.args[0]
            elif (
                isinstance(value, ast.Call)
                and _name(value) == "TensorDataset"
                and place is not None
                and place < len(value.args)
            ):
                value, place = value.args[place], None
            elif isinstance(value, ast.Tuple) and place is not None and place < len(value.elts):
                value, place = value.elts[place], None
            else:
                break
        return value, place

    def _result(self, call: ast.Call, place: int | None) -> int:
        """A call of the file's own function: what it returns; of another, the call."""
        own = self._functions.get(_name(call)) if isinstance(call.func, ast.Name) else None
        given = [n for n in ast.walk(own) if isinstance(n, ast.Return) and n.value is not None] if own else []
        if len(given) != 1:
            return call.lineno
        return self._walk(given[0].value, place) or given[0].lineno

    # -- what a name was bound to

    def _bound(self, name: ast.Name) -> Bound | None:
        """The last binding in front of the use, in its function or else in the file."""
        scope = self._scope(name)
        while True:
            known = [
                b for b in self._bindings(scope, name.id) if b.line <= (name.lineno if scope is self._scope(name) else 1 << 30)
            ]
            earlier = [b for b in known if b.line < name.lineno] or known
            if earlier:
                return max(earlier, key=lambda b: b.line)
            if isinstance(scope, ast.FunctionDef) and (given := self._argument(scope, name.id)):
                return given
            if isinstance(scope, ast.Module):
                return None
            scope = self._scope(scope)

    def _scope(self, node: ast.AST) -> ast.AST:
        while not isinstance(node := self._up.get(node, self.tree), (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)):
            pass
        return node

    def _bindings(self, scope: ast.AST, name: str) -> Iterator[Bound]:
        for node in self._nodes if scope is self.tree else ast.walk(scope):
            if node is scope or self._scope(node) is not scope:
                continue
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    yield from _to(target, name, node.value, node.lineno)
            elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
                yield from _to(node.target, name, node.value, node.lineno)
            elif isinstance(node, ast.AugAssign) and _root(node.target) == name:
                yield Bound(node.lineno)
            elif isinstance(node, (ast.For, ast.comprehension)) and not _counts(node.iter):
                counted = (
                    isinstance(node.iter, ast.Call) and _name(node.iter) == "enumerate" and isinstance(node.target, ast.Tuple)
                )
                target = node.target.elts[1] if counted and len(node.target.elts) > 1 else node.target  # type: ignore[attr-defined]
                yield from _to(target, name, node.iter, node.iter.lineno)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _mixes(node.value, name):
                yield Bound(node.lineno)

    def _argument(self, function: ast.FunctionDef, name: str) -> Bound | None:
        """What the file itself passes for an argument of its function, or its default."""
        names = [a.arg for a in function.args.args]
        if name not in names:
            return None
        at, method = names.index(name), bool(names) and names[0] == "self"
        called = function.name
        if called == "__init__" and isinstance(owner := self._up.get(function), ast.ClassDef):
            called = owner.name
        for call in (n for n in self._calls if _name(n) == called):
            given = next((k.value for k in call.keywords if k.arg == name), None)
            if given is None and at - method < len(call.args):
                given = call.args[at - method]
            if given is not None:
                return Bound(given.lineno, given)
        left = at - (len(names) - len(function.args.defaults))
        return Bound(function.args.defaults[left].lineno) if left >= 0 else None

    def _entry(self, held: ast.expr, key: str) -> Bound | None:
        """An entry of a dictionary."""
        bound = self._bound(held) if isinstance(held, ast.Name) else None
        if bound is None:
            return None
        value = bound.value
        if isinstance(value, ast.Dict):
            for k, v in zip(value.keys, value.values):
                if isinstance(k, ast.Constant) and k.value == key:
                    return Bound(v.lineno, v)
        if isinstance(value, ast.Call):
            for word in value.keywords:
                if word.arg == key:
                    return Bound(word.value.lineno, word.value)
        return bound

    def _attribute(self, value: ast.Attribute) -> Bound | None:
        """An attribute: where it is assigned, the option of that name, the field of a class of settings."""
        known: list[Bound] = []
        for node in self._nodes:
            if isinstance(node, ast.Assign):
                known += [
                    Bound(node.lineno, node.value)
                    for t in node.targets
                    if isinstance(t, ast.Attribute) and t.attr == value.attr
                ]
            elif isinstance(node, ast.Call) and _name(node) == "add_argument" and _option(node, value.attr):
                known.append(Bound(node.lineno))
            elif isinstance(node, ast.ClassDef):
                for row in node.body:
                    if isinstance(row, (ast.Assign, ast.AnnAssign)):
                        targets = row.targets if isinstance(row, ast.Assign) else [row.target]
                        known += [
                            Bound(row.lineno, row.value) for t in targets if isinstance(t, ast.Name) and t.id == value.attr
                        ]
        return known[-1] if known else None


def _own(node: ast.Attribute) -> bool:
    """`self.data`: an object's own field of that name."""
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def _counts(over: ast.expr) -> bool:
    return isinstance(over, ast.Call) and _name(over) in ("range", "trange")


def _to(target: ast.expr, name: str, value: ast.expr | None, line: int) -> Iterator[Bound]:
    """What an assignment gives to a name."""
    if isinstance(target, ast.Name) and target.id == name:
        yield Bound(line, value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        for i, part in enumerate(target.elts):
            for bound in _to(part, name, value, line):
                yield Bound(line, value, i) if bound.place is None else bound
    elif isinstance(target, (ast.Subscript, ast.Attribute)) and _root(target) == name:
        yield Bound(line)


def _drawn(index: ast.expr) -> bool:
    """An index that draws samples, by a name: what it draws from is meant. A slice at a number decides something itself."""
    return isinstance(index, ast.Name) or (
        isinstance(index, (ast.Slice, ast.Tuple, ast.BinOp)) and any(isinstance(n, ast.Name) for n in ast.walk(index))
    )


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _mixes(call: ast.Call, name: str) -> bool:
    """A call that changes what it is given, or its own object."""
    held = call.func.value if isinstance(call.func, ast.Attribute) else None
    return _name(call) in _MIXING and (
        any(isinstance(a, ast.Name) and a.id == name for a in call.args) or (held is not None and _root(held) == name)
    )


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""


def _key(value: ast.expr) -> str:
    """The key of `settings["lr"]`."""
    index = value.slice if isinstance(value, ast.Subscript) else None
    return index.value if isinstance(index, ast.Constant) and isinstance(index.value, str) else ""


def _main(node: ast.If) -> bool:
    """`if __name__ == …`"""
    return any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))


def _option(call: ast.Call, name: str) -> bool:
    given = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return any(text.lstrip("-").replace("-", "_") == name for text in given)


Part = Callable[[Source, int], Iterator[int]]


# -- what is asked about: each part yields lines, the first that is another one than the call's counts


def _values(give: Callable[[Source, ast.Call], Iterator[ast.expr]]) -> Part:
    """The lines that decided these values."""
    return lambda source, line: (source.made(value) for call in source.calls(line) for value in give(source, call))


def _argument(place: int, *words: str) -> Part:
    """An argument by its name, or by its place."""

    def give(_: Source, call: ast.Call) -> Iterator[ast.expr]:
        yield from (k.value for k in call.keywords if k.arg in words)
        yield from call.args[place : place + 1]

    return _values(give)


def _named(*words: str) -> Callable[[Source, ast.Call], Iterator[ast.expr]]:
    """What is given by one of these names in a call, or in a dictionary that stands in it."""

    def give(_: Source, call: ast.Call) -> Iterator[ast.expr]:
        for node in ast.walk(call):
            if isinstance(node, ast.keyword) and node.arg in words:
                yield node.value
            elif isinstance(node, ast.Dict):
                yield from (v for k, v in zip(node.keys, node.values) if isinstance(k, ast.Constant) and k.value in words)

    return give


def _rate(source: Source, line: int) -> Iterator[int]:
    """The line that changes the rate later, or decided it, or plans it."""
    yield from source.stored("lr")
    yield from _values(_named("lr"))(source, line)
    yield from _argument(1)(source, line)
    yield from source.planned()


def _criterion(_: Source, call: ast.Call) -> Iterator[ast.expr]:
    """`criterion` of criterion(outputs, targets)."""
    if len(call.args) >= 2:
        yield call.func


def _ignored(source: Source, line: int) -> Iterator[int]:
    """The class that is left out, at the loss or where its criterion was made; else that criterion."""
    give = _named("ignore_index")
    yield from _values(give)(source, line)
    for made in _values(_criterion)(source, line):
        yield from _values(give)(source, made)
        yield made


def _receiver(_: Source, call: ast.Call) -> Iterator[ast.expr]:
    """`loss` of loss.backward()."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
        yield call.func.value


def _answers(source: Source, line: int) -> Iterator[int]:
    """Where the latest of what is compared was made: `predicted` of (predicted == labels)."""
    sides = (side for node in source.within(line) if isinstance(node, ast.Compare) for side in (node.left, *node.comparators))
    yield from sorted((source.made(side) for side in sides if isinstance(side, ast.Name)), reverse=True)


def _model(_: Source, call: ast.Call) -> Iterator[ast.expr]:
    """`net` of Adam(net.parameters())."""
    for node in ast.walk(call):
        if isinstance(node, ast.Attribute) and node.attr.endswith("parameters"):
            yield node.value


def _words(_: Source, call: ast.Call) -> Iterator[ast.expr]:
    """Every name in a call but what is called."""
    yield from (n for n in ast.walk(call) if isinstance(n, ast.Name) and n is not call.func)


def _plan(source: Source, call: ast.Call) -> Iterator[ast.expr]:
    """What a schedule is told besides its optimizer."""
    yield from (
        n for part in [*call.args[1:], *call.keywords] for n in ast.walk(part) if isinstance(n, ast.Name) and source.number(n)
    )


def _weight(source: Source, line: int) -> Iterator[int]:
    """What a term of the loss is multiplied by, where that is a number with a name."""
    for at in _values(_receiver)(source, line):
        for node in source.within(at):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                yield from (source.made(n) for n in (node.left, node.right) if isinstance(n, ast.Name) and source.number(n))
        yield at


PARTS: dict[str, tuple[str, Part]] = {  # the site that it starts from, and how it goes back
    "rate": ("optimizer", _rate),
    "model": ("optimizer", _values(_model)),
    "horizon": ("scheduler", _values(_plan)),
    "data": ("loader", _argument(0, "dataset")),
    "sampler": ("loader", _values(_named("sampler", "batch_sampler"))),
    "val_data": ("val_loader", _argument(0, "dataset")),
    "criterion": ("loss", _values(_criterion)),
    "ignored": ("loss", _ignored),
    "target": ("loss", _argument(1, "target", "labels")),
    "given": ("evaluate", _argument(0)),
    "drawn": ("loss", lambda source, line: source.drawn(line)),
    "sum": ("backward", _values(_receiver)),
    "weight": ("backward", _weight),
    "guard": ("evaluate", lambda source, line: source.guarded(line)),
    "judged": ("evaluate", _argument(0)),
    "average": ("mean", _values(_words)),
    "figure": ("metric", _values(_words)),
    "mask": ("loss", lambda source, _: source.masked()),
    "answers": ("compared", _answers),
    "judged_data": ("judged_loader", _argument(0, "dataset")),
    "written": ("optimizer", lambda source, _: source.written()),
}


@cache
def read(file: str) -> Source | None:
    """A file as it was when it ran; None where it cannot be read."""
    try:
        return Source("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return None


def origins(sites: Mapping[str, str], text: str | None = None) -> dict[str, str]:
    """Where each part of what stands at the known sites was decided: {part: file:line}."""
    out: dict[str, str] = {}
    for part, (site, back) in PARTS.items():
        file, _, number = sites.get(site, "").rpartition(":")
        source = (read(file) if text is None else Source(text)) if number.isdigit() else None
        if source is not None:
            at = next((n for n in back(source, int(number)) if n and n != int(number)), 0)
            out |= {part: f"{file}:{at}"} if at else {}
    return out


class Origins(Probe):
    """At the end of a run: the lines that decided what stands at the known lines."""

    def facts(self, scene: Scene) -> dict[str, Any] | None:
        if not scene.ended:
            return None
        sites = {**scene.facts.get("code.sites", {}), "loss": scene.facts.get("loss.site", "")}
        return {"code.origins": origins(sites)}


PROBES = [Origins]
