"""`traindx diagnose --ask` and `--investigate`: the differential tree, walked with a person or by experiments."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from traindx import api, plain
from traindx import diagnosis as diagnosis_
from traindx.cause import settling
from traindx.cli import options
from traindx.cli.bar import bar
from traindx.diagnosis import Diagnosis
from traindx.diagnosis.trees import TREES, Presented, State, Tree, Walked, named, next_test, presenting, settled, walk
from traindx.diagnosis.verdict import VERDICTS
from traindx.errors import UsageError
from traindx.record import diary
from traindx.report.words import safe

STYLE = {"confirmed": "bold red", "hinted at": "yellow", "open": "bold", "refuted": "dim"}
MARK = {"confirmed": "✔", "hinted at": "≈", "open": "?", "refuted": "✗"}


def investigated(
    paths: tuple[str, ...],
    target: str,
    minutes: float,
    format_: str,
    output: Path | None,
    *,
    complaint: str = "",
    quiet: bool,
) -> int:
    """Run the experiments that settle the complaint of a run, and print the state of every hypothesis."""
    from traindx.capture.start import investigate_on

    if len(paths) > 1:
        raise UsageError(f"--investigate looks into one run; got {len(paths)}")
    if minutes <= 0:
        raise UsageError(f"--minutes must be above zero, not {minutes:g}")
    if complaint:
        named(complaint)
    path = paths[0] if paths else ""
    if not quiet:
        plain.say(f"experiments on copies of {target}, for at most {minutes:g} min; Ctrl-C ends them")
        if other := _another_script(path, target):
            plain.say(f"the run was made by {other}: what is found here holds for {Path(target).name} only")
    with bar(quiet=quiet) as told:
        done = investigate_on(target, (), path, minutes=minutes, complaint=complaint, progress=told)
    if path:
        diary.write(path, "investigation", target=target, verdict=done["verdict"], summary=done["summary"])
    text = json.dumps(done, indent=2)
    if output:
        output.write_text(text + "\n", encoding="utf-8")
    elif format_ == "json":
        sys.stdout.write(text + "\n")
    if format_ != "json":
        _page(done)
    return 0


def _another_script(path: str, target: str) -> str:
    """The name of the script that made the run, where the record names one and it is not the target's."""
    told = api.load(Path(path))[0].fact("argv") if path else None
    made = Path(str(told[0])).name if isinstance(told, list | tuple) and told else ""
    both = (made, Path(target).name)
    return made if all(name.endswith(".py") for name in both) and both[0] != both[1] else ""


def _page(done: dict[str, Any]) -> None:
    screen = options.console()
    why = f" [dim]({escape(safe(done['reason'], 300))})[/]" if done["reason"] else ""
    screen.print(f"[bold]{escape(done['tree'])} {escape(done['complaint'])}[/]{why}")
    screen.print(_rows((h["hypothesis"], h["state"], h["why"]) for h in done["hypotheses"]))
    for t in [*done["trials"], *([done["proof"]] if done["proof"] else [])]:
        screen.print(f"[dim]{t['trial']}: {t['result']}, {t['steps']} steps, {t['seconds']:.1f} s[/]", highlight=False)
    if done["proof"]:
        screen.print(f"cure: {escape(safe(done['proof']['reason']))}", highlight=False)
    screen.print(
        f"\n[bold]{escape(done['verdict'].upper().replace('-', ' '))}[/]  {escape(safe(done['summary']))}", highlight=False
    )
    screen.print(f"[dim]after {done['seconds']:.0f} s[/]", highlight=False)


def _rows(rows: Any) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    for hypothesis, state, why in rows:
        told = f"\n[dim]{escape(safe(why, 300))}[/]" if why else ""
        grid.add_row(f"[{STYLE[state]}]{MARK[state]} {state}[/]", f"{escape(hypothesis)}{told}")
    return grid


# -- with a person


def asked(paths: tuple[str, ...], complaint: str = "") -> int:
    """Walk the tree of the complaint with whoever sits at the terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "--ask needs a terminal; without one, `traindx diagnose PATH` gives the findings and "
            "`traindx diagnose PATH --investigate train.py` runs the experiments by itself"
        )
    if len(paths) != 1:
        raise UsageError(f"--ask talks about one run; got {len(paths)}")
    screen = options.console()
    found = api.load(Path(paths[0]))
    diagnosis = diagnosis_.diagnose(found[0])
    tree = named(complaint) if complaint else None
    said = conversation(diagnosis, lambda text: screen.print(text, highlight=False), lambda text: input(text), tree)
    diary.write(paths[0], "conversation", **said)
    return 0


def conversation(
    diagnosis: Diagnosis, say: Callable[[Any], None], ask: Callable[[str], str], tree: Tree | None = None
) -> dict[str, Any]:
    """The talk: the complaint, the hypotheses with what refuted them, the open ones asked about, the verdict."""
    run, outcomes = diagnosis.run, diagnosis.outcomes
    tree = tree or _complaint(presenting(run, outcomes), say, ask)
    hypotheses = list(walk(tree, run, outcomes))
    say(f"\n[bold]{tree.code} {escape(tree.complaint)}[/]")
    say(_rows((w.branch.hypothesis, w.state.value, w.why) for w in hypotheses))
    for i, w in enumerate(hypotheses):
        if settled(hypotheses) is not None:
            break
        if w.state in (State.OPEN, State.LIKELY):
            hypotheses[i] = _asked_about(w, say, ask)
    verdict, said = _conclusion(hypotheses, diagnosis)
    say(f"\n[bold]{verdict.upper().replace('-', ' ')}[/]  {escape(safe(said))}")
    return {"tree": tree.code, "verdict": verdict, "summary": said}


def _complaint(shown: Presented | None, say: Callable[[Any], None], ask: Callable[[str], str]) -> Tree:
    if shown is not None:
        say(f"The record shows: [bold]{escape(shown.tree.complaint)}[/] ({escape(safe(shown.why, 300))}).")
    else:
        say("The record shows no complaint. What do you see?")
    for i, tree in enumerate(TREES, 1):
        say(f"  {i:2} {escape(tree.complaint)}")
    while True:
        given = ask("Number of the complaint" + (" [Enter: as shown]" if shown else "") + ": ").strip()
        if not given and shown is not None:
            return shown.tree
        if given.isdigit() and 1 <= int(given) <= len(TREES):
            return TREES[int(given) - 1]
        say(f"A number between 1 and {len(TREES)}, please.")


def _asked_about(w: Walked, say: Callable[[Any], None], ask: Callable[[str], str]) -> Walked:
    b = w.branch
    say(f"\n[bold]{escape(b.hypothesis)}?[/]")
    if w.why:
        say(f"[dim]{escape(safe(w.why, 300))}[/]")
    if b.trial:
        say(f"[dim]`{settling(b.trial, 'train.py')}` would decide it (about {b.cost} steps).[/]")
    while True:
        given = ask("Does it hold? [y]es, [n]o, [Enter] not known: ").strip().lower()
        if given in ("y", "yes"):
            return replace(w, state=State.CONFIRMED, why="you say so")
        if given in ("n", "no"):
            return replace(w, state=State.REFUTED, why="you say so")
        if not given:
            return w
        say("y, n or Enter, please.")


def _conclusion(hypotheses: list[Walked], diagnosis: Diagnosis) -> tuple[str, str]:
    sure = settled(hypotheses, diagnosis.likely[0].supports if diagnosis.likely else ())
    if sure is not None:
        verdict = sure.branch.verdict
        said = [f"{sure.branch.hypothesis}. {VERDICTS.get(verdict, '')}", _cure(sure, diagnosis)]
        return verdict, " ".join([*filter(None, said), *([diagnosis.verdict_.start] if verdict == diagnosis.verdict else [])])
    caution = next((f"{w.branch.hypothesis}; " for w in hypotheses if w.state is State.CONFIRMED), "")
    left = [w.branch for w in hypotheses if w.state in (State.OPEN, State.LIKELY)]
    if len(left) == 1:
        return left[0].verdict, f"By exclusion: {left[0].hypothesis}. {VERDICTS.get(left[0].verdict, '')}"
    test = next_test(hypotheses)
    if test is not None:
        hinted = next((w.branch for w in hypotheses if w.state is State.LIKELY), None)
        lead = f" (most is hinted at: {hinted.hypothesis})" if hinted is not None else ""
        return "cannot-tell", f"{caution}{len(left)} hypotheses are left{lead}; next: `{settling(test.trial, 'train.py')}`"
    if caution:
        return "cannot-tell", caution.removesuffix("; ")
    return diagnosis.verdict, diagnosis.summary


def _cure(sure: Walked, diagnosis: Diagnosis) -> str:
    """What to do about a hypothesis: the cure of the cause that rests on the same findings, else the fix of its finding."""
    codes = {f.code for f in diagnosis.findings if f.code in sure.branch.codes}
    cause = next((c for c in diagnosis.likely if codes & set(c.supports)), None)
    if cause is not None:
        return cause.prescription
    return next((f.fix for f in diagnosis.findings if f.code in codes and f.fix), "")
