"""Hyper-parameters found next to a log, and the facts they state; secrets are left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from traindx.importers.aliases import SECRET

MOST = 2000  # entries kept
MOST_DEPTH = 8
_HIGH_ENTROPY = re.compile(r"^(hf_|sk-|ghp_|xox[bp]-|AKIA)?[A-Za-z0-9+/_-]{32,}={0,2}$")
_URL_SECRET = re.compile(r"(?<=://)[^/@\s]+@")


def flat(value: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The leaves of nested hyper-parameters by dotted name; W&B's {value: …} wrappers are taken off."""
    if isinstance(value, Mapping) and depth < MOST_DEPTH:
        if set(value) <= {"value", "desc"} and "value" in value:
            yield from flat(value["value"], prefix, depth + 1)
            return
        for key, inner in value.items():
            name = str(key)[:200]
            if name != "_wandb":
                yield from flat(inner, f"{prefix}.{name}" if prefix else name, depth + 1)
    elif isinstance(value, list | tuple):
        if len(value) <= 16 and all(isinstance(v, int | float | str | bool) for v in value):
            yield prefix, list(value)
    elif value is None or isinstance(value, bool | int | float):
        yield prefix, value
    elif isinstance(value, str):
        yield prefix, value[:500]


def collect(value: Any) -> dict[str, Any]:
    """At most `MOST` leaves of nested hyper-parameters."""
    out: dict[str, Any] = {}
    for name, leaf in flat(value):
        if len(out) >= MOST:
            break
        out[name] = leaf
    return out


def from_json(text: str) -> dict[str, Any]:
    """Hyper-parameters in a JSON text; empty when it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return collect(value) if isinstance(value, dict) else {}


def redacted(found: Mapping[str, Any]) -> dict[str, Any]:
    """The same without what looks like a secret by its name or its look."""
    out: dict[str, Any] = {}
    for name, value in found.items():
        if SECRET.search(name):
            out[name] = "***"
        elif isinstance(value, str):
            bare = _URL_SECRET.sub("***@", value)
            out[name] = (
                "***"
                if _HIGH_ENTROPY.match(bare) and not bare.isalpha() and not re.fullmatch(r"[\w/.-]*/[\w/.-]*", bare)
                else bare
            )
        else:
            out[name] = value
    return out


_CLIP = (
    "max_grad_norm", "gradient_clip_val", "grad_clip", "clip_grad_norm", "clip_grad", "grad_clip_norm", "gradient_clip",
    "clip_norm", "gradient_clipping", "clip_threshold",
)  # fmt: skip


def clip_limit(found: Mapping[str, Any]) -> float | None:
    """The norm at which gradients are clipped, where the settings say it."""
    value = _get(found, *_CLIP)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def is_clip_limit(name: str) -> bool:
    """Whether a column holds that norm."""
    return name.rpartition("/")[2].lower() in _CLIP


def _get(found: Mapping[str, Any], *names: str) -> Any:
    """The value under one of these names, wherever it is nested; the shallowest wins."""
    wanted = {n.lower() for n in names}
    hits = [
        (name.count("."), name, value) for name, value in found.items() if name.lower().rsplit(".", 1)[-1].lstrip("-") in wanted
    ]
    return min(hits, key=lambda h: (h[0], h[1]))[2] if hits else None


def _whole(value: Any, least: int = 1, most: float = 1e15) -> int | None:
    if isinstance(value, str):
        try:
            value = float(value.replace(",", "").replace("_", ""))
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if least <= value < most and value == int(value) else None


def facts(found: Mapping[str, Any], unit: str) -> dict[str, Any]:
    """What the hyper-parameters state outright."""
    if not found:
        return {}
    out: dict[str, Any] = {}
    out.update(_loss(found))
    planned = _planned(found, unit)
    if planned:
        out["budget.planned_steps"] = planned
    optimizer = _get(found, "optimizer", "optim", "optimizer_name", "optimizer_type", "opt")
    if isinstance(optimizer, str) and re.fullmatch(r"[\w.]{2,40}", optimizer):
        out["optimizer.name"] = _optimizer(optimizer)
    if _finetune(found):
        out["finetune"] = True
    if _get(found, "fp16") is True or str(_get(found, "mixed_precision", "precision")).lower() in ("fp16", "16", "16-mixed"):
        out["amp.autocast"] = "float16"
    elif _get(found, "bf16") is True or str(_get(found, "mixed_precision", "precision")).lower() in ("bf16", "bf16-mixed"):
        out["amp.autocast"] = "bfloat16"
    return out


def _optimizer(name: str) -> str:
    known = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD", "adafactor": "Adafactor", "lion": "Lion", "rmsprop": "RMSprop"}
    low = name.lower().rsplit(".", 1)[-1]
    return next((nice for key, nice in known.items() if low == key or low.startswith((f"{key}_", f"{key}8"))), name)


def _planned(found: Mapping[str, Any], unit: str) -> int | None:
    if unit == "epoch":
        return _whole(_get(found, "epochs", "max_epochs", "num_epochs", "num_train_epochs", "n_epochs", "total_epochs"))
    names = (
        "max_steps",
        "max_iters",
        "total_steps",
        "num_train_steps",
        "max_train_steps",
        "train_iters",
        "max_iter",
        "max_update",
        "num_iterations",
    )
    return _whole(_get(found, *names))


def _finetune(found: Mapping[str, Any]) -> bool:
    if _get(found, "pretrained", "use_pretrained") is True:
        return True
    start = _get(found, "init_from")
    if isinstance(start, str) and start.lower().startswith(("gpt2", "pretrained")):
        return True
    return _get(found, "lora_r", "lora_rank", "peft_type", "use_lora", "lora_alpha") not in (None, False, 0)


def _loss(found: Mapping[str, Any]) -> dict[str, Any]:
    """Kind of loss and number of classes, only where they are stated."""
    out: dict[str, Any] = {}
    named = _get(found, "loss", "loss_fn", "criterion", "loss_function", "loss_type")
    kind = _kind(named) if isinstance(named, str) else ""
    labels = _whole(_get(found, "num_labels", "num_classes", "n_classes", "nb_classes", "nclasses", "num_class"), 1)
    vocab = _whole(_get(found, "vocab_size", "padded_vocab_size", "n_vocab"), 2)
    built = (
        " ".join(map(str, _get(found, "architectures") or []))
        + " "
        + str(_get(found, "model_type", "architecture", "task", "task_type") or "")
    )
    language = bool(
        re.search(r"causal|lmhead|maskedlm|conditionalgeneration|language.?model|\bgpt|\bllama|clm\b|\blm\b", built, re.I)
    )
    sorting = bool(re.search(r"classif", built, re.I))
    several = str(_get(found, "problem_type") or "")
    if several.startswith("multi_label"):
        return {"loss.kind": "bce_logits"}
    if several.startswith("regression") or labels == 1:
        return {"loss.kind": kind} if kind else {}
    if kind not in ("", "ce", "nll"):
        return {"loss.kind": kind}
    classes = labels if labels and (sorting or not vocab or not language) else None
    if classes is None and vocab and (language or not (labels or sorting)):
        classes = vocab
    if classes and classes >= 2:
        out.update({"loss.kind": "ce", "loss.classes": classes})
    elif kind:
        out["loss.kind"] = kind
    smoothing = _get(found, "label_smoothing", "label_smoothing_factor", "smoothing")
    if out.get("loss.kind") == "ce" and isinstance(smoothing, int | float) and 0 < smoothing < 1:
        out["loss.smoothing"] = float(smoothing)
    return out


def _kind(name: str) -> str:
    low = re.sub(r"[^a-z0-9]", "", name.lower())
    table = {
        "mse": "mse", "mseloss": "mse", "meansquarederror": "mse", "l2": "mse", "l1": "l1", "l1loss": "l1", "mae": "l1",
        "huber": "huber", "huberloss": "huber", "smoothl1": "huber", "ce": "ce", "crossentropy": "ce", "crossentropyloss": "ce",
        "categoricalcrossentropy": "ce", "sparsecategoricalcrossentropy": "ce", "nll": "nll", "nllloss": "nll", "bce": "bce",
        "bceloss": "bce", "binarycrossentropy": "bce", "bcewithlogits": "bce_logits", "bcewithlogitsloss": "bce_logits",
        "ctc": "ctc", "ctcloss": "ctc", "kldiv": "kl", "kldivloss": "kl", "triplet": "margin", "tripletmarginloss": "margin",
        "contrastive": "contrastive", "infonce": "contrastive", "ntxent": "contrastive",
    }  # fmt: skip
    return table.get(low, "")
