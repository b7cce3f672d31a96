"""The columns of one run, taken for signals; every guess leaves a note, every column an entry in `columns` or `unmapped`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from traindx import signals, stats
from traindx.importers import curves, forms
from traindx.importers.aliases import Meaning, bare_name, direction, is_reward, is_wrong_share, meaning, words
from traindx.importers.losses import Losses
from traindx.importers.table import MAX_NAME, Track
from traindx.importers.taken import Taken
from traindx.run import Event, Floats, Series, Signal

MOST_METRICS = 2000  # columns without a meaning of their own that are kept as metrics
_AS_METRIC = ("metric", "accuracy", "perplexity", "loss", "part", "train_eval")
_SECONDS = {"ms": 1e-3, "min": 60.0, "h": 3600.0}
_TO_BYTES = {"bytes": 1.0, "mib": 2.0**20, "mb": 1e6, "gib": 2.0**30, "gb": 1e9}


class Columns(Taken):
    """Gives columns their meaning; `work` once, then read `signals()`, `facts`, `events` and `notes`."""

    def work(self) -> None:
        """Take every column for something."""
        self._fixed()
        self._identical()
        self.meanings = {name: self._meaning(name) for name in self.tracks if name not in self.taken}
        self._stale()
        losses = Losses(self)
        losses.work()
        self._rates()
        self._single("grad_norm", "grad_norm")
        self._single("scale", "amp/scale")
        self._durations()
        self._memory()
        self._throughput()
        self._epochs()
        self._special()
        self._metrics()
        self._matrices()
        forms.unmask(self)
        self._nonfinite(losses)
        self._tell()

    def signals(self) -> dict[str, Signal]:
        return {name: signal for name, signal in self.out.items() if len(signal)}

    # -- one column at a time

    def _meaning(self, name: str) -> Meaning:
        m = meaning(name)
        if not m.split and self.log.split and m.role in ("loss", "part", "perplexity", "accuracy", "metric"):
            return Meaning(m.role, self.log.split, m.rest, m.form)
        return m

    def _stale(self) -> None:
        """A value of validation that stands on every line of a progress bar until the next one is one evaluation."""
        epochs = self.of_role("epoch")
        clock = self.tracks[epochs[0]] if epochs else None
        if clock is None or len(clock) < 20:
            return
        told = 0
        for name in [n for n, m in self.meanings.items() if m.split in ("val", "test")]:
            track = self.tracks[name]
            epoch = np.floor(clock.values[np.maximum(np.searchsorted(clock.rows, track.rows, side="right") - 1, 0)])
            fresh = curves.fresh(track.values, epoch)
            if len(track) >= 20 and fresh.mean() < 0.2:
                self.tracks[name] = track.where(np.flatnonzero(fresh))
                told += len(track) - int(fresh.sum())
        if told:
            self.notes.append(f"{told} values of validation stand on lines between evaluations; each evaluation counts once")

    def _fixed(self) -> None:
        wanted = {**self.log.meanings, **self.options.signals}
        for name, target in wanted.items():
            if name not in self.tracks:
                continue
            if target in ("", "-", "ignore"):
                self.taken[name] = ""
            elif target in self.out:
                self.notes.append(f"two columns were mapped to '{target}'; '{name}' was not used")
                self.taken[name] = ""
            else:
                self.take(name, target)

    def _identical(self) -> None:
        """Columns that already carry the name of a signal: what traindx exported, or somebody who knows it."""
        tables: dict[str, dict[str, Track]] = {}
        for name in [n for n in self.tracks if n not in self.taken]:
            signal, part = _vocabulary(name)
            if part:
                tables.setdefault(signal, {})[part] = self.tracks[name]
                self.taken[name] = signal
            elif signal and signal not in self.out:
                self.take(name, signal)
        for signal, tracks in tables.items():
            joined = self.joined(tracks)
            if joined is not None:
                self.out[signal] = joined

    def _single(self, role: str, signal: str) -> None:
        names = self.of_role(role)
        if names and signal not in self.out:
            self.take(names[0], signal)
        for other in names[1:]:
            self.taken[other] = self._metric_name(other, Meaning("metric", "train", other))

    # -- learning rates

    def _rates(self) -> None:
        names = self.of_role("lr")
        if not names or "lr" in self.out:
            return
        grouped = sorted((n for n in names if self.meanings[n].rest), key=lambda n: int(self.meanings[n].rest))
        chosen = next((n for n in names if not self.meanings[n].rest), "") or grouped[0]
        if len(grouped) > 1 and not any(not self.meanings[n].rest for n in names):
            chosen = self._calm_group(grouped)
            matrix = self.joined({self.meanings[n].rest: self.tracks[n] for n in grouped})
            if matrix is not None:
                self.out["lr/group"] = matrix
        self.take(chosen, "lr")
        for name in names:
            if name != chosen:
                self.taken[name] = "lr/group" if "lr/group" in self.out else ""

    def _calm_group(self, grouped: list[str]) -> str:
        """The group that warms up: YOLO starts the biases' rate at 0.1 and lets it fall to meet the others."""
        starts = [float(self.tracks[n].values[0]) for n in grouped]
        low = int(np.argmin(starts))
        if starts[low] < 0.5 * starts[0]:
            self.notes.append(f"'{grouped[low]}' was taken for the learning rate; '{grouped[0]}' starts higher (bias warm-up)")
            return grouped[low]
        return grouped[0]

    # -- time and memory

    def _durations(self) -> None:
        for role, signal in (("duration", "time/step"), ("data_time", "time/data")):
            names = self.of_role(role)
            for name in names:
                track = self.tracks[name]
                unit = _SECONDS.get(self.meanings[name].rest, 1.0)
                factor = unit * curves.per_step(track.x, track.values * unit, track.times)
                if signal in self.out or not factor:
                    self.taken[name] = ""  # a second clock, or one that does not add up
                    continue
                self.take(name, signal, Track(track.rows, track.x, track.values * factor, track.times))

    def _memory(self) -> None:
        for name in self.of_role("memory"):
            m, track = self.meanings[name], self.tracks[name]
            signal = f"mem/{m.split or 'allocated'}"
            if signal in self.out or not len(track) or np.nanmedian(track.values) <= 1 < len(track):
                self.meanings[name] = Meaning("metric", "", name)  # a second one, or a share
                continue
            factor = _TO_BYTES.get(m.rest)
            if factor is None:
                unit = next(u for limit, u in ((1e3, "gb"), (1e6, "mb"), (np.inf, "bytes")) if np.nanmax(track.values) < limit)
                self.notes.append(f"'{name}' names no unit; by its size it was taken for {unit}")
                factor = _TO_BYTES[unit]
            self.take(name, signal, Track(track.rows, track.x, track.values * factor, track.times))

    def _throughput(self) -> None:
        names = self.of_role("throughput")
        if names and len(self.tracks[names[0]]) > 1:
            self.take(names[0], "throughput")

    def _epochs(self) -> None:
        names = self.of_role("epoch", "epoch1000")
        if names and "epoch" not in self.out:
            self.take(names[0], "epoch")
        elif self.log.unit == "epoch" and self.out and "epoch" not in self.out:
            steps = np.unique(np.concatenate([s.steps for s in self.out.values()]))
            if self.log.axis:
                self.out["epoch"] = Series(steps, steps.astype(np.float64) / (1000.0 if self.fractional() else 1.0))
        for name in self.of_role("step", "log_step", "samples", "tokens", "epoch", "epoch1000", "clock", "ignored"):
            self.taken[name] = ""

    # -- reinforcement learning, adversaries

    def _special(self) -> None:
        rewards = [n for n, m in self.meanings.items() if m.role == "metric" and n not in self.taken and is_reward(n)]
        if rewards and any(len(self.tracks[n]) > 1 for n in rewards):
            self.facts["rl"] = True
            self.notes.append(
                f"'{rewards[0]}' is logged: taken for reinforcement learning, where the loss does not show progress"
            )
            paid = max(rewards, key=lambda n: (not {"std", "min", "max"} & set(words(n)), len(self.tracks[n])))
            self.out.setdefault("rl/return", self.series(self.tracks[paid]))
            for name in self.of_role("metric"):
                tail = name.lower().rsplit("/", 1)[-1]
                if tail in ("kl", "approx_kl", "objective_kl") and "rl/kl" not in self.out:
                    self.take(name, "rl/kl")
                elif tail in ("entropy", "policy_entropy") and "rl/entropy" not in self.out:
                    self.take(name, "rl/entropy")
                elif tail in ("explained_variance", "explained_var") and "rl/explained_variance" not in self.out:
                    self.take(name, "rl/explained_variance")
            for name in [n for n in self.of_role("part") if self.meanings[n].rest == "entropy"]:
                track = self.tracks[name]
                if "rl/entropy" not in self.out and bool(np.all(track.values <= 0)):  # the bonus is minus the entropy
                    self.take(name, "rl/entropy", Track(track.rows, track.x, -track.values, track.times))
        for column, signal in (("D(x)", "gan/d_real"), ("D(G(z))", "gan/d_fake")):
            if column in self.meanings and column not in self.taken and signal not in self.out:
                self.take(column, signal)

    # -- metrics

    def split_by_company(self, track: Track) -> str:
        """The split of a column that does not name one: that of the losses it was written together with."""
        with_val = np.isin(track.rows, self.val_rows).mean() if len(self.val_rows) and len(track) else 0.0
        with_train = np.isin(track.rows, self.train_rows).mean() if len(self.train_rows) and len(track) else 0.0
        if with_val >= 0.8 and with_train < 0.5:
            return "val"
        return "train" if with_train >= 0.8 and with_val < 0.5 else ""

    def _metrics(self) -> None:
        directions: dict[str, str] = {}
        stand_in = "test" if self.facts.get("_test_is_val") else ""
        names = [n for n, m in self.meanings.items() if n not in self.taken and m.role in _AS_METRIC]
        if len(names) > MOST_METRICS:
            self.notes.append(f"{len(names) - MOST_METRICS} columns of {len(names)} without a known meaning were not used")
        for name in names[:MOST_METRICS]:
            m, track = self.meanings[name], self.tracks[name]
            split = m.split or self._split_by_twin(m) or self.split_by_company(track) or self._split_by_kind(name, m)
            if split and split == stand_in:
                split = "val"
            signal = self.take(name, f"metric/{split or 'other'}/{self._short(bare_name(name, m.split))}")
            if m.role == "accuracy" and split in ("train", "val"):
                self._accuracy(name, f"accuracy/{split}")
            if told := direction(name):
                directions[signal] = told
        if directions:
            self.facts["metrics.direction"] = directions

    def _split_by_kind(self, name: str, m: Meaning) -> str:
        if m.role == "accuracy" and "loss/train" in self.out:
            return "train"
        return "val" if name.lower().startswith("metrics/") and "loss/val" in self.out else ""  # YOLO's mAP

    def _split_by_twin(self, m: Meaning) -> str:
        """Train, when the same name also exists with the validation's mark: accuracy next to val_accuracy."""
        if self._twins is None:
            self._twins = {bare_name(n, o.split).lower() for n, o in self.meanings.items() if o.split == "val"}
        return "train" if m.rest and m.rest.lower() in self._twins else ""

    def _short(self, name: str) -> str:
        return name.strip("/ ")[:MAX_NAME] or "unnamed"

    def _metric_name(self, name: str, m: Meaning) -> str:
        return self.take(name, f"metric/{m.split or 'other'}/{self._short(m.rest or name)}")

    def _accuracy(self, name: str, signal: str) -> None:
        """An accuracy is also that signal, as a share; percentages are recognised by their size."""
        track = self.tracks[name]
        finite = track.values[np.isfinite(track.values)]
        if signal in self.out or len(finite) == 0 or np.min(finite) < 0 or np.max(finite) > 100:
            return
        factor = 0.01 if max(np.max(finite), self._largest_share(self.meanings[name].split)) > 1.5 else 1.0
        if factor != 1.0:
            self.notes.append(f"'{name}' was taken for a percentage")
        share = track.values * factor
        if is_wrong_share(words(bare_name(name, self.meanings[name].split))):
            share = 1.0 - share
        self.out[signal] = self.series(Track(track.rows, track.x, share, track.times))

    def _largest_share(self, split: str) -> float:
        """Of the accuracies of one split, however named: a top-1 below one percent stands next to a top-5 above it."""
        alike = [n for n, m in self.meanings.items() if m.role == "accuracy" or m.rest.lower().startswith("top")]
        tops = [self.tracks[n].values for n in alike if self.meanings[n].split == split]
        return max((float(np.nanmax(v)) for v in tops if np.isfinite(v).any()), default=0.0)

    # -- matrices

    def _matrices(self) -> None:
        by_param = {self.meanings[n].rest: self.tracks[n] for n in self.of_role("grad_param")}
        if by_param:
            matrix = self.joined(by_param)
            if matrix is not None:
                self.out["grad_norm/param"] = matrix
            for name in self.of_role("grad_param"):
                self.taken[name] = "grad_norm/param"
        for signal, tracks in self.log.matrices.items():
            joined = self.joined(tracks)
            if joined is not None and signal not in self.out:
                self.out[signal] = joined

    # -- what was seen

    def _nonfinite(self, losses: Losses) -> None:
        """An event for the first value that is not finite in anything that is a loss, wherever it was put."""
        seen: dict[str, tuple[int, float, int]] = {}
        for name in losses.columns:
            track = self.tracks[name]
            bad = np.flatnonzero(~np.isfinite(track.values))
            if len(bad):
                seen[name] = int(track.x[bad[0]]), float(track.values[bad[0]]), len(bad)
        if seen:
            first = min(seen, key=lambda n: seen[n][0])
            step, value, _ = seen[first]
            self.events.append(
                Event(
                    step,
                    "nonfinite",
                    {"what": "loss", "names": sorted(seen), "value": str(value), "count": sum(s[2] for s in seen.values())},
                )
            )
        self.facts["watched"] = ["nonfinite"] if losses.columns else []
        if not losses.columns:
            del self.facts["watched"]

    def _tell(self) -> None:
        self.facts.pop("_test_is_val", None)
        used = {name: signal for name, signal in self.taken.items() if signal}
        if self.log.axis:
            used = {self.log.axis: self.log.unit, **used}
        self.facts["columns"] = used
        rest = [n for n in self.tracks if not self.taken.get(n)] + self.log.unused
        if rest:
            self.facts["unmapped"] = sorted(dict.fromkeys(rest))[:500]
        train = self.out.get("loss/train")
        if isinstance(train, Series) and len(train) > 1:
            x = train.steps.astype(np.float64)
            usual, changes = curves.intervals(x)
            self.facts["log_interval"] = usual
            for at, new in changes:
                self.notes.append(f"the logging interval of the training loss changed near step {at:.0f} to {new:g} steps")
            self._rounding(train.values)
        curves_ = [
            (n, s)
            for n, s in used.items()
            if n in self.tracks and s.startswith(("loss/", "metric/", "grad_norm")) and s in self.out
        ]
        repeated = sum(len(self.tracks[n]) - len(self.out[s]) for n, s in curves_ if isinstance(self.out[s], Series))
        if repeated > 0:
            self.notes.append(f"{repeated} repeated records of a step were left out; of several the last written counts")

    def _rounding(self, values: Floats) -> None:
        places = curves.decimals(values) if len(values) >= 20 else None
        if places is None or np.ptp(values[np.isfinite(values)]) == 0:
            return
        unit = 10.0**-places
        self.facts["log_rounding"] = {"loss/train": unit}
        noise = stats.noise_sigma(values[np.isfinite(values)]) if np.isfinite(values).sum() > 5 else 0.0
        if noise < 2 * unit:
            self.notes.append(f"the training loss is rounded to {unit:g}, about as coarse as its own noise")


@lru_cache(maxsize=4096)
def _vocabulary(name: str) -> tuple[str, str]:
    """The signal that a column is named after, and for tables the part of it ("grad_norm/param/fc.weight")."""
    if "/" not in name or name.startswith("trial/"):
        return (name, "") if name in ("lr", "grad_norm", "weight_norm", "update_ratio") else ("", "")
    spec = signals.spec(name)
    if spec is not None and spec.per == "step":
        return name, ""
    for table, row in signals.SIGNALS.items():
        if row.per != "step" and name.startswith(f"{table}/"):
            return table, name[len(table) + 1 :]
    return "", ""
