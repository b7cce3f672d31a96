"""The last word: healthy, wait, stop-keep-best, fix-and-resume, fix-evaluation, restart or cannot-tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from traindx import facts
from traindx.diagnosis import course
from traindx.diagnosis.posterior import Suspect
from traindx.diagnosis.story import Story
from traindx.finding import Confidence, Finding, Outcome, Severity, Status
from traindx.run import Run

VERDICTS: dict[str, str] = {
    "healthy": "Nothing is wrong with what was recorded.",
    "wait": "Let it run.",
    "stop-keep-best": "Stop and keep the best checkpoint.",
    "fix-and-resume": "Fix it and resume.",
    "fix-evaluation": "Training is fine; the evaluation is not.",
    "restart": "Fix it and start again.",
    "cannot-tell": "The record does not decide it.",
}
# only the validation labels are wrong, whatever the cause's usual verdict
EVALUATION_ONLY = {("DATA003", "permuted"), ("DATA003", "apart")}
LEAST_POINTS = 30  # a loss curve shorter than this decides nothing (CATALOGUE part 6 asks for 100 for a trend)


@dataclass(frozen=True)
class Verdict:
    """What to do now, in a word and a sentence; from where, what waiting costs, and what would change our mind."""

    name: str
    summary: str
    resume_from: int | None = None
    forecast: Mapping[str, Any] | None = None
    needs: tuple[str, ...] = field(default=())
    would_change: str = ""
    start: str = ""  # from which step or checkpoint to go on
    waiting: str = ""  # what letting it run as it is would cost or bring
    besides: str = ""  # a second trouble, in a sentence


def judge(run: Run, outcomes: Sequence[Outcome], stories: Sequence[Story], causes: Sequence[Suspect]) -> Verdict:
    """The verdict that follows from the worst story and the most probable cause."""
    v = _judged(run, outcomes, stories, causes)
    return replace(
        v,
        start=course.start(run, v.name, v.resume_from),
        waiting=course.waiting(run, v.name, v.resume_from, v.forecast),
    )


def _judged(run: Run, outcomes: Sequence[Outcome], stories: Sequence[Story], causes: Sequence[Suspect]) -> Verdict:
    alarming = [s for s in stories if s.severity > Severity.INFO]
    forecast = _forecast(outcomes)
    if not alarming:
        return _quiet(run, outcomes, forecast)
    story = alarming[0]
    suspect = causes[0] if causes and causes[0].supports else None
    name = suspect.cause.verdict if suspect else _by_family(story.root)
    if (story.root.code, story.root.variant) in EVALUATION_ONLY:
        name = "fix-evaluation"
    elif suspect and name == "restart" and _late(run, story, suspect):
        name = "fix-and-resume"  # what was learned before is sound
    return Verdict(
        name,
        _summary(_told_by(story.root, suspect, outcomes), suspect),
        _resume_from(run, name, story, suspect),
        forecast,
        (),
        _mind_changer(suspect),
        besides=_besides(causes, outcomes),
    )


def _quiet(run: Run, outcomes: Sequence[Outcome], forecast: Mapping[str, Any] | None) -> Verdict:
    curve = max(len(run.series(n).finite()) for n in ("loss/train", "loss/val", "gan/d_loss"))
    if error := _crash(run):
        return _crashed(run, outcomes, error, curve)
    if not curve and (skipped := len(run.series("amp/skipped").finite())):
        text = f"Nothing was trained: the gradient scaler skipped all {skipped} updates, as it may in its first steps."
        return Verdict("cannot-tell", text, None, None, ("an update that is made",), "more steps")
    if curve < LEAST_POINTS:
        need = f"at least {LEAST_POINTS} recorded losses (there are {curve})"
        return Verdict("cannot-tell", f"Too little was recorded to judge: {need}.", None, None, (need,), "more steps")
    span = run.steps or (0, 0)
    unsure = [o for o in outcomes if o.status is Status.UNSURE]
    if forecast is not None and _still_falling(outcomes):
        text = f"Nothing is wrong; the loss is still falling at step {span[1]}."
        return Verdict(
            "wait", text, None, forecast, (), "a forecast that fails its back-test, or a validation loss that turns up"
        )
    hint = _hint(outcomes)
    if hint is not None:
        return Verdict(*hint[:2], None, forecast, hint[2], "what the named test shows")
    clear = sum(o.status is Status.CLEAR for o in outcomes)
    if not clear:
        need = "rules that could speak: none was active, or none had what it reads"
        return Verdict("cannot-tell", "No condition could be looked at.", None, None, (need,), "a rule that could speak")
    text = f"No sign of trouble in {clear} conditions that could be looked at."
    if unsure:
        text += f" {len(unsure)} could not be decided yet."
    return Verdict("healthy", text, None, forecast, (), "any finding at warning or above")


def _crash(run: Run) -> str:
    """The error that ended the program; none where it was stopped by hand."""
    error = facts.table(run, "exception") if run.fact("ended") == "exception" else {}
    if not error or error.get("type") in ("KeyboardInterrupt", "SystemExit"):
        return ""
    place = f" ({str(error['file']).rsplit('/', 1)[-1]}:{error.get('line')})" if error.get("file") else ""
    message = str(error.get("message") or "").strip().partition("\n")[0].rstrip(".")
    return f"{error.get('type')}{': ' if message else ''}{message}{place}"


def _crashed(run: Run, outcomes: Sequence[Outcome], error: str, curve: int) -> Verdict:
    """The program broke and nothing in its training says why."""
    trained = len(run.series("loss/train").finite())
    if not trained:
        text = f"Nothing was trained: the program ended with {error} before its first update."
        return Verdict(
            "cannot-tell", text, None, None, ("a program that makes an update",), "a run that gets to its first update"
        )
    if curve < LEAST_POINTS:
        need = f"at least {LEAST_POINTS} recorded losses (there are {curve})"
        text = f"The program ended with {error} after {trained} recorded losses: too little to judge its training."
        return Verdict("cannot-tell", text, None, None, (need,), "more steps")
    clear = sum(o.status is Status.CLEAR for o in outcomes)
    end = run.steps[1] if run.steps else None
    text = f"The program ended with {error}; no sign of trouble in its training, in {clear} conditions that could be looked at."
    return Verdict("fix-and-resume", text, end, None, (), "any finding at warning or above")


# Remarks that are no alarm and yet no clean bill: code → verdict, and the test that would settle it.
HINTS: dict[str, tuple[str, str]] = {
    "LOSS001": ("cannot-tell", "`traindx trial lr-tenth`"),
    "LOSS002": ("cannot-tell", "`traindx trial overfit`"),
    "LOSS009": ("cannot-tell", "`traindx trial overfit`"),
    "LOSS003": ("cannot-tell", "`traindx trial anneal`"),
}


def _hint(outcomes: Sequence[Outcome]) -> tuple[str, str, tuple[str, ...]] | None:
    """No alarm, but the curve hints at something: say so instead of calling the run healthy."""
    found = {o.code: o.findings[0] for o in outcomes if o.findings}
    gap = found.get("LOSS008")
    if gap is not None and gap.variant != "passed":
        return "stop-keep-best", f"No alarm; {gap.message}.", ()
    for code, (name, test) in HINTS.items():
        if code in found and not _over(found[code]):
            return name, f"No alarm, but a hint: {found[code].message}.", (test,)
    return None


def _over(f: Finding) -> bool:
    """It happened and is no more, or is how runs end: told, but nothing to act on."""
    if f.code == "LOSS003":
        return f.variant == "end"
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
    return "restart" if root.severity is Severity.CRITICAL else "fix-and-resume"


def _told_by(root: Finding, suspect: Suspect | None, outcomes: Sequence[Outcome]) -> Finding:
    """The finding to put behind the cause's name: the root, or the worst that speaks for the cause when the root does not."""
    if suspect is None or root.code in suspect.supports:
        return root
    speaking = [f for o in outcomes for f in o.findings if f.code in suspect.supports]
    return max(speaking, key=lambda f: f.severity, default=root)


def _summary(told: Finding, suspect: Suspect | None) -> str:
    message = told.message.rstrip(".")
    if suspect is None or (told.confidence is Confidence.EXACT and suspect.probability < 0.33):
        return f"{message[:1].upper()}{message[1:]}."
    title = suspect.cause.title.rstrip(".")
    if told.confidence is Confidence.EXACT and told.code in suspect.supports and suspect.earned:
        return f"{title[:1].upper()}{title[1:]}: {message}."
    lead = {"very likely": "", "likely": "Probably ", "possible": "Possibly ", "not excluded": "Possibly "}[suspect.words]
    head = f"{lead}{title}" if lead else f"{title[:1].upper()}{title[1:]}"
    return f"{head}: {message}."


def _besides(causes: Sequence[Suspect], outcomes: Sequence[Outcome]) -> str:
    """A trouble apart from the first, in a sentence."""
    other = next((c for c in causes[1:] if c.apart), None)
    if other is None:
        return ""
    speaking = [f for o in outcomes for f in o.findings if f.code in other.supports]
    message = max(speaking, key=lambda f: f.severity).message.rstrip(".")
    return f"{message[:1].upper()}{message[1:]}."


def _resume_from(run: Run, name: str, story: Story, suspect: Suspect | None) -> int | None:
    if name != "fix-and-resume":
        return None
    end = run.steps[1] if run.steps else None
    onset = _onset(story, suspect)
    late = suspect is not None and suspect.cause.verdict == "restart"
    if suspect and (suspect.cause.poisons or late) and onset is not None:
        return max(0, onset - 1)
    return end


def _late(run: Run, story: Story, suspect: Suspect, share: float = 0.25) -> bool:
    """Whether the trouble began well into the run, so that a checkpoint from before it is worth going back to."""
    onset = _onset(story, suspect)
    if onset is None or not run.steps:
        return False
    first, last = run.steps
    return onset - first > share * (last - first) and "LOSS002" not in suspect.supports


def _onset(story: Story, suspect: Suspect | None) -> int | None:
    """When it began: the root finding knows best where it is part of the cause's evidence."""
    root = story.root.steps[0] if story.root.steps else None
    if suspect is None or (root is not None and story.root.code in suspect.supports):
        return root
    return suspect.onset if suspect.onset is not None else root


def _mind_changer(suspect: Suspect | None) -> str:
    if suspect is None:
        return "a second run without this finding"
    if suspect.cause.settle:
        return f"`traindx trial {suspect.cause.settle}` that does not confirm it"
    if suspect.against:
        return f"{suspect.against[0]} speaks against it; a run in which that is found out"
    return "the same run with the fix applied and the finding still there"
