"""The shape of a rule: a generator from a run to evidence, in a file whose docstring is its manual page.

    @rule("GRAD002", needs={"grad_norm": 200}, says="the gradient norm grew {growth:.0f}×")
    def exploding_gradients(run: Run, *, limit: float = 10.0) -> Iterator[Evidence]: ...

`needs` maps what the rule reads to the fewest records that make a verdict fair. A key is a signal name, `fact:KEY` or
`event:KIND` (was it being watched?); `a | b` means either. Keyword-only arguments are the user's settings.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import inspect
import math
import pkgutil
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from traindx import outline, said, signals, subjects
from traindx.errors import UsageError
from traindx.finding import Blind, Confidence, Evidence, Finding, Muted, Outcome, Severity, Status, Unsure
from traindx.plain import say
from traindx.run import Run

Look = Callable[..., Iterator[Evidence]]
LINE = re.compile(r"\.py:\d+$|^cell \d+, line \d+$")
_NEAREST = {  # where a line is unknown
    "loss": "backward", "sum": "backward", "weight": "backward", "dataset": "loader", "loader": "forward",
    "val_loader": "evaluate", "zero_grad": "step",
}  # fmt: skip

FAMILIES: dict[str, str] = {
    "WIRE": "model wiring and loop",
    "DATA": "data",
    "TUNE": "fine-tuning",
    "NUMR": "numerics",
    "OPTM": "updates, learning rate, optimizer",
    "DIST": "distributed",
    "REPR": "reproducibility",
    "WGHT": "weights",
    "ACTV": "activations",
    "GRAD": "gradient flow",
    "SPEC": "special regimes",
    "LOSS": "loss curve",
    "EVAL": "evaluation",
    "PERF": "performance",
}
"""Families in the order root before consequence (CATALOGUE 1.6)."""


@cache
def _limits_of(look: Look) -> dict[str, Any]:
    parameters = inspect.signature(look).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


@dataclass(frozen=True)
class Rule:
    """A condition with a stable code."""

    code: str
    name: str
    look: Look
    needs: Mapping[str, int]
    says: Mapping[str, str]  # variant → sentence; "" is the usual one
    fix: Mapping[str, str]
    severity: Severity
    confidence: Confidence
    explains: tuple[str, ...]  # codes this finding, when it is there, accounts for
    unless: tuple[str, ...]  # regime facts that mute it
    stable: bool
    page: str  # the module's docstring
    subject: str = ""  # what it is about, where that need not be there (subjects.py); empty: training itself
    at: Mapping[str, str] = field(
        default_factory=dict
    )  # variant → the lines it is fixed at: "loss", keys of `code.sites`, `code.origins`
    origin: str = ""  # the package of a house rule; empty for ours

    @property
    def family(self) -> str:
        return self.code[:4]

    @property
    def summary(self) -> str:
        return self.page.strip().splitlines()[0] if self.page.strip() else ""

    @property
    def headline(self) -> str:
        """The condition in a few words: what its page says before the first colon."""
        return self.summary.partition(":")[0].rstrip(".")

    @property
    def settings(self) -> dict[str, Any]:
        """The limits a user may set, with their defaults."""
        return dict(_limits_of(self.look))

    def findings(self, run: Run, **limits: Any) -> Iterator[Finding]:
        """What the rule says about this run."""
        self._check_limits(limits)
        for evidence in self.look(run, **limits):
            yield self._in_words(run, evidence, self._line(run, evidence))

    def outcome(self, run: Run, **limits: Any) -> Outcome:
        """How the rule fares on this run; exactly one outcome, whatever happens."""
        self._check_limits(limits)
        muted = next((flag for flag in self.unless if run.fact(flag)), None)
        if muted:
            return Outcome(self.code, Status.MUTED, reason=f"does not apply: {muted}")
        found: list[Finding] = list(self._told(run))
        lacking = [need for need, least in self.needs.items() if not _has(run, need, least)]
        if lacking and not found:
            return Outcome(self.code, *_lack(run, lacking[0], self.needs[lacking[0]]))
        other = Outcome(self.code, Status.CLEAR)
        try:
            for finding in self.findings(run, **limits) if not lacking else ():
                found.append(finding)
        except Unsure as doubt:
            other = Outcome(
                self.code, Status.UNSURE, (), str(doubt), (), resolution=doubt.resolution, needs_steps=doubt.needs_steps
            )
        except Blind as lack:
            other = Outcome(self.code, Status.BLIND, (), str(lack), tuple(lack.lacks))
        except Muted as why:
            return Outcome(self.code, Status.MUTED, (), str(why))
        except Exception:  # a broken rule must not take the others down; the traceback is the outcome
            return Outcome(self.code, Status.BROKEN, reason=traceback.format_exc())
        # a doubt about the rest does not take back what was found
        if found:
            return Outcome(self.code, Status.FOUND, tuple(found))
        if other.status is Status.CLEAR and (absent := subjects.missing(self.subject, run)):
            return Outcome(self.code, Status.BLIND, (), absent, (self.subject,))
        return other

    def _told(self, run: Run) -> Iterator[Finding]:
        """What the program's own messages say about this condition."""
        for event in run.events_of("said"):
            message = said.BY_KEY.get(str(event.data.get("key")))
            if message is None or message.code != self.code:
                continue
            count, line = event.data.get("count", 1), str(event.data.get("line", ""))[:200]
            again = f", {often(count)}" if isinstance(count, int) and count > 1 else ""
            survived = message.fatal and bool(event.data.get("survived"))
            yield Finding(
                self.code,
                self.name,
                Severity.INFO if survived else message.severity,
                Confidence.STRONG,
                f"{message.says}{', and continued' if survived else ''}; the log says{again}: {line}",
                (),
                (event.step, event.step),
                {"line": line, "count": count},
                (),
                message.fix,
                None,
                message.key,
            )

    def _check_limits(self, limits: Mapping[str, Any]) -> None:
        unknown = sorted(set(limits) - set(self.settings))
        if unknown:
            has = ", ".join(sorted(self.settings)) or "none"
            raise UsageError(f"{self.code} has no limit '{unknown[0]}'; it has {has}")
        for name, value in limits.items():
            _check_limit(f"{self.code}: '{name}'", self.settings[name], value)

    def _line(self, run: Run, e: Evidence) -> tuple[str, ...]:
        """The lines of the user's code that the evidence is about; beside one of its own, only what decided it."""
        found = lines(run, self.at.get(e.say, self.at.get("", "")))
        if not any(LINE.search(w) for w in e.where):
            return found
        decided = run.fact("code.origins")
        return tuple(w for w in found if w not in e.where and isinstance(decided, dict) and w in decided.values())

    def _in_words(self, run: Run, e: Evidence, line: tuple[str, ...] = ()) -> Finding:
        severity = e.severity or self.severity
        confidence = e.confidence or self.confidence
        if confidence is Confidence.SUGGESTIVE:
            severity = Severity.INFO
        first, last = e.steps or (None, None)
        layers = not self.code.startswith(("DATA", "EVAL"))  # those name classes and columns, which may be numbers, too
        where = _listed([outline.spoken(run, w) if layers else w for w in e.where])
        words = {"where": where, "first": first, "last": last, **{k: _share(v) for k, v in e.facts.items()}}
        if isinstance(count := e.facts.get("count"), int | float):
            words["often"] = often(int(count))
        return Finding(
            self.code,
            self.name,
            severity,
            confidence,
            self.says[e.say].format(**words),
            e.where + line,
            e.steps,
            dict(e.facts),
            tuple(_signals_of(self.needs)),
            (e.fix or self.fix.get(e.say, self.fix.get("", ""))).format(**words),
            e.rank,
            e.say,
        )


class _Share(float):
    """A number that never says 0% of something that is there.

    >>> f"{_Share(0.0004):.0%}, {_Share(0.0004):.1%}, {_Share(0.0):.0%}"
    'less than 1%, less than 0.1%, 0%'
    """

    def __format__(self, spec: str) -> str:
        said = super().__format__(spec)
        return f"less than {said[:-2]}1%" if self > 0 and spec.endswith("%") and not said.strip("0.%") else said


def _share(value: Any) -> Any:
    return _Share(value) if isinstance(value, float) else value


def rule(
    code: str,
    *,
    needs: Mapping[str, int],
    says: str | Mapping[str, str],
    fix: str | Mapping[str, str] = "",
    severity: Severity = Severity.WARNING,
    confidence: Confidence = Confidence.STRONG,
    explains: tuple[str, ...] = (),
    unless: tuple[str, ...] = (),
    stable: bool = False,
    name: str = "",
    subject: str = "",
    at: str | Mapping[str, str] = "",
) -> Callable[[Look], Rule]:
    """Make a rule of a generator function; its name in kebab-case is the function's unless given."""

    def make(look: Look) -> Rule:
        module = inspect.getmodule(look)
        return Rule(
            code,
            name or look.__name__.replace("_", "-"),
            look,
            dict(needs),
            {"": says} if isinstance(says, str) else dict(says),
            {"": fix} if isinstance(fix, str) else dict(fix),
            severity,
            confidence,
            explains,
            unless,
            stable,
            inspect.cleandoc(module.__doc__ or "") if module else "",
            subject,
            {"": at} if isinstance(at, str) else dict(at),
        )

    return make


def often(count: int) -> str:
    """A number of times in words.

    >>> often(1), often(2), often(1200)
    ('once', 'twice', '1,200 times')
    """
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


@cache
def catalogue() -> dict[str, Rule]:
    """Every rule by code, found by scanning the folder `traindx/rules`; sorted root before consequence."""
    package = importlib.import_module("traindx.rules")
    found: dict[str, Rule] = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"traindx.rules.{info.name}")
        for value in vars(module).values():
            if isinstance(value, Rule):
                if value.code in found and found[value.code] is not value:
                    raise RuntimeError(f"two rules call themselves {value.code}")
                found[value.code] = value
    for own in house():
        found.setdefault(own.code, own)
    return dict(sorted(found.items(), key=lambda kv: (place(kv[0]), kv[0])))


def site(run: Run, what: str) -> str:
    """The line of the user's code where something is done, or where what is nearest to it is; empty where none is known."""
    told = [run.fact("code.origins"), run.fact("code.sites")]
    sites = {key: where for part in told if isinstance(part, dict) for key, where in part.items()}
    line = run.fact("loss.site") if what == "loss" else sites.get(what)
    while not line and what in _NEAREST:
        what = _NEAREST[what]
        line = sites.get(what)
    return line if isinstance(line, str) else ""


def lines(run: Run, what: str) -> tuple[str, ...]:
    """The lines where things are done or were decided, by their names: "optimizer rate"; of a|b the first that is known."""
    found = (next(filter(None, (site(run, one) for one in each.split("|"))), "") for each in what.split())
    return tuple(dict.fromkeys(filter(None, found)))


def place(code: str) -> int:
    """Where the family of a code stands, root before consequence; house rules come last."""
    return list(FAMILIES).index(code[:4]) if code[:4] in FAMILIES else len(FAMILIES)


@cache
def house() -> tuple[Rule, ...]:
    """Rules of other packages, found through the entry point `traindx.rules`; a broken one is told and left out."""
    found: dict[str, Rule] = {}
    for point in sorted(importlib.metadata.entry_points(group="traindx.rules"), key=lambda p: p.name):
        package = point.dist.name if point.dist is not None else point.name
        try:
            loaded = point.load()
            rules = [v for v in (vars(loaded).values() if inspect.ismodule(loaded) else [loaded]) if isinstance(v, Rule)]
        except (Exception, SystemExit) as why:  # somebody else's code: it must not take a diagnosis down
            say(f"the house rules of {package} were left out: {type(why).__name__}: {why}")
            continue
        for r in rules:
            if not _HOUSE.fullmatch(r.code) or r.code[:4] in FAMILIES or r.code in found:
                say(f"{package}: {r.code!r} is left out: a house rule has a code of its own such as ACME001")
                continue
            found[r.code] = replace(r, name=f"{package}/{r.name}", origin=package)
    return tuple(found.values())


_HOUSE = re.compile(r"[A-Z]{4}\d{3}")


def house_mark() -> list[tuple[str, str, int]]:
    """What tells one state of the house rules from another: code, package and age of its file."""
    files = [(r, inspect.getsourcefile(inspect.unwrap(r.look))) for r in house()]
    return [(r.code, r.origin, Path(f).stat().st_mtime_ns if f and Path(f).exists() else 0) for r, f in files]


def select(codes: Mapping[str, Rule], chosen: tuple[str, ...] = (), ignored: tuple[str, ...] = ()) -> dict[str, Rule]:
    """The rules a user asked for; prefixes work (`GRAD`, `LOSS00`)."""
    for wanted in (*chosen, *ignored):
        if not any(code.startswith(wanted) for code in codes):
            raise UsageError(f"no rule code starts with '{wanted}'{nearest(wanted, codes)}; `traindx rules` lists them")
    return {
        code: r
        for code, r in codes.items()
        if (not chosen or code.startswith(chosen)) and not (ignored and code.startswith(ignored))
    }


def nearest(wanted: str, known: Iterable[str]) -> str:
    """The known names closest to what was asked for, as the end of an error message."""
    near = difflib.get_close_matches(wanted.upper(), [k.upper() for k in known], n=2, cutoff=0.7)
    names = [k for k in known if k.upper() in near]
    return f"; did you mean {' or '.join(names[:2])}?" if names else ""


def with_limits(rules: Mapping[str, Rule], limits: Mapping[str, Mapping[str, Any]]) -> dict[str, Rule]:
    """The same rules with the user's limits in place of the defaults."""
    out = dict(rules)
    for code, values in limits.items():
        if code not in catalogue():
            raise UsageError(f"there is no rule {code}{nearest(code, catalogue())}; `traindx rules` lists them")
        catalogue()[code]._check_limits(values)
        if code in out:
            out[code] = replace(out[code], look=_bound(out[code].look, dict(values)))
    return out


def _bound(look: Look, values: dict[str, Any]) -> Look:
    def bound(run: Run, **limits: Any) -> Iterator[Evidence]:
        return look(run, **{**values, **limits})

    bound.__signature__ = inspect.signature(look)  # type: ignore[attr-defined]
    return bound


def _alternatives(need: str) -> list[str]:
    return [part.strip() for part in need.split("|")]


def _signals_of(needs: Mapping[str, int]) -> Iterator[str]:
    for need in needs:
        yield from (n for n in _alternatives(need) if not n.startswith(("fact:", "event:")))


def _has(run: Run, need: str, least: int) -> bool:
    return any(_has_one(run, n, least) for n in _alternatives(need))


def _has_one(run: Run, need: str, least: int) -> bool:
    if need.startswith("fact:"):
        return need[5:] in run.facts
    if need.startswith("event:"):
        return need[6:] in (run.fact("watched") or ()) or bool(run.events_of(need[6:]))
    if "*" in need:
        return any(len(s) >= max(least, 1) for s in run.matching(need).values())
    return need in run and len(run[need]) >= least


def _lack(run: Run, need: str, least: int) -> tuple[Status, tuple[Finding, ...], str, tuple[str, ...]]:
    names = _alternatives(need)
    there = [n for n in names if n in run and len(run[n])]
    if there:
        have = max(len(run[n]) for n in there)
        return (
            Status.BLIND,
            (),
            f"has {have} records of '{there[0]}' and needs {least}",
            (there[0],),
        )
    why = next((str(run.fact("blind", {})[n]) for n in names if n in (run.fact("blind") or {})), "")
    label = " or ".join(f"'{n.removeprefix('fact:').removeprefix('event:')}'" for n in names)
    reason = f"needs {label}, which this run did not record" + (f": {why}" if why else "")
    if "columns" in run.facts:  # somebody's log: say how to see it next time
        reason += f"; next time {_how_to_see(names)}"
    return Status.BLIND, (), reason, tuple(n.removeprefix("fact:").removeprefix("event:") for n in names)


def _how_to_see(names: list[str]) -> str:
    """What would let a rule look that lacked these names in a log."""
    logged = [n for n in names if n in signals.LOGGABLE]
    if logged:
        return f"log {logged[0]}"
    if all(n.startswith("fact:trial.") for n in names):
        return "run `traindx trial`, which measures it"
    return "observe with `traindx run`, which records it"


def _check_limit(what: str, default: Any, value: Any) -> None:
    """A user's limit must be of the default's kind: a finite number, not below zero where the default is above it."""
    number = isinstance(default, int | float) and not isinstance(default, bool)
    if number and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise UsageError(f"{what} must be a number such as {default}, not {value!r}")
    if number and (not math.isfinite(value) or (default > 0 and value < 0)):
        raise UsageError(
            f"{what} must be a finite number{', 0 or more' if default > 0 else ''} (default {default}), not {value}"
        )
    if not number and default is not None and not isinstance(value, type(default)):
        raise UsageError(f"{what} must be {type(default).__name__} such as {default!r}, not {value!r}")


def _listed(where: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(where[:most])
    return f"{shown} and {len(where) - most} more" if len(where) > most else shown
