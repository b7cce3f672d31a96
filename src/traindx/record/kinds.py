"""What kind of thing each fact is. A record may be of another version, cut, or forged: what does not fit is left out.

Kinds: f finite number, n number, s text, [x] list, {x} table by name, * anything; nothing (null) fits everywhere.
Facts that are not listed are flags, which anything may stand for, or are read with care where they are used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_FACTS = {
    "f": """checkpoint.saves data.conflicts data.drawn data.duplicate_share data.label_dispersion data.label_dispersion_p
        data.met_again data.samples_per_epoch data.shared data.steps_per_epoch data.unique_share eval.ece loss.checked_batches
        loss.classes loss.ignore_index loss.smoothing loss.target_unique loss.unreachable_share model.foreign_params
        model.params model.trainable model.unowned_share optimizer.count rank schedule.count schedule.objects
        schedule.planned_steps started world_size""",
    "s": """amp.autocast data.brought_by device ended folder loss.by_hand loss.kind loss.reduction loss.site loss.target_dtype
        model.class optimizer.name replay.failed schedule.name script""",
    "[n]": "loss.input_shape loss.target_shape optimizer.steps",
    "[s]": """argv model.adapters model.embeddings model.frozen model.frozen_modules model.norm_gains model.unowned
        model.never_called watched""",
    "[*]": """loss.input_range loss.target_range model.batch_softmax model.eval_in_training model.linear_pairs model.tied
        model.tying_broken model.unreachable optimizer.duplicates optimizer.empty_groups""",
    "[[n]]": "eval.confusion",
    "[{*}]": "data.bad_samples eval.slices eval.worst model.outline optimizer.groups",
    "{n}": """cost data.class_counts data.feature_auc data.fetched data.seen data.val_class_counts eval.auroc model.init_gain
        perf.shares""",
    "{s}": "blind code.origins code.sites model.activations model.param_dtypes model.param_module versions",
    "{[n]}": "data.channel_stats data.val_channel_stats eval.metric_recomputed model.param_shapes",
    "{*}": """data.given_stats data.input_stats data.label_probe data.loader data.val_input_stats data.val_loader
        model.head_activation origin rng.used schedule.params seeds""",
}
KINDS = {name: kind for kind, names in _FACTS.items() for name in names.split()}


def fits(value: Any, kind: str) -> bool:
    """Whether a value is of a kind.

    >>> fits([[8, 4], None], "[[n]]"), fits({"a": "x"}, "{n}"), fits(float("nan"), "f"), fits("x", "*")
    (True, False, False, True)
    """
    if value is None or kind == "*":
        return True
    if kind in "fn":
        number = isinstance(value, float) or (isinstance(value, int) and abs(value) < 1e300)
        return number and (kind == "n" or math.isfinite(value))
    if kind == "s":
        return isinstance(value, str)
    inner = kind[1:-1]
    if kind[0] == "[":
        return isinstance(value, list | tuple) and all(fits(v, inner) for v in value)
    return isinstance(value, Mapping) and all(fits(v, inner) for v in value.values())


def odd(facts: Mapping[str, Any]) -> list[str]:
    """The facts that are not what they should be."""
    return [name for name, value in facts.items() if not fits(value, KINDS.get(name, "*"))]
