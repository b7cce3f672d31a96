"""What a run knows about its model: how much of it some names stand for, which parts got gradients, which are copies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from traindx import facts
from traindx.run import Matrix, Run, remembered


def named(value: object) -> tuple[str, ...]:
    """Names from a name or a list of names; nothing for anything else.

    >>> named("a"), named(["a", "b"]), named(3)
    (('a',), ('a', 'b'), ())
    """
    if isinstance(value, str):
        return (value,)
    return tuple(str(v) for v in value) if isinstance(value, list | tuple) else ()


@remembered
def shapes(run: Run) -> dict[str, tuple[int, ...]]:
    """Parameter name → sizes, where the model was seen."""
    table = facts.table(run, "model.param_shapes")
    return {str(n): tuple(int(s) for s in v) for n, v in table.items() if isinstance(v, list | tuple)}


@remembered
def elements(run: Run) -> dict[str, int]:
    """Parameter name → number of entries."""
    return {name: math.prod(sizes) for name, sizes in shapes(run).items()}


def share(run: Run, names: Iterable[str]) -> float:
    """The share of all parameters that these names make up; NaN when sizes are unknown."""
    sizes = elements(run)
    total = sum(sizes.values())
    wanted = set(names)
    return sum(n for name, n in sizes.items() if name in wanted) / total if total else math.nan


def is_matrix(run: Run, name: str) -> bool:
    """Whether a parameter has two or more dimensions; without its shape, believed to have."""
    sizes = shapes(run).get(name)
    return sizes is None or len(sizes) >= 2


@remembered
def classes(run: Run) -> dict[str, str]:
    """Module name → class name."""
    return {str(row.get("name", "")): str(row.get("class", "")) for row in facts.rows(run, "model.outline")}


def spoken(run: Run, name: str) -> str:
    """A name for a sentence: a layer that is only a number gets its class, as in `4 (Linear)`.

    >>> spoken(Run(facts={"model.outline": [{"name": "4", "class": "Linear"}]}), "4")
    '4 (Linear)'
    """
    kind = classes(run).get(name, "") if name.rpartition(".")[2].isdigit() else ""
    return f"{name} ({kind})" if kind else name


def owner(parameter: str) -> str:
    """The module a parameter belongs to, by its name.

    >>> owner("body.0.weight"), owner("scale")
    ('body.0', '')
    """
    return parameter.rpartition(".")[0]


def inside(name: str, modules: Iterable[str]) -> bool:
    """Whether a parameter or module lies in one of these modules.

    >>> inside("head.0.weight", ["head"]), inside("header.weight", ["head"])
    (True, False)
    """
    return any(name == m or name.startswith(f"{m}.") for m in modules if m)


@remembered
def last_called(run: Run) -> str:
    """The module with parameters that is called last in a forward; empty when unknown."""
    called = [r for r in facts.rows(run, "model.outline") if r.get("name") and math.isfinite(facts.number(r.get("order")))]
    inner = facts.innermost(str(r["name"]) for r in called)
    leaves = [r for r in called if facts.number(r.get("params"), 0) > 0 and str(r["name"]) in inner]
    return str(max(leaves, key=lambda r: facts.number(r.get("order")))["name"]) if leaves else ""


@remembered
def first_called(run: Run) -> dict[str, float]:
    """Module name → position in the forward, for modules that were called."""
    return {
        str(r["name"]): facts.number(r.get("order"))
        for r in facts.rows(run, "model.outline")
        if r.get("name") and math.isfinite(facts.number(r.get("order")))
    }


@remembered
def with_gradient(run: Run) -> set[str]:
    """Parameters that had a gradient other than zero at some recorded step."""
    norms = run.matrix("grad_norm/param")
    return {n for n, v in norms.columns() if bool(np.any(np.isfinite(v) & (v > 0)))}


def gradients_seen(run: Run) -> bool:
    """Whether it is known at all which parameters got a gradient."""
    return len(run.matrix("grad_norm/param")) > 0


def is_copy(run: Run, names: Iterable[str]) -> bool:
    """Whether these parameters have, size by size, a counterpart among the others: a teacher, a target, an average."""
    sizes = shapes(run)
    mine = set(names)
    theirs = Counter(v for n, v in sizes.items() if n not in mine)
    wanted = Counter(sizes[n] for n in mine if n in sizes)
    return len(mine) >= 2 and bool(wanted) and all(theirs[size] >= count for size, count in wanted.items())


def is_hidden(run: Run, parameter: str) -> bool:
    """Whether a parameter is a weight inside the network: no embedding, no norm gain, not the last layer, no adapter."""
    return parameter not in _special(run) and is_matrix(run, parameter) and not inside(parameter, [last_called(run)])


@remembered
def _special(run: Run) -> set[str]:
    return {n for kind in ("embeddings", "norm_gains", "adapters") for n in facts.strings(run, f"model.{kind}")}


def latest(matrix: Matrix) -> dict[str, float]:
    """Name → the newest finite value of a matrix signal."""
    out = {}
    for name, values in matrix.columns():
        known = values[np.isfinite(values)]
        if len(known):
            out[name] = float(known[-1])
    return out


def groups(names: Iterable[str], known: Mapping[str, object]) -> dict[str, list[str]]:
    """Names gathered by the outermost module they lie in; a bare name stands for itself."""
    out: dict[str, list[str]] = {}
    for name in names:
        head = name.split(".", 1)[0]
        out.setdefault(head if head in known or "." in name else name, []).append(name)
    return out


def low_precision(run: Run) -> str:
    """float16 or bfloat16 when training forwards or the weights themselves use it; empty when not, or when unknown."""
    kinds = [str(run.fact("amp.autocast") or ""), *map(str, facts.table(run, "model.param_dtypes").values())]
    if run.fact("amp.half_model"):
        kinds.append("float16")
    for name, words in (("float16", ("float16", "half", "fp16")), ("bfloat16", ("bfloat16", "bf16"))):
        if any(kind.removeprefix("torch.") in words for kind in kinds):
            return name
    return ""
