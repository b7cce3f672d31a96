"""Attach to programs at random moments: do they live, do they compute the same, is every patch gone?

    python bench/attach.py --moments 200

Each program is first run alone. Then it is run again and again; at random moments somebody attaches, stays for some updates,
and leaves. A program counts as the same when it prints the same hash of its weights and random states, exits with 0, and finds
torch, builtins and logging at its end as they were at its start.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

from traindx import settings
from traindx.bedside import command, process
from traindx.cli.attach import Visit
from traindx.errors import EnvironmentFault

START = textwrap.dedent("""
    import builtins, hashlib, logging, random, sys, time
    import numpy as np, torch
    from torch import nn
    from torch.nn import functional as F
    from torch.optim import lr_scheduler, optimizer as _o
    from torch.utils.data import DataLoader, TensorDataset, dataloader
    import torch._dynamo
    def points():
        owners = [builtins, logging.Logger, torch, torch.Tensor, torch.autograd, nn.Module, F, torch.optim.Optimizer, DataLoader]
        owners += [nn.utils, nn.utils.clip_grad, torch.amp.GradScaler, dataloader._BaseDataLoaderIter, random, np.random]
        owners += [v for m in (nn, lr_scheduler, torch.distributions) for v in vars(m).values() if isinstance(v, type)]
        found = {(repr(o), n): id(v) for o in owners for n, v in vars(o).items() if callable(v)}
        return found, len(_o._global_optimizer_pre_hooks), len(_o._global_optimizer_post_hooks), len(sys.meta_path)
    torch.manual_seed(0); random.seed(0); np.random.seed(0)
    WAS = points()
    class Reads:
        def __init__(self, n): self.n = n
        def __len__(self): return self.n
        def __getitem__(self, i):
            g = torch.Generator().manual_seed(i); x = torch.randn(16, generator=g); return x, (x[0] > 0).long()
    def net(wide=32): return nn.Sequential(nn.Linear(16, wide), nn.ReLU(), nn.Dropout(0.1), nn.Linear(wide, 2))
    def said(model):
        state = [*model.state_dict().values(), torch.get_rng_state()]
        digest = hashlib.sha256(b"".join(t.detach().numpy().tobytes() for t in state)).hexdigest()
        time.sleep(0.3); model(torch.randn(4, 16)); now = points()
        gone = [k for k in set(WAS[0]) | set(now[0]) if WAS[0].get(k) != now[0].get(k)]
        print(digest[:16], "same" if not gone and WAS[1:] == now[1:] else f"CHANGED {gone[:4]} {WAS[1:]} {now[1:]}", flush=True)
    SCALE = float(sys.argv[1]); print("up", flush=True)
""")
PROGRAMS = {
    "workers": """
        model = net(); opt = torch.optim.AdamW(model.parameters(), 1e-3)
        for epoch in range(int(5 * SCALE)):
            for x, y in DataLoader(Reads(800), batch_size=16, shuffle=True, num_workers=2):
                opt.zero_grad(); F.cross_entropy(model(x), y).backward(); opt.step(); time.sleep(0.004)
        said(model)
    """,
    "threads": """
        import queue, threading
        jobs, over = queue.Queue(4), threading.Event()
        def makes():
            g = torch.Generator().manual_seed(5)
            while not over.is_set():
                x = torch.randn(16, 16, generator=g)
                try: jobs.put((x, (x[:, 0] > 0).long()), timeout=0.1)
                except queue.Full: time.sleep(0.001)
        def idles():
            while not over.is_set(): sum(i * i for i in range(200)); time.sleep(0.002)
        threads = [threading.Thread(target=t) for t in (makes, idles)]; [t.start() for t in threads]
        model = net(); opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
        held = None
        for step in range(int(300 * SCALE)):
            x, y = torch.randn(16, 16), torch.randint(0, 2, (16,)); jobs.get()
            loss = F.cross_entropy(model(x), y); opt.zero_grad(); loss.backward(); opt.step(); time.sleep(0.008)
        over.set(); [t.join() for t in threads]; said(model)
    """,
    "backward": """
        from torch.utils.checkpoint import checkpoint
        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x): return x * 2
            @staticmethod
            def backward(ctx, g): return sum([g / 10] * 20)
        body = nn.LSTM(16, 48, 2, batch_first=True); head = nn.Linear(48, 2)
        model = nn.ModuleList([body, head]); model.__class__ = type("Model", (nn.ModuleList,), {"forward": lambda s, x: s[1](
            checkpoint(lambda z: s[0](z)[0], Twice.apply(x.unsqueeze(1).expand(-1, 40, -1).requires_grad_()), use_reentrant=True)[:, -1])})
        opt = torch.optim.Adam(model.parameters(), 1e-3)
        for step in range(int(110 * SCALE)):
            x = torch.randn(32, 16); y = (x[:, 0] > 0).long()
            loss = F.cross_entropy(model(x), y); loss.backward(); nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step(); opt.zero_grad(set_to_none=True)
        said(model)
    """,
    "evaluation": """
        model = net(); opt = torch.optim.RMSprop(model.parameters(), 1e-3)
        sched = lr_scheduler.CosineAnnealingLR(opt, int(12 * SCALE))
        for epoch in range(int(3 * SCALE)):
            model.train()
            for x, y in DataLoader(Reads(160), batch_size=16, shuffle=True):
                opt.zero_grad(); F.cross_entropy(model(x), y).backward(); opt.step(); time.sleep(0.02)
            sched.step(); model.eval()
            with torch.no_grad():
                right = 0
                for x, y in DataLoader(Reads(1600), batch_size=16):
                    right += (model(x).argmax(1) == y).sum().item(); time.sleep(0.008)
            print("accuracy", right / 1600)
        said(model)
    """,
    "elsewhere": """
        import threading
        def trains():
            model = net(); opt = torch.optim.Adagrad(model.parameters(), 0.01)
            for step in range(int(300 * SCALE)):
                x = torch.randn(16, 16); y = (x[:, 0] > 0).long()
                opt.zero_grad(); F.cross_entropy(model(x), y).backward(); opt.step(); time.sleep(0.008)
            said(model)
        thread = threading.Thread(target=trains); thread.start(); thread.join()
    """,
    "signals": """
        import os, signal, subprocess
        rings = [0]
        def ring(*a): rings[0] += 1
        signal.signal(signal.SIGALRM, ring); signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        model = net(64); opt = torch.optim.Adam(model.parameters(), 1e-3)
        for step in range(int(400 * SCALE)):
            x = torch.randn(16, 16); y = (x[:, 0] > 0).long()
            opt.zero_grad(); F.cross_entropy(model(x), y).backward(); opt.step()
            if step % 50 == 0: assert subprocess.run(["true"]).returncode == 0
            if step % 50 == 1 and not (child := os.fork()): os._exit(0)
            if step % 50 == 1: os.waitpid(child, 0)
            time.sleep(0.005)
        assert rings[0] > 10; signal.setitimer(signal.ITIMER_REAL, 0)
        said(model)
    """,
}


def last(text: str) -> str:
    """What a program said of its weights and of torch."""
    return text.strip().rpartition("\n")[2]


def visits(path: Path, scale: float, wanted: str, count: int, rng: random.Random) -> list[dict[str, object]]:
    """Run the program, attach at random moments until it ends or `count` is reached."""
    found: list[dict[str, object]] = []
    chosen = settings.load()
    with subprocess.Popen(
        [sys.executable, str(path), str(scale)], cwd=path.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == "up\n"
        while child.poll() is None and len(found) < count:
            time.sleep(rng.uniform(0.0, 1.2))
            place = path.parent / f"run-{rng.random()}"
            begun = time.monotonic()
            with command.job() as letters:
                try:
                    visit = Visit([process.attachable(child.pid)], place, letters, chosen, 0)
                    visit.come()
                    stood = time.monotonic() - begun
                    time.sleep(rng.uniform(0.0, 1.0))
                    visit.leave()
                    found.append({"came_s": round(stood, 2), "whole_s": round(time.monotonic() - begun, 2)})
                except EnvironmentFault as why:  # what is refused is counted, and must do no harm either
                    found.append({"refused": f"{type(why).__name__}: {why}"[:160]})
        try:
            out, err = child.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
            err += "\nHUNG"
    end = {"code": child.returncode, "hung": "HUNG" in err, "same": last(out) == wanted, "said": last(out), "err": err[-600:]}
    return [{**one, **end} for one in found]


def main() -> None:
    """The table, and every moment as a line of JSON."""
    ask = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ask.add_argument("--moments", type=int, default=200)
    ask.add_argument("--only", default="")
    ask.add_argument("--scale", type=float, default=10.0)
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--out", type=Path)
    given = ask.parse_args()
    rng = random.Random(given.seed)
    names = [name for name in PROGRAMS if given.only in ("", name)]
    lines = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.py"
            path.write_text(START + textwrap.dedent(PROGRAMS[name]))
            alone = subprocess.run(
                [sys.executable, path, str(given.scale)], capture_output=True, text=True, check=True, cwd=folder
            )
            got: list[dict[str, object]] = []
            while len(got) < given.moments / len(names):
                got += visits(path, given.scale, last(alone.stdout), int(given.moments / len(names)) - len(got) or 1, rng)
        crashed = sum(one["code"] != 0 and not one["hung"] for one in got)
        refused = sum("refused" in one for one in got)
        row = f"{name:11} moments {len(got):3}  attached {len(got) - refused:3}  crashes {crashed}  hangs {sum(bool(o['hung']) for o in got)}"
        print(row, f" same {sum(bool(o['same']) for o in got)}", flush=True)
        lines += [json.dumps({"program": name, **one}) for one in got]
        if given.out:
            given.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
