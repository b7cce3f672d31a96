"""What a program says about its special ids: its model's config, a tokenizer, a table of words, a constant with such a name.

Nothing is searched for. The model, the loader with its data set and collate function, and the names at the top of the script
and of the model's module are asked, once; two that contradict one another say nothing. Which id stands for unknown words is
also said by the line that looks them up, `vocabulary.get(word, 1)`.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from traindx import opening
from traindx.measures import readable
from traindx.probes.read.common.token_ids import Stated, strange_tail

KINDS = ("pad", "eos", "bos", "unk")
_MARKS = {  # as they stand in tables of words
    "pad": ("<pad>", "<PAD>", "[PAD]", "<|pad|>", "<blank>"),
    "eos": ("</s>", "<eos>", "<EOS>", "[EOS]", "<|endoftext|>", "<|eos|>", "<end>"),
    "bos": ("<s>", "<bos>", "<BOS>", "[BOS]", "<sos>", "<SOS>", "<start>"),
    "unk": ("<unk>", "<UNK>", "[UNK]", "<oov>", "<OOV>"),
}
_CONSTANT = re.compile(r"(PAD|EOS|BOS|SOS|UNK|OOV)(_(ID|IDX|INDEX|TOKEN|TOKEN_ID))?")
_SAME = {"sos": "bos", "oov": "unk"}
_LOOKED_UP = re.compile(r"(\w+)\.get\(\s*[\w.\[\]]+(?:\(\))?\s*,\s*(\w+)\s*\)")  # words.get(w, 1), words.get(w.lower(), UNK)
_WORDS = 10  # entries from which a table is one of words
_LIBRARIES = ("torch", "transformers", "traindx")
_SOURCE = 200_000  # characters of a script
_NAMES = 1000  # of a module that are looked at


class Vocabulary:
    """What was said about the ids of a model, asked once while it lives."""

    def __init__(self) -> None:
        self._tables: list[tuple[int, int | None]] | None = None  # rows and padding row of each embedding
        self._config: dict[str, int | None] = {}
        self._beside: dict[str, int] = {}
        self._modules: tuple[str, ...] = ()
        self._embeddings: list[tuple[str, weakref.ref[nn.Embedding]]] = []

    def ask(self, model: nn.Module, loader: Any = None) -> None:
        if self._tables is not None:
            return
        named = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Embedding)]
        self._embeddings = [(n, weakref.ref(m)) for n, m in named]
        self._tables = [(m.num_embeddings, m.padding_idx) for _, m in named]
        self._modules = ("__main__", type(model).__module__)
        config = getattr(model, "config", None)
        self._config = {kind: _id(getattr(config, f"{kind}_token_id", None)) for kind in KINDS}
        if self._tables:
            self._beside = agreed(said_beside(model, loader))

    def stated(self, highest: int) -> Stated:
        """vocab None: the model has no embedding, so its integers are no tokens."""
        if not self._tables:
            return Stated()
        fits = [t for t in self._tables if t[0] > highest]
        rows, pad = fits[0] if fits else max(self._tables)
        beside = {kind: i for kind, i in self._beside.items() if i < rows}
        # a config's default may be of another vocabulary
        config = {kind: i if i is not None and i < rows else None for kind, i in self._config.items()}
        own = {kind: i if i is not None else beside.get(kind) for kind, i in config.items()}
        if own["unk"] is None:
            own["unk"] = self._looked_up()
        sure = pad if pad is not None else config["pad"]
        return Stated(
            rows,
            sure if sure is not None else own["pad"],
            own["eos"],
            own["bos"],
            own["unk"],
            pad_named=sure is None,
            eos_named="eos" in beside and beside["eos"] == own["eos"],
        )

    def _looked_up(self) -> int | None:
        """The id that the script's own lines give to words that are not in a table; None where they differ."""
        ids: set[int] = set()
        for name in set(self._modules):
            module = sys.modules.get(name)
            path = getattr(module, "__file__", None)
            if path and str(path).endswith(".py") and name.partition(".")[0] not in _LIBRARIES:
                ids |= looked_up(_text(path), vars(module))
        return ids.pop() if len(ids) == 1 else None

    def strangers(self, used: NDArray[np.int64]) -> dict[str, Any] | None:
        """{name, ids, ratio} of rows that were added to a frozen table and never trained (`tokens.strange_tail`)."""
        for name, ref in self._embeddings:
            table = ref()
            if table is None or table.weight.requires_grad or table.num_embeddings <= used[-1] or not readable(table.weight):
                continue
            rows = table.weight.detach()[torch.as_tensor(used, device=table.weight.device)]
            found = strange_tail(rows.float().square().mean(1).sqrt().cpu().numpy())
            if found is not None:
                return {"name": name, "ids": [int(i) for i in used[found[0] :][:20]], "ratio": found[1]}
        return None


def looked_up(text: str, names: Mapping[str, Any]) -> set[int]:
    """The defaults of look-ups in tables of words: ids that stand for no word of the table.

    >>> looked_up("ids = [stoi.get(w, 1) for w in text.split()]", {"stoi": {"a": 2, "b": 3}})
    {1}
    """
    found: set[int] = set()
    for table, default in _LOOKED_UP.findall(text):
        known = names.get(table)
        value = int(default) if default.isdecimal() else names.get(default)
        free = isinstance(known, dict) and value not in known.values() and all(_id(i) is not None for i in known.values())
        if free or "unk" in default.lower():
            found |= {i for i in [_id(value)] if i is not None}
    return found


def _text(path: str) -> str:
    try:
        return opening.whole(path, opening.SOURCE, named=True).decode("utf-8", "replace")[:_SOURCE]
    except OSError:
        return ""


def said_beside(model: nn.Module, loader: Any) -> Iterator[Mapping[str, int]]:
    """What things next to the model's config say: those it holds, those of the loader, those at the top of two modules."""
    for thing in (model, getattr(loader, "dataset", None), getattr(loader, "collate_fn", None)):
        yield said_by(thing)
        for part in parts(thing):
            yield said_by(part)
    for name in {"__main__", type(model).__module__}:
        module = sys.modules.get(name)
        if module is None or name.partition(".")[0] in _LIBRARIES:
            continue
        for key, value in islice(list(vars(module).items()), _NAMES):
            if isinstance(value, int):
                if (found := _CONSTANT.fullmatch(key)) and (i := _id(value)) is not None:
                    kind = found[1].lower()
                    yield {_SAME.get(kind, kind): i}
            else:
                yield said_by(value)


def parts(thing: Any) -> Iterable[Any]:
    """What a data set or a collate function holds: attributes, bound arguments, what a closure has caught."""
    if isinstance(thing, partial):
        return [thing.func, *thing.args, *thing.keywords.values(), *parts(thing.func)]
    if isinstance(thing, MethodType):
        return [thing.__self__, *parts(thing.__self__)]
    if isinstance(thing, FunctionType):
        return [_attribute(cell, "cell_contents") for cell in thing.__closure__ or ()]
    return list(islice(getattr(thing, "__dict__", {}).values(), 100)) if not isinstance(thing, nn.Module) else ()


def said_by(thing: Any) -> dict[str, int]:
    """Special ids that a tokenizer or a table of words states; {} for anything else.

    >>> said_by({"<pad>": 0, "<unk>": 1, **{f"word{i}": i + 2 for i in range(20)}})
    {'pad': 0, 'unk': 1}
    """
    if isinstance(thing, dict):
        return _table(thing) if len(thing) >= _WORDS else {}
    if thing is None or isinstance(thing, Tensor | ModuleType | FunctionType | MethodType | type | str | bytes | float):
        return {}
    kind = type(thing)
    if kind.__module__ == "builtins" or not hasattr(thing, "__dict__"):
        return {}
    found: dict[str, int] = {}
    if "token" in kind.__name__.lower() or "vocab" in kind.__name__.lower():
        for held in islice(vars(thing).values(), 100):
            found |= said_by(held) if isinstance(held, dict) else {}
    for name in KINDS:
        if hasattr(kind, f"{name}_token_id") or any(f"{name}{end}" in vars(thing) for end in ("_token_id", "_id", "_idx")):
            each = [i for end in ("_token_id", "_id", "_idx") if (i := _id(_attribute(thing, f"{name}{end}"))) is not None]
            found |= {name: each[0]} if each else {}
    return found


def _attribute(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except Exception:  # a property of the user's, or a cell that is still empty: it says nothing
        return None


def _table(words: Mapping[Any, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind, marks in _MARKS.items():
        ids = {i for mark in marks if (i := _id(words.get(mark))) is not None}
        if len(ids) == 1:
            found[kind] = ids.pop()
    return found


def agreed(statements: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The ids that nobody contradicts.

    >>> agreed([{"pad": 0, "eos": 2}, {"pad": 0}, {"eos": 3}])
    {'pad': 0}
    """
    said: dict[str, set[int]] = {}
    for statement in statements:
        for kind, i in statement.items():
            said.setdefault(kind, set()).add(i)
    return {kind: min(ids) for kind, ids in said.items() if len(ids) == 1}


def _id(value: Any) -> int | None:
    if isinstance(value, list | tuple) and value:
        value = value[0]
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
