"""Where the first bad number came from: 15 kinds of NaN programs × two bases × early and late, two budgets early, and their replay.

Each program trains for `LATE` steps of about a millisecond; one sample of the data then breaks it, or one does at step `EARLY`.
The answer is right when operation, line and place (data, between loader and model, model, loss, weights) are those of the kind; of
data the sample's index in the data set is asked for instead of a line. A healed twin holds the guarded expression and meets the
same sample. (At the first measurement two programs did not do what they say and were rewritten: `exp` had learned not to break by
step 3,000, and the healed `fp16` overflowed in its gradients. They stood as one miss and one false alarm.) `replay` makes the step of the capsule again in the program, and writes it as a script that is then run by itself.

    python -m bench.forensics                    # all, writes bench/results/forensics.{json,md}
    python -m bench.forensics --pages            # the pages of `traindx run` and the replays, at step `PAGED`
    python -m bench.forensics --only log acos    # kinds whose name has one of these words; the others stay as they were measured
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import runpy
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

from clinic.patient import _cli, in_fork

RESULTS = Path(__file__).parent / "results"
EARLY, LATE, PAGED, MORE = 3, 3000, 300, 40
ROW = 3  # of its batch: the sample that breaks it

DATA = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.manual_seed(0)
AT, MORE, ROW = {at}, {more}, {row}
N = 8 * (AT + MORE)
X = 0.5 + 0.4 * torch.rand(N, 6)
Y = X[:, :4] * X[:, 2:]
order = torch.randperm(N).tolist()
bad = order[8 * AT + ROW]
X[bad] = {value}
"""
MLP = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
        self.gate = nn.Parameter(torch.ones(4))

    def forward(self, x, second=False):
        h = self.body(x) * self.gate
{inside}
        return h


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=1e-2)
for step, (x, y) in enumerate(DataLoader(TensorDataset(X, Y), batch_size=8, sampler=order)):
{before}
{call}
{loss}
    opt.zero_grad()
    loss.backward()
    opt.step()
{after}
"""
ATTENTION = """
class Rows(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, i):
        return {"x": X[i], "y": Y[i]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(1, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 4)
        self.gate = nn.Parameter(torch.ones(4))

    def forward(self, x, second=False):
        h = self.head(self.block(self.embed(x[:, :, None])).mean(1)) * self.gate
{inside}
        return h


net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)


def train_step(batch):
    x, y = batch["x"], batch["y"]
{before}
{call}
{loss}
    opt.zero_grad()
    loss.backward()
    opt.step()
{after}


for batch in DataLoader(Rows(), batch_size=8, sampler=order):
    train_step(batch)
"""
BASES = {"mlp": MLP, "attention": ATTENTION}
CAST = 'with torch.autocast("cpu", dtype=torch.float16):\n    out = net(x)\nout = out.float()'
DIRECT = "loss = F.mse_loss(out, y)"


@dataclass(frozen=True)
class Kind:
    """One way to break, with what is right to say of it. `wrong` → `sound` heals it."""

    name: str
    ops: tuple[str, ...]
    place: str
    wrong: str
    sound: str
    value: str = "0.0"
    inside: str = ""
    before: str = ""
    call: str = "out = net(x)"
    loss: str = DIRECT
    after: str = ""
    phase: str = "forward"

    def program(self, base: str, at: int, healed: bool = False) -> str:
        """Its text on one of the bases."""
        pieces = {}
        for piece in ("inside", "before", "call", "loss", "after"):
            text = dedent(getattr(self, piece)) or "pass"
            pieces[piece] = indent(text, " " * (8 if piece == "inside" else 4))
        text = BASES[base]
        for piece, code in pieces.items():
            text = text.replace("{" + piece + "}", code)
        text = DATA.format(at=at, more=MORE, row=ROW, value=self.value) + text
        assert text.count(self.wrong) == 1, self.name
        return text.replace(self.wrong, self.sound) if healed else text

    def line(self, base: str, at: int) -> int:
        return next(i for i, text in enumerate(self.program(base, at).splitlines(), 1) if self.wrong in text)


KINDS = (
    Kind("log of zero", ("log",), "loss", "torch.log(p)", "torch.log(p.clamp(min=1e-6))",
         loss="p = out.softmax(1) * x[:, :4]\nloss = -(y * torch.log(p)).mean()"),
    Kind("0/0", ("div",), "model", "h / w.sum(1, keepdim=True)", "h / w.sum(1, keepdim=True).clamp(min=1e-6)",
         inside="w = x[:, :4]\nh = h * w\nh = h / w.sum(1, keepdim=True)"),
    Kind("root at zero, backward", ("sqrt",), "model", "d.sum(1, keepdim=True).sqrt()", "(d.sum(1, keepdim=True) + 1e-12).sqrt()",
         inside="d = (h * x[:, :4]).square()\nh = h + d.sum(1, keepdim=True).sqrt()", phase="backward"),
    Kind("exp", ("exp",), "loss", "torch.exp(rate)", "torch.exp(rate.clamp(max=20))", value="30.0",
         loss="rate = (3 + out.sigmoid()) * x[:, :4]\nloss = (torch.exp(rate) - y * rate).mean()"),
    Kind("fp16", ("mul",), "model", "g * g * g", "(g * g * g.float()).clamp(max=9)", value="50.0", call=CAST,
         inside="g = x[:, :4].half()\nh = h + g * g * g"),
    Kind("in place through .data", ("div", "div_"), "model", "h.data.div_(w)", "h.data.div_(w + 1)",
         inside="w = x[:, :4]\nh = h * 1.0\nh.data.div_(w)\nh = h / (1 + h.abs())"),
    Kind("bad row", ("input",), "data", "float('nan')", "0.5", value="float('nan')"),
    Kind("zero norm", ("div",), "between", "x / x.norm(dim=1, keepdim=True)", "F.normalize(x, eps=1e-6)",
         before="x = x / x.norm(dim=1, keepdim=True)"),
    Kind("acos", ("acos",), "model", "torch.acos(c)", "torch.acos(c.clamp(-1 + 1e-6, 1 - 1e-6))", value="1.5",
         inside="c = x[:, :4] * 1.0\nh = h + torch.acos(c)"),
    Kind("constant feature", ("div",), "between", "centred / spread", "centred / (spread + 1e-6)",
         before="centred = x - x.mean(1, keepdim=True)\nspread = x.std(1, keepdim=True)\nx = centred / spread"),
    Kind("fully masked attention", ("_softmax", "softmax", "_safe_softmax"), "model", "s.softmax(-1)",
         "s.masked_fill(~s.isfinite().any(-1, keepdim=True), 0.0).softmax(-1)",
         inside="s = h[:, :, None] * h[:, None, :]\ns = s.masked_fill(x[:, None, :4] == 0, -torch.inf)\n"
         "a = s.softmax(-1)\nh = (a @ h[:, :, None]).squeeze(-1)"),
    Kind("cumprod and log", ("log",), "loss", "torch.log(c)", "torch.log(c + 1e-6)", value="1e-20",
         loss="c = torch.cumprod(x[:, :4] * out.sigmoid(), 1)\nloss = -torch.log(c).mean()"),
    Kind("nan_to_num", ("log",), "model", "torch.log(s)", "torch.log(s + 1e-6)",
         inside="s = (h * x[:, :4]).square()\ng = torch.log(s)\nh = h + torch.nan_to_num(g, neginf=0.0)", phase="backward"),
    Kind(
        "delayed parameter NaN",
        ("weights",),
        "weights",
        "net.gate.data / n",
        "net.gate.data / (n + (n == 0))",
        after="n = net.gate.data.norm() * (x.min() > 0)\nnet.gate.data = net.gate.data / n",
    ),
    Kind("second model call", ("log",), "model", "torch.log(x[:, :4])", "torch.log(x[:, :4] + 1e-6)",
         call="out = net(x)\nagain = net(x, second=True)", loss="loss = F.mse_loss(out, y) + 0.1 * F.mse_loss(again, y)",
         inside="if second:\n    h = h + torch.log(x[:, :4])"),
)  # fmt: skip


def watched(budget: str) -> None:
    """Run `train.py` of this folder under a recorder with forensics, and write down what they found."""
    from traindx.forensics.arm import arm
    from traindx.probes.drive.recorder import Recorder
    from traindx.probes.launch.attach import attach, detach

    recorder = Recorder(budget=None if budget == "none" else 0.01)
    arm(recorder)
    observer = attach(recorder)
    try:
        runpy.run_path("train.py")
    finally:
        detach(observer)
        recorder.close()
    run = recorder.sink.run()
    told = {key: run.fact(key) for key in ("origin", "replay.failed", "replay.seconds")}
    told |= {"broke": len(run.events_of("nonfinite")), "errors": [f.error for f in recorder.failures]}
    Path("told.json").write_text(json.dumps(told), encoding="utf-8")


def ran(kind: Kind, base: str, at: int, budget: str, healed: bool = False) -> dict[str, Any]:
    """What the forensics say of one program."""
    with tempfile.TemporaryDirectory(prefix="forensics-") as folder:
        Path(folder, "train.py").write_text(kind.program(base, at, healed), encoding="utf-8")
        ended = in_fork(lambda: watched(budget), folder)
        if not Path(folder, "told.json").exists():
            raise RuntimeError(f"{kind.name}: {ended['stderr']}")
        told = json.loads(Path(folder, "told.json").read_text(encoding="utf-8"))
    row = {"kind": kind.name, "base": base, "at": at, "budget": budget, "healed": healed, "cpu_s": ended["cpu_s"], **told}
    return row if healed else row | right(kind, base, at, told["origin"] or {})


def paged(kind: Kind, base: str, healed: bool) -> dict[str, Any]:
    """The page of `traindx run` on one program, and the replay of its capsule."""
    with tempfile.TemporaryDirectory(prefix="forensics-") as folder:
        Path(folder, "train.py").write_text(kind.program(base, PAGED, healed), encoding="utf-8")
        words = ["run", "--no-live", "--capture-batch", "--format", "json", "-o", "report.json", "--dir", "record", "train.py"]
        ended = in_fork(lambda: _cli(words), folder)
        if not Path(folder, "report.json").exists():
            raise RuntimeError(f"{kind.name}: {ended['stderr']}")
        report = json.loads(Path(folder, "report.json").read_text(encoding="utf-8"))
        loud = [f for f in report["findings"] if f["severity"] in ("critical", "warning")]
        causes = report["diagnosis"]["causes"]
        row = {"kind": kind.name, "base": base, "healed": healed, "verdict": report["diagnosis"]["verdict"]}
        row |= {
            "cause": causes[0]["cause"] if causes else None,
            "loud": [(f["code"], f["message"], f.get("fix")) for f in loud[:3]],
        }
        capsules = sorted(Path(folder, "record", "capsules").glob("capsule-*"))
        if capsules and not healed:
            from traindx import api

            row["replay"] = replayed(folder, capsules[0], api.load(Path(folder, "record"))[0].fact("origin") or {})
        return row


def right(kind: Kind, base: str, at: int, told: dict[str, Any]) -> dict[str, bool]:
    """Which parts of the answer are right."""
    op = told.get("op") in kind.ops
    place = told.get("place") == kind.place
    line = kind.place in ("data", "weights") or told.get("line") == kind.line(base, at)
    return {"op_right": op, "line_right": line, "place_right": place, "right": op and line and place}


def replayed(folder: str, capsule: Path, told: dict[str, Any]) -> dict[str, Any]:
    """Whether `traindx replay` names what the run named, and its reproducer shows the same operation by itself."""
    words = ["-P", "-m", "traindx", "replay", str(capsule), "--format", "json", "--reproducer", "alone.py", "train.py"]
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return {"same": False, "why": done.stderr[-600:], "traceback": "Traceback" in done.stderr}
    origin = found.get("origin") or {}
    same = (origin.get("op"), origin.get("line")) == (told.get("op"), told.get("line"))
    out: dict[str, Any] = {
        "same": same,
        "op": origin.get("op"),
        "line": origin.get("line"),
        "traceback": "Traceback" in done.stderr,
    }
    alone = Path(folder, "alone.py")
    if alone.exists():
        done = subprocess.run([sys.executable, str(alone)], cwd=folder, capture_output=True, text=True, check=False)
        out["alone"] = {
            "exit": done.returncode,
            "says": (done.stdout + done.stderr)[-300:],
            "same": bool(told.get("op")) and str(told["op"]).rstrip("_") in done.stdout + done.stderr,
        }
    else:
        out["alone"] = {"why": found.get("reproducer_failed")}
    return out


def share(rows: list[dict[str, Any]], what: Callable[[dict[str, Any]], Any]) -> str:
    return f"{sum(bool(what(r)) for r in rows)} of {len(rows)}"


def table(rows: list[dict[str, Any]], pages: list[dict[str, Any]]) -> str:
    """The results as a page."""
    sick, twins = [r for r in rows if not r["healed"]], [r for r in rows if r["healed"]]
    spent = [r["replay.seconds"] for r in sick if r["replay.seconds"] is not None]
    if not sick:
        return ""
    lines = [
        f"Operation, line and place right: {share(sick, lambda r: r['right'])} ({len({r['kind'] for r in rows})} of {len(KINDS)} kinds × {len(BASES)} bases × "
        f"step {EARLY} and {LATE:,}, at step {EARLY} with the default budget and with none, `python -m bench.forensics`). Both budgets "
        "say the same: "
        f"{agreed(sick)}. Nothing found on healed twins: {share(twins, lambda r: not r['broke'] and not r['origin'])}. The "
        f"sample is named by its index in the data set: {share(sick, lambda r: 'sample_in_data' in (r['origin'] or {}))}. An "
        f"investigation took {statistics.median(spent):.2f} s in the median, {max(spent):.2f} s at most.",
        "",
    ]
    again = [r for r in pages if "replay" in r]
    if again:
        lines += [
            f"`traindx replay` names the same operation and line: {share(again, lambda r: r['replay']['same'])} (step {PAGED}); "
            "the step as a script of its own shows the same operation: "
            f"{share(again, lambda r: (r['replay'].get('alone') or {}).get('same'))}.",
            "",
        ]
    lines += ["| kind | operation | line | place | replay | alone |", "|---|---|---|---|---|---|"]
    for kind in (k for k in KINDS if any(r["kind"] == k.name for r in rows)):
        own, replays = ([r for r in them if r["kind"] == kind.name] for them in (sick, again))
        cells = [share(own, lambda r, key=key: r[key]) for key in ("op_right", "line_right", "place_right")]  # type: ignore[misc]
        cells += [share(replays, lambda r: r["replay"]["same"]) if replays else "–"]
        cells += [share(replays, lambda r: (r["replay"].get("alone") or {}).get("same")) if replays else "–"]
        lines.append(f"| {kind.name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def agreed(sick: list[dict[str, Any]]) -> str:
    said: dict[tuple[str, str], set[Any]] = {}
    for r in sick:
        if r["at"] == EARLY:  # where both were measured
            found = r["origin"] or {}
            said.setdefault((r["kind"], r["base"]), set()).add(tuple(found.get(k) for k in ("op", "line", "place")))
    return f"{sum(len(one) == 1 for one in said.values())} of {len(said)}"


def main() -> None:
    """Measure, and write unless only some were asked for."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--only", nargs="*", default=[])
    ask.add_argument("--pages", action="store_true", help="the pages and the replays; their rows are kept for the next table")
    ask.add_argument("--base", nargs="*", default=list(BASES))
    given = ask.parse_args()
    kinds = [k for k in KINDS if not given.only or any(word in k.name for word in given.only)]
    held = RESULTS / "forensics.json"
    kept = json.loads(held.read_text(encoding="utf-8")) if held.exists() else {"rows": [], "pages": []}
    part = "pages" if given.pages else "rows"
    rows = [r for r in kept[part] if (r["kind"], r["base"]) not in {(k.name, b) for k in kinds for b in given.base}]
    for kind, base in itertools.product(kinds, given.base):
        if given.pages:
            cases: list[Callable[[], dict[str, Any]]] = [
                functools.partial(paged, kind, base, healed) for healed in (False, True)
            ]
        else:
            steps = (
                (EARLY, "default"),
                (EARLY, "none"),
                (LATE, "default"),
            )  # with no budget, late steps are looked at like early ones
            cases = [functools.partial(ran, kind, base, at, budget) for at, budget in steps]
            cases.append(functools.partial(ran, kind, base, LATE, "default", True))
        for case in cases:
            rows.append(case())
            print(json.dumps(rows[-1]), flush=True)
        rows.sort(key=lambda r: [k.name for k in KINDS].index(r["kind"]))
        kept[part] = rows  # each time: who stops it keeps what was measured
        RESULTS.mkdir(exist_ok=True)
        held.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        (RESULTS / "forensics.md").write_text(table(kept["rows"], kept["pages"]), encoding="utf-8")


if __name__ == "__main__":
    main()
