"""What a feed has shown, as facts of the run."""

from __future__ import annotations

from typing import Any

import numpy as np

from traindx.probes.read.data import contents
from traindx.probes.read.data.feeds import Feed, fixed_seed, randomness


def of_training(feed: Feed) -> dict[str, Any]:
    """Facts about what is trained on."""
    found: dict[str, Any] = {}
    if feed.about:
        found["data.loader"] = feed.about
        found["data.fetched"] = {"batches": feed.fetched, "iterators": feed.passes}
    done = next((t for t in feed.turns if t.complete and t.steps), None)
    if done is not None:
        found["data.steps_per_epoch"], found["data.samples_per_epoch"] = done.steps, done.samples
    if feed.bounded and (first := contents.first_pass(feed)):
        found["data.unique_share"], found["data.duplicate_share"] = first["unique"], first["duplicate"]
    if feed.store.size:
        found["data.seen"] = {"train": contents.distinct(feed), "val": 0}
        found["data.drawn"] = feed.store.size
        if feed.asks_class:
            found["data.conflicts"], found["data.met_again"] = contents.conflicts(feed)
            if common := contents.commonest(feed):
                found["data.commonest"] = common
    if (same := contents.order_repeats(feed)) is not None:
        found["data.order_repeats"] = same
    if (spread := contents.dispersion(feed.batch_classes)) is not None:
        found["data.label_dispersion"], found["data.label_dispersion_p"] = spread
    if feed.about.get("num_workers", 0) and feed.worker_twins:
        found["data.worker_duplicates"] = feed.worker_twins
    drawn = randomness(feed.loader())
    if drawn and feed.about.get("num_workers", 0) >= 2 and getattr(feed.loader(), "worker_init_fn", None) is None:
        found["data.copied_generator"] = True
    if drawn and (again := contents.repeats(feed)):
        found["data.aug_repeats"] = again
    if not feed.tokens and (fine := contents.continuous(feed)) is not None:
        found["data.continuous"] = fine
    if (seed := fixed_seed(feed.loader())) is not None:
        found["data.fixed_seed"] = seed
    if (drifting := contents.drifts(feed.turns)) is not None:
        found["curriculum"] = drifting
    return found | _common(feed, "data.", "data.class_counts")


def of_validation(feed: Feed) -> dict[str, Any]:
    """Facts about what is validated on."""
    found: dict[str, Any] = {"data.val_loader": feed.about} if feed.about else {}
    if (random := contents.random_contents(feed)) is not None:
        found["data.val_random"] = random
    return found | _common(feed, "data.val_", "data.val_class_counts")


def input_stats(feed: Feed) -> dict[str, float]:
    """Mean, deviation and range of the inputs of a feed; empty where none has a scale."""
    got = feed.stats.read()
    if not got.get("n"):
        return {}
    mean = got["mean"] / got["n"]
    var = got["var"] / got["n"] + max(0.0, got["square"] / got["n"] - mean**2)
    return {"mean": mean, "std": var**0.5, "min": got["low"], "max": got["high"], "n": int(got["n"])}


def _common(feed: Feed, prefix: str, classes: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if feed.classes:
        found[classes] = {str(k): int(v) for k, v in sorted(feed.classes.items())[:1000]}
    if stats := input_stats(feed):
        found[f"{prefix}input_stats"] = stats
    if len(feed.channels) == 1:
        n, mean_, square, within = (t.cpu().numpy() for t in next(iter(feed.channels.values())))
        n = np.maximum(n, 1.0)
        means = mean_ / n
        spread = np.sqrt(within / n + np.maximum(0.0, square / n - means**2))
        found[f"{prefix}channel_stats"] = {"mean": [float(v) for v in means], "std": [float(v) for v in spread]}
    return found
