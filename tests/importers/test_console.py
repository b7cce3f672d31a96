"""Printed logs of many scripts."""

# ruff: noqa: E501 - printed lines and tables stand as they are

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from patience import not_hanging
from traindx import importers
from traindx.diagnosis import diagnose
from traindx.errors import NothingReadable
from traindx.importers import shapes
from traindx.run import Run


def printed(tmp_path: Path, text: str) -> Run:
    path = tmp_path / "train.log"
    path.write_text(text)
    [run] = importers.read(path)
    return run


LINES: dict[str, tuple[str, dict[str, float], dict[str, float]]] = {
    "pytorch tutorial": ("Epoch [1/5], Step [100/600], Loss: 0.5", {"Loss": 0.5}, {"epoch": 1, "step": 100}),
    "mnist example": ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.3", {"Loss": 2.3}, {"epoch": 1, "inner": 640, "total": 60000}),
    "imagenet meter": (
        "Epoch: [3][100/500]\tTime 0.350 (0.360)\tLoss 2.3000 (2.4000)\tAcc@1 45.00 (44.10)",
        {"Time": 0.36, "Loss": 2.4, "Acc@1": 44.1},
        {"epoch": 3, "inner": 100},
    ),
    "hugging face": (
        "{'loss': 0.4, 'grad_norm': 1.2, 'learning_rate': 4e-05, 'epoch': 0.25}",
        {"loss": 0.4, "grad_norm": 1.2, "learning_rate": 4e-5},
        {"epoch": 0.25},
    ),
    "hugging face 5": ("{'eval_loss': '0.31', 'epoch': '1.0'}", {"eval_loss": 0.31}, {"epoch": 1.0}),
    "nanogpt": ("iter 10: loss 9.1841, time 2963.04ms, mfu 22.72%", {"loss": 9.1841, "time (ms)": 2963.04}, {"step": 10}),
    "nanogpt eval": ("step 100: train loss 6.1438, val loss 6.1420", {"train loss": 6.1438, "val loss": 6.142}, {"step": 100}),
    "modded": ("step:100/1750 train_loss:4.21 train_time:10000ms", {"train_loss": 4.21}, {"step": 100}),
    "megatron": (
        " iteration      100/    5000 | learning rate: 1.500E-04 | lm loss: 4.400000E+00 | loss scale: 65536.0 | number of nan iterations:   0 |",
        {"learning rate": 1.5e-4, "lm loss": 4.4, "loss scale": 65536.0},
        {"step": 100},
    ),
    "nan": ("steps: 444 loss: nan", {"loss": float("nan")}, {"step": 444}),
    "fairseq": (
        "2021-01-01 | INFO | train_inner | epoch 001:     10 / 1000 loss=15.1, ppl=33000, num_updates=10, lr=1e-06, gnorm=5.2",
        {"loss": 15.1, "ppl": 33000.0, "lr": 1e-6, "gnorm": 5.2},
        {"step": 10, "epoch": 1},
    ),
    "fairseq valid": (
        "2021-01-01 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 12.1 | ppl 3600 | num_updates 1000",
        {"val loss": 12.1, "val ppl": 3600.0},
        {"step": 1000, "epoch": 1},
    ),
    "espnet": (
        "[h] 2021 (trainer:737) INFO: 2epoch:train:1-100batch: iter_time=0.5, loss_ctc=100.1, acc=0.3, loss=70.1, optim0_lr0=1.0e-05",
        {"loss": 70.1, "loss_ctc": 100.1, "acc": 0.3, "optim0_lr0": 1e-5},
        {"step": 100, "epoch": 2},
    ),
    "espnet results": (
        "2epoch results: [train] loss=60.2, acc=0.31, [valid] loss=55.5, acc=0.35",
        {"loss": 60.2, "acc": 0.31, "val loss": 55.5, "val acc": 0.35},
        {"epoch": 2},
    ),
    "kaldi nnet1": (
        "ITERATION 01: TRAIN AVG.LOSS 3.2015, (lrate0.008), CROSSVAL AVG.LOSS 2.5123, nnet accepted",
        {"TRAIN AVG.LOSS": 3.2015, "CROSSVAL AVG.LOSS": 2.5123},
        {"step": 1},
    ),
    "kaldi nnet3": (
        "LOG (nnet3-train) Average objective function for 'output' for minibatches 0-9 is -2.125 over 6400 frames.",
        {"loss": 2.125},
        {"step": 9},
    ),
    "keras": (
        "1875/1875 [====] - 5s 3ms/step - loss: 0.2990 - accuracy: 0.9 - val_loss: 0.14",
        {"loss": 0.299, "accuracy": 0.9, "val_loss": 0.14},
        {"inner": 1875, "total": 1875},
    ),
    "lightning bar": (
        "Epoch 3:  45%|####5  | 450/1000 [00:10<00:12, 44.1it/s, loss=0.345]",
        {"loss": 0.345},
        {"epoch": 3, "inner": 450},
    ),
    "mmengine": (
        "2023/05/01 12:00:00 - mmengine - INFO - Epoch(train)  [1][  50/1000]  lr: 1.0000e-02  eta: 1:02:03  loss: 2.3456",
        {"lr": 0.01, "loss": 2.3456},
        {"epoch": 1, "inner": 50},
    ),
    "cyclegan": (
        "(epoch: 1, iters: 100, time: 0.523) D_A: 0.351 G_A: 0.221",
        {"D_A": 0.351, "G_A": 0.221},
        {"epoch": 1, "step": 100},
    ),
    "transfer tutorial": ("val Loss: 0.4123 Acc: 0.8211", {"val Loss": 0.4123, "val Acc": 0.8211}, {}),
}


@pytest.mark.parametrize("case", list(LINES))
def test_lines(case: str) -> None:
    line, values, place = LINES[case]
    [record] = shapes.records_of(shapes.read([line]))
    assert {k: str(v) for k, v in values.items()}.items() <= {k: str(v) for k, v in record.values.items()}.items(), record
    for name, at in place.items():
        assert getattr(record, name) == at, record


@pytest.mark.parametrize(
    "line",
    [
        "    loss = criterion(out, y) / 4",
        "if step % 100 == 0: print(loss)",
        "Epoch 00010: val_loss improved from 0.51234 to 0.49999, saving model",
        "# config for training GPT-2 (124M) down to very nice loss of ~2.85 on 1 node of 8X A100",
        "eval_iters = 200",
        "tokens per iteration will be: 491,520",
        "W0329 21:21:57.609745 1454012 site-packages/torch/distributed/run.py:774]",
        "==== Training Loss (Mon Jan  1 2021) ====",
    ],
)
def test_chatter_code_and_settings_are_no_records(line: str) -> None:
    assert not shapes.records_of(shapes.read([line]))


def test_settings_are_collected_and_vocabulary_is_noticed() -> None:
    state = shapes.read(
        ("batch_size = 12  # per device", "dataset = 'owt'", "compile: True", "found vocab_size = 65 (inside meta)")
    )
    assert state.settings == {"batch_size": 12, "dataset": "owt", "compile": True, "vocab_size": 65}


def test_several_runs_in_one_file_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "all.log"
    path.write_text("".join(f"step {s}/40 loss: {5 - s / 20:.3f}\n" for _ in range(4) for s in range(40)))
    assert [len(r["loss/train"]) for r in importers.read(path)] == [40] * 4


def test_places_within_epochs_are_joined(tmp_path: Path) -> None:
    run = printed(
        tmp_path,
        "".join(
            f"Train Epoch: {e} [{i}/1000 ({i // 10}%)]\tLoss: {3 - e / 2:.3f}\n" for e in (1, 2, 3) for i in range(0, 1000, 100)
        ),
    )
    assert len(run["loss/train"]) == 30 and run["loss/train"].steps[10] == 1000 and run["epoch"].last == 3


def test_keras_epochs_are_the_records_not_their_progress(tmp_path: Path) -> None:
    text = ""
    for e in range(1, 6):
        text += f"Epoch {e}/5\n"
        text += "".join(f"\r{i}/100 [=>...] - ETA: 1s - loss: {9 - e:.4f} - accuracy: 0.1000" for i in (1, 20, 50))
        text += f"\r100/100 [====] - 2s 3ms/step - loss: {3 - e / 2:.4f} - accuracy: 0.5000 - val_loss: {3.1 - e / 2:.4f}\n"
    run = printed(tmp_path, text)
    assert (
        run.fact("step_unit") == "epoch"
        and run["loss/train"].values.tolist() == [2.5, 2.0, 1.5, 1.0, 0.5]
        and len(run["loss/val"]) == 5
    )


def test_fractions_of_epochs_are_an_axis(tmp_path: Path) -> None:
    run = printed(tmp_path, "".join(f"{{'loss': {2 - i / 10}, 'epoch': {i / 10}}}\n" for i in range(1, 15)))
    assert run["loss/train"].steps.tolist() == [100 * i for i in range(1, 15)] and run.fact("step_unit") == "epoch/1000"


def test_how_a_script_ended_is_noticed(tmp_path: Path) -> None:
    body = "".join(f"step {i}: loss {2 - i / 50:.3f}\n" for i in range(20))
    error = 'Traceback (most recent call last):\n  File "x.py", line 3, in f\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n'
    run = printed(tmp_path, body + error)
    assert run.fact("ended") == "exception" and "OutOfMemory" in run.fact("exception")["type"] and run.events_of("oom")
    assert (
        printed(tmp_path, body + "slurmstepd: error: *** JOB 1 CANCELLED AT DUE TO TIME LIMIT ***\n").fact("ended") == "killed"
    )


def test_colours_and_backspaces_do_not_matter(tmp_path: Path) -> None:
    run = printed(tmp_path, "".join(f"\x1b[32mstep {i}\x1b[0m \x1b[1mloss: {1 / (i + 1):.4f}\x1b[0m\n" for i in range(20)))
    assert len(run["loss/train"]) == 20


def test_only_one_of_two_streams_shows_the_nan_and_it_is_seen(tmp_path: Path) -> None:
    text = ""
    for i in range(1, 301):
        text += f"steps: {i} loss: {'nan' if i > 250 else 3.0}\n"
        if i % 100 == 0:
            text += f" iteration {i:8d}/ 1000 | lm loss: 3.000000E+00 |\n"
    run = printed(tmp_path, text)
    assert run.events_of("nonfinite")[0].step == 251


@pytest.mark.parametrize(
    "evil",
    ["a" * 200_000, "= " * 50_000, "loss: " * 20_000, "1/" * 50_000, "loss " + "(" * 50_000, "0" * 100_000, "[" * 90_000],
)
def test_no_line_takes_long(evil: str) -> None:
    with not_hanging():
        for _ in range(20):
            shapes.read([evil])


def test_printed_lines_with_pipes_are_not_taken_for_a_table(tmp_path: Path) -> None:
    train = "".join(f'2021 | INFO | train | {{"epoch": 1, "loss": "{5 - i / 10}", "num_updates": "{i}"}}\n' for i in range(20))
    valid = '2021 | INFO | valid | {"epoch": 1, "valid_loss": "4.5", "valid_num_updates": "9"}\n'
    lines = train.splitlines(keepends=True)
    run = printed(tmp_path, "".join([*lines[:10], valid, *lines[10:]]))
    assert len(run["loss/train"]) == 20 and run["loss/val"].steps.tolist() == [9]


def test_a_table_of_a_reinforcement_learner_is_one_record(tmp_path: Path) -> None:
    def table(i: int) -> str:
        rows = [
            ("rollout/", ""), ("    ep_rew_mean", 20 + i), ("time/", ""), ("    total_timesteps", 2048 * i), ("train/", ""),
            ("    approx_kl", 0.01), ("    entropy_loss", -0.69 + i / 100), ("    explained_variance", 0.5), ("    loss", 9.0 - i),
        ]  # fmt: skip
        return "-" * 30 + "\n" + "".join(f"| {k:<22} | {v!s:<8} |\n" for k, v in rows) + "-" * 30 + "\n"

    run = printed(tmp_path, "Using cpu device\n" + "".join(table(i) for i in range(1, 8)))
    assert run.fact("rl") and run.steps == (2048, 7 * 2048)
    assert run["rl/entropy"].values[0] == pytest.approx(0.68) and run["loss/train"].values[-1] == 2.0
    assert {"rl/kl", "rl/explained_variance", "metric/train/rollout/ep_rew_mean"} <= set(run.signals)


def test_two_brackets_are_epoch_and_batch_and_the_players_of_a_gan_are_known(tmp_path: Path) -> None:
    text = "".join(
        f"[{e}/3][{b}/100]\tLoss_D: 1.2 Loss_G: 2.{b} D(x): 0.7 D(G(z)): 0.3 / 0.2\n"
        for e in range(3)
        for b in range(0, 100, 10)
    )
    run = printed(tmp_path, text)
    assert run.steps == (0, 290) and run["gan/d_real"].values[0] == 0.7 and run["gan/d_fake"].values[0] == 0.3


def test_batches_of_an_evaluation_are_no_place_in_training(tmp_path: Path) -> None:
    text = "".join(
        "".join(f"Epoch: [{e}][{b:3d}/40]\tLoss {3 - e / 9 - b / 999:.4e} (2.0e+00)\n" for b in range(0, 40, 10))
        + f"Test: [ 0/16]\tLoss {2.5 - e / 20:.4e} (2.5e+00)\n"
        for e in range(8)
    )
    run = printed(tmp_path, text)
    assert len(run["loss/train"]) == 32 and list(run["loss/val"].steps[:2]) == [40, 80]
    assert not any("resumed" in note for note in run.notes)


@pytest.mark.parametrize(
    "line",
    [
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {s}",
        "NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: {s}",
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to {s}",
    ],
)
def test_a_loss_scale_that_is_lowered_is_seen_in_the_print(tmp_path: Path, line: str) -> None:
    text = "".join(
        f"step {i}: loss {2 - i / 99:.3f}\n" + (line.format(s=2.0 ** (16 - i)) + "\n" if i % 3 == 2 else "") for i in range(30)
    )
    run = printed(tmp_path, text)
    assert list(run["amp/scale"].steps[:2]) == [2, 5] and run["amp/scale"].values[1] == 2.0**11


def test_memory_without_a_unit_is_placed_by_its_size_and_said(tmp_path: Path) -> None:
    run = printed(
        tmp_path, "".join(f"iter: {i}  total_loss: {2 - i / 99:.3f}  lr: 0.02  max_mem: {2300 + i}M\n" for i in range(30))
    )
    assert run["mem/allocated"].values[0] == 2.3e9
    run = printed(tmp_path, "".join(f"iter: {i}  loss: {2 - i / 99:.3f}  memory: {3900 + i}\n" for i in range(30)))
    assert run["mem/allocated"].values[0] == 3.9e9 and any("memory" in note and "mb" in note for note in run.notes)


def test_a_look_back_at_the_best_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("epochs: 0\nBest model found at epoch 0, Val Loss: inf, AUC: 0.00%\nDone\n")
    with pytest.raises(NothingReadable):
        importers.read(path)


def test_the_hole_of_a_log_that_was_cut_off_while_written_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(b"\x00" * 11363 + "".join(f"step {i} | loss {2 - i / 99:.3f}\n" for i in range(30)).encode())
    [run] = importers.read(path)
    assert len(run["loss/train"]) == 30


def test_a_comma_before_thousandths_of_a_second_makes_no_table(tmp_path: Path) -> None:
    text = "".join(f"2020-02-10 21:{i:02d}:21,147 - log - INFO - epoch {i} loss: {2 - i / 99:.3f}\n" for i in range(30))
    assert len(printed(tmp_path, text)["loss/train"]) == 30


def test_a_running_mean_too_coarse_to_undo_leaves_the_end_of_each_epoch(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = []
    for e in range(12):
        each = 4.6 - 0.02 * e + rng.normal(0, 0.05, 1200)
        mean = each.cumsum() / np.arange(1, 1201)
        first = 800 if e == 0 else 10  # the log begins in the middle of an epoch
        lines += [f"Epoch: {e} | Batch: {b}/1200 | Loss: {mean[b - 1]:.4f}\n" for b in range(first, 1201, 10)]
    run = printed(tmp_path, "".join(lines))
    assert run.fact("log_form") == {"loss/train": "window-mean"} and len(run["loss/train"]) == 12


def test_a_count_in_a_line_that_never_changes_is_no_place(tmp_path: Path) -> None:
    lines = [
        f"[{5000 * i:6d}] | lr 0.0003 | loss {3 - i / 20:.2f}\nEval batches[ 100] | val loss {3.1 - i / 20:.2f}"
        for i in range(1, 21)
    ]
    run = printed(tmp_path, "\n".join(lines))
    assert list(run.series("loss/val").steps[:3]) == [5000, 10000, 15000]


def test_of_two_progress_bars_the_outer_one_counts_epochs(tmp_path: Path) -> None:
    out = []
    for epoch in range(1, 5):
        out += [
            f"{25 * b}%|{'#' * b}1{' ' * (4 - b)}| {b}/4 [00:0{b}<00:09, 6.7batch/s, loss={3 / (4 * epoch + b):.3f}]"
            for b in range(1, 5)
        ]
        out += [
            f"{10 * epoch}%|{'#' * epoch}  | {epoch}/10 [00:26<04:01, 26.8s/epoch, loss={3 / (4 * epoch):.3f}, val_loss={epoch:.2f}]"
        ]
    run = printed(tmp_path, "\n".join(out))
    assert list(run.series("loss/val").values) == [1, 2, 3, 4] and list(run.series("loss/val").steps) == [4, 8, 12, 16]


@pytest.mark.parametrize(("after", "severity"), [(5, "info"), (0, "critical")])
def test_a_program_that_went_on_did_not_run_out_of_memory(tmp_path: Path, after: int, severity: str) -> None:
    lines = [f"step {i}: loss {3 / (1 + i):.3f}" for i in range(20)]
    run = printed(
        tmp_path, "\n".join([*lines[: 20 - after], "E: failed to allocate 613M: out of memory", *lines[20 - after :]])
    )
    [found] = [f for f in diagnose(run).findings if f.code == "PERF003"]
    assert found.severity.value == severity and ("continued" in found.message) == bool(after)


def test_losses_that_are_never_negative_are_no_running_mean_if_undoing_it_makes_them_so(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).exponential(0.02, (20, 60))
    lines = [
        f"Epoch {e + 1} | Step {20 * (i + 1)}/1200 | Loss: {0.01 + 0.5 * 0.8**e * 0.97**i + noise[e, i]:.6f}"
        for e in range(20)
        for i in range(60)
    ]
    assert printed(tmp_path, "\n".join(lines)).series("loss/train").values.min() > 0


def test_prose_that_quotes_settings_as_json_is_not_a_file_of_json_lines(tmp_path: Path) -> None:
    quoted = [f'W0000 omitted engine {{"scale":1,"side":0,"alpha":{i}}} for conv.{i}' for i in range(6)]
    curve = [f"Epoch {i}: train_loss={2 / (1 + i):.3f} val_loss={2.1 / (1 + i):.3f}" for i in range(12)]
    assert len(printed(tmp_path, "\n".join(quoted + curve)).series("loss/val")) == 12


def test_the_speed_of_a_bar_makes_no_other_kind_of_line_and_a_bar_drawn_anew_no_other_run(tmp_path: Path) -> None:
    def bar(epoch: int, at: int, done: int) -> str:
        shown = f"v_num=0, train_loss={3 / (1 + done / 40):.3f}" + (", val_loss=1.7" if done >= 40 else "")
        drawn = f"{at / 0.4:3.0f}%|{'#' * (at // 4)}5  | {at}/40 [00:0{at // 9}<00:04, {7.1 + at * 1.37:.2f}it/s, {shown}]"
        return f"Epoch {epoch}: {drawn}"

    lines = [bar(0, i, i) for i in range(1, 41)] + [bar(0, 0, 40)] + [bar(1, i, 40 + i) for i in range(1, 41)]
    run = printed(tmp_path, "Seed set to 1337\n" + "\n".join(lines))
    assert run.series("loss/train").steps.tolist() == list(range(1, 81)) and len(run.series("loss/val")) <= 2


@pytest.mark.parametrize("total", [80, 30])  # of an epoch, or of less than it really has
def test_a_count_of_so_many_is_the_place_whatever_its_name(tmp_path: Path, total: int) -> None:
    lines = [f"epoch={e} i={i}/{total} total loss={9 / (1 + e + i / 80):.4f} aux loss=0.5" for e in range(2) for i in range(80)]
    assert np.all(np.diff(printed(tmp_path, "\n".join(lines)).series("loss/train").steps) == 1)
