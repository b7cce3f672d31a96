"""Which columns are the training and the validation loss."""

from __future__ import annotations

import numpy as np

from traindx.importers import aliases, curves, forms
from traindx.importers.forms import TRAIN, VAL
from traindx.importers.table import Track
from traindx.importers.taken import Taken
from traindx.run import Matrix

ERRORS = ("mse", "ce", "bce", "bpc", "bpd", "rmse", "mae")  # that are minimised, the likelier objective first
LEAST_TEST = 2  # records of a test loss that make it a curve along training


class Losses:
    """Finds the losses among the columns of one run."""

    def __init__(self, owner: Taken) -> None:
        self.own = owner
        self.columns: list[str] = [n for n, m in owner.meanings.items() if m.role in ("loss", "part", "perplexity")]
        self.columns += [n for n, s in owner.taken.items() if s in (TRAIN, VAL)]

    def work(self) -> None:
        """Settle loss/train and loss/val, and tell the columns who was written together with whom."""
        own = self.own
        self._settle("train", TRAIN)
        self._settle("val", VAL)
        if VAL not in own.out:
            self._bare_as_val()
        if VAL not in own.out:
            self._test_as_val()
        self._perplexities()
        if VAL not in own.out:
            self._errors()
        if TRAIN not in own.out or VAL not in own.out:
            self._bare_splits()
        self._company()
        self._drop_eval_rows()
        self._align()
        self._leftovers()
        forms.tell(own)

    # -- the choice

    def _split(self, name: str) -> str:
        return self.own.meanings[name].split or "train"

    def _settle(self, split: str, signal: str) -> None:
        own = self.own
        if signal in own.out:
            return
        totals = [n for n in own.of_role("loss") if self._split(n) == split and not self._empty(n, split)]
        parts = [n for n in own.of_role("part") if self._split(n) == split]
        if parts and totals and all(own.meanings[n].rest == "method" for n in totals):
            parts, totals = parts + totals, []  # ce_loss next to kl_loss is a part
        if totals:
            best = self._best(totals)
            own.take(best, signal)
            others = [n for n in totals if n != best and len(own.tracks[n]) > 1]
            if others:
                own.notes.append(f"'{best}' was taken for the {split} loss, not {_listed(others)}")
            return
        if parts:
            self._from_parts(parts, split, signal)

    def _empty(self, name: str, split: str) -> bool:
        """A validation loss that is exactly 0 in every record next to a training loss that is not: it was never computed."""
        own, train = self.own, self.own.out.get(TRAIN)
        values = own.tracks[name].values
        if split != "val" or train is None or isinstance(train, Matrix) or len(values) < 3:
            return False
        if np.any(values != 0) or not float(np.nanmin(train.values)) > 0:
            return False
        own.taken[name] = ""
        own.notes.append(f"'{name}' is 0 in every record: it was not computed, and is not used")
        return True

    def _best(self, names: list[str]) -> str:
        """The finest record of the loss itself: not a weaker name, not smoothed, most records."""
        own = self.own
        most = max(len(own.tracks[n]) for n in names)

        def key(name: str) -> tuple[bool, bool, bool, bool, int, bool, str]:
            m = own.meanings[name]
            few = len(own.tracks[name]) < 0.5 * most
            return (
                few,
                name == self._bare(),
                m.rest == "weak",
                m.form == "smooth",
                -len(own.tracks[name]),
                m.rest != "total",
                name,
            )

        return min(names, key=key)

    def _from_parts(self, parts: list[str], split: str, signal: str) -> None:
        own = self.own
        rests = [own.meanings[n].rest for n in parts]
        bare = ["_".join(aliases.words(n)) for n in own.of_role("metric") if not own.meanings[n].split]
        if aliases.adversarial([*rests, *bare]):
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
        if whole := self._whole(parts):
            own.take(whole, signal)
            own.notes.append(f"'{whole}' holds another {split} loss and more, and was taken for the total of {_listed(parts)}")
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

    def _whole(self, parts: list[str]) -> str:
        """The part that holds another one: never below it, and moving by as much; empty when none or several do."""
        own = self.own
        series = {n: own.series(own.tracks[n]) for n in parts}
        holds = set()
        for name, one in series.items():
            for other, two in series.items():
                both, i, j = np.intersect1d(one.steps, two.steps, return_indices=True)
                a, b = one.values[i], two.values[j]
                fine = np.isfinite(a) & np.isfinite(b)
                if name == other or fine.sum() < 10 or len(both) < 0.8 * len(one):
                    continue
                a, b = a[fine], b[fine]
                moves, moved = np.diff(a), np.diff(b)
                shared, own_size = float(np.dot(moves, moved)), float(np.dot(moved, moved))
                alike = shared > 0.95 * float(np.linalg.norm(moves)) * own_size**0.5
                if alike and np.all(a >= b) and np.ptp(a - b) > 1e-6 * np.ptp(a) and 0.9 * own_size < shared < 1.15 * own_size:
                    holds.add(name)
        return holds.pop() if len(holds) == 1 else ""

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
        joined = self.own.joined({self._term(n): self.own.tracks[n] for n in names})
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

    def _bare(self) -> str:
        """A loss without a split among scores without one, next to an explicit training loss: that of the evaluation."""
        own = self.own
        losses = [n for n, m in own.meanings.items() if m.role == "loss"]
        named = [n for n in losses if own.meanings[n].split == "train"]
        bare = [n for n in losses if not own.meanings[n].split and not own.meanings[n].rest]
        unsplit = [n for n, m in own.meanings.items() if m.role in ("accuracy", "metric") and not m.split]
        scores = [n for n in unsplit if aliases.direction(n)]
        if len(bare) != 1 or not named or len(losses) != len(named) + 1 or not scores:
            return ""
        same = [np.array_equal(own.tracks[n].rows, own.tracks[bare[0]].rows) for n in (named[0], scores[0])]
        return bare[0] if all(same) else ""

    def _bare_as_val(self) -> None:
        own = self.own
        if (name := self._bare()) and name not in own.taken:
            own.take(name, VAL)
            own.notes.append(
                f"'{name}' is logged next to a training loss and scores of an evaluation: it is the validation loss"
            )

    def _test_as_val(self) -> None:
        own = self.own
        tests = [n for n in own.meanings if own.meanings[n].split == "test" and n not in own.taken]
        curve = [n for n in tests if len(own.tracks[n]) >= LEAST_TEST]
        has_val = any(m.split == "val" for m in own.meanings.values())
        if not curve or has_val:
            return
        own.facts["_test_is_val"] = True
        own.notes.append(
            f"{_listed(curve)} are logged during training and there is no validation: the test set is used as validation"
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
        """An error for the loss, where none was logged: train_mse and val_mse are all a regression prints."""
        own = self.own
        for error in ERRORS:
            named = {n: own.meanings[n].split for n in own.of_role("metric") if own.meanings[n].rest.lower() == error}
            val = next((n for held in ("val", "test") for n, split in named.items() if split == held), "")
            train = next((n for n, split in named.items() if split == "train" or (not split and val)), "")
            if TRAIN in own.out:
                if val and not train and self._same_scale(val):
                    own.take(val, VAL)
                    own.notes.append(f"'{val}' is taken for the validation loss: it is logged with the training loss")
                    return
                continue
            if not train:
                continue
            own.take(train, TRAIN)
            own.notes.append(f"'{train}' is taken for the training loss; the log has no loss of its own")
            if val:
                own.take(val, VAL)
                own.notes.append(f"'{val}' is taken for the validation loss; the log has no loss of its own")
            return

    def _same_scale(self, name: str) -> bool:
        """Whether an error of validation is what the training loss measures: both of one size, wherever they meet."""
        train, track = self.own.out[TRAIN], self.own.tracks[name]
        if isinstance(train, Matrix) or len(track) < LEAST_TEST:
            return False
        ratio = self.own.series(track).at(train.steps) / train.values
        ratio = ratio[np.isfinite(ratio)]
        return len(ratio) >= LEAST_TEST and 1 / 3 < float(np.median(ratio)) < 3

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


def _listed(names: list[str], most: int = 4) -> str:
    shown = ", ".join(f"'{n}'" for n in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
