"""Small local data in place of what a program would download, made anew for every run and always the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

WORDS = (
    "the a small big red old quiet green river house child bird teacher garden stone boat sings walks sees finds carries "
    "opens closes under over beside near far slowly quickly today again never always with without and but then"
).split()


def sentences(count: int, seed: int = 0) -> list[str]:
    """Sentences of a tiny grammar: determiner, adjective, noun, verb, preposition, determiner, noun, adverb."""
    rng = np.random.RandomState(seed)
    parts = (WORDS[0:2], WORDS[2:7], WORDS[7:14], WORDS[14:20], WORDS[20:25], WORDS[0:2], WORDS[7:14], WORDS[25:30])
    return [" ".join(part[rng.randint(len(part))] for part in parts) for _ in range(count)]


def text(path: Path) -> None:
    """About 60,000 characters."""
    path.write_text(".\n".join(sentences(1300)), encoding="utf-8")


def corpus(folder: Path) -> None:
    """train.txt, valid.txt and test.txt, a sentence a line."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, count, seed in (("train", 900, 0), ("valid", 120, 1), ("test", 120, 2)):
        (folder / f"{name}.txt").write_text("\n".join(sentences(count, seed)) + "\n", encoding="utf-8")


def names(path: Path) -> None:
    """Eight hundred made-up names, one a line."""
    rng = np.random.RandomState(0)
    first, last = "ba ka li ma no ra sa te vi zo".split(), "n l r na mi ra lo s".split()
    rows = {"".join(first[rng.randint(10)] for _ in range(rng.randint(1, 4))) + last[rng.randint(8)] for _ in range(1500)}
    path.write_text("\n".join(sorted(rows)[:800]) + "\n", encoding="utf-8")


def char_bins(folder: Path) -> None:
    """train.bin, val.bin and meta.pkl of a text by characters, as nanoGPT's data folders hold them."""
    import pickle

    folder.mkdir(parents=True, exist_ok=True)
    body = ".\n".join(sentences(1300))
    chars = sorted(set(body))
    index = {c: k for k, c in enumerate(chars)}
    ids = np.array([index[c] for c in body], dtype=np.uint16)
    cut = int(0.9 * len(ids))
    ids[:cut].tofile(folder / "train.bin")
    ids[cut:].tofile(folder / "val.bin")
    meta = {"vocab_size": len(chars), "itos": dict(enumerate(chars)), "stoi": index}
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))


def cora(folder: Path) -> None:
    """cora.content and cora.cites: a graph of communities, in the format of the original files."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.RandomState(0)
    n, classes, width = 2708, 7, 64
    label = rng.randint(classes, size=n)
    base = rng.rand(classes, width) < 0.25
    rows = (base[label] ^ (rng.rand(n, width) < 0.15)).astype(int)
    with (folder / "cora.content").open("w", encoding="utf-8") as out:
        for k in range(n):
            out.write(f"{k}\t" + "\t".join(map(str, rows[k])) + f"\tclass{label[k]}\n")
    with (folder / "cora.cites").open("w", encoding="utf-8") as out:
        for _ in range(5400):
            a = rng.randint(n)
            mates = np.flatnonzero(label == label[a]) if rng.rand() < 0.8 else np.arange(n)
            out.write(f"{a}\t{mates[rng.randint(len(mates))]}\n")


def series(path: Path) -> None:
    """A table of hours with seven columns, as the ETT files have them."""
    import pandas as pd

    n = 2000 if "small" in path.name else 17420
    t = np.arange(n)
    rng = np.random.RandomState(0)
    waves = [np.sin(2 * np.pi * t / p) + 0.3 * np.sin(2 * np.pi * t / 168) + 0.2 * rng.randn(n) for p in (24, 12, 48, 24, 36, 24, 24)]
    table = pd.DataFrame(np.stack(waves, 1), columns=["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"])
    table.insert(0, "date", pd.date_range("2016-07-01", periods=n, freq="h").strftime("%Y-%m-%d %H:%M:%S"))
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False)


def ratings(folder: Path) -> None:
    """Implicit feedback of 300 users on 200 items, as the NCF and MovieLens files have it."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.RandomState(0)
    users, items = rng.randn(300, 4), rng.randn(200, 4)
    liked = [np.argsort(-(items @ u) + rng.randn(200))[:12] for u in users]
    train = [(u, i) for u, pile in enumerate(liked) for i in pile[1:]]
    with (folder / "ml-1m.train.rating").open("w", encoding="utf-8") as out:
        out.writelines(f"{u}\t{i}\t5\t0\n" for u, i in train)
    with (folder / "ml-1m.test.rating").open("w", encoding="utf-8") as out:
        out.writelines(f"{u}\t{pile[0]}\t5\t0\n" for u, pile in enumerate(liked))
    with (folder / "ml-1m.test.negative").open("w", encoding="utf-8") as out:
        for u, pile in enumerate(liked):
            others = rng.permutation(np.setdiff1d(np.arange(200), pile))[:99]
            out.write(f"({u},{pile[0]})\t" + "\t".join(map(str, others)) + "\n")
    with (folder / "ratings.dat").open("w", encoding="utf-8") as out:
        scores = np.clip(np.round(3 + users @ items.T / 2), 1, 5).astype(int)
        pairs = [(u, i) for u in range(300) for i in rng.permutation(200)[:25]]
        out.writelines(f"{u + 1}::{i + 1}::{scores[u, i]}::0\n" for u, i in pairs)


def pictures(folder: Path) -> None:
    """Folders of PNG files by class, train and val."""
    from PIL import Image
    from sklearn.datasets import load_digits

    raw, labels = load_digits(return_X_y=True)
    for k in range(300):
        place = folder / ("train" if k < 240 else "val") / str(labels[k])
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((raw[k].reshape(8, 8) * 15.9).astype(np.uint8)).resize((64, 64)).convert("RGB").save(place / f"{k}.png")


def pairs(path: Path) -> None:
    """Source and target sentences, tab-separated: the target is the source in other words, backwards."""
    rows = [f"{s}\t{' '.join(w.upper() for w in reversed(s.split()[:5]))}" for s in sentences(500)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def stories(path: Path) -> None:
    """A JSON list of short stories."""
    path.write_text(json.dumps([{"story": ". ".join(sentences(6, k))} for k in range(100)]), encoding="utf-8")


def sines(path: Path) -> None:
    """Shifted sine waves as a saved array."""
    import torch

    shift = np.random.RandomState(2).randint(-80, 80, 40).reshape(40, 1)
    torch.save(np.sin((np.arange(200) + shift) / 20.0).astype("float64"), path)


def empty(path: Path) -> None:
    """A folder."""
    path.mkdir(parents=True, exist_ok=True)


def make(order: str, folder: Path) -> None:
    """`maker:place` below the program's folder."""
    maker, _, place = order.partition(":")
    target = folder / place
    target.parent.mkdir(parents=True, exist_ok=True)
    globals()[maker](target)
