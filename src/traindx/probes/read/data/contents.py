"""Judging what feeds remembered: overlaps, conflicts, order, class dispersion, leaking features. Plain numpy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traindx.probe import VAL
from traindx.probes.read.common.batches import Hashes
from traindx.probes.read.data.feeds import Feed, Rows, Turn
from traindx.stats.robust import ranks

_REPEATED = 3  # batches that must come in the same order before we speak of one


def distinct(feed: Feed) -> int:
    """Distinct samples that were hashed."""
    return len(np.unique(feed.store.table()[0]))


def validated(train: Feed, val: Feed) -> Hashes:
    """Distinct contents that were validated on.

    Without a loader, a script's evaluations of its training data and of its validation data look alike: batches that
    were wholly trained on are left out where there are others; and where batches are either new or known, however much of
    the training set was hashed, and hardly any is in between, the known ones are a look at the training set or a split that
    overlaps in one piece: contents cannot tell (`apart` counts them).
    """
    known = np.unique(train.store.table()[0])
    every, _, _ = val.store.table()
    if val.about or not len(every):
        return np.unique(every)
    parts = _parts(val, known)
    fresh = [part for part, share in parts if share < 0.99]
    if _looks(parts):
        fresh = [part for part, share in parts if share < 0.3]
    return np.unique(np.concatenate(fresh)) if fresh else np.unique(every)


def _parts(val: Feed, known: Hashes) -> list[tuple[Hashes, float]]:
    """Evaluated batches, each with the share of it that is known: one search for all, there may be thousands of them."""
    parts = [part for part in val.store.contents if len(part)]
    if not parts:
        return []
    sizes = np.array([len(part) for part in parts])
    hits = np.add.reduceat(np.isin(np.concatenate(parts), known).astype(np.int64), np.cumsum(sizes) - sizes)
    return list(zip(parts, (hits / sizes).tolist(), strict=True))


def _looks(parts: Sequence[tuple[Hashes, float]]) -> list[Hashes]:
    """Evaluated batches that are known from training, where the others are new and next to none is in between."""
    known = [part for part, share in parts if share >= 0.3]
    between = sum(0.1 <= share < 0.3 for _, share in parts)
    return known if any(share < 0.1 for _, share in parts) and between <= 0.05 * len(parts) else []


def apart(train: Feed, val: Feed) -> int:
    """Distinct samples of evaluated batches that were wholly trained on, next to batches that were not; 0 with a loader, and
    when they are most of what is known of the training set: then that is what was evaluated.
    """
    known = np.unique(train.store.table()[0])
    if val.about or not len(known):
        return 0
    looks = _looks(_parts(val, known))
    seen = np.unique(np.concatenate(looks)) if looks else np.empty(0, np.uint64)
    return len(seen) if len(seen) and np.isin(known, seen).mean() < 0.5 else 0


def shared(train: Feed, val: Feed) -> tuple[int, int]:
    """(distinct validation samples that were also trained on, distinct validation samples)."""
    seen = validated(train, val)
    return len(np.intersect1d(train.store.table()[0], seen)), len(seen)


def held_out(train: Feed | None, feeds: Sequence[Feed]) -> tuple[Feed | None, int]:
    """(the feed that is validated on, distinct samples of one that only looks at the training set).

    Scripts score a part of the training set next to the validation set. Where the feed that was used most holds only
    what is trained on, and another one, passed through about as often, nothing of it, the other one is the validation set.
    A feed that shares a part only is no such look: then it is judged itself.
    """
    ranked = sorted(feeds, key=lambda f: -f.used[VAL])
    if len(ranked) < 2 or train is None or not train.store.size:
        return (ranked[0] if ranked else None), 0
    known = np.unique(train.store.table()[0])
    covered = min(1.0, len(known) / (train.about.get("samples") or len(known)))
    first = ranked[0]
    seen = np.unique(first.store.table()[0])
    if not len(seen) or not np.isin(seen, known).mean() >= 0.8 * covered:
        return first, 0
    for other in ranked[1:]:
        own = np.unique(other.store.table()[0])
        if len(own) and 2 * other.passes >= first.passes and np.isin(own, known).mean() < 0.1:
            return other, len(seen)
    return first, 0


def continuous(feed: Feed, least: int = 50) -> bool | None:
    """Whether inputs are measured so finely that two samples do not agree by chance; None when too few were kept.

    One feature that hardly ever repeats is enough, or several of many levels (grey values).
    """
    if feed.kept_rows < least or not feed.rows:
        return None
    rows = np.concatenate(feed.rows)
    levels = 1 + (np.diff(np.sort(rows, axis=0), axis=0) > 0).sum(0)
    rows = np.unique(rows, axis=0)  # copies are what is asked about
    if len(rows) < least:  # few kinds, or a few samples again and again
        return False if len(rows) > 3 * levels.max() else None
    fine = levels[levels >= 16]
    return bool((levels > 0.9 * len(rows)).any() or np.log2(fine).sum() >= 24)


def conflicts(feed: Feed) -> tuple[int, int]:
    """(inputs that came with more than one label over all passes, inputs that came more than once)."""
    contents, labels, _ = feed.store.table()
    known = labels != 0  # 0: the label was not seen
    if not known.any():
        return 0, 0
    pairs, times = np.unique(np.stack([contents[known], labels[known]], 1), axis=0, return_counts=True)
    _, first, counts = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    return int((counts > 1).sum()), int((np.add.reduceat(times, first) > 1).sum())


def commonest(feed: Feed, least: int = 20) -> dict[str, Any]:
    """The input that came far more often than others: its share of the samples, how many there were, and how many labels."""
    contents, labels, _ = feed.store.table()
    names, counts = np.unique(contents, return_counts=True)
    if len(names) < 2 or counts.max() < max(least, 5 * np.median(counts)):  # in many epochs every input comes often
        return {}
    top = names[counts.argmax()]
    marks = np.unique(labels[(contents == top) & (labels != 0)])
    return {"share": float(counts.max() / len(contents)), "samples": int(counts.max()), "labels": len(marks)}


def first_pass(feed: Feed) -> dict[str, float]:
    """Distinct over drawn samples of the first pass, and the share whose content had been seen before in it."""
    contents, _, turns = feed.store.table()
    own = contents[turns == 1]
    first = feed.turns[0] if feed.turns else Turn()
    if not len(own) or len(own) < 0.9 * first.samples:
        return {}
    unique = len(np.unique(own)) / len(own)
    return {"unique": unique, "duplicate": 1 - unique}


def _agree(one: Mapping[int, int], two: Mapping[int, int]) -> tuple[int, int]:
    """(places both passes were looked at, places where they agree)."""
    both = one.keys() & two.keys()
    return len(both), sum(one[i] == two[i] for i in both)


def order_repeats(feed: Feed) -> bool | None:
    """Whether the second pass served what the first did in the same order; None when two passes were not seen.

    Contents decide where they repeat; where samples are augmented the sequence of labels does, if it is not constant.
    """
    if len(feed.turns) < 2:
        return None
    first, second = feed.turns[:2]
    n, same = _agree(first.prints, second.prints)
    if n < _REPEATED:
        return None
    if same == n:
        return True
    m, alike = _agree(first.labels, second.labels)
    return m >= _REPEATED and alike == m and len(set(first.labels.values())) > len(first.labels) // 2


def random_contents(feed: Feed) -> bool | None:
    """Whether the same samples (by the order of their labels) came with other contents in a second pass; None: cannot tell."""
    if len(feed.turns) < 2:
        return None
    first, second = feed.turns[:2]
    n, same = _agree(first.prints, second.prints)
    if not n:
        return None
    if same == n:
        return False
    contents, _, turns = feed.store.table()
    one, two = set(contents[turns == 1].tolist()), set(contents[turns == 2].tolist())
    if one and two and len(one & two) > 0.5 * min(len(one), len(two)):
        return False  # the same samples in another order
    m, alike = _agree(first.labels, second.labels)
    # constant labels say nothing about the order
    varied = len(set(first.labels.values())) > 1 or len(feed.classes) > 1 or feed.float_labels
    return True if m == n == alike and varied else None


def repeats(feed: Feed) -> dict[str, int]:
    """How many samples of the second pass had the very content of one in the first, of how many."""
    contents, _, turns = feed.store.table()
    one, two = contents[turns == 1], contents[turns == 2]
    return {"repeats": int(np.isin(two, one).sum()), "checked": len(two)} if len(one) and len(two) else {}


def dispersion(batches: Sequence[Counter[int]]) -> tuple[float, float] | None:
    """(χ²/dof, p) of class counts over batches against one common mix; classes expected less than once a batch are pooled.

    1 when batches are drawn at random, far above when they are sorted, below when they are stratified.
    """
    if len(batches) < 4:
        return None
    names = sorted(set().union(*batches))
    table = np.array([[b.get(c, 0) for c in names] for b in batches], float)
    share = table.sum(0) / table.sum()
    rare = share * table.sum(1).mean() < 1
    if rare.sum() > 1:
        table = np.column_stack([table[:, ~rare], table[:, rare].sum(1)])
    table = table[:, table.sum(0) > 0]
    rows, columns = table.shape
    if columns < 2:
        return None
    expected = table.sum(1, keepdims=True) * table.sum(0) / table.sum()
    dof = (rows - 1) * (columns - 1)
    chi2 = float(((table - expected) ** 2 / expected).sum())
    # Wilson and Hilferty's cube root: no import while the run continues, and good to a few per cent at these dof
    z = ((chi2 / dof) ** (1 / 3) - (1 - 2 / (9 * dof))) / math.sqrt(2 / (9 * dof))
    return chi2 / dof, 0.5 * math.erfc(z / math.sqrt(2))


def feature_scores(feed: Feed, least: int = 200) -> dict[str, float]:
    """Feature → how well it alone gives the target: AUC for two classes, the gain over the prior for more, R² for numbers."""
    if feed.kept_rows < least or not feed.rows or feed.projected:
        return {}
    x, y = np.concatenate(feed.rows), np.concatenate(feed.row_labels).astype(float)
    good = np.isfinite(x).all(1) & np.isfinite(y)
    x, y = x[good], y[good]
    classes = np.unique(y)
    if len(classes) < 2:
        return {}
    score = auc if len(classes) == 2 else (gain if len(classes) <= 50 and not feed.float_labels else r2)
    with np.errstate(all="ignore"):
        return {str(i): round(score(x[:, i].astype(float), y), 5) for i in range(x.shape[1]) if _varies(x[:, i])}


def _varies(column: NDArray[Any], least: int = 20) -> bool:
    """Whether a feature differs from its most frequent value in enough samples to be judged."""
    _, counts = np.unique(column, return_counts=True)
    return int(len(column) - counts.max()) >= least


def auc(x: NDArray[Any], y: NDArray[Any]) -> float:
    """Area under the ROC curve of one feature, whichever way round it is.

    >>> auc(np.array([1.0, 2, 3, 4]), np.array([0, 0, 1, 1]))
    1.0
    """
    up = y == y.max()
    n, m = int(up.sum()), int((~up).sum())
    area = (ranks(x)[up].sum() - n * (n + 1) / 2) / (n * m)
    return float(max(area, 1 - area))


def gain(x: NDArray[Any], y: NDArray[Any]) -> float:
    """(accuracy − prior) / (1 − prior) of a vote of the four samples next to each one along the feature.

    Equal values stand in random order: a feature that hardly varies must not borrow from the order of the samples.
    """
    mixed = np.random.default_rng(0).permutation(len(x))
    x, y = x[mixed], y[mixed]
    order = np.argsort(x, kind="stable")
    classes, marks = np.unique(y[order], return_inverse=True)
    votes = np.zeros((len(marks) + 4, len(classes)))
    for shift in (0, 1, 3, 4):  # itself (2) has no vote
        votes[np.arange(len(marks)) + shift, marks] += 1
    hits = votes[2:-2].argmax(1) == marks
    prior = np.bincount(marks).max() / len(marks)
    return float(max(0.0, (hits.mean() - prior) / (1 - prior)))


def r2(x: NDArray[Any], y: NDArray[Any]) -> float:
    """Squared correlation of one feature with the target, of values or of ranks, whichever is larger."""
    plain = np.corrcoef(x, y)[0, 1] ** 2
    ranked = np.corrcoef(ranks(x), ranks(y))[0, 1] ** 2
    return float(np.nanmax([plain, ranked, 0.0]))


def label_probe(feed: Feed, least: int = 200, permutations: int = 19) -> dict[str, Any]:
    """Do the inputs predict the labels? The better of five nearest neighbours and a linear probe, against permuted labels."""
    if feed.kept_rows < least or not feed.rows:
        return {}
    x, y = np.concatenate(feed.rows).astype(float), np.concatenate(feed.row_labels).astype(float)
    good = np.isfinite(x).all(1) & np.isfinite(y)
    x, y = x[good], y[good]
    keep = x.std(0) > 0 if len(y) >= least else np.zeros(0, bool)
    if not keep.any() or np.ptp(y) == 0:
        return {}
    x = (x - x.mean(0))[:, keep] / x.std(0)[keep]
    real = feed.float_labels or len(np.unique(y)) > 50
    near, fold = _neighbours(x), _ridge_folds(x)
    rng = np.random.default_rng(0)
    null = [_skill(near, fold, rng.permutation(y), real) for _ in range(permutations)]
    return label_doubt(x, y, fold) | {
        "n": len(y),
        "features": int(x.shape[1]),
        "kind": "regression" if real else "class",
        "score": _skill(near, fold, y, real),
        "null_mean": float(np.mean(null)),
        "null_sd": float(np.std(null, ddof=1)),
        "permutations": permutations,
    }


def label_doubt(x: Rows, y: NDArray[Any], folds: list[tuple[NDArray[np.bool_], NDArray[Any]]]) -> dict[str, float]:
    """How often labels of a few classes contradict what both probes, out of fold, agree on: where they are surest, and next.

    Classes that overlap are contradicted where they meet and hardly where the probes are sure; wrong labels are everywhere.
    """
    classes = np.unique(y)
    if not 2 <= len(classes) <= 20 or np.bincount(np.searchsorted(classes, y)).max() > 0.8 * len(y):
        return {}
    goal = (y[:, None] == classes[None, :]).astype(float)
    line = np.empty_like(goal)
    for test, matrix in folds:
        line[test] = matrix @ goal[~test]
    answer = line.argmax(1)
    agreed = np.flatnonzero(goal[_neighbours(x, 15)].mean(1).argmax(1) == answer)
    ranked = np.sort(line[agreed], axis=1)
    surest = agreed[np.argsort(ranked[:, -2] - ranked[:, -1], kind="stable")]
    part = len(y) // 4
    if len(surest) < 2 * part or part < 50:
        return {}
    wrong = answer[surest] != goal[surest].argmax(1)
    return {"sure_errors": float(wrong[:part].mean()), "next_errors": float(wrong[part : 2 * part].mean())}


def _neighbours(x: Rows, k: int = 5) -> NDArray[np.int64]:
    square = (x**2).sum(1)
    apart = square[:, None] + square[None, :] - 2 * x @ x.T
    np.fill_diagonal(apart, np.inf)
    return np.argpartition(apart, k, axis=1)[:, :k].astype(np.int64)


def _ridge_folds(x: Rows, folds: int = 5) -> list[tuple[NDArray[np.bool_], NDArray[Any]]]:
    """Per fold, who is left out and the matrix from the others' targets to their predictions."""
    wide = np.column_stack([x, np.ones(len(x))])
    out = []
    for i in range(folds):
        test = np.arange(len(x)) % folds == i
        a = wide[~test]
        out.append((test, wide[test] @ np.linalg.solve(a.T @ a + 1.0 * np.eye(a.shape[1]), a.T)))
    return out


def _skill(near: NDArray[np.int64], folds: list[tuple[NDArray[np.bool_], NDArray[Any]]], y: NDArray[Any], real: bool) -> float:
    """Accuracy (classes) or R² (numbers), the better of the two probes."""
    goal = y[:, None] if real else (y[:, None] == np.unique(y)[None, :]).astype(float)
    by_neighbours = goal[near].mean(1)
    by_line = np.empty_like(goal)
    for test, matrix in folds:
        by_line[test] = matrix @ goal[~test]
    if real:
        total = ((goal - goal.mean()) ** 2).sum()
        return float(max(1 - ((goal - p) ** 2).sum() / total for p in (by_neighbours, by_line)))
    truth = goal.argmax(1)
    return float(max((p.argmax(1) == truth).mean() for p in (by_neighbours, by_line)))


_ENOUGH = 20  # samples known by content


def joined(feeds: Sequence[Feed], most: int = 3) -> list[int]:
    """The updates at which another data set began to be trained on: of another size, unless they change all the time, or for
    several passes, with samples none of which had been met, where those before were the same in every pass.
    """
    before: list[Feed] = []
    resized, other = [], []
    for feed in sorted((f for f in feeds if f.turns and f.about.get("samples")), key=lambda f: f.turns[0].first_step):
        size, step = int(feed.about["samples"]), feed.turns[0].first_step
        if before and step > 0 and all(abs(size - int(f.about["samples"])) > 0.01 * int(f.about["samples"]) for f in before):
            resized.append(step)
        lasting = step > 0 and feed.passes > 1 and feed.store.size >= _ENOUGH
        if lasting and any(_fixed(f) for f in before) and not _met(feed, before):
            other.append(step)
        before.append(feed)
    return sorted({*(resized if len(resized) <= most else []), *other})


def _fixed(feed: Feed) -> bool:
    """Whether a later pass has shown a sample of the first again: contents tell this data set from others then."""
    contents, _, turns = feed.store.table()
    first = turns == turns.min(initial=255)
    return len(contents) >= _ENOUGH and bool(np.isin(contents[~first], contents[first]).any())


def _met(feed: Feed, before: Sequence[Feed]) -> bool:
    """Whether one of its samples had been trained on."""
    own = feed.store.table()[0]
    return any(bool(np.isin(own, f.store.table()[0]).any()) for f in before)


def drifts(turns: Sequence[Turn], least: int = 4) -> bool | None:
    """Whether the batches change from pass to pass in one direction, by a fifth or more: a curriculum."""
    levels = np.array([t.mean / t.seen for t in turns if t.seen])
    if len(levels) < least:
        return None
    moves = np.diff(levels)
    whole = abs(levels[-1] - levels[0])
    return bool((np.all(moves > 0) or np.all(moves < 0)) and whole > 0.2 * np.abs(levels).max())
