"""Sweeps with a planted cause, and many runs in one folder: is the cause named, and how long does it take?

python bench/many.py sweeps --seeds 2        # generated logs with config.json beside them, read and judged as by a user
python bench/many.py sweeps --messy          # Hydra, Lightning, console logs, names only; runs cut short or torn
python bench/many.py time --runs 1500        # names, the first and the second `traindx diagnose FOLDER`
python bench/many.py peers --runs 300 --python VENV/bin/python     # TensorBoard's and MLflow's own listing of the same curves
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Config = dict[str, Any]
RATES = (0.001, 0.01, 0.1, 1.0, 10.0)


def _grid(rng: np.random.Generator) -> list[Config]:
    return [
        {
            "lr": lr,
            "optimizer": opt,
            "act": act,
            "dropout": float(rng.choice([0.0, 0.1, 0.3])),
            "width": int(rng.choice([64, 128])),
            "seed": int(rng.integers(99)),
        }
        for lr in RATES
        for opt in ("sgd", "adam")
        for act in ("relu", "sigmoid")
        for _ in range(2)
    ]


def _random(rng: np.random.Generator) -> list[Config]:
    return [
        {
            "lr": float(10 ** rng.uniform(-4, 1)),
            "wd": float(10 ** rng.uniform(-6, -1)),
            "depth": int(rng.choice([2, 4, 8])),
            "optimizer": str(rng.choice(["sgd", "adam", "lion"])),
            "warmup": int(rng.choice([0, 100])),
        }
        for _ in range(36)
    ]


def _seeds(rng: np.random.Generator) -> list[Config]:
    return [{"lr": 0.1, "optimizer": "sgd", "seed": i} for i in range(12)]


# name → the settings, which of them are sick, and the settings that the cause must name (none: nothing may be claimed)
Plant = tuple[Callable[[np.random.Generator], list[Config]], Callable[[Config, np.random.Generator], bool], tuple[str, ...]]
PLANTED: dict[str, Plant] = {
    "rate too high": (_grid, lambda c, r: c["lr"] >= 1, ("lr",)),
    "rate too low": (_grid, lambda c, r: c["lr"] <= 0.001, ("lr",)),
    "one optimizer": (_grid, lambda c, r: c["optimizer"] == "adam", ("optimizer",)),
    "one activation": (_grid, lambda c, r: c["act"] == "sigmoid", ("act",)),
    "rate × optimizer": (_grid, lambda c, r: c["lr"] >= 1 and c["optimizer"] == "adam", ("lr", "optimizer")),
    "rate × activation": (_grid, lambda c, r: c["lr"] >= 0.1 and c["act"] == "sigmoid", ("lr", "act")),
    "random search, rate": (_random, lambda c, r: c["lr"] > 0.5, ("lr",)),
    "random search, lion": (_random, lambda c, r: c["optimizer"] == "lion", ("optimizer",)),
    "random search, depth × warm-up": (_random, lambda c, r: c["depth"] >= 4 and c["warmup"] == 0, ("depth", "warmup")),
    "rate too high, with noise": (_grid, lambda c, r: (c["lr"] >= 1) != (r.random() < 0.05), ("lr",)),
    "no effect, a third sick": (_grid, lambda c, r: r.random() < 0.33, ()),
    "no effect, random search": (_random, lambda c, r: r.random() < 0.25, ()),
    "no effect, half sick": (_random, lambda c, r: r.random() < 0.5, ()),
    "nobody sick": (_grid, lambda c, r: False, ()),
    "only seed noise": (_seeds, lambda c, r: r.random() < 0.3, ()),
}


def curve(sick: bool, rng: np.random.Generator, epochs: int = 40) -> str:
    """The log of a small classifier of ten classes: one that learns, or one that stays at chance."""
    e = np.arange(epochs)
    good = 0.15 + (math.log(10) - 0.15) * np.exp(-e / 8)
    loss = (math.log(10) + 0.003 * rng.standard_normal(epochs)) if sick else good * (1 + 0.02 * rng.standard_normal(epochs))
    val = loss + 0.02 * rng.standard_normal(epochs).__abs__()
    acc = (
        (0.1 + 0.005 * rng.standard_normal(epochs))
        if sick
        else 0.97 - 0.87 * np.exp(-e / 6) + 0.004 * rng.standard_normal(epochs)
    )
    lines = [f"{i},{a:.5f},{b:.5f},{c:.4f}" for i, a, b, c in zip(e, loss, val, acc)]
    return "epoch,train_loss,val_loss,val_acc\n" + "\n".join(lines) + "\n"


def _hydra(home: Path, config: Config) -> None:
    (home / ".hydra").mkdir()
    (home / ".hydra" / "config.yaml").write_text("".join(f"{k}: {v}\n" for k, v in config.items()))
    (home / "train.log").write_text("[2026-01-01 10:00:00,123][__main__][INFO] - loading data\n")


def _lightning(home: Path, config: Config) -> None:
    (home / "hparams.yaml").write_text("".join(f"{k}: {v}\n" for k, v in config.items()))


def _with_waste(home: Path, config: Config) -> None:
    waste = {
        "git": f"{abs(hash(home.name)):07x}"[:7],
        "started": f"2026-01-01 {home.name}",
        "save_dir": str(home),
        "workers": 4,
    }
    (home / "settings.json").write_text(json.dumps({**config, **waste}))


MESSES: tuple[Callable[[Path, Config], None], ...] = (_hydra, _lightning, _with_waste)


def write_messy(folder: Path, configs: list[Config], sick: list[bool], rng: np.random.Generator, mess: int) -> None:
    """The same runs as people leave them: settings in other places, runs that were cut short, torn or never began."""
    for i, (config, bad) in enumerate(zip(configs, sick)):
        name, log = f"run-{i:04d}", curve(bad, rng)
        if mess == len(MESSES):  # only in the names
            name = "_".join(f"{k}{v}" if isinstance(v, int | float) else v for k, v in config.items()) + f"_{i}"
        home = folder / name
        home.mkdir(parents=True)
        if mess < len(MESSES):
            MESSES[mess](home, config)
        if mess > len(MESSES):  # a console log that begins with its settings
            given = ", ".join(f"{k}={v!r}" for k, v in config.items())
            rows = [line.split(",") for line in log.splitlines()[1:]]
            said = [f"Epoch {e}/40 | train loss {a} | val loss {b} | val acc {float(c):.2%}" for e, a, b, c in rows]
            (home / "slurm.out").write_text("\n".join([f"Namespace({given})", "Using device: cuda", *said]))
            continue
        lines = log.splitlines()
        if rng.random() < 0.1:
            lines = [*lines[: int(rng.integers(20, 38))], lines[-1][:7]]  # killed while it wrote
        (home / "log.csv").write_text("\n".join(lines))
    (folder / "never-began").mkdir()
    (folder / "never-began" / "log.csv").write_text("epoch,train_loss,val_loss,val_acc\n")
    (folder / "notes.txt").write_text("lr 1 looks bad?\n")
    (folder / "torn.csv").write_bytes(b"\x00\x01\x02")


def write(folder: Path, configs: list[Config], sick: list[bool], rng: np.random.Generator) -> None:
    for i, (config, bad) in enumerate(zip(configs, sick)):
        home = folder / f"run-{i:04d}"
        home.mkdir(parents=True)
        (home / "log.csv").write_text(curve(bad, rng))
        (home / "config.json").write_text(json.dumps(config))


def sweeps(seeds: int, first: int, only: str, messy: bool) -> None:
    """Each plant with some seeds: whether the settings named are those planted, and none else."""
    from traindx.diagnosis import common  # not there in the environment of the peers
    from traindx.report.runs import Runs

    named = claimed = planted = null = 0
    for name, (grid, rule, truth) in ((n, p) for n, p in PLANTED.items() if only in n):
        for seed in range(first, first + seeds):
            rng = np.random.default_rng([seed, len(name)])
            configs = grid(rng)
            sick = [bool(rule(c, rng)) for c in configs]
            with tempfile.TemporaryDirectory() as home:
                if messy:
                    write_messy(Path(home), configs, sick, rng, (list(PLANTED).index(name) + seed) % (len(MESSES) + 2))
                else:
                    write(Path(home), configs, sick, rng)
                found = Runs([Path(home)]).sweep()
            judged = sum(r.verdict in common.SICK for r in found.rows)
            said = found.causes[0].text if found.causes else ""
            for place, key in enumerate(configs[0], 1):
                said = said.replace(f"name part {place} ", f"{key} ")  # where only the names hold the settings
            keys = tuple(k for k in configs[0] if f"{k} " in said)
            right = set(keys) == set(truth) and (not truth or len(found.causes) == 1 or "noise" in name)
            if truth:
                planted, named = planted + 1, named + right
            else:
                null, claimed = null + 1, claimed + bool(found.causes)
            print(
                f"{'ok ' if right else 'BAD'} {name:32} {sum(sick)} sick, {judged} judged so; {[c.text for c in found.causes]}",
                flush=True,
            )
    print(f"cause named: {named} of {planted}; claimed where there is none: {claimed} of {null}")


def _call(*words: str, env: dict[str, str]) -> tuple[float, float, float]:
    """Seconds, seconds of the processor, and megabytes (of the largest process so far) of a command."""
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begun, spent, after.ru_maxrss / 1024


NAMES = (
    "import sys; from traindx.dashboard.library import Library; from pathlib import Path; Library(Path(sys.argv[1])).entries()"
)


def timed(count: int) -> None:
    """Names, then the command on a folder of `count` runs, twice, with a cache of its own."""
    with tempfile.TemporaryDirectory() as home:
        rng = np.random.default_rng(0)
        configs = [_random(rng)[0] for _ in range(count)]
        write(Path(home) / "runs", configs, [c["lr"] > 0.5 for c in configs], rng)
        env = {**os.environ, "TRAINDX_CACHE": f"{home}/cache"}
        judge = ("-m", "traindx", "diagnose", f"{home}/runs", "--fail-on", "never")
        for what, words in (("names", ("-c", NAMES, f"{home}/runs")), ("first", judge), ("again", judge)):
            seconds, spent, most = _call(*words, env=env)
            print(
                f"{what}: {count} runs in {seconds:.1f} s ({spent:.1f} s of the processor), at most {most:.0f} MB in a process",
                flush=True,
            )


TENSORBOARD = """
import sys, time
from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
m = EventMultiplexer(); m.AddRunsFromDirectory(sys.argv[1]); m.Reload(); print(len(m.Runs()))
"""
MLFLOW = """
import sys, mlflow
client = mlflow.tracking.MlflowClient(tracking_uri="file:" + sys.argv[1])
print(len(client.search_runs(["0"], max_results=1000)))
"""


def write_peers(count: int, home: Path) -> None:
    """The curves as event files (by tensorboard's own writer) and as an MLflow store."""
    from mlflow.tracking import MlflowClient
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    rng = np.random.default_rng(0)
    client = MlflowClient(tracking_uri=f"file:{home}/MLflow")
    for i in range(count):
        rows = [line.split(",") for line in curve(i % 3 == 0, rng).splitlines()[1:]]
        writer = EventFileWriter(f"{home}/TensorBoard/run-{i:04d}")
        run = client.create_run("0")
        for step, *values in rows:
            for tag, value in zip(("train_loss", "val_loss", "val_acc"), values):
                one = Summary.Value(tag=tag, simple_value=float(value))
                writer.add_event(Event(step=int(step), wall_time=time.time(), summary=Summary(value=[one])))
        client.log_batch(run.info.run_id, [mlflow_metric(tag, row) for row in rows for tag in (1, 2, 3)])
        writer.close()


def mlflow_metric(tag: int, row: list[str]) -> Any:
    from mlflow.entities import Metric

    return Metric(("", "train_loss", "val_loss", "val_acc")[tag], float(row[tag]), int(time.time() * 1000), int(row[0]))


def peers(count: int, python: str) -> None:
    """The same runs listed by TensorBoard and MLflow in another environment; neither judges them."""
    with tempfile.TemporaryDirectory() as home:
        made = [python, __file__, "write-peers", "--runs", str(count), "--home", home]
        env = {**os.environ, "MLFLOW_ALLOW_FILE_STORE": "true"}  # its folders, as most teams still have them
        subprocess.run(made, check=True, env=env)
        for name, program in (("TensorBoard", TENSORBOARD), ("MLflow", MLFLOW)):
            begun = time.perf_counter()
            done = subprocess.run([python, "-c", program, f"{home}/{name}"], capture_output=True, text=True, env=env)
            told = f"{time.perf_counter() - begun:.1f} s" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]
            print(f"{name}: {done.stdout.strip()} of {count} runs listed in {told}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("sweeps", "time", "peers", "write-peers"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="sweeps: the first seed")
    parser.add_argument("--messy", action="store_true", help="sweeps: settings and logs as people leave them")
    parser.add_argument("--only", default="", help="sweeps: those whose name holds this")
    parser.add_argument("--runs", type=int, default=1500)
    parser.add_argument("--python", default=sys.executable, help="peers: the Python that has tensorboard and mlflow")
    parser.add_argument("--home", type=Path, default=Path())
    given = parser.parse_args()
    if given.what == "sweeps":
        sweeps(given.seeds, given.first, given.only, given.messy)
    elif given.what == "time":
        timed(given.runs)
    elif given.what == "peers":
        peers(given.runs, given.python)
    else:
        write_peers(given.runs, given.home)
