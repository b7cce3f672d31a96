"""Mutants: one fault put into any PyTorch program, at the place that its calls give away.

>>> from clinic.mutate import mutants
>>> [m.operator for m in mutants("optimizer = torch.optim.Adam(net.parameters(), lr=0.1)")][:2]
['rate_times_300', 'rate_over_10000']

An operator looks at the syntax tree for what it needs (an optimizer that is made, its step, the loss that goes into backward,
a loader, an evaluation), and edits the text there and nowhere else. Each mutant names its guilty line and what is to have
changed: how many calls of which name came or went. `differs` checks both against the two trees. Whether a mutant then does
what was meant is measured by running it: one that prints and learns the same as the original is no mutant.

The truth of an operator (accepted codes, causes, verdicts) is that of the clinic's operator of the same fault, where there is
one.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from clinic.operators import OPERATORS
from clinic.operators.common import BLOWN, EVALUATION, FIX, NOTED, RESTART

OPTIMIZERS = {"Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Adamax", "Rprop", "ClippedAdam"}
CROSS = {"cross_entropy", "CrossEntropyLoss"}
SQUARED = {"mse_loss", "MSELoss", "l1_loss", "L1Loss", "smooth_l1_loss", "SmoothL1Loss", "huber_loss", "HuberLoss"}
LOGITS = {"binary_cross_entropy_with_logits", "BCEWithLogitsLoss"}
LOSSES = CROSS | SQUARED | LOGITS | {"nll_loss", "NLLLoss", "binary_cross_entropy", "BCELoss", "kl_div", "KLDivLoss"}
AT = 40  # the update from which a fault of the middle of the run holds


@dataclass(frozen=True)
class Change:
    """Edits of the text: (from, to, new); the guilty line; what came and went."""

    edits: tuple[tuple[int, int, str], ...]
    line: int
    calls: dict[str, int] = field(default_factory=dict)  # calls by name that are more (or fewer) afterwards


@dataclass(frozen=True)
class Mutant:
    operator: str
    text: str
    line: int  # of the mutant
    before: str = field(repr=False)
    change: Change = field(repr=False)


@dataclass(frozen=True)
class Fault:
    """An operator of the mutator and its truth."""

    name: str
    says: str
    condition: str
    codes: tuple[str, ...]
    causes: tuple[str, ...]
    verdicts: tuple[str, ...]
    find: Callable[[Source], Iterator[Change]]
    falsifies: bool = False  # what is reported is not what is: to be alarmed whatever the harm
    least: str = "warning"


class Source:
    """A program's text and tree, and where things are in it."""

    def __init__(self, text: str) -> None:
        self.text, self.tree = text, ast.parse(text)
        raw = text.encode()
        self._starts = [0, *(i + 1 for i, b in enumerate(raw) if b == 10)]
        self._raw = raw
        self.up: dict[ast.AST, ast.AST] = {c: p for p in ast.walk(self.tree) for c in ast.iter_child_nodes(p)}

    # -- text

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node stands, in bytes."""
        a = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        b = self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return a, b

    def code(self, node: ast.AST) -> str:
        a, b = self.span(node)
        return self._raw[a:b].decode()

    def put(self, node: ast.AST, new: str, **calls: int) -> Change:
        """Another text in place of a node."""
        return Change(((*self.span(node), new),), node.lineno, calls)  # type: ignore[attr-defined]

    def wrap(self, node: ast.AST, left: str, right: str, **calls: int) -> Change:
        return self.put(node, f"{left}{self.code(node)}{right}", **calls)

    def before(self, statement: ast.stmt, rows: Sequence[str], line: int = 0, **calls: int) -> Change:
        """Rows in front of a statement, at its indentation."""
        start = self._starts[statement.lineno - 1]
        block = "".join(f"{self._indent(statement)}{row}\n" for row in rows)
        return Change(((start, start, block),), statement.lineno + line, calls)

    def after(self, statement: ast.stmt, rows: Sequence[str], line: int = 1, **calls: int) -> Change:
        """Rows behind a statement, at its indentation."""
        end = statement.end_lineno or statement.lineno
        at = self._starts[end] if end < len(self._starts) else len(self._raw)
        head = "" if self._raw[:at].endswith(b"\n") else "\n"
        block = head + "".join(f"{self._indent(statement)}{row}\n" for row in rows)
        return Change(((at, at, block),), end + line, calls)

    def _indent(self, node: ast.stmt) -> str:
        start = self._starts[node.lineno - 1]
        return self._raw[start : start + node.col_offset].decode()

    def edited(self, change: Change) -> str:
        raw = self._raw
        for a, b, new in sorted(change.edits, reverse=True):
            raw = raw[:a] + new.encode() + raw[b:]
        return raw.decode()

    # -- what there is

    def calls(self, *names: str, within: ast.AST | None = None) -> list[ast.Call]:
        found = [n for n in ast.walk(within or self.tree) if isinstance(n, ast.Call) and called(n) in names]
        return sorted(found, key=lambda n: (n.lineno, n.col_offset))

    def statement(self, node: ast.AST) -> ast.stmt:
        while not isinstance(node, ast.stmt):
            node = self.up[node]
        return node

    def alone(self, node: ast.stmt) -> bool:
        """A statement that has its line to itself, in a block."""
        row = self.text.splitlines()[node.lineno - 1]
        return row.strip().startswith(self.code(node).splitlines()[0].strip()) and ";" not in row.split("#")[0]

    def bare(self, *names: str) -> list[ast.Expr]:
        """Statements that are nothing but a call of a method: `optimizer.step()`."""
        found = [n for n in ast.walk(self.tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)]
        rows = [n for n in found if isinstance(n.value.func, ast.Attribute) and n.value.func.attr in names]  # type: ignore[attr-defined]
        return sorted((n for n in rows if self.alone(n)), key=lambda n: n.lineno)

    def made(self) -> list[tuple[ast.Assign, ast.Call]]:
        """Optimizers that are made: the assignment and the call."""
        rows = [n for n in ast.walk(self.tree) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)]
        hits = [(n, n.value) for n in rows if called(n.value) in OPTIMIZERS and len(n.targets) == 1]  # type: ignore[arg-type]
        return sorted(hits, key=lambda t: t[0].lineno)  # type: ignore[return-value]

    @property
    def owners(self) -> set[str]:
        """The names optimizers go by; a last part is enough, for `self.optimizer` and `optimizer`."""
        return {self.code(a.targets[0]).split(".")[-1] for a, _ in self.made()}

    def steps(self) -> list[ast.Expr]:
        """`optimizer.step()` of something that is an optimizer and no schedule."""
        return [s for s in self.bare("step") if self._owner(s) and not s.value.args]  # type: ignore[attr-defined]

    def _owner(self, statement: ast.Expr) -> bool:
        last = receiver(self, statement).split(".")[-1]
        return last in self.owners or bool(re.search(r"opt(im)?", last, re.I))

    def updates(self) -> list[tuple[ast.Expr, ast.Expr]]:
        """A backward and the step that follows it in the same block."""
        out = []
        for back in self.bare("backward"):
            block = self._block(back)
            later = [s for s in self.steps() if s in block and s.lineno > back.lineno]
            out += [(back, later[0])] if later else []
        return out

    def _block(self, statement: ast.stmt) -> list[ast.stmt]:
        parent = self.up[statement]
        return next(b for b in (getattr(parent, n, None) for n in ("body", "orelse", "finalbody")) if b and statement in b)

    def schedules(self) -> set[str]:
        rows = [n for n in ast.walk(self.tree) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)]
        return {self.code(n.targets[0]) for n in rows if re.search(r"LR$|Scheduler$|ReduceLROnPlateau", called(n.value) or "")}  # type: ignore[arg-type]

    @property
    def criteria(self) -> dict[str, str]:
        """What losses are called by: `criterion = nn.CrossEntropyLoss()`."""
        rows = [n for n in ast.walk(self.tree) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)]
        inner = ((n, c) for n in rows for c in ast.walk(n.value) if isinstance(c, ast.Call))
        return {self.code(n.targets[0]).split(".")[-1]: called(c) or "" for n, c in inner if called(c) in LOSSES and (called(c) or "")[0].isupper()}

    def losses(self, kinds: set[str] = LOSSES, *, training: bool | None = None) -> list[ast.Call]:
        """Calls that compute a loss of these kinds, from outputs and targets."""
        by_name = {n for n, k in self.criteria.items() if k in kinds}
        hits = [c for c in self.calls(*(k for k in kinds if k[0].islower()), *by_name) if len(c.args) >= 2]
        return [c for c in hits if training is None or self.evaluates(c) != training]

    def evaluates(self, node: ast.AST) -> bool:
        """Whether something stands in an evaluation: under no_grad, or in a function of that name."""
        while node in self.up:
            node = self.up[node]
            if isinstance(node, ast.With) and any(quiet(self.code(i.context_expr)) for i in node.items):
                return True
            if isinstance(node, ast.FunctionDef):
                if any(quiet(self.code(d)) for d in node.decorator_list) or re.search(r"eval|valid|test|predict", node.name, re.I):
                    return True
        return False

    def trained(self) -> list[str]:
        """Names of the models that optimizers were given: `net` of Adam(net.parameters())."""
        inner = [c for _, made in self.made() for c in self.calls("parameters", within=made)]
        return list(dict.fromkeys(self.code(c.func.value) for c in inner if isinstance(c.func, ast.Attribute)))

    def forwards(self, *, training: bool) -> list[ast.Call]:
        """Calls of a trained model on a plain name: `net(x)`."""
        names = {n.split(".")[-1] for n in self.trained()}
        hits = [c for c in ast.walk(self.tree) if isinstance(c, ast.Call) and c.args and isinstance(c.args[0], ast.Name)]
        hits = [c for c in hits if called(c) in names]
        return sorted((c for c in hits if self.evaluates(c) != training), key=lambda c: c.lineno)

    def loops(self) -> list[ast.For]:
        """Loops whose body updates."""
        rows = [n for n in ast.walk(self.tree) if isinstance(n, ast.For)]
        return [n for n in rows if any(s.lineno > n.lineno and (s.end_lineno or 0) <= (n.end_lineno or 0) for s in self.steps())]


def called(call: ast.Call) -> str | None:
    """The last part of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else None


def receiver(src: Source, statement: ast.Expr) -> str:
    return src.code(statement.value.func.value)  # type: ignore[attr-defined]


def quiet(code: str) -> bool:
    return "no_grad" in code or "inference_mode" in code


def word(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


# -- operators


def _gone(src: Source, statements: Sequence[ast.stmt]) -> Change:
    """Statements taken out; `pass` keeps the block and the lines."""
    lost = Counter(called(c) or "" for s in statements for c in ast.walk(s) if isinstance(c, ast.Call))
    return Change(tuple((*src.span(s), "pass") for s in statements), statements[0].lineno, {k: -n for k, n in lost.items()})


def zero_grad_gone(src: Source) -> Iterator[Change]:
    rows = src.bare("zero_grad")
    if rows:
        yield _gone(src, rows)


def cleared_before_step(src: Source) -> Iterator[Change]:
    for back, step in src.updates()[:1]:
        yield src.after(back, [f"{receiver(src, step)}.zero_grad()"], zero_grad=1)


def backward_gone(src: Source) -> Iterator[Change]:
    for back, _ in src.updates()[:1]:
        yield _gone(src, [back])


def step_gone(src: Source) -> Iterator[Change]:
    rows = src.steps()
    if rows:
        yield _gone(src, rows[:1])


def stepped_twice(src: Source) -> Iterator[Change]:
    for _, step in src.updates()[:1]:
        yield src.after(step, [f"{receiver(src, step)}.step()"] * 2, step=2)


def eval_gone(src: Source) -> Iterator[Change]:
    rows = src.bare("eval")
    if rows and re.search(r"[Dd]ropout|BatchNorm", src.text):
        yield _gone(src, rows)


def train_gone(src: Source) -> Iterator[Change]:
    rows = [s for s in src.bare("train") if not s.value.args]  # type: ignore[attr-defined]
    if rows and src.bare("eval") and re.search(r"[Dd]ropout|BatchNorm", src.text):
        yield _gone(src, rows)


def graphs_in_evaluation(src: Source) -> Iterator[Change]:
    rows = [c for c in src.calls("no_grad") if isinstance(src.up.get(c), (ast.withitem, ast.FunctionDef))]
    if rows:
        edits = tuple((*src.span(c.func), src.code(c.func).replace("no_grad", "enable_grad")) for c in rows)
        yield Change(edits, rows[0].lineno, {"no_grad": -len(rows), "enable_grad": len(rows)})


def loss_kept(src: Source) -> Iterator[Change]:
    for row in ast.walk(src.tree):
        if isinstance(row, ast.AugAssign) and isinstance(row.value, ast.Call) and called(row.value) == "item":
            if not src.evaluates(row) and isinstance(row.value.func, ast.Attribute):
                yield src.put(row.value, src.code(row.value.func.value), item=-1)
                return


def accumulation_undivided(src: Source) -> Iterator[Change]:
    for row in ast.walk(src.tree):
        if isinstance(row, ast.BinOp) and isinstance(row.op, ast.Div) and re.search(r"accum", src.code(row.right)):
            if re.search(r"loss", src.code(row.left)):
                yield src.put(row, src.code(row.left))
                return


def schedule_in_batches(src: Source) -> Iterator[Change]:
    rows = [s for s in src.bare("step") if receiver(src, s) in src.schedules() and not s.value.args]  # type: ignore[attr-defined]
    inner = [step for _, step in src.updates() if rows and not any(r in src._block(step) for r in rows)]
    if rows and inner and src.up.get(inner[0]) is not src.tree:
        yield src.after(inner[0], [f"{receiver(src, rows[0])}.step()"], step=1)


def schedule_never(src: Source) -> Iterator[Change]:
    rows = [s for s in src.bare("step") if receiver(src, s) in src.schedules()]
    if rows:
        yield _gone(src, rows)


def _rate(by: str) -> Callable[[Source], Iterator[Change]]:
    def find(src: Source) -> Iterator[Change]:
        for _, call in src.made()[:1]:
            given = word(call, "lr") or (call.args[1] if len(call.args) > 1 and not isinstance(call.args[1], ast.Starred) else None)
            if given is not None:
                yield src.put(given, f"({src.code(given)}) * {by}")

    return find


def _option(name: str, value: str, kinds: Sequence[str] = ()) -> Callable[[Source], Iterator[Change]]:
    """An option of the optimizer: set, or set otherwise."""

    def find(src: Source) -> Iterator[Change]:
        for _, call in src.made()[:1]:
            if kinds and called(call) not in kinds or any(k.arg is None for k in call.keywords):
                continue
            given = word(call, name)
            if given is not None:
                yield src.put(given, value)
            elif call.args or call.keywords:
                last = max([*call.args, *(k.value for k in call.keywords)], key=lambda n: src.span(n)[1])
                yield Change(((src.span(last)[1], src.span(last)[1], f", {name}={value}"),), last.end_lineno or last.lineno)

    return find


def _part(which: str) -> Callable[[Source], Iterator[Change]]:
    def find(src: Source) -> Iterator[Change]:
        for _, call in src.made()[:1]:
            if call.args and isinstance(call.args[0], ast.Call) and called(call.args[0]) == "parameters":
                yield src.wrap(call.args[0], "list(", f"){which}", list=1)

    return find


def made_every_time(src: Source) -> Iterator[Change]:
    for assign, _ in src.made()[:1]:
        name = src.code(assign.targets[0])
        for loop in src.loops():
            same = [s for s in src.steps() if receiver(src, s) == name and loop.lineno < s.lineno <= (loop.end_lineno or 0)]
            if same and _scope(src, loop) is _scope(src, assign) and src.alone(loop.body[0]) and loop.body[0].lineno > loop.lineno:
                calls = Counter(called(c) or "" for c in ast.walk(assign) if isinstance(c, ast.Call))
                yield src.before(loop.body[0], [" ".join(src.code(assign).split())], **calls)
                return


def _scope(src: Source, node: ast.AST) -> ast.AST:
    while node in src.up:
        node = src.up[node]
        if isinstance(node, (ast.FunctionDef, ast.Module)):
            return node
    return src.tree


def _counted(src: Source, then: str, *, early: bool = False, **calls: int) -> Iterator[Change]:
    """A line before the step that does something at the AT-th update of this optimizer ({o})."""
    for back, step in src.updates()[:1]:
        owner = receiver(src, step)
        rows = [f'{owner}.seen = getattr({owner}, "seen", 0) + 1', then.format(o=owner, l=receiver(src, back))]
        yield (src.before(back, rows, 1, getattr=1, **calls) if early else src.before(step, rows, 1, getattr=1, **calls))


def rate_jumps(src: Source) -> Iterator[Change]:
    yield from _counted(src, f'[g.update(lr=g["lr"] * 100) for g in {{o}}.param_groups if {{o}}.seen == {AT}]', update=1)


def frozen_midway(src: Source) -> Iterator[Change]:
    half = '[p.requires_grad_(False) for p in {o}.param_groups[0]["params"][: len({o}.param_groups[0]["params"]) // 2]'
    yield from _counted(src, half + f" if {{o}}.seen == {AT}]", requires_grad_=1, len=1)


def weights_back(src: Source) -> Iterator[Change]:
    keep = '{o}.first = [p.detach().clone() for g in {o}.param_groups for p in g["params"]] if {o}.seen == 1 else {o}.first'
    back = f'[p.data.copy_(q) for p, q in zip([p for g in {{o}}.param_groups for p in g["params"]], {{o}}.first) if {{o}}.seen == {3 * AT}]'
    for change in _counted(src, keep, detach=1, clone=1):
        (start, end, rows), owner = change.edits[0], receiver(src, src.updates()[0][1])
        indent = rows[: len(rows) - len(rows.lstrip())]
        more = f"{indent}{back.format(o=owner)}\n"
        yield Change(((start, end, rows + more),), change.line + 1, {**change.calls, "copy_": 1, "zip": 1})


def loss_slips(src: Source) -> Iterator[Change]:
    for back, _ in src.updates()[:1]:
        if re.fullmatch(r"\w+", receiver(src, back)):
            yield from _counted(src, "{l} = {l} * (1000.0 if {o}.seen % 50 == 49 else 1.0)", early=True)


def loss_negated(src: Source) -> Iterator[Change]:
    for back, _ in src.updates()[:1]:
        value = back.value.func.value  # type: ignore[attr-defined]
        yield src.wrap(value, "(-(", "))")


def loss_tiny(src: Source) -> Iterator[Change]:
    for back, _ in src.updates()[:1]:
        yield src.wrap(back.value.func.value, "(1e-8 * (", "))")  # type: ignore[attr-defined]


def _into_loss(kinds: set[str], left: str, right: str, **calls: int) -> Callable[[Source], Iterator[Change]]:
    """Something done to the outputs on their way into a training loss."""

    def find(src: Source) -> Iterator[Change]:
        for loss in src.losses(kinds, training=True)[:1]:
            if not any(isinstance(a, ast.Starred) for a in loss.args):
                yield src.wrap(loss.args[0], left, right, **calls)

    return find


def _into_targets(left: str, right: str, kinds: set[str] = LOSSES, *, training: bool = True, **calls: int) -> Callable[[Source], Iterator[Change]]:
    """Something done to the targets of a loss."""

    def find(src: Source) -> Iterator[Change]:
        for loss in src.losses(kinds, training=training)[:1]:
            target = loss.args[1]
            if isinstance(target, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
                yield src.wrap(target, left, right, **calls)

    return find


def probabilities_into_nll(src: Source) -> Iterator[Change]:
    rows = src.calls("log_softmax", "LogSoftmax")
    if rows and (src.losses({"nll_loss", "NLLLoss"})):
        name = called(rows[0]) or ""
        new = {"log_softmax": "softmax", "LogSoftmax": "Softmax"}[name]
        yield src.put(rows[0].func, src.code(rows[0].func).replace(name, new), **{name: -1, new: 1})


def softmax_over_batch(src: Source) -> Iterator[Change]:
    for call in src.calls("softmax", "log_softmax", "Softmax", "LogSoftmax"):
        given = word(call, "dim") or next((a for a in call.args if src.code(a) in ("1", "-1", "2")), None)
        if given is not None and src.code(given) != "0":
            yield src.put(given, "0")
            return


def causal_mask_gone(src: Source) -> Iterator[Change]:
    for call in ast.walk(src.tree):
        if isinstance(call, ast.Call) and (given := word(call, "is_causal")) is not None and src.code(given) == "True":
            yield src.put(given, "False")
            return
    for row in ast.walk(src.tree):
        if isinstance(row, ast.Assign) and isinstance(row.value, ast.Call) and called(row.value) == "masked_fill":
            if "inf" in src.code(row) and isinstance(row.value.func, ast.Attribute):
                inner = Counter(called(c) or "" for c in ast.walk(row.value) if isinstance(c, ast.Call))
                kept = Counter(called(c) or "" for c in ast.walk(row.value.func.value) if isinstance(c, ast.Call))
                yield src.put(row.value, src.code(row.value.func.value), **{k: kept[k] - n for k, n in inner.items() if kept[k] != n})
                return


def target_not_shifted(src: Source) -> Iterator[Change]:
    """`x[:-1]` and `x[1:]` of one thing: the second becomes the first."""
    slices = [n for n in ast.walk(src.tree) if isinstance(n, ast.Subscript)]
    for later in slices:
        if re.search(r"\[(.*, *)?1:\]$", src.code(later)):
            twin = re.sub(r"1:\]$", ":-1]", src.code(later))
            if any(src.code(n) == twin and _scope(src, n) is _scope(src, later) for n in slices):
                yield src.put(later, twin)
                return


def not_shuffled(src: Source) -> Iterator[Change]:
    for call in src.calls("DataLoader"):
        given = word(call, "shuffle")
        if given is not None and src.code(given) == "True":
            yield src.put(given, "False")
            return


def same_batch(src: Source) -> Iterator[Change]:
    loaders = {src.code(n.targets[0]) for n in ast.walk(src.tree) if isinstance(n, ast.Assign) and called_is(n.value, "DataLoader")}
    for loop in src.loops():
        inner = loop.iter.args[0] if isinstance(loop.iter, ast.Call) and called(loop.iter) in ("enumerate", "tqdm") else loop.iter
        if src.code(inner).split(".")[-1] in {n.split(".")[-1] for n in loaders} | {"train_loader", "dataloader", "trainloader"}:
            name = src.code(inner)
            yield src.put(inner, f"[next(iter({name}))] * len({name})", next=1, iter=1, len=1)
            return


def called_is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and called(node) == name


def _into_model(change: str, *, training: bool, every: bool = False, **calls: int) -> Callable[[Source], Iterator[Change]]:
    """Something done to the inputs ({x}) on their way into a model."""

    def find(src: Source) -> Iterator[Change]:
        rows = src.forwards(training=training)
        if training and every:
            rows = rows + src.forwards(training=False)
        rows = rows if every else rows[:1]
        if rows:
            edits = tuple((*src.span(c.args[0]), change.format(x=src.code(c.args[0]))) for c in rows)
            yield Change(edits, rows[0].lineno, {k: n * len(rows) for k, n in calls.items()})

    return find


def nan_in_a_batch(src: Source) -> Iterator[Change]:
    for call in src.forwards(training=True)[:1]:
        for _, step in src.updates()[:1]:
            owner, x = receiver(src, step), src.code(call.args[0])
            if _scope(src, step) is _scope(src, call):
                rows = [f'{owner}.seen = getattr({owner}, "seen", 0) + 1', f'{x} = {x} * float("nan") if {owner}.seen == {AT} else {x}']
                yield src.before(src.statement(call), rows, 1, getattr=1, float=1)


def validates_on_training(src: Source) -> Iterator[Change]:
    rows = [c for c in src.calls("DataLoader") if c.args or word(c, "dataset") is not None]
    pairs = [(c, c.args[0] if c.args else word(c, "dataset")) for c in rows]
    first = next((n for c, n in pairs if n is not None and not re.search(r"test|val", src.code(n), re.I)), None)
    other = next((n for c, n in pairs if n is not None and re.search(r"test|val", src.code(n), re.I)), None)
    if first is not None and other is not None and isinstance(first, ast.Name) and isinstance(other, ast.Name):
        yield src.put(other, src.code(first))


def least_likely(src: Source) -> Iterator[Change]:
    for call in src.calls("argmax"):
        if src.evaluates(call):
            yield src.put(call.func, src.code(call.func).replace("argmax", "argmin"), argmax=-1, argmin=1)
            return
    for call in src.calls("max"):
        if src.evaluates(call) and src.code(call.func) == "torch.max" and len(call.args) == 2:
            yield src.put(call.func, "torch.min", max=-1, min=1)
            return


def divided_by_batches(src: Source) -> Iterator[Change]:
    for call in src.calls("len"):
        if re.fullmatch(r"len\([\w.]*(test|val)[\w.]*\.dataset\)", src.code(call)) or (
            src.evaluates(call) and re.fullmatch(r"len\([\w.]+\.dataset\)", src.code(call))
        ):
            yield src.put(call, src.code(call).replace(".dataset", ""))
            return


def stale_copy(src: Source) -> Iterator[Change]:
    rows = [c for c in src.forwards(training=False) if isinstance(c.func, ast.Name) and _scope(src, c) is src.tree]
    for assign, _ in src.made()[:1]:
        if rows and _scope(src, assign) is src.tree and src.alone(assign):
            name = src.code(rows[0].func)
            same = [c for c in rows if src.code(c.func) == name]
            put = src.before(assign, [f'{name}_then = __import__("copy").deepcopy({name})'])
            edits = (*put.edits, *((*src.span(c.func), f"{name}_then") for c in same))
            yield Change(edits, same[0].lineno + 1, {"deepcopy": 1, "__import__": 1, name: -len(same), f"{name}_then": len(same)})


def _at_start(rows: Sequence[str], **calls: int) -> Callable[[Source], Iterator[Change]]:
    """Something done to the first weights, just after the optimizer was made."""

    def find(src: Source) -> Iterator[Change]:
        for assign, call in src.made()[:1]:
            if src.alone(assign) and call.args:
                yield src.after(assign, [r.format(o=src.code(assign.targets[0])) for r in rows], **calls)

    return find


def dropped_nearly_all(src: Source) -> Iterator[Change]:
    rows = src.calls("Dropout", "Dropout2d", "dropout")
    hits = [(c, word(c, "p") or next((a for a in c.args if isinstance(a, ast.Constant) or called(c) != "dropout"), None)) for c in rows]
    given = [n for _, n in hits if n is not None]
    if given:
        yield Change(tuple((*src.span(n), "0.98") for n in given), given[0].lineno)


def layers_in_a_list(src: Source) -> Iterator[Change]:
    for call in src.calls("ModuleList"):
        if call.args:
            yield src.put(call.func, "list", ModuleList=-1, list=1)
            return


def batchnorm_lags(src: Source) -> Iterator[Change]:
    rows = [c for c in src.calls("BatchNorm1d", "BatchNorm2d") if word(c, "momentum") is None and len(c.args) == 1]
    if rows:
        edits = tuple((src.span(c.args[0])[1], src.span(c.args[0])[1], ", momentum=0.0001") for c in rows)
        yield Change(edits, rows[0].lineno)


def padding_counts(src: Source) -> Iterator[Change]:
    for call in src.calls(*LOSSES):
        given = word(call, "ignore_index")
        if given is not None and src.code(given) != "-100":
            yield src.put(given, "-100")
            return


def critic_races(src: Source) -> Iterator[Change]:
    rows = [(a, c) for a, c in src.made() if re.search(r"(^|_)d($|_)|disc|critic|netd", src.code(a.targets[0]), re.I)]
    if len(src.made()) >= 2 and rows:
        given = word(rows[0][1], "lr")
        if given is not None:
            yield src.put(given, f"({src.code(given)}) * 50")


def divergence_weighs(src: Source) -> Iterator[Change]:
    for row in ast.walk(src.tree):
        if isinstance(row, ast.BinOp) and isinstance(row.op, ast.Add):
            for side in (row.right, row.left):
                if isinstance(side, ast.Name) and re.search(r"kl", side.id, re.I):
                    yield src.put(side, f"500.0 * {side.id}")
                    return


def clipped_to_nothing(src: Source) -> Iterator[Change]:
    rows = src.calls("clip_grad_norm_")
    if rows and len(rows[0].args) >= 2:
        yield src.put(rows[0].args[1], "1e-5")
        return
    for _, step in src.updates()[:1]:
        owner = receiver(src, step)
        held = f'[p for g in {owner}.param_groups for p in g["params"]]'
        yield src.before(step, [f'__import__("torch").nn.utils.clip_grad_norm_({held}, 1e-5)'], clip_grad_norm_=1, __import__=1)


def momentum_of_one(src: Source) -> Iterator[Change]:
    yield from _option("momentum", "1.0", ("SGD",))(src)


def smaller_than_it_was(src: Source) -> Iterator[Change]:
    """Every second update is lost: the step is called every other time."""
    for _, step in src.updates()[:1]:
        owner = receiver(src, step)
        text = f'{owner}.seen = getattr({owner}, "seen", 0) + 1; {owner}.step() if {owner}.seen < {AT} else None'
        yield src.put(step, text, getattr=1)


EACH = 'for _p in [p for g in {o}.param_groups for p in g["params"]{w}]: _p.data.{c}'


def _weights(condition: str, what: str) -> list[str]:
    return [EACH.replace("{w}", condition).replace("{c}", what)]


@cache
def _truths() -> dict[str, tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...], str]]:
    out = {}
    for o in OPERATORS:
        loud = [level for level in o.levels if not level.quiet]
        out[o.name] = (o.condition, o.codes, o.causes, o.verdicts, loud[0].least)
    return out


def _as(name: str, like: str, says: str, find: Callable[[Source], Iterator[Change]], *, falsifies: bool = False, least: str = "", more: tuple[str, ...] = (), causes: tuple[str, ...] = (), verdicts: tuple[str, ...] = ()) -> Fault:
    """A fault whose truth is that of the clinic's operator of that name."""
    condition, codes, known, ends, usual = _truths()[like]
    return Fault(name, says, condition, (*codes, *more), (*known, *causes), (*ends, *verdicts), find, falsifies, least or usual)


NOTHING = ("LOSS002", "LOSS011", "LOSS013", "OPTM001", "WIRE016", "ACTV005", "DATA004")  # a run that does not learn
# fmt: off
FAULTS: tuple[Fault, ...] = (
    _as("rate_times_300", "lr_too_high", "the learning rate is 300 times as high", _rate("300"), more=("OPTM013", "GRAD007", "WGHT001", "ACTV004", "LOSS006", "SPEC004")),
    _as("rate_over_10000", "lr_too_low", "the learning rate is a ten-thousandth", _rate("1e-4"), more=("LOSS011", "LOSS013", "LOSS004"), causes=("still-converging",)),
    _as("rate_of_zero", "lr_too_low", "the learning rate is zero", _rate("0.0"), more=("LOSS011", "LOSS013", "OPTM010", "OPTM003"), causes=("optimizer-group-fault", "schedule-collapsed")),
    _as("rate_jumps", "late_jump", f"at update {AT} the learning rate is raised a hundredfold", rate_jumps),
    _as("decay_of_ten", "decay_too_strong", "weight decay of ten", _option("weight_decay", "10.0", ("Adam", "AdamW", "SGD", "RMSprop")), more=("LOSS013", "WGHT003")),
    _as("epsilon_of_one", "adam_eps_dominates", "Adam's epsilon is one", _option("eps", "1.0", ("Adam", "AdamW", "RMSprop")), more=("LOSS013",)),
    _as("momentum_one", "momentum_of_one", "a momentum of one: nothing slows the weights down", momentum_of_one),
    _as("clipped_to_nothing", "clip_too_tight", "gradients are clipped to a hundred-thousandth", clipped_to_nothing, more=("OPTM008", "LOSS002", "LOSS011", "LOSS013"), causes=("adam-epsilon",)),
    _as("schedule_in_batches", "schedule_per_batch", "a schedule meant in epochs is stepped with every batch as well", schedule_in_batches),
    Fault("schedule_never", "the schedule is made and never stepped", "WIRE010", ("WIRE010", "OPTM003"), ("schedule-misused", "schedule-collapsed"), NOTED, schedule_never, least="info"),
    _as("made_every_time", "made_every_epoch", "the optimizer is made anew in the loop and forgets its moments", made_every_time),
    _as("without_the_head", "head_not_owned", "the optimizer does not hold the last two parameters", _part("[:-2]"), more=("WIRE014",)),
    _as("without_the_stem", "head_not_owned", "the optimizer does not hold the first two parameters", _part("[2:]"), more=("WIRE014",)),
    _as("zero_grad_gone", "zero_grad_missing", "gradients are never cleared", zero_grad_gone),
    _as("cleared_before_step", "cleared_too_early", "gradients are cleared between backward and step", cleared_before_step, more=("WIRE011", "LOSS011", "LOSS013")),
    _as("backward_gone", "backward_missing", "backward is never called", backward_gone, more=("LOSS011", "LOSS013")),
    Fault("step_gone", "the optimizer never steps", "WIRE016", (*NOTHING, "WIRE004", "WIRE001"), ("step-without-gradient", "lr-too-low", "parameters-not-in-optimizer", "zero-grad-missing"), RESTART, step_gone),
    _as("stepped_thrice", "double_step", "the optimizer steps three times on one gradient", stepped_twice),
    Fault("steps_stop", f"after {AT} updates the optimizer is no longer called", "WIRE016", (*NOTHING, "WIRE004", "LOSS003"), ("step-without-gradient", "lr-too-low", "zero-grad-missing", "schedule-collapsed"), FIX, smaller_than_it_was),
    _as("frozen_midway", "frozen_midway", f"half of the parameters are frozen at update {AT}", frozen_midway),
    _as("weights_back", "weights_lost", f"the first weights are put back at update {3 * AT}", weights_back),
    _as("loss_slips", "loss_slips", "one loss in fifty is multiplied by a thousand", loss_slips, more=("OPTM002", "LOSS001")),
    Fault("loss_negated", "the loss is climbed: its sign is wrong", "LOSS001", (*BLOWN, "WGHT001", "ACTV007", "ACTV004", "GRAD003", "LOSS013", "OPTM002"), ("lr-too-high", "exploding-gradients", "weight-growth", "logit-drift"), RESTART, loss_negated),
    _as("loss_tiny", "adam_eps_dominates", "the loss is multiplied by a hundred-millionth", loss_tiny, more=("LOSS011", "LOSS013", "GRAD001", "NUMR007")),
    _as("loss_kept", "losses_kept", "losses are summed with their graphs", loss_kept, least="info"),
    _as("accumulation_undivided", "accumulation_undivided", "accumulated losses are not divided", accumulation_undivided),
    _as("train_gone", "left_in_eval", "after the first evaluation nothing switches back to train mode", train_gone),
    _as("eval_gone", "validates_in_train_mode", "evaluation never switches to eval mode", eval_gone, falsifies=True),
    _as("graphs_in_evaluation", "validates_with_graphs", "evaluation builds graphs", graphs_in_evaluation, more=("PERF002",)),
    _as("softmax_then_ce", "softmax_then_ce", "probabilities go into cross-entropy", _into_loss(CROSS, "(", ").softmax(1)", softmax=1)),
    _as("sigmoid_then_bce", "sigmoid_then_bce", "probabilities go into a loss that expects logits", _into_loss(LOGITS, "(", ").sigmoid()", sigmoid=1)),
    _as("tanh_then_squared", "unreachable_targets", "a tanh bounds what is compared with unbounded targets", _into_loss(SQUARED, "(", ").tanh()", tanh=1)),
    _as("cut_before_the_loss", "detached_output", "the graph is cut between the outputs and the loss", _into_loss(LOSSES, "(", ").detach().requires_grad_()", detach=1, requires_grad_=1), more=("LOSS011", "LOSS013", "WIRE001")),
    _as("targets_flat", "mse_broadcast", "predictions and targets broadcast to a square", _into_targets("", ".reshape(-1)", SQUARED, reshape=1), more=("WIRE007",)),
    Fault("probabilities_into_nll", "probabilities go into a loss that expects logarithms", "WIRE006", ("WIRE006", "WIRE007", "LOSS011", "LOSS010"), ("double-activation", "loss-head-mismatch"), RESTART, probabilities_into_nll),
    _as("softmax_over_batch", "softmax_over_batch", "a softmax runs over the batch", softmax_over_batch),
    _as("causal_mask_gone", "causal_mask_missing", "attention sees the future", causal_mask_gone, falsifies=True),
    _as("target_not_shifted", "not_shifted", "the model is asked for the token that it is given", target_not_shifted, falsifies=True),
    _as("padding_counts", "padding_in_loss", "padding counts as something to be learned", padding_counts),
    _as("targets_permuted", "permuted_in_the_batch", "the targets of a batch are shuffled apart from their inputs", _into_targets("", ".flip(0)", flip=1), more=("LOSS013", "DATA010")),
    _as("same_batch", "same_batch", "every update of an epoch uses its first batch", same_batch),
    _as("not_shuffled", "one_order", "the loader does not shuffle", not_shuffled),
    _as("inputs_times_1000", "inputs_unscaled", "inputs are a thousand times too large", _into_model("{x} * 1000.0", training=True, every=True), more=(*BLOWN, "ACTV004", "ACTV003", "GRAD003")),
    _as("inputs_constant", "inputs_constant", "every input is the mean of its batch", _into_model("{x}.mean(0, keepdim=True).expand_as({x})", training=True, mean=1, expand_as=1), more=("LOSS013", "DATA008", "EVAL007")),
    _as("nan_in_a_batch", "nan_in_inputs", f"batch {AT} holds NaN", nan_in_a_batch, more=("NUMR001", "NUMR002", "NUMR003")),
    _as("validates_on_training", "rows_in_both_sets", "validation runs on the training set", validates_on_training, falsifies=True),
    _as("validation_times_16", "validation_unscaled", "validation inputs are sixteen times too large", _into_model("{x} * 16.0", training=False, every=True), falsifies=True),
    _as("validation_permuted", "validation_shuffled_apart", "validation targets are shuffled apart from their inputs", _into_targets("", ".flip(0)", training=False, flip=1), falsifies=True),
    _as("least_likely", "metric_counts_wrong", "accuracy is computed from the least likely class", least_likely, falsifies=True),
    Fault("divided_by_batches", "a sum over samples is divided by the number of batches", "EVAL008", ("EVAL008", "EVAL003", "EVAL006"), ("evaluation-averaging", "metric-bug"), EVALUATION, divided_by_batches, falsifies=True),
    _as("stale_copy", "stale_copy", "evaluation runs on a copy made before training", stale_copy, falsifies=True),
    _as("weights_times_15", "init_too_large", "first weights fifteen times too large", _at_start(_weights(" if p.dim() > 1", "mul_(15.0)"), dim=1, mul_=1), more=("ACTV001", *BLOWN), causes=("lr-too-high", "exploding-gradients")),
    _as("weights_all_equal", "constant_init", "all weights of a layer start from one value", _at_start(_weights(" if p.dim() > 1", "fill_(0.01)"), dim=1, fill_=1), more=("LOSS011", "LOSS013", "ACTV009")),
    _as("biases_below_zero", "dead_biases", "biases start at −4", _at_start(_weights(" if p.dim() == 1", "fill_(-4.0)"), dim=1, fill_=1), more=("LOSS011", "LOSS013", "LOSS010", "ACTV005", "WGHT005")),
    _as("weight_is_nan", "starts_broken", "one weight is not a number before the first step", _at_start(["{o}.param_groups[0][\"params\"][0].data.view(-1)[0] = float(\"nan\")"], view=1, float=1)),
    _as("dropped_nearly_all", "drowned_in_dropout", "dropout of 0.98", dropped_nearly_all, more=("ACTV005", "GRAD004", "ACTV001", "LOSS013"), causes=("dead-units",)),
    _as("layers_in_a_list", "layer_in_a_list", "layers live in a plain list that parameters() does not see", layers_in_a_list),
    _as("batchnorm_lags", "bn_statistics_lag", "BatchNorm's statistics follow far too slowly", batchnorm_lags),
    _as("critic_races", "critic_too_strong", "the critic's rate is fifty times as high", critic_races, more=("OPTM002", *BLOWN), causes=("lr-too-high",)),
    _as("divergence_weighs", "posterior_collapse", "the KL term weighs 500 times as much", divergence_weighs),
)
# fmt: on


def mutants(text: str, only: str = "") -> Iterator[Mutant]:
    """Every mutant of a program, one for each operator that finds its place."""
    src = Source(text)
    for fault in FAULTS:
        if only and fault.name != only:
            continue
        for change in fault.find(src):
            yield Mutant(fault.name, src.edited(change), change.line, text, change)


def places(mutant: Mutant) -> set[int]:
    """The lines at which the fault is named right: those of the guilty statement.

    A call that is missing has no line. It is mended in the block that lacks it, so every line of that block, from there on, is right.
    """
    src = Source(mutant.text)
    rows = [n for n in ast.walk(src.tree) if isinstance(n, ast.stmt) and n.lineno <= mutant.line <= (n.end_lineno or n.lineno)]
    simple = [n for n in rows if not hasattr(n, "body")]
    if not simple:  # the head of a loop or of a function
        return {mutant.line}
    guilty = simple[-1]
    last = src._block(guilty)[-1] if isinstance(guilty, ast.Pass) else guilty
    return set(range(guilty.lineno, (last.end_lineno or last.lineno) + 1))


def fault(name: str) -> Fault:
    return next(f for f in FAULTS if f.name == name)


def differs(mutant: Mutant) -> str:
    """Empty when the mutant differs from the original by what was meant and by nothing else; otherwise what is wrong."""
    try:
        before, after = ast.parse(mutant.before), ast.parse(mutant.text)
    except SyntaxError as why:
        return f"does not compile: {why}"
    if ast.dump(before) == ast.dump(after):
        return "the same program"
    counts = [Counter(called(c) or "" for c in ast.walk(tree) if isinstance(c, ast.Call)) for tree in (before, after)]
    moved = {k: counts[1][k] - counts[0][k] for k in counts[0] | counts[1] if counts[1][k] != counts[0][k]}
    meant = {k: n for k, n in mutant.change.calls.items() if n}
    if moved != meant:
        return f"calls changed by {moved}, meant was {meant}"
    rows = [text.splitlines() for text in (mutant.before, mutant.text)]
    kept = [sum((Counter(r.strip() for r in rows[0]) - Counter(r.strip() for r in rows[1])).values())]
    if kept[0] > sum(1 + e[2].count("\n") + mutant.before.encode()[e[0] : e[1]].count(b"\n") for e in mutant.change.edits):
        return "more lines changed than the edits touch"
    return "" if 1 <= mutant.line <= len(rows[1]) else "the guilty line is not in the program"


def coin(program: str, operator: str) -> bool:
    """True for the mutants that are set aside."""
    return hashlib.sha256(f"mutant:{program}:{operator}".encode()).digest()[0] % 5 < 2
