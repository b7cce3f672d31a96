"""What the token ids say: padding that is trained on, a missing end token, a model that predicts its own input.

Plain numpy over a few sequences that were copied while the run continued; nothing here knows a tokenizer. Ids that the
program states (`padding_idx` of an embedding, a config, a tokenizer) are believed, others are inferred only where the
sequences leave one answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
_COUNTED = 1000  # ids of a text before its frequencies are compared
_OFTEN = 50  # times an id must be seen before "only at the ends of sequences" is no chance
_TABLE = 20  # rows of an embedding that are used, at least, before others stand out
_BEGUN = 4  # ids of a sequence, at least, before its beginning is looked at
_ENDED = 8  # whole sequences from which a share of end tokens is told
_MARKED = 16  # sequences that must all hold one and the same mark between prompt and answer


@dataclass(frozen=True)
class TokenBatch:
    """A few whole sequences of one batch with what the loss was asked to predict."""

    tokens: Ids  # (N, L)
    targets: Ids | None  # (N, L) or (N, L-1)
    mask: Ids | None  # (N, L) attention mask, 0 under padding
    ignore: int


@dataclass(frozen=True)
class Stated:
    """What is said about the ids of a model; None where nothing is."""

    vocab: int | None = None
    pad: int | None = None
    eos: int | None = None
    bos: int | None = None
    unk: int | None = None
    pad_named: bool = False  # by something next to the model: believed where the sequences do not contradict it
    eos_named: bool = False  # by a tokenizer or the script, which a config's default is not


def token_facts(batches: Sequence[TokenBatch], stated: Stated) -> dict[str, Any]:
    """The facts about tokens that can be known: ids, targets against inputs, padding and end tokens in the labels."""
    if not batches:
        return {}
    known = stated_pad(stated, [b.tokens for b in batches])
    pad, sure = (known, True) if known is not None else pad_id(batches)
    eos = stated.eos if stated.eos is not None else end_id(batches, pad)
    token: dict[str, Any] = {
        "vocab": stated.vocab,
        "max_id": int(max(b.tokens.max() for b in batches)),
        "pad_id": pad,
        "pad_stated": known is not None,
        "eos_id": eos,
        "eos_named": stated.eos_named,
        "eos_given": _share([last == eos for b in batches if len(last := _last_tokens(b, pad))]) if eos is not None else None,
        "unk_share": _share([(b.tokens == stated.unk)[b.tokens != pad] for b in batches]) if stated.unk is not None else None,
        "double_bos": double_bos(batches, stated.bos, pad),
        "top_share": top_share(batches, pad if sure else None),
    }
    found: dict[str, Any] = {"data.token": token}
    for by, name in enumerate(("loss.self_target_share", "loss.next_target_share", "loss.second_target_share")):
        if (share := target_share(batches, by)) is not None:
            found[name] = share
    if (padded := pad_label_share(batches, pad if sure else None)) is not None:
        found["data.pad_label_share"] = padded
    if (beside := pad_position_share(batches, pad if sure else None)) is not None:
        found["data.pad_position_share"] = beside
    if (rows := empty_rows(batches, pad if sure else None)) is not None:
        found["data.empty_rows"] = rows
    if (asked := prompt_share(batches, pad)) is not None:
        found["data.prompt_share"] = asked
    ended = eos_share(batches, eos, pad) if eos is not None else common_end(batches, pad)
    if ended is not None:
        found["data.eos_share"] = ended
    return found


def frequencies_apart(one: Ids, other: Ids) -> dict[str, float] | None:
    """How far the frequencies of ids differ between two texts, and how far they still do when ids are forgotten.

    Total variation by id (`distance`) and by rank (`sorted`): text of one kind that went through two tables differs in the
    first and hardly in the second. None with fewer than 1000 ids of either.
    """
    if min(one.size, other.size) < _COUNTED:
        return None
    width = int(max(one.max(), other.max())) + 1
    p, q = (np.bincount(ids.ravel().clip(0), minlength=width) / ids.size for ids in (one, other))
    return {
        "distance": float(np.abs(p - q).sum() / 2),
        "sorted": float(np.abs(np.sort(p) - np.sort(q)).sum() / 2),
    }


def _share(marks: Sequence[NDArray[np.bool_]]) -> float:
    return float(sum(m.sum() for m in marks) / max(1, sum(m.size for m in marks)))


def double_bos(batches: Sequence[TokenBatch], bos: int | None, pad: int | None) -> bool | None:
    """Whether sequences begin with the beginning-of-text token twice; None where nothing can be said.

    Where nobody states its id: nearly all of eight or more sequences begin with one and the same id twice, and it stands
    nowhere else. Padding on the left does not count, whatever its id.
    """
    long = [b for b in batches if b.tokens.shape[1] > _BEGUN]
    first = np.concatenate([np.empty((0, 2), np.int64), *(b.tokens[:, :2] for b in long)])
    real = [b.mask[:, :2].all(1) if b.mask is not None else np.full(len(b.tokens), bos is None or bos != pad) for b in long]
    if bos is not None:
        return bool(long) and float(((first == bos).all(1) & np.concatenate(real)).mean()) > 0.5
    if len(first) < _ENDED:
        return None
    ids, counts = np.unique(first[:, 0], return_counts=True)
    best = int(ids[counts.argmax()])
    later = sum(int((b.tokens[:, 2:] == best).sum()) for b in long)
    return best != pad and not later and bool(((first == best).all(1) & np.concatenate(real)).mean() > 0.9)


def stated_pad(stated: Stated, texts: Sequence[Ids]) -> int | None:
    """The padding id that is stated; named by something next to the model, it must stand in runs at the edges of sequences."""
    pad = stated.pad
    if pad is None or not stated.pad_named:
        return pad
    every = sum(int((t == pad).sum()) for t in texts)
    edge = sum(int(_run(rows, pad).sum()) for t in texts for rows in (t, t[:, ::-1]))
    twice = sum(int((t == pad).all(1).sum()) * t.shape[1] for t in texts)  # rows of padding only: counted from both sides
    return pad if edge - twice >= 0.98 * every else None


def strange_tail(sizes: NDArray[Any]) -> tuple[int, float] | None:
    """(place of the first, ratio) of rows at the end of a table that are of another size than all before them.

    Of the sizes of the rows that are used, in their order: at least twenty, and after them up to a tenth as many, each three
    times as large as the largest (or as small as a third of the smallest, empty rows aside).

    >>> strange_tail(np.r_[np.full(30, 0.1), 1.0, 1.1])
    (30, 10.0)
    """
    for new in range(1, max(2, len(sizes) // 10) + 1):
        old, tail = sizes[:-new][sizes[:-new] > 0], sizes[-new:]
        if len(old) < _TABLE:
            return None
        ratio = max(tail.min() / old.max(), old.min() / max(tail.max(), 1e-12))
        if ratio > 3:
            return len(sizes) - new, float(min(ratio, 1e6))
    return None


def _run(rows: Ids, wanted: int) -> Ids:
    """Length of the run of one id that ends each row."""
    return np.where(rows[:, -1] == wanted, tails(rows), 0).astype(np.int64)


def empty_rows(batches: Sequence[TokenBatch], pad: int | None) -> dict[str, Any] | None:
    """Of sequences that are predicted from themselves: how many there are, how many of them have no target that counts, and
    whether any is padded. Rows that are only padding fill a batch up and do not count.
    """
    asked = [b for b in batches if b.targets is not None]
    if not any(_shift(b) is not None for b in asked):
        return None
    rows = empty = 0
    padded = False
    for b in asked:
        assert b.targets is not None
        free = b.mask == 0 if b.mask is not None else (b.tokens == pad if pad is not None else np.zeros(b.tokens.shape, bool))
        real = ~free.all(1)
        rows += int(real.sum())
        empty += int((real & (b.targets == b.ignore).all(1)).sum())
        padded = padded or bool(free.any())
    return {"rows": rows, "empty": empty, "padded": padded} if rows else None


def pad_id(batches: Sequence[TokenBatch]) -> tuple[int | None, bool]:
    """(padding id, whether it is certain): from the attention mask, else from the constant tails of the sequences.

    A tail counts when sequences end in runs of one and the same id, of different lengths, at least a quarter of them in a
    run of three or more (of two, where there are no longer ones), and when that id hardly occurs anywhere else. Runs of one
    length count where other sequences have none and the id, seen often, never stands elsewhere.
    """
    masked = [b.tokens[b.mask == 0] for b in batches if b.mask is not None]
    under = np.concatenate(masked) if masked else np.empty(0, np.int64)
    if len(under):
        ids, counts = np.unique(under, return_counts=True)
        return (int(ids[counts.argmax()]), True) if counts.max() > 0.9 * len(under) else (None, False)
    if masked:
        return None, False  # there is a mask and nothing under it
    ends = np.concatenate([b.tokens[:, -1] for b in batches])
    runs = np.concatenate([tails(b.tokens) for b in batches])
    long = _common_tail(ends, runs, 3)
    best = long if long is not None else _common_tail(ends, runs, 2)
    if best is None:
        return None, False
    lengths = runs[ends == best]
    every = sum(int((b.tokens == best).sum()) for b in batches)
    inside = every - int(lengths.sum())  # padding never stands inside a sequence; a blank of a text does
    varied = len(np.unique(lengths)) > 2 and inside <= 0.02 * every
    nowhere_else = inside == 0 and every >= _OFTEN and len(lengths) < len(ends)
    return (best, True) if varied or nowhere_else else (None, False)


def _common_tail(ends: Ids, runs: Ids, least: int) -> int | None:
    """The id that makes up the ending runs of so many or more, when a quarter of the sequences end in such runs of it."""
    ids, counts = np.unique(ends[runs >= least], return_counts=True)
    if not len(ids) or counts.max() < max(3, 0.25 * len(ends)) or counts.max() < 0.9 * counts.sum():
        return None
    return int(ids[counts.argmax()])


def tails(tokens: Ids) -> Ids:
    """Length of the constant run that ends each row."""
    same = (tokens == tokens[:, -1:])[:, ::-1]
    return np.where(same.all(1), tokens.shape[1], same.argmin(1)).astype(np.int64)


def _ends(batch: TokenBatch, pad: int | None) -> Ids:
    """Index of the last real token of each row; -1 for rows that run to the edge (they may have been cut)."""
    width = batch.tokens.shape[1]
    if batch.mask is not None:
        real = batch.mask != 0
        last = width - 1 - real[:, ::-1].argmax(1)
        return np.where(real[:, -1] | ~real.any(1), -1, last)
    if pad is None:
        return np.full(len(batch.tokens), -1)
    tail = _run(batch.tokens, pad)
    return np.where((tail > 0) & (tail < width), width - 1 - tail, -1)


def _last_tokens(batch: TokenBatch, pad: int | None) -> Ids:
    """The last real token of each sequence that was not cut at the edge."""
    at = _ends(batch, pad)
    return batch.tokens[np.arange(len(at)), at][at >= 0]


def end_id(batches: Sequence[TokenBatch], pad: int | None) -> int | None:
    """The end token, when nine of ten padded sequences (eight or more) have the same last real id."""
    last = np.concatenate([np.empty(0, np.int64), *(_last_tokens(b, pad) for b in batches)])
    if len(last) < _ENDED:
        return None
    ids, counts = np.unique(last, return_counts=True)
    return int(ids[counts.argmax()]) if counts.max() >= 0.9 * len(last) else None


def _shift(batch: TokenBatch) -> int | None:
    """0 when target t is the token at t, 1 when it is the next one; None when the targets are other text."""
    if batch.targets is None:
        return None
    width = batch.targets.shape[1]
    counted = batch.targets != batch.ignore
    agree = {}
    for by in (0, 1):
        ahead = batch.tokens[:, by : by + width]
        here = counted[:, : ahead.shape[1]]
        if here.any():
            agree[by] = float((batch.targets[:, : ahead.shape[1]] == ahead)[here].mean())
    if not agree or max(agree.values()) < 0.9:
        return None
    return max(agree, key=lambda by: agree[by])


def target_share(batches: Sequence[TokenBatch], by: int) -> float | None:
    """Share of counted positions whose target is the token `by` places further on in the input; 0 is its own input."""
    hits = total = 0
    for b in batches:
        if b.targets is None:
            continue
        there = b.tokens[:, by : by + b.targets.shape[1]]
        asked = b.targets[:, : there.shape[1]]
        counted = asked != b.ignore
        hits += int(((asked == there) & counted).sum())
        total += int(counted.sum())
    return hits / total if total else None


def pad_label_share(batches: Sequence[TokenBatch], pad: int | None) -> float | None:
    """Share of counted targets that are padding; by position where mask or tail and targets line up, else by id."""
    hits = total = 0
    for b in batches:
        if b.targets is None:
            continue
        counted = b.targets != b.ignore
        under = _under_padding(b, pad)
        if under is None:
            return None
        hits += int((under & counted).sum())
        total += int(counted.sum())
    return hits / total if total else None


def pad_position_share(batches: Sequence[TokenBatch], pad: int | None) -> float | None:
    """Of targets in another alphabet than the input (tags), one per position: the share of counted ones at its padding.

    None where targets are tokens, where padding is not known, or where what is at it is not one and the same label.
    """
    hits = total = 0
    labels: list[Ids] = []
    for b in batches:
        if b.targets is None or b.targets.shape != b.tokens.shape or _shift(b) is not None:
            continue
        if b.mask is None and pad is None:
            return None
        free = b.mask == 0 if b.mask is not None else _tail_of(b.tokens, int(pad or 0))
        counted = b.targets != b.ignore
        labels.append(b.targets[free & counted])
        hits += len(labels[-1])
        total += int(counted.sum())
    if not total or (hits and len(np.unique(np.concatenate(labels))) > 1):
        return None
    return hits / total


def _tail_of(tokens: Ids, pad: int) -> NDArray[np.bool_]:
    """(N, L) True in the run of the padding id at the end of each sequence."""
    width = tokens.shape[1]
    tail = _run(tokens, pad)
    return np.asarray(np.arange(width)[None, :] >= (width - tail)[:, None])


def _under_padding(batch: TokenBatch, pad: int | None) -> NDArray[np.bool_] | None:
    by = _shift(batch)
    assert batch.targets is not None
    if by is None:
        return None if pad is None else batch.targets == pad
    if batch.mask is not None:
        free = batch.mask == 0
    elif pad is not None:
        width = batch.tokens.shape[1]
        tail = _run(batch.tokens, pad)
        # the first id of a run may be an end token that doubles as padding: it is not counted against anybody
        free = np.arange(width)[None, :] > (width - tail)[:, None]
    else:
        return None
    out = np.zeros(batch.targets.shape, bool)
    ahead = free[:, by : by + batch.targets.shape[1]]
    out[:, : ahead.shape[1]] = ahead
    if pad is not None:  # targets that reach past the input: padding continues
        out[:, ahead.shape[1] :] = free[:, -1:] & (batch.targets[:, ahead.shape[1] :] == pad)
    return out


def prompt_share(batches: Sequence[TokenBatch], pad: int | None) -> float | None:
    """Of the counted targets of a text that is predicted from itself: the share that stands in the prompt.

    A prompt ends at a mark: the last id that every sequence (sixteen or more) holds exactly once, not as its first token, and
    with something else behind it each time. None where there is no such mark, as in text cut into blocks.
    """
    asked = [(b, by) for b in batches if b.targets is not None and (by := _shift(b)) is not None]
    marks = [_marks(b, pad) for b, _ in asked]
    common = set.intersection(*(set(m) for m in marks)) if marks else set()
    if sum(len(b.tokens) for b, _ in asked) < _MARKED or not common:
        return None
    last = max(common, key=lambda mark: sum(float(m[mark].mean()) for m in marks))
    before = total = 0
    for (b, by), found in zip(asked, marks):
        assert b.targets is not None
        counted = b.targets != b.ignore
        before += int((counted & (np.arange(counted.shape[1]) + by <= found[last][:, None])).sum())
        total += int(counted.sum())
    return before / total if total else None


def _marks(batch: TokenBatch, pad: int | None) -> dict[int, Ids]:
    """Ids that every row of a batch holds exactly once, with text on both sides; and where they stand."""
    ends = _ends(batch, pad)
    last = np.where(ends < 0, batch.tokens.shape[1] - 1, ends)
    first = (batch.mask != 0).argmax(1) if batch.mask is not None else np.zeros(len(batch.tokens), int)
    found = {}
    for mark in map(int, np.unique(batch.tokens[0])):
        here = batch.tokens == mark
        at = here.argmax(1)
        if mark != pad and bool(((here.sum(1) == 1) & (first < at) & (at < last)).all()):
            answers = {tuple(row[a + 1 : z + 1]) for row, a, z in zip(batch.tokens, at, last)}
            if len(answers) > 1:  # a full stop in front of the end is no mark
                found[mark] = at.astype(np.int64)
    return found


def eos_share(batches: Sequence[TokenBatch], eos: int, pad: int | None) -> float | None:
    """Share of sequences, not cut at the edge, whose last counted target is the end token."""
    last = np.concatenate([np.empty(0, np.int64), *(_last_targets(b, pad) for b in batches if _shift(b) is not None)])
    return float((last == eos).mean()) if len(last) >= _ENDED else None


def common_end(batches: Sequence[TokenBatch], pad: int | None) -> float | None:
    """Where no end token is known: the largest share of whole sequences that have one last counted target in common.

    Only of models that predict the next token, and of twice as many sequences as for a known id: a model that is never shown
    one and the same last target cannot learn where to stop.
    """
    last = np.concatenate([np.empty(0, np.int64), *(_last_targets(b, pad) for b in batches if _shift(b) == 1)])
    return float(np.unique(last, return_counts=True)[1].max() / len(last)) if len(last) >= 2 * _ENDED else None


def _last_targets(batch: TokenBatch, pad: int | None) -> Ids:
    """The last counted target of each sequence that was not cut at the edge.

    A decoder is fed all but the last token: its input may reach the edge where its targets do not.
    """
    assert batch.targets is not None
    whole = (_ends(batch, pad) >= 0) | (batch.targets[:, -1] == batch.ignore)
    counted = (batch.targets != batch.ignore) & (~_padding_only(batch, pad))
    rows = whole & counted.any(1)
    last = counted.shape[1] - 1 - counted[:, ::-1].argmax(1)
    return batch.targets[np.arange(len(last)), last][rows]


def top_share(batches: Sequence[TokenBatch], pad: int | None = None) -> float:
    """Share of the commonest id inside sequences, without padding (or runs of one id at either edge, if unknown)."""
    if pad is not None:
        inside = np.concatenate([b.tokens[b.tokens != pad] for b in batches])
        return float(np.unique(inside, return_counts=True)[1].max() / len(inside)) if len(inside) else 0.0
    ids, counts = np.unique(np.concatenate([b.tokens.ravel() for b in batches]), return_counts=True)
    best = int(ids[counts.argmax()])
    edge = 0
    for b in batches:
        for rows in (b.tokens, b.tokens[:, ::-1]):
            run = np.where(rows[:, -1] == best, tails(rows), 0)
            edge += int(np.where((run == rows.shape[1]) & (rows is not b.tokens), 0, run).sum())
    rest = sum(b.tokens.size for b in batches) - edge
    return float((counts.max() - edge) / rest) if rest > 0 else 0.0


def _padding_only(batch: TokenBatch, pad: int | None) -> NDArray[np.bool_]:
    """Targets under padding: a padding id there does not end a sequence, even where it doubles as the end token."""
    under = _under_padding(batch, pad)
    assert batch.targets is not None
    return under if under is not None else np.zeros(batch.targets.shape, bool)
