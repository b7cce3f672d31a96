"""The user's own expression with a guard: what to write instead of the operation that broke."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator
from functools import cache

SMALL, TINY = "1e-6", "1e-12"  # away from an edge; inside a root
_MOST_EXP = {"float16": "10"}  # the exponential of 20 is half a billion: a loss that is larger teaches nothing
_EDGES = f"(-1 + {SMALL}, 1 - {SMALL})"
_ALIAS = {
    "_softmax": "softmax",
    "_safe_softmax": "softmax",
    "divide": "div",
    "true_divide": "div",
    "arccos": "acos",
    "arcsin": "asin",
}
_SPECIAL = {"softmax": "log_softmax", "sigmoid": "logsigmoid"}  # the logarithm of it, in one


def instead(op: str, file: str, line: int, *, low: float = 0.0, dtype: str = "float32") -> tuple[str, str] | None:
    """What stands on that line for `op`, and what to write for it; None where it is not found or there is no such guard.

    `low` is the least value of the last operand: a divisor below zero is guarded otherwise than one that is never negative.
    """
    op = _ALIAS.get(op.removesuffix("_"), op.removesuffix("_"))
    make = _GUARDS.get(op)
    tree = _tree(file)
    if make is None or tree is None or not line:
        return None
    found = [node for node in ast.walk(tree) if _on(node, line) and _name(node) == op]
    if len(found) != 1:  # none, or nobody knows which of them it was
        return None
    old = ast.unparse(found[0])
    new = make(found[0], low, dtype)
    return None if new is None else (old, new)


@cache
def _tree(file: str) -> ast.AST | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):  # a notebook's cell with magic words, for one
        return None


def _on(node: ast.AST, line: int) -> bool:
    return isinstance(node, ast.expr | ast.AugAssign) and node.lineno <= line <= (node.end_lineno or node.lineno)


def _name(node: ast.AST) -> str:
    """Which operation it is: of a call its own name, `/` and `**` by theirs."""
    if isinstance(node, ast.BinOp | ast.AugAssign):
        return {ast.Div: "div", ast.Pow: "pow"}.get(type(node.op), "")
    if isinstance(node, ast.Call):
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        return _ALIAS.get(name.removesuffix("_"), name.removesuffix("_"))
    return ""


def _plain(node: ast.expr) -> str:
    """Its text, in brackets where something follows it."""
    text = ast.unparse(node)
    return text if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript) else f"({text})"


def _of_module(node: ast.Call) -> bool:
    """`torch.log(x)` or `log(x)`, not `x.log()`: its first argument is what it works on."""
    func = node.func
    return isinstance(func, ast.Name) or (
        isinstance(func, ast.Attribute)
        and isinstance(func.value, ast.Name)
        and func.value.id in ("torch", "F", "np", "functional", "special")
    )


def _operand(node: ast.Call) -> ast.expr | None:
    if _of_module(node):
        return node.args[0] if node.args else None
    return node.func.value if isinstance(node.func, ast.Attribute) else None


def _with_operand(node: ast.Call, operand: str) -> str:
    """The call with something else to work on."""
    rest = [ast.unparse(a) for a in (node.args[1:] if _of_module(node) else node.args)]
    rest += [ast.unparse(k) for k in node.keywords]
    if _of_module(node):
        return f"{ast.unparse(node.func)}({', '.join([operand, *rest])})"
    assert isinstance(node.func, ast.Attribute)
    return f"{operand}.{node.func.attr}({', '.join(rest)})"


_Guard = Callable[[ast.AST, float, str], str | None]


def _guarded(write: Callable[[ast.expr, str], str]) -> _Guard:
    """A call whose operand is replaced by `write(operand, dtype)`."""

    def make(node: ast.AST, low: float, dtype: str) -> str | None:
        operand = _operand(node) if isinstance(node, ast.Call) else None
        if operand is None or not isinstance(node, ast.Call):
            return None
        text = write(operand, dtype)
        return _with_operand(node, text)

    return make


def _clamped(words: str) -> _Guard:
    return _guarded(lambda x, _: f"{_plain(x)}.clamp{words}")


def _log(node: ast.AST, low: float, dtype: str) -> str | None:
    inner = _operand(node) if isinstance(node, ast.Call) else None
    if isinstance(inner, ast.Call) and _name(inner) in _SPECIAL:  # one function gives both, and never leaves its domain
        own = _operand(inner)
        rest = [ast.unparse(a) for a in (inner.args[1:] if _of_module(inner) else inner.args)] + [
            ast.unparse(k) for k in inner.keywords
        ]
        if own is not None:
            return f"torch.nn.functional.{_SPECIAL[_name(inner)]}({', '.join([ast.unparse(own), *rest])})"
    return _clamped(f"(min={SMALL})")(node, low, dtype)


def _root(node: ast.AST, low: float, dtype: str) -> str | None:
    make = _guarded(
        lambda x, _: (
            f"{ast.unparse(x)} + {TINY}" if isinstance(node, ast.Call) and _of_module(node) else f"({ast.unparse(x)} + {TINY})"
        )
    )
    return make(node, low, dtype) if low >= 0 else _clamped(f"(min={TINY})")(node, low, dtype)


def _divisor(x: ast.expr, low: float) -> str:
    return f"{_plain(x)}.clamp(min={SMALL})" if low >= 0 else f"torch.where({ast.unparse(x)} == 0, {SMALL}, {ast.unparse(x)})"


def _div(node: ast.AST, low: float, dtype: str) -> str | None:
    if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant):
        return None
    if isinstance(node, ast.BinOp):
        return f"{_side(node.left)} / {_divisor(node.right, low)}"
    if isinstance(node, ast.AugAssign):
        return f"{ast.unparse(node.target)} /= {_divisor(node.value, low)}"
    if isinstance(node, ast.Call):
        given = node.args[1:] if _of_module(node) else node.args
        if len(given) == 1 and not node.keywords:
            first = [ast.unparse(node.args[0])] if _of_module(node) else []
            return f"{ast.unparse(node.func)}({', '.join([*first, _divisor(given[0], low)])})"
    return None


def _side(x: ast.expr) -> str:
    """A left side that binds no less than a division."""
    tight = not isinstance(x, ast.BinOp) or isinstance(x.op, ast.Mult | ast.Div | ast.MatMult | ast.Pow)
    return ast.unparse(x) if tight else f"({ast.unparse(x)})"


def _pow(node: ast.AST, low: float, dtype: str) -> str | None:
    if isinstance(node, ast.BinOp):
        right = ast.unparse(node.right) if isinstance(node.right, ast.Constant | ast.Name) else f"({ast.unparse(node.right)})"
        return f"{_plain(node.left)}.clamp(min={SMALL}) ** {right}"
    return _clamped(f"(min={SMALL})")(node, low, dtype)


def _mean(node: ast.AST, low: float, dtype: str) -> str | None:
    if not isinstance(node, ast.Call) or (x := _operand(node)) is None or len(node.args) > _of_module(node) or node.keywords:
        return None
    return f"{_plain(x)}.sum() / max({_plain(x)}.numel(), 1)"


def _spread(node: ast.AST, low: float, dtype: str) -> str | None:
    if not isinstance(node, ast.Call) or any(k.arg in ("unbiased", "correction") for k in node.keywords):
        return None
    return f"{ast.unparse(node)[:-1]}{', ' if node.args or node.keywords else ''}unbiased=False)"


def _guards() -> Iterator[tuple[tuple[str, ...], _Guard]]:
    yield ("log", "log2", "log10"), _log
    yield ("log1p",), _clamped(f"(min=-1 + {SMALL})")
    yield ("sqrt", "rsqrt"), _root
    yield ("div",), _div
    yield ("reciprocal",), _guarded_reciprocal
    yield ("exp", "expm1"), _guarded(lambda x, dtype: f"{_plain(x)}.clamp(max={_MOST_EXP.get(dtype, '20')})")
    yield ("pow",), _pow
    yield ("acos", "asin", "atanh", "erfinv"), _clamped(_EDGES)
    yield ("acosh",), _clamped(f"(min=1 + {SMALL})")
    yield ("logit",), _clamped(f"({SMALL}, 1 - {SMALL})")
    yield ("softmax",), _guarded(lambda x, _: f"{_plain(x)}.clamp(min=torch.finfo({_plain(x)}.dtype).min)")
    yield ("mean",), _mean
    yield ("std", "var"), _spread


def _guarded_reciprocal(node: ast.AST, low: float, dtype: str) -> str | None:
    return _guarded(lambda x, _: _divisor(x, low))(node, low, dtype)


_GUARDS: dict[str, _Guard] = {name: make for names, make in _guards() for name in names}
