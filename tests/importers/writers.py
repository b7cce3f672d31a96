"""One known run, written in every format: small writers of our own, so that no tracker has to be installed."""

# ruff: noqa: E501 - rows of a table are easier to compare when they are not broken

from __future__ import annotations

import csv
import json
import math
import sqlite3
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

STEPS = np.arange(300)
TRAIN = np.round(2.0 * (1 + STEPS / 20) ** -0.6 + 0.05 * np.sin(STEPS * 1.7), 6)
LR = np.round(1e-3 * (1 - STEPS / 400), 8)
NORM = np.round(1.0 + 0.3 * np.cos(STEPS * 0.9), 6)
EVERY = 30
VAL_AT = STEPS[EVERY - 1 :: EVERY]
VAL = np.round(2.1 * (1 + VAL_AT / 25) ** -0.55, 6)
PER_EPOCH = 60


def rows() -> list[dict[str, float]]:
    """Records as a training loop would log them: one per step, evaluations apart."""
    out: list[dict[str, float]] = []
    for i in STEPS.tolist():
        out.append({"step": i, "epoch": i / PER_EPOCH, "loss": TRAIN[i], "lr": LR[i], "grad_norm": NORM[i]})
        if i in VAL_AT:
            out.append({"step": i, "epoch": i / PER_EPOCH, "val_loss": VAL[list(VAL_AT).index(i)]})
    return out


# -- TensorBoard


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def sized(key: int, content: bytes) -> bytes:
    return varint(key << 3 | 2) + varint(len(content)) + content


def masked(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def event(step: int, summary: bytes, wall: float = 1.7e9) -> bytes:
    place = b"" if step == 0 else b"\x10" + varint(step)
    return b"\x09" + struct.pack("<d", wall + step) + place + sized(5, summary)


def scalar(tag: str, value: float) -> bytes:
    return sized(1, sized(1, tag.encode()) + b"\x15" + struct.pack("<f", value))


def tensor(dtype: int, content: bytes, shape: tuple[int, ...] = (), field: int = 4) -> bytes:
    dims = b"".join(sized(2, b"\x08" + varint(d)) for d in shape)
    return b"\x08" + varint(dtype) + sized(2, dims) + sized(field, content)


def tensor_value(tag: str, body: bytes, meta: bytes = b"") -> bytes:
    return sized(1, sized(1, tag.encode()) + (sized(9, meta) if meta else b"") + sized(8, body))


def event_bytes(tags: dict[str, list[tuple[int, float]]] | None = None) -> bytes:
    """An event file of scalars; by default the known run."""
    if tags is None:
        tags = {
            "train/loss": list(zip(STEPS.tolist(), TRAIN.tolist())),
            "train/lr": list(zip(STEPS.tolist(), LR.tolist())),
            "train/grad_norm": list(zip(STEPS.tolist(), NORM.tolist())),
            "val/loss": list(zip(VAL_AT.tolist(), VAL.tolist())),
            "epoch": [(i, i / PER_EPOCH) for i in STEPS.tolist()],
        }
    points = sorted((step, tag, value) for tag, points in tags.items() for step, value in points)
    head = framed(b"\x09" + struct.pack("<d", 1.7e9) + sized(3, b"brain.Event:2"))
    return head + b"".join(framed(event(step, scalar(tag, value))) for step, tag, value in points)


def tensorboard(folder: Path) -> Path:
    path = folder / "events.out.tfevents.1700000000.host.1.0"
    path.write_bytes(event_bytes())
    return path


def tensorboard_v2(folder: Path) -> Path:
    """As TF2 writes it: tensors, train/ and validation/ beside each other."""
    for split, steps, values in (("train", STEPS, TRAIN), ("validation", VAL_AT, VAL)):
        (folder / split).mkdir()
        body = b"".join(
            framed(event(int(s), tensor_value("epoch_loss", tensor(1, struct.pack("<f", v)), sized(1, sized(1, b"scalars")))))
            for s, v in zip(steps, values)
        )
        extra = ""
        if split == "train":
            points = {
                "learning_rate": list(zip(STEPS.tolist(), LR.tolist())),
                "grad_norm": list(zip(STEPS.tolist(), NORM.tolist())),
            }
            body += event_bytes(points)
        (folder / split / f"events.out.tfevents.1700000000.host.v2{extra}").write_bytes(body)
    return folder


# -- W&B


def wandb_item(key: str, value: Any) -> bytes:
    return sized(1, sized(2, key.encode()) + sized(16, json.dumps(value).encode()))


def wandb_records(history: list[dict[str, Any]], config: dict[str, Any] | None = None, printed: str = "") -> list[bytes]:
    out = [sized(17, sized(1, b"abc") + sized(4, b"".join(wandb_item(k, v) for k, v in (config or {}).items())))]
    out += [b"\x08\x01" + sized(13, b"\x08\x01" + sized(3, line.encode())) for line in printed.splitlines(keepends=True)]
    out += [
        b"\x08\x01" + sized(2, b"".join(wandb_item(k, v) for k, v in row.items())) + sized(16, b"\x08\x01") for row in history
    ]
    return [*out, sized(16, b"\x08\x01") + sized(18, b"\x08\x00")]


def wandb_bytes(records: list[bytes]) -> bytes:
    """Records in blocks of 32 KiB, as W&B keeps them."""
    out = bytearray(b":W&B\xe1\xbe\x00")
    for record in records:
        first = True
        while True:
            left = 32768 - len(out) % 32768
            if left < 7:
                out += b"\x00" * left
                left = 32768
            part, record = record[: left - 7], record[left - 7 :]
            kind = (1 if first else 4) if not record else (2 if first else 3)
            out += struct.pack("<IHB", zlib.crc32(part, zlib.crc32(bytes([kind]))), len(part), kind) + part
            first = False
            if not record:
                break
    return bytes(out)


def wandb(folder: Path) -> Path:
    history = []
    for i, row in enumerate(rows()):
        named = {
            "train/loss": row.get("loss"),
            "val/loss": row.get("val_loss"),
            "lr": row.get("lr"),
            "grad_norm": row.get("grad_norm"),
        }
        history.append({"_step": i, "iter": row["step"], **{k: v for k, v in named.items() if v is not None}})
    path = folder / "run-abc.wandb"
    path.write_bytes(wandb_bytes(wandb_records(history, {"optimizer": "adamw", "api_key": "x" * 40})))
    return path


def wandb_csv(folder: Path) -> Path:
    return table(folder / "history.csv", {"step": "iter", "loss": "train/loss", "val_loss": "val/loss"}, extra="_step")


# -- tables


def table(path: Path, rename: dict[str, str] | None = None, delimiter: str = ",", extra: str = "", decimal: str = ".") -> Path:
    names = ["step", "epoch", "loss", "val_loss", "lr", "grad_norm"]
    header = [(rename or {}).get(n, n) for n in names]
    with path.open("w", newline="") as file:
        out = csv.writer(file, delimiter=delimiter)
        out.writerow(header + ([extra] if extra else []))
        for i, row in enumerate(rows()):
            cells = [
                "" if n not in row else repr(row[n]).replace("np.float64(", "").rstrip(")").replace(".", decimal) for n in names
            ]
            out.writerow(cells + ([i] if extra else []))
    return path


def plain_csv(folder: Path) -> Path:
    return table(folder / "log.csv")


def tsv(folder: Path) -> Path:
    return table(folder / "log.tsv", delimiter="\t")


def german_csv(folder: Path) -> Path:
    return table(folder / "log.csv", delimiter=";", decimal=",")


def lightning(folder: Path) -> Path:
    (folder / "hparams.yaml").write_text("lr: 0.001\nnum_classes: 10\ndevice: !!python/object/apply:torch.device [cpu]\n")
    return table(folder / "metrics.csv", {"loss": "train_loss_step", "lr": "lr-Adam"})


def tidy_csv(folder: Path) -> Path:
    path = folder / "long.csv"
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["metric", "step", "value"])
        for row in rows():
            for key in ("loss", "val_loss", "lr", "grad_norm"):
                if key in row:
                    out.writerow([key, row["step"], float(row[key])])
    return path


def tidy_export(folder: Path) -> Path:
    """traindx's own export."""
    from traindx.record.export import export
    from traindx.run import Run, Series

    run = Run(
        {
            "loss/train": Series(STEPS, TRAIN),
            "loss/val": Series(VAL_AT, VAL),
            "lr": Series(STEPS, LR),
            "grad_norm": Series(STEPS, NORM),
        }
    )
    return export(run, "csv", folder / "out.csv")


# -- JSON


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {k: float(v) for k, v in row.items()}


def jsonl(folder: Path) -> Path:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(_plain(row)) + "\n" for row in rows()))
    return path


def json_lists(folder: Path) -> Path:
    path = folder / "curves.json"
    lists = {"iters": STEPS, "loss": TRAIN, "lr": LR, "grad_norm": NORM, "val_iters": VAL_AT, "val_loss": VAL}
    path.write_text(json.dumps({"meta": {"max_iters": 400}, **{k: v.tolist() for k, v in lists.items()}}))
    return path


def json_records(folder: Path) -> Path:
    path = folder / "records.json"
    path.write_text(json.dumps([_plain(row) for row in rows()]))
    return path


def hf_entries() -> list[dict[str, Any]]:
    out = []
    for row in rows():
        if "loss" in row:
            out.append(
                {
                    "step": row["step"],
                    "epoch": row["epoch"],
                    "loss": float(row["loss"]),
                    "learning_rate": float(row["lr"]),
                    "grad_norm": float(row["grad_norm"]),
                }
            )
        else:
            out.append({"step": row["step"], "epoch": row["epoch"], "eval_loss": float(row["val_loss"]), "eval_runtime": 1.5})
    return out


def trainer_state(folder: Path) -> Path:
    path = folder / "trainer_state.json"
    closing = {"step": 299, "epoch": 5.0, "train_loss": 9.9, "train_runtime": 10.0, "total_flos": 1e9}
    path.write_text(json.dumps({"global_step": 299, "max_steps": 400, "log_history": [*hf_entries(), closing]}))
    return path


def detectron2(folder: Path) -> Path:
    path = folder / "metrics.json"
    lines = []
    for row in rows():
        named = {
            "iteration": row["step"],
            "total_loss": row.get("loss"),
            "validation_loss": row.get("val_loss"),
            "lr": row.get("lr"),
            "grad_norm": row.get("grad_norm"),
        }
        lines.append(json.dumps({k: float(v) for k, v in named.items() if v is not None}))
    path.write_text("\n".join(lines) + "\n")
    return path


# -- databases and folders


def mlflow_folder(folder: Path) -> Path:
    base = folder / "mlruns" / "0" / "abc"
    (base / "metrics" / "train").mkdir(parents=True)
    (base / "params").mkdir()
    (base / "meta.yaml").write_text("run_id: abc\nrun_name: bold-cat\n")
    (base / "params" / "optimizer").write_text("AdamW")
    named = {"train/loss": (STEPS, TRAIN), "lr": (STEPS, LR), "grad_norm": (STEPS, NORM), "val_loss": (VAL_AT, VAL)}
    for name, (steps, values) in named.items():
        (base / "metrics" / name).write_text(
            "".join(
                f"{1_700_000_000_000 + 1000 * int(s)} {v!r} {s}\n".replace("np.float64(", "").replace(") ", " ")
                for s, v in zip(steps.tolist(), values.tolist())
            )
        )
    return folder / "mlruns"


def mlflow_db(folder: Path) -> Path:
    path = folder / "mlflow.db"
    link = sqlite3.connect(path)
    link.execute("CREATE TABLE runs (run_uuid TEXT PRIMARY KEY, name TEXT)")
    link.execute("CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT)")
    link.execute("CREATE TABLE metrics (key TEXT, value REAL, timestamp INTEGER, run_uuid TEXT, step INTEGER, is_nan BOOLEAN)")
    link.execute("INSERT INTO runs VALUES ('abc', 'bold-cat')")
    link.execute("INSERT INTO params VALUES ('num_classes', '10', 'abc')")
    named = {"train_loss": (STEPS, TRAIN), "lr": (STEPS, LR), "grad_norm": (STEPS, NORM), "val_loss": (VAL_AT, VAL)}
    for name, (steps, values) in named.items():
        entries = [(name, float(v), 1_700_000_000_000 + 1000 * int(s), "abc", int(s), False) for s, v in zip(steps, values)]
        link.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", entries)
    link.commit()
    link.close()
    return path


def trackio(folder: Path) -> Path:
    path = folder / "project.db"
    link = sqlite3.connect(path)
    link.execute("CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT)")
    link.execute("CREATE TABLE configs (id INTEGER PRIMARY KEY, run_name TEXT, config TEXT, created_at TEXT)")
    link.execute("INSERT INTO configs (run_name, config) VALUES ('one', ?)", (json.dumps({"vocab_size": 65}),))
    for row in rows():
        values = {k: float(v) for k, v in row.items() if k not in ("step",)}
        link.execute(
            "INSERT INTO metrics (timestamp, run_name, step, metrics) VALUES ('2026-01-01T00:00:00', 'one', ?, ?)",
            (int(row["step"]), json.dumps(values)),
        )
    link.commit()
    link.close()
    return path


def smdebug(folder: Path) -> Path:
    """Tensors of a debugger: one file per step, no checksum of the data, the mode in the metadata."""

    def meta(mode: int) -> bytes:
        return sized(1, sized(1, b"mode") + sized(2, str(mode).encode()))

    def unchecked(data: bytes) -> bytes:
        length = struct.pack("<Q", len(data))
        return length + masked(length) + data + masked(b"0x12345678")

    def number(tag: str, value: float, mode: int) -> bytes:
        return tensor_value(tag, tensor(1, struct.pack("<f", value), (1,)), meta(mode))

    (folder / "collections" / "000000000").mkdir(parents=True)
    (folder / "collections" / "000000000" / "worker_0_collections.json").write_text(
        json.dumps({"collections": {"losses": {"tensor_names": ["CrossEntropyLoss_output_0"]}}})
    )
    for i in STEPS.tolist():
        base = folder / "events" / f"{i:012d}"
        base.mkdir(parents=True)
        values = [number("CrossEntropyLoss_output_0", TRAIN[i], 1), number("lr", LR[i], 1), number("grad_norm", NORM[i], 1)]
        if i in VAL_AT:
            values.append(number("CrossEntropyLoss_output_0", VAL[list(VAL_AT).index(i)], 2))
        (base / f"{i:012d}_worker_0.tfevents").write_bytes(b"".join(unchecked(event(i, v)) for v in values))
    return folder


def neptune(folder: Path) -> Path:
    import decimal

    import pyarrow as pa
    import pyarrow.parquet as pq

    named = {"train/loss": (STEPS, TRAIN), "lr": (STEPS, LR), "grad_norm": (STEPS, NORM), "val/loss": (VAL_AT, VAL)}
    entries = [
        {
            "project_id": "p",
            "run_id": "RUN-1",
            "attribute_path": f"metrics/{n}",
            "attribute_type": "float_series",
            "step": decimal.Decimal(int(s)),
            "timestamp": None,
            "float_value": float(v),
            "string_value": None,
        }
        for n, (steps, values) in named.items()
        for s, v in zip(steps, values)
    ]
    entries.append(
        {
            "project_id": "p",
            "run_id": "RUN-1",
            "attribute_path": "parameters/optimizer",
            "attribute_type": "string",
            "step": None,
            "timestamp": None,
            "float_value": None,
            "string_value": "SGD",
        }
    )
    schema = pa.schema([("project_id", pa.string()), ("run_id", pa.string()), ("attribute_path", pa.string()), ("attribute_type", pa.string()), ("step", pa.decimal128(18, 6)), ("timestamp", pa.timestamp("ms", tz="UTC")), ("float_value", pa.float64()), ("string_value", pa.string())])  # fmt: skip
    path = folder / "part_0.parquet"
    pq.write_table(pa.Table.from_pylist(entries, schema=schema), path)
    return path


# -- console


def _number(value: float) -> str:
    return "nan" if math.isnan(value) else f"{value:.6f}"


def nano_text(folder: Path) -> Path:
    path = folder / "train.log"
    lines = [
        "Overriding config with config/train.py:",
        "batch_size = 12",
        "max_iters = 400",
        "found vocab_size = 65 (inside data)",
    ]
    for row in rows():
        if "loss" in row:
            lines.append(
                f"iter {row['step']}: loss {row['loss']:.6f}, lr {row['lr']:.8f}, grad norm {row['grad_norm']:.6f}, time 30.01ms"
            )
        else:
            lines.append(f"step {row['step']}: val loss {row['val_loss']:.6f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def bar_text(folder: Path) -> Path:
    """A progress bar: carriage returns, every step twice."""
    path = folder / "nohup.out"
    out = "starting\n"
    for row in rows():
        if "loss" in row:
            i = row["step"]
            tail = f"loss={row['loss']:.6f}, lr={row['lr']:.3e}, grad_norm={row['grad_norm']:.6f}]"
            out += f"\rTraining:  10%|█         | {i}/400 [00:01<00:09, 44.0it/s, {tail}"
            if i < 299:
                out += f"\rTraining:  10%|█         | {i + 1}/400 [00:01<00:09, 44.0it/s, {tail}"
        else:
            out += f"\nValidation at step {row['step']}: loss: {row['val_loss']:.6f}\n"
    path.write_text(out)
    return path


def megatron_text(folder: Path) -> Path:
    path = folder / "megatron.log"
    lines = []
    for row in rows():
        if "loss" in row:
            lines.append(
                f" iteration {row['step']:8d}/     400 | consumed samples: {8 * row['step']:12d} | elapsed time per iteration (ms): 500.1 | "
                f"learning rate: {row['lr']:.6E} | lm loss: {row['loss']:.6E} | loss scale: 65536.0 | grad norm: {row['grad_norm']:.6f} | "
                "number of skipped iterations:   0 | number of nan iterations:   0 |"
            )
        else:
            lines.append(f" validation loss at iteration {row['step']} | lm loss value: {row['val_loss']:.6E} |")
    path.write_text("\n".join(lines))
    return path


def python_dict(folder: Path) -> Any:
    return {
        "step": STEPS.tolist(),
        "loss": TRAIN.tolist(),
        "lr": LR.tolist(),
        "grad_norm": NORM.tolist(),
        "val_step": VAL_AT.tolist(),
        "val_loss": VAL.tolist(),
    }


def pandas_frame(folder: Path) -> Any:
    import pandas as pd

    return pd.DataFrame([_plain(row) for row in rows()])


def python_records(folder: Path) -> Any:
    return hf_entries()


FORMATS: dict[str, Callable[[Path], Any]] = {
    f.__name__: f
    for f in (
        tensorboard, tensorboard_v2, wandb, wandb_csv, plain_csv, tsv, german_csv, lightning, tidy_csv, tidy_export, jsonl, json_lists,
        json_records, trainer_state, detectron2, mlflow_folder, mlflow_db, trackio, smdebug, neptune, nano_text, bar_text, megatron_text,
        python_dict, pandas_frame, python_records,
    )
}  # fmt: skip
