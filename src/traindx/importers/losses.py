"""Which columns are the training and the validation loss, and in which form they were logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traindx import stats
from traindx.importers import aliases, curves
from traindx.importers.table import Track
from traindx.run import Event, Floats, Ints, Matrix

if TYPE_CHECKING:
    from traindx.importers.columns import Columns

TRAIN, VAL = "loss/train", "loss/val"
ERRORS = ("mse", "ce", "bce", "bpc", "bpd", "rmse", "mae")  # that are minimised, the likelier objective first
LEAST_TEST = 2  # records of a test loss that make it a curve along training


class Losses:
    """Finds the losses among the columns of one run."""

    def __init__(self, owner: Columns) -> None:
        self.own = owner
        self.columns: list[str] = [n for n, m in owner.meanings.items() if m.role in ("loss", "part", "perplexity")]
        self.columns += [n for n, s in owner.taken.items() if s in (TRAIN, VAL)]
        self.forms: dict[str, str] = {}

    def work(self) -> None:
        """Settle loss/train and loss/val, and tell the columns who was written together with whom."""
        own = self.own
        self._settle("train", TRAIN)
        self._settle("val", VAL)
        if VAL not in own.out:
            self._test_as_val()
        self._perplexities()
        if TRAIN not in own.out and VAL not in own.out:
            self._errors()
        if TRAIN not in own.out or VAL not in own.out:
            self._bare_splits()
        self._company()
        self._drop_eval_rows()
        self._align()
        self._leftovers()
        self._form()

    # -- the choice

    def _split(self, name: str) -> str:
        return self.own.meanings[name].split or "train"

    def _settle(self, split: str, signal: str) -> None:
        own = self.own
        if signal in own.out:
            return
        totals = [n for n in own.of_role("loss") if self._split(n) == split]
        parts = [n for n in own.of_role("part") if self._split(n) == split]
        if parts and totals and all(own.meanings[n].rest == "method" for n in totals):
            parts, totals = parts + totals, []  # ce_loss beside kl_loss is a part
        if totals:
            best = self._best(totals)
            own.take(best, signal)
            others = [n for n in totals if n != best and len(own.tracks[n]) > 1]
            if others:
                own.notes.append(f"'{best}' was taken for the {split} loss, not {_listed(others)}")
            return
        if parts:
            self._from_parts(parts, split, signal)

    def _best(self, names: list[str]) -> str:
        """The finest record of the loss itself: not a weaker name, not smoothed, most records."""
        own = self.own
        most = max(len(own.tracks[n]) for n in names)

        def key(name: str) -> tuple[bool, bool, bool, int, bool, str]:
            m = own.meanings[name]
            few = len(own.tracks[name]) < 0.5 * most
            return few, m.rest == "weak", m.form == "smooth", -len(own.tracks[name]), m.rest != "total", name

        return min(names, key=key)

    def _from_parts(self, parts: list[str], split: str, signal: str) -> None:
        own = self.own
        rests = [own.meanings[n].rest for n in parts]
        if aliases.adversarial(rests):
            own.facts["adversarial"] = True
            own.notes.append(f"{_listed(parts)} belong to two players: taken for adversarial training, which has no one loss")
            for found, player in zip(aliases.players(rests), ("gan/d_loss", "gan/g_loss"), strict=True):
                if len(found) == 1 and split == "train":
                    own.out[player] = own.series(own.tracks[parts[found[0]]])
            return
        if len(parts) == 1:
            own.take(parts[0], signal)
            own.notes.append(f"'{parts[0]}' is the only {split} loss and was taken for it")
            return
        summed = self._sum(parts)
        if summed is None:
            best = max(parts, key=lambda n: len(own.tracks[n]))
            own.take(best, signal)
            own.notes.append(
                f"of several {split} losses without a total, '{best}' was taken ({_listed(parts)}); --map corrects it"
            )
            return
        own.out[signal] = own.series(summed)
        own.notes.append(f"the {split} loss is the sum of {_listed(parts)}; the log has no total")
        for name in parts:
            own.taken[name] = signal if split == "val" else "loss/terms"
        if split == "train":
            self._terms(parts)

    def _sum(self, names: list[str]) -> Track | None:
        """The sum of columns where all of them have a record; None when they rarely meet."""
        own = self.own
        series = [own.series(own.tracks[n]) for n in names]
        common = series[0].steps
        for other in series[1:]:
            common = np.intersect1d(common, other.steps)
        if len(common) < 0.8 * max(len(s) for s in series):
            return None
        index = [np.searchsorted(s.steps, common) for s in series]
        total = np.sum([s.values[i] for s, i in zip(series, index)], axis=0)
        times = None if series[0].times is None else series[0].times[index[0]]
        return Track(np.arange(len(common)), common.astype(np.float64), total, times)

    def _terms(self, names: list[str]) -> None:
        joined = self.own._joined({self._term(n): self.own.tracks[n] for n in names})
        if joined is not None:
            self.own.out["loss/terms"] = joined

    def _term(self, name: str) -> str:
        m = self.own.meanings[name]
        return m.rest if m.role == "part" else aliases.bare_name(name, m.split)

    def _leftovers(self) -> None:
        """Parts of a total that was logged too; other losses become metrics later."""
        own = self.own
        if TRAIN not in own.out or "loss/terms" in own.out:
            return
        parts = [n for n in own.of_role("part") if self._split(n) == "train" and len(own.tracks[n]) > 1]
        if len(parts) < 2 or len(parts) > 50:
            return
        if aliases.adversarial([own.meanings[n].rest for n in parts]):
            own.facts["adversarial"] = True
            return
        summed = self._sum(parts)
        if summed is None:
            return
        total = own.out[TRAIN].at(summed.x)  # type: ignore[union-attr]
        fine = np.isfinite(total) & np.isfinite(summed.values)
        if fine.sum() > 2 and np.mean(np.abs(total[fine] - summed.values[fine]) < 0.05 * np.abs(total[fine]) + 1e-6) > 0.8:
            self._terms(parts)
            for name in parts:
                own.taken[name] = "loss/terms"

    def _test_as_val(self) -> None:
        own = self.own
        tests = [n for n in own.meanings if own.meanings[n].split == "test" and n not in own.taken]
        curve = [n for n in tests if len(own.tracks[n]) >= LEAST_TEST]
        has_val = any(m.split == "val" for m in own.meanings.values())
        if not curve or has_val:
            return
        own.facts["_test_is_val"] = True
        own.notes.append(
            f"{_listed(curve)} were logged along training and there is no validation: the test set is taken for it"
        )
        losses = [n for n in curve if own.meanings[n].role == "loss"]
        if losses:
            own.take(self._best(losses), VAL)
            return
        parts = [n for n in curve if own.meanings[n].role == "part"]
        if parts:
            self._from_parts(parts, "val", VAL)

    def _perplexities(self) -> None:
        """The loss as the logarithm of a perplexity, where no loss was logged."""
        own = self.own
        for split, signal in (("train", TRAIN), ("val", VAL)):
            names = [n for n in own.of_role("perplexity") if self._split(n) == split]
            if signal in own.out or not names:
                continue
            track = own.tracks[names[0]]
            with np.errstate(all="ignore"):
                own.take(names[0], signal, Track(track.rows, track.x, np.log(track.values), track.times))
            own.notes.append(f"the {split} loss is the logarithm of '{names[0]}'; the log has no loss of its own")

    def _errors(self) -> None:
        """An error of training for the loss, where none was logged: train_mse and val_mse are all a regression prints."""
        own = self.own
        for error in ERRORS:
            named = {n: own.meanings[n].split for n in own.of_role("metric") if own.meanings[n].rest.lower() == error}
            val = next((n for held in ("val", "test") for n, split in named.items() if split == held), "")
            train = next((n for n, split in named.items() if split == "train" or (not split and val)), "")
            if not train:
                continue
            own.take(train, TRAIN)
            own.notes.append(f"'{train}' is taken for the training loss; the log has no loss of its own")
            if val:
                own.take(val, VAL)
                own.notes.append(f"'{val}' is taken for the validation loss; the log has no loss of its own")
            return

    def _bare_splits(self) -> None:
        """Columns that are called train and val and nothing else, where the first of them falls: an accuracy would rise."""
        own = self.own
        bare = {own.meanings[n].split: n for n in own.of_role("metric") if aliases.is_bare_split(n)}
        told = next((bare[split] for split in ("train", "val", "test") if split in bare), None)
        values = own.tracks[told].values if told else np.empty(0)
        values = values[np.isfinite(values)]
        third = len(values) // 3
        if not third or not np.median(values[-third:]) < np.median(values[:third]):
            return
        for split, signal in (("train", TRAIN), ("val", VAL), ("test", VAL)):
            if split in bare and signal not in own.out:
                own.take(bare[split], signal)
                own.notes.append(f"'{bare[split]}' falls and is taken for a loss; no other column is called the {split} loss")

    # -- rows and axes

    def _company(self) -> None:
        own = self.own
        for signal, attribute in ((TRAIN, "train_rows"), (VAL, "val_rows")):
            rows = [
                own.tracks[n].rows
                for n, s in own.taken.items()
                if n in own.tracks and (s == signal or (signal == TRAIN and s == "loss/terms"))
            ]
            if rows:
                setattr(own, attribute, np.unique(np.concatenate(rows)))

    def _drop_eval_rows(self) -> None:
        """Leave the training loss of evaluation records out where the same step also has a record of its own."""
        own = self.own
        name = next((n for n, s in own.taken.items() if s == TRAIN and n in own.tracks), None)
        if name is None or not own.log.shared or not len(own.val_rows):
            return
        track = own.tracks[name]
        beside = np.isin(track.rows, own.val_rows)
        own_steps = np.unique(track.x[~beside])
        twice = beside & np.isin(track.x, own_steps)
        if not twice.any() or twice.sum() < 0.5 * beside.sum():
            return
        kept = track.where(~twice)
        own.tracks[name] = kept
        own.out[TRAIN] = own.series(kept)
        own.notes.append(
            f"{int(twice.sum())} values of '{name}' are on evaluation records that repeat a step; they were left out "
            f"of the curve"
        )

    def _align(self) -> None:
        """Put a validation curve that counts epochs onto the steps of the training curve."""
        own = self.own
        if own.log.shared or TRAIN not in own.out or VAL not in own.out:
            return
        train, val = own.out[TRAIN], own.out[VAL]
        if isinstance(train, Matrix) or isinstance(val, Matrix) or len(train) < 20 or len(val) < 2:
            return
        counts_epochs = val.steps[0] in (0, 1) and bool(np.all(np.diff(val.steps) == 1))
        if not counts_epochs or val.steps[-1] > 0.2 * train.steps[-1] or len(train) < 3 * len(val):
            return
        for name in [n for n, m in own.meanings.items() if m.split in ("val", "test")]:
            track = own.tracks[name]
            if not len(track) or track.x[-1] > val.steps[-1]:
                continue
            own.tracks[name] = moved = self._moved(track, train)
            if own.taken.get(name) == VAL:
                own.out[VAL] = own.series(moved)
        by = "clock times" if train.times is not None else "even spacing"
        own.notes.append(f"validation counts epochs and training counts steps; validation was placed among the steps by {by}")

    def _moved(self, track: Track, train: object) -> Track:
        steps, times = train.steps, train.times  # type: ignore[attr-defined]
        if track.times is not None and times is not None:
            x = curves.place_by_time(track.x, track.times, steps.astype(np.float64), times)
        else:
            first = 1.0 if track.x[0] == 0 else 0.0
            x = np.round((track.x + first) / (track.x[-1] + first) * steps[-1])
        return Track(track.rows, x, track.values, track.times)

    # -- logging form

    def _form(self) -> None:
        own = self.own
        for signal in (TRAIN, VAL):
            column = next((n for n, s in own.taken.items() if s == signal), "")
            known = own.log.forms.get(column) or own.log.forms.get(signal)
            if signal not in own.out:
                continue
            if known:
                self.forms[signal] = known
            elif signal == VAL:
                continue
            elif column in own.meanings and own.meanings[column].form == "smooth":
                self.forms[signal] = "ema"
            elif own.log.unit == "epoch" and not own._fractional():
                self.forms[signal] = "window-mean"
            else:
                self._learned(signal)
        if self.forms:
            own.facts["log_form"] = self.forms

    def _learned(self, signal: str) -> None:
        """The form that the numbers show; a running mean is undone where that is exact (CATALOGUE 2.10)."""
        own = self.own
        series = own.out[signal]
        assert not isinstance(series, Matrix)
        finite = series.values[np.isfinite(series.values)]
        if len(finite) < 100 or len(finite) < len(series):
            return
        starts = self._epoch_starts(series.steps)
        per = int(np.median(np.diff(starts))) if len(starts) >= 3 else None
        raw = _jumps(finite)
        if raw and not per:
            return
        # of a curve that jumps only the first epochs matter: is it a mean that restarts with each of them?
        look = max(2 * per, 99) if raw and per else 4 * per if per and per > 500 else 20000
        form = stats.log_form(finite[:look], per)
        if form == "raw":
            return
        if form == "ema":
            if _averaged(finite):
                self.forms[signal] = form
            return
        undone = self._undo(series.steps.astype(np.float64), series.values, starts)
        if undone is None:
            self.forms[signal] = "ema"
            own.notes.append("the training loss is a running mean over each epoch; it is rounded too coarsely to be undone")
            return
        own.out[signal] = type(series)(series.steps, undone, series.times)
        self.forms[signal] = "window-mean" if curves.typical_gap(series.steps.astype(np.float64)) > 1 else "raw"
        own.notes.append("the training loss was logged as a running mean over each epoch; the mean was undone")

    def _epoch_starts(self, steps: Ints) -> Ints:
        """Indexes of the records that begin an epoch, by the epoch column."""
        own = self.own
        name = next(iter(own.of_role("epoch")), None)
        if name is None:
            return np.empty(0, np.int64)
        epoch = np.floor(own.series(own.tracks[name]).at(steps))
        return np.concatenate([[0], np.flatnonzero(np.diff(epoch) > 0) + 1]).astype(np.int64)

    def _undo(self, steps: Floats, values: Floats, starts: Ints) -> Floats | None:
        out = np.empty(len(values))
        before = steps[0] - curves.typical_gap(steps)
        for a, b in zip(starts, [*starts[1:], len(values)]):
            n = steps[a:b] - before
            total = n * values[a:b]
            out[a:b] = np.diff(np.concatenate([[0.0], total])) / np.diff(np.concatenate([[0.0], n]))
            before = steps[b - 1]
        places = curves.decimals(values)
        longest = float(np.max(np.diff(np.append(steps[starts], steps[-1]))))
        error = 0.0 if places is None else 10.0**-places * longest / max(1.0, curves.typical_gap(steps))
        return out if error < 0.3 * stats.noise_sigma(out) else None

    # -- masked NaN

    def unmask(self) -> None:
        """Undo Hugging Face's NaN filter: a loss of exactly 0.0 beside a gradient norm that is not finite was NaN."""
        own = self.own
        if TRAIN not in own.out or "grad_norm" not in own.out:
            return
        train, norm = own.out[TRAIN], own.out["grad_norm"]
        if isinstance(train, Matrix) or isinstance(norm, Matrix):
            return
        broken = norm.steps[~np.isfinite(norm.values)]
        masked = (train.values == 0.0) & np.isin(train.steps, broken)
        if not masked.any():
            return
        own.out[TRAIN] = type(train)(train.steps, np.where(masked, np.nan, train.values), train.times)
        first = int(train.steps[np.argmax(masked)])
        own.events.append(Event(first, "nan_hidden", {"how": "logging", "count": int(masked.sum())}))
        own.events.append(
            Event(first, "nonfinite", {"what": "loss", "names": [TRAIN], "value": "nan", "count": int(masked.sum())})
        )
        own.notes.append(
            f"{int(masked.sum())} training losses are exactly 0.0 while the gradient norm is not finite: the logger "
            f"hid NaN there, so they count as NaN"
        )


def _jumps(values: Floats) -> bool:
    """Whether steps of a curve undo each other, as those of raw noise do: lag-1 correlation -1/2, near 0 for an average."""
    step = np.diff(values[len(values) // 4 :])
    power = float(np.dot(step, step))
    return power > 0 and float(np.dot(step[1:], step[:-1])) < -0.25 * power


def _averaged(values: Floats, parts: int = 3) -> bool:
    """Whether a curve is smooth everywhere: neighbours agree in each part of what follows the first descent.

    One steep stretch makes the neighbours of a raw curve agree as well, so a single figure for the whole does not tell.
    """
    settled = values[len(values) // 4 :]
    pieces = [p for p in np.array_split(settled, parts) if len(p) >= 60]
    return bool(pieces) and all(stats.log_form(np.resize(p, max(100, len(p))) if len(p) < 100 else p) == "ema" for p in pieces)


def _listed(names: list[str], most: int = 4) -> str:
    shown = ", ".join(f"'{n}'" for n in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
