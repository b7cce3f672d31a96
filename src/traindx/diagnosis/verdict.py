"""The last word: healthy, wait, stop-keep-best, fix-and-resume, fix-evaluation, restart or cannot-tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from traindx import breakdown, course, facts
from traindx.cause import settling
from traindx.course import State
from traindx.diagnosis import way_on
from traindx.diagnosis.posterior import Suspect
from traindx.diagnosis.story import JUDGEMENT, Story
from traindx.finding import Confidence, Finding, Outcome, Severity, Status
from traindx.plain import in_unit
from traindx.rule import catalogue
from traindx.run import Run
from traindx.stats.breaks import last_good

VERDICTS: dict[str, str] = {
    "healthy": "Nothing is wrong with what was recorded.",
    "wait": "Let it run.",
    "stop-keep-best": "Stop and keep the best checkpoint.",
    "fix-and-resume": "Fix it and resume.",
    "fix-evaluation": "Training is fine; the evaluation is not.",
    "restart": "Fix it and start again.",
    "cannot-tell": "The record does not decide it.",
}
HALF = 0.5  # of what can be learned: from here on a remark is no doubt whether it learns
SOON = 0.02  # of the steps: what was learned before is not worth a resume
GOOD = 200  # steps that went well: what they learned is worth keeping
# only the validation labels are wrong, whatever the cause's usual verdict
EVALUATION_ONLY = {("DATA003", "permuted"), ("DATA003", "apart"), ("DATA009", "validation")}


@dataclass(frozen=True)
class Verdict:
    """What to do now, in a word and a sentence; from where, what waiting costs, and what would refute it."""

    name: str
    summary: str
    resume_from: int | None = None
    forecast: Mapping[str, Any] | None = None
    needs: tuple[str, ...] = field(default=())
    would_change: str = ""
    start: str = ""  # from which step or checkpoint to continue
    waiting: str = ""  # what letting it run as it is would cost or bring
    besides: str = ""  # a second issue, in a sentence
    headline: str = ""  # the summary in at most 12 words; empty where the summary is short enough
    ended: str = ""  # how it ended, where it did not come to its end
    why: str = ""  # the finding that decides, with its numbers


def judge(run: Run, outcomes: Sequence[Outcome], stories: Sequence[Story], causes: Sequence[Suspect]) -> Verdict:
    """The verdict that follows from the worst story and the most probable cause."""
    v = _ended(run, _judged(run, outcomes, stories, causes))
    elsewhere = any(s.severity > Severity.INFO and not s.root.code.startswith("EVAL") for s in stories)
    start = "" if v.name == "fix-evaluation" and elsewhere else way_on.start(run, v.name, v.resume_from)
    waiting = " ".join(filter(None, (_unsaid(v), way_on.waiting(run, v.name, v.resume_from, v.forecast))))
    unit = str(run.fact("step_unit", "step"))
    return replace(v, start=in_unit(start, unit), waiting=in_unit(waiting, unit), summary=in_unit(v.summary, unit))


def _unsaid(v: Verdict) -> str:
    """How it ended, where neither the headline nor the reason says it."""
    return "" if v.ended.rstrip(".") in f"{v.headline} {v.why}" else v.ended


def _judged(run: Run, outcomes: Sequence[Outcome], stories: Sequence[Story], causes: Sequence[Suspect]) -> Verdict:
    alarming = [s for s in stories if s.severity > Severity.INFO]
    forecast = _forecast(outcomes)
    if not alarming:
        return _quiet(run, outcomes, forecast)
    story, suspect = _decisive(alarming, causes)
    broke = _broke(run)
    name = suspect.cause.verdict if suspect else _by_family(story.root)
    if name == "wait" and not course.learned(run).yes:
        name = _by_family(story.root)  # what shows no sign of learning is not worth waiting for
    if (story.root.code, story.root.variant) in EVALUATION_ONLY:
        name = "fix-evaluation"
    elif name == "restart" and _worth_keeping(run, story, suspect, broke):
        name = "fix-and-resume"  # what was learned before is sound
    if name == "fix-and-resume" and broke is None and _nothing_to_keep(run, _onset(story, suspect)):
        name = "restart"
    resume = _resume_from(run, name, story, suspect, broke)
    if resume is not None and run.steps and resume <= run.steps[0] < run.steps[1]:
        name, resume = "restart", None  # nobody resumes from the first step
    findings = [f for o in outcomes for f in o.findings]
    headline, why = _head(_told_by(story.root, suspect, findings), suspect, findings)
    return Verdict(
        name,
        f"{headline}: {why}.",
        resume,
        None,  # a forecast through an alarm would be one of something broken
        (),
        _refuted_by(suspect),
        besides=_besides(causes, outcomes),
        headline=headline,
        why=why,
    )


def _quiet(run: Run, outcomes: Sequence[Outcome], forecast: Mapping[str, Any] | None) -> Verdict:
    curve = max(len(run.series(n).finite()) for n in ("loss/train", "loss/val", "gan/d_loss"))
    found = course.learned(run)
    if error := _crash(run):
        return _crashed(run, outcomes, error, curve)
    if not curve and (skipped := len(run.series("amp/skipped").finite())):
        text = (
            f"No update was made: the gradient scaler skipped all {skipped} of them, which is normal in the first steps only."
        )
        return Verdict("cannot-tell", text, None, None, ("at least one update",), "more steps")
    hint = _hint(outcomes)
    if not found.yes and found.state is not State.TOO_EARLY and (hint is None or hint.name != "stop-keep-best"):
        head, why = "Nothing shows that it learned", found.reasons[0]
        needs = (found.would_tell,) if found.would_tell else ()
        return Verdict("cannot-tell", f"{head}: {why}.", None, forecast, needs, found.would_tell, headline=head, why=why)
    if found.state is State.TOO_EARLY:
        head = "Too little was recorded to judge this run"
        need = f"more epochs or steps; so far {_losses(curve)} recorded"
        return Verdict("cannot-tell", f"{head}: it needs {need}.", None, None, (need,), "more steps", headline=head)
    span = run.steps or (0, 0)
    if bad := _bad_samples(outcomes):
        return _hinted("fix-and-resume", bad, ())
    unmoved = hint is not None and hint.needs == HINTS["EVAL010"][1:]  # what the loss still gains is not what it is for
    if hint is not None and hint.name == "stop-keep-best":
        return replace(hint, forecast=forecast)
    if forecast is not None and _still_falling(outcomes) and not unmoved:
        text = f"No problem found; the loss is still falling at step {span[1]}."
        return Verdict("wait", text, None, forecast, (), "a validation loss that starts to rise")
    if hint is not None and (unmoved or not found.yes or found.low < HALF):
        return replace(hint, forecast=forecast)
    if not any(o.status is Status.CLEAR for o in outcomes):
        need = "an active rule whose data this run has"
        return Verdict("cannot-tell", "No condition could be checked.", None, None, (need,), "a condition that can be checked")
    text = f"No problem found in the {_checked(outcomes)} conditions that could be checked."
    return Verdict("healthy", text, None, forecast, (), "any finding at warning or above")


def _ended(run: Run, v: Verdict) -> Verdict:
    """How the run ended belongs to the verdict: one that was killed is not called healthy, one that you stopped says so."""
    told, error, code = run.fact("ended"), _crash(run), run.fact("exit.code")
    if told == "killed" and not run.steps:  # a text that holds nothing but the end
        said = f"{course.ended(run).why.capitalize()}."
        return replace(v, ended=said, summary=f"{v.summary} {said}")
    if not (told in ("killed", "exception") or code) or not run.steps or (error and error in v.summary):
        return v
    last, why = run.steps[1], course.ended(run).why
    said = (
        f"The program ended with {error or f'exit code {code}'}."
        if error or code
        else f"{why[:1].upper()}{why[1:]} at step {last}."
    )
    v = replace(v, ended=said, summary=f"{v.summary} {said}")
    if v.name not in ("healthy", "wait"):
        return v
    head = f"The program crashed with {_kind(error)}" if error else said.rstrip(".")
    v = replace(v, headline=head, why=v.summary.removesuffix(f" {said}"))
    unasked = told == "killed" or error
    return replace(v, name="fix-and-resume", resume_from=last, forecast=None) if unasked else v


def _losses(count: int) -> str:
    return "1 loss was" if count == 1 else f"{count} losses were"


def _bad_samples(outcomes: Sequence[Outcome], often: int = 3) -> Finding | None:
    """Batches that stood out again and again: nothing a healthy run has. Odd values without an effect are none."""
    found = [f for o in outcomes if o.code == "LOSS007" for f in o.findings]
    return next((f for f in found if f.facts.get("count", 0) >= often), None)


def _crash(run: Run) -> str:
    """The error that ended the program; none where it was stopped by hand."""
    error = facts.table(run, "exception") if run.fact("ended") == "exception" else {}
    if not error or error.get("type") in ("KeyboardInterrupt", "SystemExit"):
        return ""
    file = str(error.get("file") or "").rsplit("/", 1)[-1]
    place = f" ({file}{', line ' if file.startswith('cell ') else ':'}{error.get('line')})" if file else ""
    message = str(error.get("message") or "").strip().partition("\n")[0].rstrip(".")
    return f"{error.get('type')}{': ' if message else ''}{message}{place}"


def _crashed(run: Run, outcomes: Sequence[Outcome], error: str, curve: int) -> Verdict:
    """The program broke and nothing in its training says why."""
    trained = len(run.series("loss/train").finite())
    if not trained:
        text = f"The program ended before its first update, with {error}."
        head = f"The program crashed with {_kind(error)}"
        needs = ("at least one update",)
        return Verdict("cannot-tell", text, None, None, needs, "a run that gets to its first update", headline=head, why=text)
    if course.learned(run).state is State.TOO_EARLY:
        need = f"more steps; so far {_losses(curve)} recorded"
        head = f"The program crashed with {_kind(error)}"
        text = f"It ended with {error} after {trained} recorded losses, too few to judge its training."
        return Verdict("cannot-tell", text, None, None, (need,), "more steps", headline=head, why=text)
    end = run.steps[1] if run.steps else None
    said, why = (
        f"The program ended with {error}.",
        f"No problem found in its training ({_checked(outcomes)} conditions checked).",
    )
    change, head = "any finding at warning or above", f"The program crashed with {_kind(error)}"
    text = f"{said} {why}"
    return Verdict("fix-and-resume", text, end, None, (), change, headline=head, ended=said, why=text)


def _checked(outcomes: Sequence[Outcome]) -> int:
    return sum(o.status in (Status.CLEAR, Status.FOUND) for o in outcomes)


def _kind(error: str) -> str:
    """The name of the exception, which fits into a headline."""
    return error.partition(":")[0].partition(" ")[0]


# Remarks that are no alarm and yet no clean bill: code → verdict, and the test that would settle it.
HINTS: dict[str, tuple[str, str]] = {
    "LOSS001": ("cannot-tell", "`traindx trial lr-tenth train.py`"),
    "LOSS002": ("cannot-tell", "`traindx trial overfit train.py`"),
    "LOSS009": ("cannot-tell", "`traindx trial overfit train.py`"),
    "EVAL010": ("cannot-tell", "the errors of each class"),
    "LOSS005": ("cannot-tell", "`traindx trial lr-tenth train.py`"),
    "LOSS003": ("cannot-tell", "`traindx trial anneal train.py`"),
}


HEADLINES = {("LOSS008", "gap"): "The validation loss has levelled off above the training loss"}  # it does not rise


def _hint(outcomes: Sequence[Outcome]) -> Verdict | None:
    """No alarm, but the curve hints at something: say so instead of calling the run healthy."""
    found = {o.code: o.findings[0] for o in outcomes if o.findings}
    gap = found.get("LOSS008")
    if gap is not None and gap.variant != "passed" and not (gap.variant == "gap" and "LOSS009" in found):
        return _hinted("stop-keep-best", gap, ())
    better = "EVAL010" in found and found["EVAL010"].variant == "mirror"  # a flat loss is then no standstill
    for code, (name, test) in HINTS.items():
        if code in found and not _over(found[code]) and not (better and code in ("LOSS003", "LOSS009")):
            return _hinted(name, found[code], (test,))
    return None


def _hinted(name: str, f: Finding, needs: tuple[str, ...]) -> Verdict:
    what = HEADLINES.get((f.code, f.variant)) or catalogue()[f.code].headline
    text = f"No alarm, but {f.message}."
    return Verdict(
        name,
        text,
        None,
        None,
        needs,
        "the result of that test",
        headline=what,
        why=f.message,
    )


def _over(f: Finding) -> bool:
    """It happened and is no more, or is how runs end: told, but nothing to act on."""
    if f.code == "LOSS003":
        return f.variant == "end"
    if f.code in ("EVAL010", "LOSS005"):
        return f.variant not in ("never", "waves", "zigzag")
    return f.code == "LOSS001" and f.variant in ("excursion", "passing") and f.confidence is not Confidence.SUGGESTIVE


def _still_falling(outcomes: Sequence[Outcome]) -> bool:
    return any(o.code == "LOSS004" and o.status is Status.FOUND for o in outcomes)


def _forecast(outcomes: Sequence[Outcome]) -> Mapping[str, Any] | None:
    for o in outcomes:
        if o.code == "LOSS004":
            for f in o.findings:
                if "forecast" in f.facts:
                    return dict(f.facts)
    return None


def _by_family(root: Finding) -> str:
    if root.code.startswith("EVAL"):
        return "fix-evaluation"
    if root.code == "LOSS008":
        return "stop-keep-best"
    if root.code == JUDGEMENT:
        return "restart"
    return "restart" if root.severity is Severity.CRITICAL else "fix-and-resume"


def _told_by(root: Finding, suspect: Suspect | None, findings: Sequence[Finding]) -> Finding:
    """The finding to put behind the headline: the root, or the one that says most for the cause named there."""
    if suspect is None or (root.code == JUDGEMENT and root.severity is Severity.CRITICAL and not suspect.possible):
        return root
    return said_by(suspect, findings, root) or root


def said_by(suspect: Suspect, findings: Sequence[Finding], root: Finding | None = None) -> Finding | None:
    """The finding that says most for a cause: an alarm before a remark, what only this cause shows before its consequences.

    A critical root about data or code says more than a statistic that the cause is known by.
    """
    speaking = [f for f in findings if f.code in suspect.supports]
    explained = {code for f in speaking if (rule := catalogue().get(f.code)) for code in rule.explains}

    def weight(f: Finding) -> tuple[bool, bool, Severity, bool, bool, float]:
        share = max(p for key, p in suspect.cause.likely.items() if key.partition(":")[0] == f.code)
        own = f.code in suspect.cause.witness
        return f.severity > Severity.INFO, own, f.severity, f.confidence is Confidence.EXACT, f.code not in explained, share

    most = max(speaking, key=weight, default=None)
    graver = root is not None and most is not None and root.severity > most.severity and root.code in suspect.supports
    return root if graver and root is not None and root.code.startswith(("DATA", "WIRE", "TUNE")) else most


def _shown(suspect: Suspect, findings: Sequence[Finding]) -> bool:
    """Whether a cause that is only possible may lead: not where a sign of its own is a remark, or was looked for in vain."""
    signs = {key.partition(":")[0] for key in suspect.cause.witness}
    own = [f for f in findings if f.code in signs & set(suspect.supports)]
    remark = bool(own) and all(f.severity is Severity.INFO for f in own)
    return suspect.words != "possible" or not (remark or signs & set(suspect.against))


def _head(told: Finding, suspect: Suspect | None, findings: Sequence[Finding]) -> tuple[str, str]:
    """The headline, how sure it is included, and the finding it rests on."""
    why = told.message.rstrip(".")
    guess = suspect is not None and not (suspect.possible and _shown(suspect, findings))  # the finding is surer than its cause
    if suspect is None or guess:
        if told.code == JUDGEMENT:
            head, _, why = why.partition(": ")  # each of its sentences begins with the answer
            return f"{head[:1].upper()}{head[1:]}", why
        return catalogue()[told.code].headline if told.code in catalogue() else told.name, why
    lead = {"very likely": "", "likely": "Probably ", "possible": "Possibly "}[suspect.words]
    if told.confidence is Confidence.EXACT and told.code in suspect.supports and suspect.earned:
        lead = ""
    head = f"{lead}{suspect.cause.title.rstrip('.')}"
    return f"{head[:1].upper()}{head[1:]}", why


def _besides(causes: Sequence[Suspect], outcomes: Sequence[Outcome]) -> str:
    """A trouble apart from the first, in a sentence."""
    other = next((c for c in causes[1:] if c.apart), None)
    if other is None:
        return ""
    speaking = [f for o in outcomes for f in o.findings if f.code in other.supports]
    message = max(speaking, key=lambda f: f.severity).message.rstrip(".")
    return f"{message[:1].upper()}{message[1:]}."


def _decisive(alarming: Sequence[Story], causes: Sequence[Suspect]) -> tuple[Story, Suspect | None]:
    """What decides: the first story and the most probable cause, but a critical fact about the program before any of them."""
    first = causes[0] if causes and causes[0].supports else None
    facts = [s for s in alarming if _undeniable(s.root)]
    if not facts or (first is not None and any(s.root.code in first.supports for s in facts)):
        return alarming[0], first
    return facts[0], next((c for c in causes if facts[0].root.code in c.supports and c.possible), None)


def _undeniable(f: Finding) -> bool:
    touches_weights = not f.code.startswith("EVAL") and (f.code, f.variant) not in EVALUATION_ONLY
    return f.severity is Severity.CRITICAL and f.confidence is Confidence.EXACT and touches_weights


def _broke(run: Run) -> int | None:
    """The last step at which the training loss was as good as before, where it was lost for good after that."""
    loss = run.series("loss/train")
    over = any(e.step > s for e in run.events_of("nonfinite") for s in loss.steps[-1:])  # told before its loss is recorded
    last = last_good([*loss.values, *([math.inf] if over else [])])
    return int(loss.steps[last]) if last is not None else None


def _worth_keeping(run: Run, story: Story, suspect: Suspect | None, broke: int | None) -> bool:
    """Whether to go back to a checkpoint from before the trouble: the loss had fallen, or it began well into the run."""
    if broke is not None and run.steps and broke - run.steps[0] >= GOOD:
        return True
    return suspect is not None and _late(run, story, suspect)


def _nothing_to_keep(run: Run, onset: int | None) -> bool:
    """Whether a resume would begin with weights that know nothing, or that the trouble has had from the first step on."""
    found = course.learned(run)
    from_the_start = onset is not None and run.steps is not None and onset <= run.steps[0] + 1
    return not breakdown.guarded(run) and (found.state is State.NOT_LEARNING or (found.no and from_the_start))


def _resume_from(run: Run, name: str, story: Story, suspect: Suspect | None, broke: int | None) -> int | None:
    if name != "fix-and-resume":
        return None
    first, end = run.steps or (0, None)
    onset = _onset(story, suspect)
    if broke is not None:
        itself = story.root.code == "LOSS001"  # it knows when the loss began to climb
        near = onset is not None and (itself or broke - first < GOOD or broke - onset <= GOOD // 4)
        # the update after that loss may be the one that broke it; what began shortly before it is part of the fault
        return _or_start(run, (min(broke, onset) if near and onset is not None else broke) - 1)
    late = suspect is not None and suspect.cause.verdict == "restart"
    if suspect and (suspect.cause.poisons or late) and onset is not None and not breakdown.guarded(run):
        return _or_start(run, onset - 1)
    return end


def _or_start(run: Run, step: int) -> int:
    """That step, or the first one where so few steps came before it that nobody keeps a checkpoint of them."""
    first, last = run.steps or (0, 0)
    return step if step - first > SOON * (last - first) else first


def _late(run: Run, story: Story, suspect: Suspect, share: float = 0.25) -> bool:
    """Whether the trouble began well into the run, so that a checkpoint from before it is worth going back to."""
    onset = _onset(story, suspect)
    if onset is None or not run.steps:
        return False
    first, last = run.steps
    return onset - first > share * (last - first)


def _onset(story: Story, suspect: Suspect | None) -> int | None:
    """When it began: the root finding knows best where it is part of the cause's evidence."""
    root = story.root.steps[0] if story.root.steps else None
    if suspect is None or (root is not None and story.root.code in suspect.supports):
        return root
    return suspect.onset if suspect.onset is not None else root


def _refuted_by(suspect: Suspect | None) -> str:
    if suspect is not None and suspect.cause.settle:
        return f"`{settling(suspect.cause.settle)}` does not confirm it"
    return "it persists after the fix"
