"""`traindx bisect --good REV [--bad REV] -- CMD`"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import rich_click as click

from traindx import api
from traindx import diagnosis as diagnosis_
from traindx.cli import options
from traindx.diagnosis.effects import last_word, quality
from traindx.errors import EnvironmentFault, TraindxError, UsageError
from traindx.finding import Confidence, Severity
from traindx.run import Run


@click.command("bisect", context_settings={"ignore_unknown_options": True})
@click.option("--good", required=True, metavar="REV", help="A commit whose run was healthy.")
@click.option("--bad", default="HEAD", show_default=True, metavar="REV", help="A commit whose run is broken.")
@click.option(
    "--by",
    type=click.Choice(("health", "loss")),
    default="health",
    show_default=True,
    help="Judge by findings, or by a loss that is worse than the good commit's beyond noise.",
)
@click.option(
    "--severity",
    type=click.Choice(("warning", "critical")),
    default="warning",
    show_default=True,
    help="Which severity counts as broken.",
)
@click.option(
    "--repeat",
    default=2,
    show_default=True,
    help="Runs per commit; a commit whose runs disagree gets two more, then is skipped.",
)
@click.option("--strict", is_flag=True, help="Exit 4 when no single commit could be named.")
@click.option(
    "--work",
    type=click.Path(path_type=Path),
    help="Folder for the work tree and the records; an interrupted bisect resumes there.",
)
@click.argument("cmd", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
def command(
    good: str,
    bad: str,
    by: str,
    severity: str,
    repeat: int,
    strict: bool,
    work: Path | None,
    cmd: tuple[str, ...],
) -> int:
    """Find the first commit whose training run is broken, by git bisect.

    CMD is a python command line. It runs unchanged under observation, in a separate work tree; yours is not touched.

    Example:  traindx bisect --good v1.2 -- python train.py --steps 300
    """
    if repeat < 1:
        raise UsageError("--repeat must be at least 1")
    top = Path(_git(Path.cwd(), "rev-parse", "--show-toplevel"))
    folder = (work or top / ".git" / "traindx-bisect").resolve()
    commits = _between(top, good, bad)
    oracle = Oracle(top, folder, observed(cmd), by, Severity(severity), repeat)
    first = _git(top, "rev-parse", good)
    if by == "loss":
        oracle.reference = oracle.runs_of(first)
    screen = options.console(stderr=True)
    ends = {first: "good" if by == "loss" else oracle.judge(first), commits[-1]: oracle.judge(commits[-1])}
    if list(ends.values()) != ["good", "bad"]:  # the search would blame whichever commit is last
        oracle.clean()
        _not_apart(good, bad, *ends.values())
        return 4 if strict else 0
    verdicts: dict[str, str] = {}
    low, high = -1, len(commits) - 1
    while high - low > 1:
        middle = _next(low, high, commits, verdicts)
        if middle is None:
            break
        screen.print(f"[dim]{high - low - 1} commits left, trying {commits[middle][:10]}[/]")
        verdicts[commits[middle]] = verdict = oracle.judge(commits[middle])
        screen.print(f"{commits[middle][:10]} {verdict}")
        if verdict == "good":
            low = middle
        elif verdict == "bad":
            high = middle
    oracle.clean()
    _report(top, commits, low, high, verdicts | ends)
    return 4 if strict and high - low > 1 else 0


@dataclass
class Oracle:
    """Runs a command at a commit and says good, bad or skip. Finished runs are kept, so an interrupted search continues."""

    top: Path
    folder: Path
    cmd: tuple[str, ...]
    by: str
    severity: Severity
    repeat: int
    reference: Sequence[Run | None] = ()

    def judge(self, commit: str) -> str:
        """The verdict of the commit's runs; two more runs when they disagree, and skip when they still do."""
        for count in (self.repeat, self.repeat + 2):
            verdicts = Counter(self._sick(run) for run in self.runs_of(commit, count))
            (sick, votes), *others = verdicts.most_common()
            if not others or (count > self.repeat and votes >= 3 * sum(n for _, n in others)):
                return "skip" if sick is None else "bad" if sick else "good"
        return "skip"

    def runs_of(self, commit: str, count: int | None = None) -> list[Run | None]:
        return [self._run(commit, i) for i in range(count or self.repeat)]

    def _sick(self, run: Run | None) -> bool | None:
        if run is None:
            return None
        if self.by == "loss":
            return self._worse(run)
        found = diagnosis_.diagnose(run).findings
        return any(f.severity >= self.severity and f.confidence is not Confidence.SUGGESTIVE for f in found)

    def _worse(self, run: Run) -> bool | None:
        """Whether its loss is worse than the good commit's; None where that cannot be told."""
        reference = [r for r in self.reference if r is not None]
        found, _ = last_word(quality(reference, run, 0.0) if reference else (), ())
        return None if found == "cannot-tell" else found == "worse"

    def _run(self, commit: str, index: int) -> Run | None:
        record = self.folder / "records" / f"{commit}-{index}"
        done = record.with_suffix(".json")
        if not done.exists():
            shutil.rmtree(record, ignore_errors=True)
            tree = self._tree(commit)
            env = os.environ | {"TRAINDX_DIR": str(record)}
            ended = subprocess.run(
                self.cmd, cwd=tree, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
            )
            record.parent.mkdir(parents=True, exist_ok=True)
            done.write_text(json.dumps({"commit": commit, "exit": ended.returncode, "stderr": ended.stderr[-2000:]}))
        try:
            return api.load(record)[0]
        except TraindxError:
            return None

    def _tree(self, commit: str) -> Path:
        tree = self.folder / "tree"
        if not tree.exists():
            tree.parent.mkdir(parents=True, exist_ok=True)
            _git(self.top, "worktree", "add", "--detach", str(tree), commit)
        else:
            _git(tree, "checkout", "--quiet", "--detach", "--force", commit)
        return tree

    def clean(self) -> None:
        """Take the extra work tree away; the records stay."""
        if (self.folder / "tree").exists():
            _git(self.top, "worktree", "remove", "--force", str(self.folder / "tree"))


def observed(cmd: Sequence[str]) -> tuple[str, ...]:
    """The user's python command line with `traindx run` slipped in."""
    words = list(cmd)
    if not words or not Path(words[0]).name.startswith("python"):
        raise UsageError(f"bisect observes a python command, for example `-- python train.py`; got {' '.join(words)!r}")
    if words[0] == "python":
        words[0] = sys.executable
    return (words[0], "-P", "-m", "traindx", "run", "--quiet", *words[1:])


def _between(top: Path, good: str, bad: str) -> list[str]:
    """The commits after `good` up to and with `bad`, oldest first, along the line that leads there."""
    listed = _git(top, "rev-list", "--reverse", "--first-parent", f"{good}..{bad}").split()
    if not listed:
        raise UsageError(f"there is no commit between {good} and {bad}; is the good one an ancestor of the bad one?")
    return listed


def _next(low: int, high: int, commits: Sequence[str], verdicts: dict[str, str]) -> int | None:
    """The untried commit nearest the middle; None when only skipped ones are left."""
    open_ = [i for i in range(low + 1, high) if commits[i] not in verdicts]
    return min(open_, key=lambda i: abs(i - (low + high) / 2), default=None)


def _not_apart(good: str, bad: str, of_good: str, of_bad: str) -> None:
    """The two ends could not be told apart: say which, and name nobody."""
    said = {
        "good": "shows nothing wrong",
        "bad": "is sick",
        "skip": "could not be judged (it fails, or its runs do not decide)",
    }
    screen = options.console()
    screen.print("[bold]No commit can be named: the two ends do not differ clearly.[/]")
    screen.print(f"The run of {good} {said[of_good]}, the run of {bad} {said[of_bad]}.", markup=False)
    screen.print("More steps, more evaluations or a larger --repeat may decide it.", style="dim")


def _report(top: Path, commits: Sequence[str], low: int, high: int, verdicts: dict[str, str]) -> None:
    screen = options.console()
    suspects = commits[low + 1 : high + 1]
    if len(suspects) == 1:
        screen.print("[bold]The first commit whose run is sick:[/]")
    else:
        screen.print(f"[bold]It is one of {len(suspects)} commits; the others between could not be decided:[/]")
    for commit in suspects:
        screen.print(_git(top, "log", "-1", "--format=%h %ad %s", "--date=short", commit), markup=False)
    tried = ", ".join(f"{c[:10]} {v}" for c, v in verdicts.items())
    screen.print(f"Tried: {tried or 'nothing, they are neighbours'}", style="dim")


def _git(where: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=where, capture_output=True, text=True, check=False)
    if done.returncode:
        words = done.stderr.strip().splitlines()
        fault = UsageError if "unknown revision" in done.stderr or "bad revision" in done.stderr else EnvironmentFault
        raise fault(f"git {args[0]}: {words[-1] if words else 'failed'}")
    return done.stdout.strip()
