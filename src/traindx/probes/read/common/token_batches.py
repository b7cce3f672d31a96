"""Catching token batches: the ids a model was given next to the ids its loss was asked for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from traindx.probe import Forward, Scene
from traindx.probes.read.common.graph import gathered
from traindx.probes.read.common.losses import Spoken, plain
from traindx.probes.read.common.special_ids import Vocabulary
from traindx.probes.read.common.token_ids import TokenBatch, frequencies_apart, token_facts

_ROWS = 32  # sequences copied of a batch
_IDS = 16_384  # ids copied of a batch
_BATCHES = 8  # batches kept
_SEQUENCES = 4  # sequences of one forward: source, target, …
_IGNORED = -100  # in targets that are put together here
_ID_DTYPES = (torch.int64, torch.int32)


def ids_of(forward: Forward) -> tuple[Tensor, Tensor | None] | None:
    """(token ids, attention mask or None) among a model's inputs: the first (N, L) integers that are no mask or labels."""
    return next(all_ids_of(forward), None)


def all_ids_of(forward: Forward) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Every such pair: a model that reads one sequence and writes another is given both."""
    named = called(forward)
    mask = next((named.pop(name) for name in ("attention_mask", "mask") if name in named), None)
    for name in ("labels", "token_type_ids", "position_ids"):
        named.pop(name, None)
    values = [named.pop("input_ids", None), *named.values()]
    for value in values:
        if plain(value) and value.ndim == 2 and value.dtype in _ID_DTYPES and value.shape[1] > 1:
            fits = plain(mask) and mask.shape == value.shape
            yield value, mask if fits else None


def called(forward: Forward) -> dict[str, Any]:
    """The arguments of a forward by name, in their order; those without a name by their place."""
    own = _parameters(type(forward.model))
    return {own[i] if i < len(own) else str(i): value for i, value in enumerate(forward.args)} | dict(forward.kwargs)


def _labels(forward: Forward) -> Tensor | None:
    """Class indices, one per position, that a model is given by the name of labels."""
    value = forward.kwargs.get("labels")
    return value if plain(value) and value.ndim == 2 and value.dtype in _ID_DTYPES else None


def _parameters(kind: Any) -> tuple[str, ...]:
    """Names of what a module's forward takes by place."""
    code = getattr(getattr(kind, "forward", None), "__code__", None)
    return tuple(code.co_varnames[1 : code.co_argcount]) if code is not None else ()


class TokenCatch:
    """Pairs the tokens of a forward with the targets of its loss, whichever is seen first, and keeps a few copies."""

    def __init__(self) -> None:
        self._tokens: list[tuple[Tensor, Tensor | None]] = []
        self._targets: tuple[Tensor, int] | None = None
        self._labels: Tensor | None = None  # what a model was given to compute its loss inside
        self._kept: list[tuple[Tensor, Tensor | None, Tensor | None, int]] = []
        self._held_out: list[Tensor] = []  # ids of validation
        self._beside = False  # the model reads another sequence, too
        self.vocabulary = Vocabulary()
        self.seen = False  # tokens were read

    def validation(self, forward: Forward) -> None:
        """Keep a few ids that the model is evaluated on."""
        if len(self._held_out) < _BATCHES and (found := ids_of(forward)) is not None:
            ids = found[0]
            self._held_out.append(ids[: max(1, min(_ROWS, _IDS // ids.shape[1]))].clone())

    def forward(self, forward: Forward, loader: Any = None) -> None:
        if len(self._kept) >= _BATCHES:
            return
        found = list(itertools.islice(all_ids_of(forward), _SEQUENCES))
        if not found:
            return
        self.seen = True
        self.vocabulary.ask(forward.model, loader)
        # a loss inside the model was seen before the model returned, so its targets may already wait here, and were handed in
        read = [t for t in found if self._targets is None or not _same(t[0], self._targets[0])]
        found, self._tokens = read or found, []
        self._labels = _labels(forward)
        for ids, mask in found:
            rows = max(1, min(_ROWS, _IDS // ids.shape[1]))
            self._tokens.append((ids[:rows].clone(), mask[:rows].clone() if mask is not None else None))
        self._pair(int(found[0][0].shape[0]))

    def loss(self, said: Spoken, samples: int | None) -> None:
        if not said.indices or said.target is None or len(self._kept) >= _BATCHES:
            return
        self._targets = (said.target.reshape(-1), said.ignore_index)
        if self._tokens and samples:
            self._pair(samples)
        else:
            self._targets = (said.target.reshape(-1).clone(), said.ignore_index) if said.target.numel() <= _IDS * 4 else None

    def by_hand(self, loss: Tensor) -> None:
        """A loss without a call of torch's: what it picks out of log-probabilities, and where that counts."""
        if not self._tokens or self._targets is not None or len(self._kept) >= _BATCHES:
            return
        widths = {w for ids, _ in self._tokens for w in (ids.shape[1], ids.shape[1] - 1)}
        picked = [(c if w is None else c.masked_fill(w == 0, _IGNORED)) for c, w in gathered(loss) if c.shape[1] in widths]
        if len(picked) > 1 and picked[0].device.type == "cpu":  # of several passes the last one's tokens are here
            picked.sort(key=lambda c: max(_agree(ids, c.reshape(-1), len(c)) for ids, _ in self._tokens))
        if not picked and (asked := self._shifted()) is not None:
            picked = [asked]
        if picked:
            self._targets = (picked[-1].reshape(-1), _IGNORED)
            self._pair(len(picked[-1]))

    def _shifted(self) -> Tensor | None:
        """The targets of a head that is fused with its loss: the model shifts the labels it is given, as ready-made ones do."""
        if self._labels is None or not any(ids.shape[1] == self._labels.shape[1] for ids, _ in self._tokens):
            return None
        nothing = self._labels.new_full((len(self._labels), 1), _IGNORED)
        asked = torch.cat((self._labels[:, 1:], nothing), 1)
        text = max(_agree(ids, flat.reshape(-1), len(flat)) for ids, _ in self._tokens for flat in (asked, self._labels))
        return asked if text > 0.5 else None  # else they are tags, not the text itself

    def _pair(self, samples: int) -> None:
        if not self._tokens or self._targets is None:
            return
        known, (flat, ignore) = self._tokens, self._targets
        self._tokens, self._targets = [], None
        # the sequence that is as long as the targets is the one that is predicted; any other was only read
        written = [t for t in known if flat.numel() in (samples * t[0].shape[1], samples * (t[0].shape[1] - 1))]
        ids, mask = (written or known)[0]
        if len(written) > 1:
            ids, mask = max(written, key=lambda t: _agree(t[0], flat, samples))
        self._beside = len(known) > 1
        self._kept.append((ids, flat.reshape(samples, -1)[: len(ids)].clone() if written else None, mask, ignore))

    def reset(self) -> None:
        """The pass is over: what was not paired is forgotten."""
        self._tokens, self._targets, self._labels = [], None, None

    def facts(self, scene: Scene) -> dict[str, Any]:
        batches = [
            TokenBatch(
                ids.cpu().long().numpy(),
                targets.cpu().long().numpy() if targets is not None else None,
                mask.cpu().long().numpy() if mask is not None else None,
                ignore,
            )
            for ids, targets, mask, ignore in self._kept
        ]
        if not batches:
            return {}
        said = self.vocabulary.stated(max(int(b.tokens.max()) for b in batches))
        if said.vocab is None:
            return {}
        found = token_facts(batches, said)
        used = np.unique(np.concatenate([b.tokens.ravel() for b in batches]))
        if (added := self.vocabulary.strangers(used)) is not None:
            found["data.token"]["added"] = added
        if "loss.self_target_share" in found:
            found["loss.beside_source"] = self._beside
        if self._held_out:
            val = np.concatenate([ids.cpu().long().numpy().ravel() for ids in self._held_out])
            apart = frequencies_apart(np.concatenate([b.tokens.ravel() for b in batches]), val)
            found |= {"data.token_shift": apart} if apart is not None else {}
        return found


def _same(ids: Tensor, flat: Tensor) -> bool:
    """Whether these ids are the targets themselves."""
    return ids.numel() == flat.numel() and ids.device == flat.device and bool((ids.reshape(-1) == flat).all())


def _agree(ids: Tensor, flat: Tensor, samples: int) -> float:
    """How often a target is the next token, or its own: the sequence a decoder is fed agrees everywhere, one that is read by
    chance. Of two that agree everywhere the shifted one is what the decoder is fed (a source may be what is to be copied)."""
    targets = flat.reshape(samples, -1)[: len(ids)]
    if ids.device != targets.device:
        return 0.0
    ahead, own = ids[:, 1 : 1 + targets.shape[1]], ids[:, : targets.shape[1]]
    counted = (targets[:, : ahead.shape[1]] != _IGNORED).sum().clamp(min=1), (targets != _IGNORED).sum().clamp(min=1)
    following = float((ahead == targets[:, : ahead.shape[1]]).sum() / counted[0])
    return max(following, float((own == targets[:, : own.shape[1]]).sum() / counted[1]) - 0.01)
