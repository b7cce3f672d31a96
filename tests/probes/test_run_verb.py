"""`traindx run` on programs that are wrong, empty, killed or started in other ways."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from patience import until
from traindx import record

ENV = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
TRAIN = """
import torch
torch.manual_seed(0)
m = torch.nn.Linear(3, 1); o = torch.optim.SGD(m.parameters(), 0.01)
def steps(n):
    for _ in range(n):
        x = torch.randn(8, 3); loss = torch.nn.functional.mse_loss(m(x), x.sum(1, keepdim=True))
        o.zero_grad(); loss.backward(); o.step()
    return loss
"""


def traindx(*words: str, cwd: Path, env=ENV) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "traindx", "run", *words],
        capture_output=True,
        text=True,
        env=env,
        cwd=cwd,
        timeout=900,
        check=False,
    )


def python(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=ENV, cwd=cwd, timeout=900, check=False)


def test_a_script_that_does_not_exist(tmp_path):
    done = traindx("missing.py", cwd=tmp_path)
    assert done.returncode == 2 and "missing.py" in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_syntax_error_reads_as_under_python(tmp_path):
    (tmp_path / "bad.py").write_text("import torch\ndef f(:\n    pass\n")
    plain, ours = python("bad.py", cwd=tmp_path), traindx("bad.py", cwd=tmp_path)
    assert ours.returncode == plain.returncode == 1
    assert ours.stderr.startswith(plain.stderr)


@pytest.mark.parametrize(
    "text", ["print('hello')", "import torch\nprint(torch.ones(2).sum().item())"], ids=["no-torch", "no-training"]
)
def test_a_program_that_trains_nothing(text, tmp_path):
    (tmp_path / "x.py").write_text(text)
    plain, ours = python("x.py", cwd=tmp_path), traindx("x.py", cwd=tmp_path)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
    assert "no training" in ours.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["x.py"]


SKIPPED = """
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, backoff_factor=0.999)
for _ in range(TIMES):
    optimizer.zero_grad()
    scaler.scale(1e5 * model(torch.ones(8, 4)).pow(2).mean()).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def test_a_program_whose_every_update_is_skipped_is_told_so(tmp_path):
    for times, said in ((12, "No update was made: the gradient scaler skipped all 12"), (40, "NUMR005")):
        (tmp_path / "train.py").write_text(SKIPPED.replace("TIMES", str(times)))
        done = traindx("--dir", f"rec{times}", "train.py", cwd=tmp_path)
        assert done.returncode == 0 and said in done.stderr and (tmp_path / f"rec{times}").is_dir()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("loss(model(x).detach()).backward()", "the training loss has no graph"),
        ("loss(model(x), reduction='none').backward()", "The program ended before its first update, with RuntimeError"),
        (
            "loss(model(x)).backward(); optimizer.step(); raise ValueError('disk full')",
            "with ValueError: disk full (x.py:7)",
        ),
    ],
)
def test_a_program_that_breaks_is_told_so_and_never_called_healthy(body, said, tmp_path):
    head = "import torch\nfrom functools import partial\ntorch.manual_seed(0)\nmodel = torch.nn.Linear(4, 2)\n"
    head += "x, loss = torch.ones(8, 4), partial(torch.nn.functional.mse_loss, target=torch.zeros(8, 2))\n"
    (tmp_path / "x.py").write_text(f"{head}optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n{body}\n")
    ours = traindx("x.py", cwd=tmp_path)
    page = " ".join(ours.stderr.split())
    assert ours.returncode == 1 and said in page and "HEALTHY" not in page and "REPR001" not in page


def test_torch_is_not_imported_for_a_program_that_does_not_use_it(tmp_path):
    (tmp_path / "x.py").write_text("import sys\nprint('torch' in sys.modules)")
    assert traindx("x.py", cwd=tmp_path).stdout == "False\n"


def test_json_report_quiet_and_fail_on(tmp_path):
    (tmp_path / "t.py").write_text(TRAIN + "steps(30)\nprint(loss if 'loss' in dir() else 'ok')")
    done = traindx("--format", "json", "-o", "r.json", "--quiet", "--dir", "rec", "t.py", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["schema"] == "traindx.report/1" and report["run"]["kind"] == "record"
    (tmp_path / "n.py").write_text(TRAIN + "o.param_groups[0]['lr'] = 1e18\nsteps(60)")
    assert traindx("-q", "--fail-on", "critical", "--dir", "r2", "n.py", cwd=tmp_path).returncode == 1
    assert traindx("-q", "--dir", "r3", "n.py", cwd=tmp_path).returncode == 0


def test_the_record_goes_where_the_environment_says(tmp_path):
    (tmp_path / "t.py").write_text(TRAIN + "steps(3)")
    traindx("-q", "t.py", cwd=tmp_path, env={**ENV, "TRAINDX_DIR": str(tmp_path / "deep" / "er")})
    [run] = (tmp_path / "deep" / "er").iterdir()
    assert run.name.startswith("t-") and len(record.read(run)["loss/train"]) == 3
    traindx("-q", "t.py", cwd=tmp_path)
    assert len(list((tmp_path / "traindx-runs").iterdir())) == 1


def test_disabled_it_is_plain_python(tmp_path):
    (tmp_path / "t.py").write_text(TRAIN + "print(steps(3).item(), torch.nn.Module.__call__.__code__.co_filename)")
    plain, ours = python("t.py", cwd=tmp_path), traindx("t.py", cwd=tmp_path, env={**ENV, "TRAINDX_DISABLE": "1"})
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert [p.name for p in tmp_path.iterdir()] == ["t.py"]


def test_modules_relative_imports_and_arguments(tmp_path):
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text(TRAIN)
    (package / "__main__.py").write_text(
        "import sys\nfrom .helper import steps\n"
        "print(steps(4).item(), sys.argv[1:], __name__, __package__, __spec__.name)\n1 / 0\n"
    )
    plain = python("-m", "pkg", "a", "--b=1", "-q", cwd=tmp_path)
    ours = traindx("--dir", "rec", "-m", "pkg", "a", "--b=1", "-q", cwd=tmp_path)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
    assert ours.stderr.startswith(plain.stderr)
    assert len(record.read(tmp_path / "rec")["loss/train"]) == 4


def test_a_module_that_does_not_exist(tmp_path):
    plain, ours = python("-m", "nowhere.to_be", cwd=tmp_path), traindx("-m", "nowhere.to_be", cwd=tmp_path)
    assert ours.returncode == plain.returncode == 1
    assert plain.stderr.strip() in ours.stderr


def test_killed_it_leaves_a_readable_record(tmp_path):
    (tmp_path / "t.py").write_text(
        TRAIN + "import time\nfor i in range(10**6):\n    steps(1); time.sleep(0.01); print(i, flush=True)"
    )
    child = subprocess.Popen(
        [sys.executable, "-m", "traindx", "run", "--dir", "rec", "t.py"],
        cwd=tmp_path,
        env=ENV,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    for _ in range(40):
        child.stdout.readline()
    assert until(lambda: len(record.read(tmp_path / "rec").series("loss/train")) >= 40, every_s=0.5)
    child.kill()
    child.communicate()
    run = record.read(tmp_path / "rec")
    assert len(run["loss/train"]) >= 40 and run.fact("ended") in ("killed", "running", None)


def test_interrupted_it_ends_as_python_does(tmp_path):
    (tmp_path / "t.py").write_text(TRAIN + "import os, signal\nsteps(5)\nos.kill(os.getpid(), signal.SIGINT)\nsteps(5)")
    plain, ours = python("t.py", cwd=tmp_path), traindx("--dir", "rec", "t.py", cwd=tmp_path)
    assert ours.returncode == plain.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in ours.stderr and "site-packages/traindx" not in ours.stderr
    assert record.read(tmp_path / "rec").fact("exception")["type"] == "KeyboardInterrupt"


@pytest.mark.parametrize(
    "code", ["sys.exit()", "sys.exit(3)", "sys.exit('why')", "raise SystemExit(300)", "os._exit(9)", "exit(2)"]
)
def test_every_way_to_exit_keeps_its_code(code, tmp_path):
    (tmp_path / "t.py").write_text(TRAIN + f"import os, sys\nsteps(3)\n{code}")
    plain, ours = python("t.py", cwd=tmp_path), traindx("-q", "--dir", "rec", "t.py", cwd=tmp_path)
    assert ours.returncode == plain.returncode
    assert plain.stderr in ours.stderr


def test_a_wrong_budget_is_refused(tmp_path):
    (tmp_path / "t.py").write_text("print('ran')")
    done = traindx("--budget", "lots", "t.py", cwd=tmp_path)
    assert done.returncode == 2 and "ran" not in done.stdout and "budget" in done.stderr


def test_a_folder_that_cannot_be_written_does_not_hurt(tmp_path):
    (tmp_path / "t.py").write_text(TRAIN + "print(steps(5).item())")
    (tmp_path / "file").write_text("")
    plain, ours = python("t.py", cwd=tmp_path), traindx("--dir", "file/inside", "t.py", cwd=tmp_path)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
