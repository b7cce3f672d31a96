"""What the name of a column means: which split, loss or metric, axis, learning rate, and so on.

A name is read as words ("train/box_loss" is train, box, loss). Nothing else is looked at here; where the numbers have a say
(is "time" a clock or a duration?), `assemble` decides. Foreign names end in this file.

>>> meaning("eval_loss")
Meaning(role='loss', split='val', rest='', form='')
>>> meaning("Loss/Train").role, meaning("metrics/mAP50(B)").role, meaning("lr-Adam").role
('loss', 'metric', 'lr')
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from traindx.importers.lexicon import (
    ACCURACY,
    ACCURACY_PLAIN,
    BY_STEP,
    DISCRIMINATOR,
    DOWN,
    EPISODE,
    EPOCHS,
    FOREIGN,
    GENERATOR,
    LOSS,
    METHOD,
    NOT_LOSS,
    PLAIN,
    RETURN,
    REWARD,
    SAMPLES,
    SMOOTH,
    SPLITS,
    STEP_NAMES,
    TIME_UNITS,
    TOKENS,
    TRAIN,
    UP,
    WEAK,
    WRONG,
    WRONG_TOLD,
)

SECRET = re.compile(
    r"(api|access|secret|private|auth|session|ssh|hf|wandb|aws).{0,12}(key|token)|password|passwd|credential", re.I
)

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[a-z]+|\d+|@")
_FOREIGN = re.compile("|".join(sorted(FOREIGN, key=len, reverse=True)), re.I)
_GROUP = re.compile(r"(?:^|[ _/.-])(?:lr|pg|group|param_group|lr_group)[ _/.-]*(\d+)$", re.I)


@dataclass(frozen=True)
class Meaning:
    """A column's role; `rest` is what the name says beyond role and split, `form` how the value was averaged."""

    role: str  # loss, part, metric, accuracy, lr, grad_norm, grad_param, step, epoch, samples, tokens, clock, duration, …
    split: str = ""  # train, val, test or unknown
    rest: str = ""
    form: str = ""  # step, epoch, smooth


@lru_cache(maxsize=65536)
def words(name: str) -> tuple[str, ...]:
    """The words of a name in lower case and without accents: 'trainLoss_step' is train, loss, step; so is '训练损失'."""
    name = _FOREIGN.sub(lambda found: FOREIGN[found[0].lower()], name)
    if not name.isascii():
        name = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    spaced = _CAMEL.sub(" ", name).lower()
    return tuple(_WORD.findall(spaced))


def split_of(parts: tuple[str, ...]) -> str:
    """The split a name belongs to: the last telling word before the loss ('train/val_loss'), else the first; may be empty."""
    told = [(i, split) for i, part in enumerate(parts) for split, names in SPLITS.items() if part in names]
    if not told:
        return ""
    end = next((i for i, part in enumerate(parts) if part in LOSS or part in ACCURACY), len(parts))
    before = [split for i, split in told if i < end]
    return before[-1] if before else told[0][1]


@lru_cache(maxsize=65536)
def meaning(name: str) -> Meaning:
    """What a column of that name holds."""
    parts = words(name)
    if not parts:
        return Meaning("metric", "", name)
    split = split_of(parts)
    bare = tuple(p for p in parts if not any(p in names for names in SPLITS.values())) or parts
    for find in (_axis, _rate, _norm, _clock, _machine, _loss, _accuracy):
        found = find(name, bare, split)
        if found is not None:
            return found
    return Meaning("metric", split, bare_name(name, split))


def _axis(name: str, bare: tuple[str, ...], split: str) -> Meaning | None:
    bare = _counted(name, bare)
    if bare in STEP_NAMES:
        role = "log_step" if name.startswith("_") else "step"  # W&B's _step counts calls of log, not updates
        return Meaning(role, split)
    for role, names in (("epoch", EPOCHS), ("samples", SAMPLES), ("tokens", TOKENS)):
        if bare in names:
            return Meaning(role, split)
    if bare == ("epoch", "1000", "x"):
        return Meaning("epoch1000", split)
    return None


def _counted(name: str, bare: tuple[str, ...]) -> tuple[str, ...]:
    """The words of a counter without the group it is filed under: 'time/total_timesteps' and 'total/steps' count steps."""
    tail = words(name.rpartition("/")[2])
    return tail if "/" in name and tail != bare and (tail in STEP_NAMES or tail in EPOCHS) else bare


def step_rank(name: str) -> int:
    """How surely a column of that name counts updates; smaller is surer."""
    bare = tuple(p for p in words(name) if p not in TRAIN or len(words(name)) == 1)
    return STEP_NAMES.get(_counted(name, bare), STEP_NAMES.get(words(name), 4))


def _rate(name: str, bare: tuple[str, ...], split: str) -> Meaning | None:
    joined = "".join(bare)
    plain = ("lr" in bare or "lrate" in bare or "learningrate" in joined or bare[0] == "lr") and not (
        {"scale", "mult", "multiplier", "decay", "factor", "scheduler", "finder"} & set(bare)
    )
    if not plain or "loss" in bare or len(bare) > 7:
        return None
    group = _GROUP.search(name)
    return Meaning("lr", split, group[1] if group else "")


def _norm(name: str, bare: tuple[str, ...], split: str) -> Meaning | None:
    have = set(bare)
    gradient = have & {"grad", "gradient", "gradients", "grads", "gnorm", "gradnorm"}
    if "gnorm" in have or "gradnorm" in have or (gradient and "norm" in have):
        param = re.match(r"^.*?grad[a-z]*_?[\d.]*_?norm[_/]+(.+)$", name, re.I)
        extra = have - {
            "grad",
            "gradient",
            "gradients",
            "grads",
            "norm",
            "gnorm",
            "gradnorm",
            "total",
            "global",
            "2",
            "0",
            "l2",
        }
        extra -= {
            "l",
            "model",
            "pre",
            "before",
            "clip",
            "clipping",
            "raw",
            "unclipped",
            "unscaled",
            "step",
            "all",
            "avg",
            "mean",
            "epoch",
        }
        if {"after", "post", "clipped"} & have:
            return Meaning("metric", split or "train", bare_name(name, split))
        if not extra:
            return Meaning("grad_norm", split)
        if param and "total" not in have:
            return Meaning("grad_param", split, param[1])
    if bare in (("total", "norm"), ("global", "norm")):
        return Meaning("grad_norm", split)
    return None


def _clock(name: str, bare: tuple[str, ...], split: str) -> Meaning | None:
    have = set(bare)
    if bare in (("timestamp",), ("runtime",), ("wall", "time"), ("walltime",), ("relative", "time")):
        return Meaning("ignored" if split else "clock", split)  # HF's eval_runtime is how long an evaluation took
    if have & {"eta", "remaining", "date", "datetime"}:
        return Meaning("ignored", split)
    if have & {"time", "duration", "elapsed", "dt"} and not have & LOSS:
        unit = next((u for u, names in TIME_UNITS.items() if have & names), "")
        if have & {"data", "load", "loader", "dataload"}:
            return Meaning("data_time", split, unit)
        if split in ("val", "test") or have & {"epoch", "valid", "eval"}:
            return Meaning("metric", split, bare_name(name, split))
        return Meaning("duration", split, unit)
    return None


def _machine(name: str, bare: tuple[str, ...], split: str) -> Meaning | None:
    have, joined = set(bare), "".join(bare)
    if (have & {"scale", "scaler"}) and (have & {"loss", "grad", "amp", "scaler"}) and len(bare) <= 3:
        return Meaning("scale", split)
    rate = re.search(r"per[_ ]?sec(ond)?$|/s(ec)?$|_per_s$", name.lower()) or have & {
        "throughput",
        "wps",
        "ups",
        "fps",
        "ips",
        "its",
    }
    if rate and not have & LOSS and "accuracy" not in have:
        return Meaning("throughput" if split != "val" and split != "test" else "ignored", split, name)
    if have & {"mem", "memory", "vram", "allocated", "reserved"}:
        unit = next((u for u in ("gib", "gb", "mib", "mb", "bytes") if u in have or joined.endswith(u)), "")
        place = "reserved" if have & {"reserved", "cached"} else "allocated"
        return Meaning("memory", place, unit)
    if bare[0] in ("hp", "seed") or have == {"rank"} or have == {"seed"}:
        return Meaning("ignored", split)
    return None


def _loss(name: str, bare: tuple[str, ...], split: str) -> Meaning | None:
    have = set(bare)
    if name.lower().endswith((" vs samples", " vs tokens")):
        return Meaning("ignored", split)  # Megatron writes every curve three times
    if have & {"ppl", "perplexity"} and not have & LOSS:
        other = have - PLAIN - {"ppl", "perplexity"}
        return Meaning("metric" if other else "perplexity", split, bare_name(name, split), _form(bare))
    if re.fullmatch(r"(loss[ _/])?(D|G|cycle|idt)_[A-Za-z0-9_]{1,20}", name):
        return Meaning("part", split, name.removeprefix("loss_").lower())  # CycleGAN and pix2pix print D_A, G_A, cycle_A …
    if bare[0] == "l" and len(bare) > 1 and not have & LOSS and bare[1].isalpha() and re.search(r"(?:^|[ _/])[lL]_", name):
        return Meaning("part", split, "_".join(bare[1:]))  # l_pix, l_g_gan (BasicSR), train_L_vae
    if not have & LOSS:
        return None
    if have & NOT_LOSS or (have & {"acc", "accuracy", "time", "lr"}):
        return Meaning("metric", split, bare_name(name, split))
    rest = tuple(p for p in bare if p not in PLAIN and p not in LOSS)
    if "entropy" in have and not have & {"cross", "ce", "softmax", "sparse", "categorical", "binary"} and not rest:
        rest = ("entropy",)  # a policy's entropy, weighed into the loss
    told = {s for part in words(name) for s, names in SPLITS.items() if part in names}
    if split == "train" and "val" in told and not rest:
        return Meaning("train_eval", split)  # training data, evaluated: 'eval/train_loss'
    if rest:
        return Meaning("part", split, "_".join(rest), _form(bare))
    weak = not have & (LOSS - WEAK) or "nll" in have
    kind = "weak" if weak else "total" if "total" in have else "method" if have & METHOD else ""
    return Meaning("loss", split, kind, _form(bare))


def _form(bare: tuple[str, ...]) -> str:
    have = set(bare)
    if have & SMOOTH:
        return "smooth"
    if have & BY_STEP:
        return "step"
    return "epoch" if "epoch" in have else ""


def _accuracy(name: str, bare: tuple[str, ...], split: str) -> Meaning | None:
    have = set(bare)
    at_one = (
        bare[:3] == ("acc", "@", "1") or bare[:3] == ("prec", "@", "1") or bare[:2] == ("top", "1") or bare[:2] == ("acc", "1")
    )
    if at_one and len(bare) <= 4 and not {"err", "error"} & have:
        return Meaning("accuracy", split, bare_name(name, split), _form(bare))
    if have & ACCURACY and not have - ACCURACY - ACCURACY_PLAIN:
        return Meaning("accuracy", split, bare_name(name, split), _form(bare))
    if is_wrong_share(bare):
        return Meaning("accuracy", split, bare_name(name, split), _form(bare))
    return None


def is_wrong_share(parts: tuple[str, ...]) -> bool:
    """Whether these words name the share of wrong answers: error_rate, top1_err, error@1, misclassification."""
    have = set(parts)
    return bool(have & WRONG and have & WRONG_TOLD and not have - WRONG - WRONG_TOLD - ACCURACY_PLAIN - {"@", "rate"})


def is_bare_split(name: str) -> bool:
    """Whether a name says which data and nothing else: 'train', 'Validation'."""
    parts = words(name)
    return bool(parts) and all(any(p in names for names in SPLITS.values()) for p in parts)


def bare_name(name: str, split: str) -> str:
    """The name without the part that only tells the split: 'eval_f1' is f1, 'metrics/mAP50(B)' is mAP50(B)."""
    out = name
    if split:
        out = re.sub(rf"(?i)^({'|'.join(sorted(SPLITS[split], key=len, reverse=True))})[ _/.:-]+(?=.)", "", out)
        out = re.sub(rf"(?i)(?<=.)[ _/.:-]+({'|'.join(sorted(SPLITS[split], key=len, reverse=True))})$", "", out)
    return re.sub(r"(?i)^metrics?/(?=.)", "", out)


def direction(name: str) -> str:
    """Whether a metric of that name is better "up" or "down"; empty when its name does not tell."""
    have = set(words(name)) | set(re.findall(r"[a-z]+\d+", name.lower()))
    joined = "".join(words(name))
    if have & DOWN or re.search(r"(error|perplexity|distance)$", joined):
        return "down"
    return "up" if have & UP or "map" in joined[:3] else ""


def is_reward(name: str) -> bool:
    """Whether a column of that name holds what an agent was paid: reward, ep_rew_mean, episodic_return."""
    have = set(words(name))
    return bool(have & REWARD or (have & RETURN and have & EPISODE))


def adversarial(parts: list[str]) -> bool:
    """Whether loss parts of these names belong to two players."""
    return all(players(parts))


def players(parts: list[str]) -> tuple[list[int], list[int]]:
    """Which of these loss parts belong to a discriminator, and which to a generator."""
    sides = [set(part.split("_")) for part in parts]
    one, two = ([i for i, s in enumerate(sides) if s & names] for names in (DISCRIMINATOR, GENERATOR))
    return one, two
