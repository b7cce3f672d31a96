"""What a page says about a run, the same in the terminal, in HTML, Markdown and notebooks: the issues, what to do about each,
what to do until then, how much was checked, and what could not be seen."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from traindx import opening
from traindx.diagnosis import Diagnosis, Suspect
from traindx.diagnosis.story import Story
from traindx.diagnosis.verdict import said_by
from traindx.finding import Confidence, Finding, Severity, Status
from traindx.report.github import place
from traindx.report.words import safe, span
from traindx.rule import LINE, catalogue
from traindx.signals import LOGGABLE

STATUS = {  # how an outcome is called on a page
    Status.FOUND: "found",
    Status.CLEAR: "clear",
    Status.UNSURE: "undecided",
    Status.BLIND: "no data",
    Status.MUTED: "does not apply",
    Status.BROKEN: "failed",
}
SYMPTOMS = ("EVAL", "ACTV", "GRAD", "WGHT")  # families that see what training became, not how it is set up
PROGRAM = ("DATA", "WIRE", "TUNE")  # families that see data and code
SELDOM = 0.2  # a sign that a cause brings no more often than that is not its own
LEAST = 0.1  # causes less probable than this are not shown


@dataclass(frozen=True)
class Issue:
    """One thing that is wrong: what, why, what to do, and the command that would confirm it."""

    title: str
    why: str
    do: str
    at: str = ""  # the line of the user's code
    sure: str = ""
    supports: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    not_yet: tuple[str, ...] = ()
    confirm: str = ""


def issues(d: Diagnosis) -> list[Issue]:
    """What is wrong, the one that decides the verdict first: causes that stand for themselves, then what no cause explains."""
    if not d.alarmed:
        return []
    stories = [s for s in d.stories if s.severity > Severity.INFO]
    named = [c for i, c in enumerate(d.causes) if c.supports and (c.apart or (i == 0 and _leads(d, c)))]
    out = [_of_cause(d, c) for c in named]
    covered = {code for c in named for code in c.supports if _brings(c, code) or code.startswith((*SYMPTOMS, "LOSS"))}
    left = [s for s in stories if not covered & {f.code for f in (s.root, *s.consequences)}]
    if named and stories[0].severity is Severity.CRITICAL:  # what the curves show of it is no second fault
        left = [s for s in left if not _symptom(s)]
    v = d.verdict_
    decides = [s for s in left if v.why and s.root.message.rstrip(".").endswith(v.why)]  # a fact that no cause stands for
    first = [replace(_of_story(s), title=v.headline, why=v.why) for s in decides]
    every = [*first, *out, *(_of_story(s) for s in left if s not in decides)]
    if every:
        every[0] = replace(every[0], why=_broken(d, every[0].why))
    return every if len(every) == 1 else [replace(i, not_yet=()) for i in every]  # "do not touch …" is of one fault alone


def _broken(d: Diagnosis, why: str) -> str:
    """What decides, after the loss that everybody saw break."""
    broke = [e.step for e in d.run.events_of("nonfinite") if e.data.get("what") == "loss"]
    said = "NaN" in why or "infinit" in why or "loss became" in why
    lost = any(f.code == "LOSS001" and f.variant == "nonfinite" for f in d.findings)
    when = span((broke[0], broke[0]), d.run) if broke else ""
    return f"the loss became NaN or infinite at {when}; {why}" if broke and lost and not said else why


def _symptom(s: Story) -> bool:
    seen = s.severity is Severity.WARNING and s.root.confidence is not Confidence.EXACT
    return seen and s.root.code.startswith(SYMPTOMS)


def _brings(c: Suspect, code: str) -> bool:
    """Whether the cause usually shows itself so; what it rarely brings is an issue of its own, where nothing explains it."""
    return max((p for key, p in c.cause.likely.items() if key.partition(":")[0] == code), default=0.0) > SELDOM


def _leads(d: Diagnosis, c: Suspect) -> bool:
    """Whether the headline is this cause and not the bare finding."""
    return c.cause.title.rstrip(".").lower() in d.verdict_.headline.lower()


def _of_cause(d: Diagnosis, c: Suspect) -> Issue:
    root = d.stories[0].root if d.stories else None
    told = said_by(c, d.findings, root)
    assert told is not None  # an issue is made of causes that findings support
    first = c is d.causes[0]
    graver = told is root and told.severity is Severity.CRITICAL and told.code.startswith(PROGRAM)  # it explains more
    own = (
        told.confidence is Confidence.EXACT or graver or f"{told.code}:{told.variant}" in c.cause.witness
    )  # it knows its own cure
    title = d.verdict_.headline if first else c.cause.title
    cure = told.fix if told.fix and own else c.prescription
    return Issue(
        title[:1].upper() + title[1:],
        shortened(d.verdict_.why if first else told.message.rstrip(".")),
        cure[:1].upper() + cure[1:],
        next((line for f in (told, *d.findings) if f.code in c.supports and (line := line_of(f))), ""),
        c.said,
        c.supports,
        tuple(code if any(f.code == code for f in d.findings) else f"{code} found nothing" for code in c.against),
        c.cause.not_yet,
        confirm(d, c) if c.probability < 0.95 or not c.earned else "",
    )


def _of_story(s: Story) -> Issue:
    rule = catalogue().get(s.root.code)
    title, f = rule.headline if rule else s.root.name, s.root
    return Issue(title, shortened(f.message), f.fix[:1].upper() + f.fix[1:], line_of(f), supports=(f.code,))


def others(d: Diagnosis) -> list[Suspect]:
    """Causes that could well explain the same findings instead, or what might be wrong in a run without alarms."""
    shown = [c for c in d.causes if c.possible and not c.apart]
    if d.verdict == "stop-keep-best" and not d.alarmed:
        return []  # the headline is the cause
    return [c for i, c in enumerate(shown) if not (d.alarmed and i == 0 and _leads(d, c))][:3]


def others_title(d: Diagnosis) -> str:
    """What stands above them."""
    return "Other possible causes" if d.alarmed else "Other possible issues"


def remarks_title(d: Diagnosis) -> str:
    """What stands above what is worth knowing and no alarm."""
    return "Also noticed (no action needed)" if d.verdict in ("healthy", "wait") else "Also noticed"


def hint(d: Diagnosis) -> str:
    """What to do about the remark behind a verdict without an alarm."""
    return "" if d.alarmed else next((f.fix for f in d.findings if f.message == d.verdict_.why), "")


def until_then(d: Diagnosis) -> str:
    """Wait, stop or resume, in a sentence or two."""
    return " ".join(filter(None, (d.verdict_.waiting, d.verdict_.start)))


def confirm(d: Diagnosis, c: Suspect) -> str:
    """The command that would confirm a cause, ready to type where the script is known."""
    if not c.cause.settle:
        return ""
    script = d.run.fact("script")
    target = shlex.quote(seen_from_here(script)) if isinstance(script, str) and script.endswith(".py") else "train.py"
    if c.cause.settle == "replay":
        kept = d.run.kind == "record" and any(Path(d.run.source).glob("capsules/capsule-*"))
        command = f"traindx replay {shlex.quote(d.run.source)} --" if kept else "traindx run"
        return safe(f"{command} {target}   (names the operation that made the first NaN or infinity)", 400)
    return safe(c.cause.command(target), 400) + (f"   ({c.cause.cost})" if c.cause.cost_steps else "")


def learned(d: Diagnosis) -> str:
    """How much was learned, without more trust than the verdict has."""
    doubt = " With the fault above, this says little." if d.verdict == "restart" and d.learned.yes else ""
    return d.learned.sentence + doubt


def how_sure(i: Issue) -> str:
    """How sure the diagnosis is, and what it rests on; empty for a bare finding, which says it itself."""
    if not i.sure:
        return ""
    sure = "very likely" in i.sure
    against = f"; against it: {', '.join(i.against)}" if i.against and not sure else ""
    return f"{i.sure}, from {', '.join(i.supports)}{against}"


def next_command(d: Diagnosis) -> list[str] | None:
    """What to run next, as an argument list: a verb of ours, with the script where it lies below the current folder."""
    script = _script_here(d)
    first = d.likely[0] if d.likely else None
    if first and script and first.cause.settle not in ("", "replay") and (first.probability < 0.95 or not first.earned):
        return ["traindx", "trial", first.cause.settle, script, "--format", "json"]
    if first and script and first.cause.change and d.run.kind == "record":
        return ["traindx", "trial", "fix", script, "--run", d.run.source, "--format", "json"]
    return ["traindx", "explain", d.stories[0].root.code] if d.alarmed else None


def _script_here(d: Diagnosis) -> str:
    told, here = d.run.fact("script"), opening.here()
    if not isinstance(told, str) or not told.endswith(".py") or "\0" in told:
        return ""
    path = (here / told).resolve()
    return f".{os.sep}{path.relative_to(here)}" if path.is_relative_to(here) and path.is_file() else ""


def shortened(text: str) -> str:
    """A sentence with paths as seen from here."""
    return text.replace(f"{opening.here()}{os.sep}", "")


def line_of(f: Finding) -> str:
    """The line of the user's code a finding points at, as seen from here; empty without one."""
    at = place(f)
    cell = next((w for w in f.where if w.startswith("cell ") and LINE.search(w)), "")
    return f"{seen_from_here(at[0])}:{at[1]}" if at is not None else cell


def seen_from_here(path: str) -> str:
    """A path without the current folder in front."""
    return path.removeprefix(f"{opening.here()}{os.sep}")


def checked(d: Diagnosis) -> str:
    """How much was checked, and why not the rest."""
    counts = {s: len(d.with_status(s)) for s in Status}
    words = {
        Status.BLIND: ("needs data this run does not have", "need data this run does not have"),
        Status.MUTED: ("does not apply", "do not apply"),
        Status.UNSURE: ("undecided so far", "undecided so far"),
        Status.BROKEN: ("failed through a bug in traindx, please report", "failed through bugs in traindx, please report"),
    }
    rest = [f"{counts[s]} {one if counts[s] == 1 else many}" for s, (one, many) in words.items() if counts[s]]
    done = counts[Status.CLEAR] + counts[Status.FOUND]
    return f"Checked {done} of {len(d.outcomes)} conditions" + (f" ({'; '.join(rest)})." if rest else ".")


def limits(d: Diagnosis) -> str:
    """What this run does not show, and the one thing to add to see it; empty for runs that were observed."""
    blind = d.with_status(Status.BLIND)
    if not blind or "columns" not in d.run.facts:
        return ""
    names = [n for n in LOGGABLE if n not in d.run and any(n in o.lacks for o in blind)]
    opened = sum(any(n in o.lacks for n in names) for o in blind)
    log = f" Logging {', '.join(names[:3])} would allow {opened} more checks." if names else ""
    return f"A log does not show wiring, data or gradients: run `traindx run train.py` to check those.{log}"
