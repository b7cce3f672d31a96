"""The promise to the patient, item by item (OS-xx of the reference): no exception, no trace, no wait, no sync."""

from __future__ import annotations

import copy
import gc
import io
import os
import pickle
import sys
import threading
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

import traindx
from probes.conftest import observing, patched_names
from probes.workloads import WORKLOADS
from traindx import record
from traindx.probe import MOMENTS, Probe
from traindx.probes.drive.patches import PATCHES
from traindx.probes.drive.recorder import Recorder
from traindx.probes.launch.attach import attach, detach
from traindx.probes.read.common.tracebacks import UNSEEN


def parts(kind=torch.optim.SGD):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    return model, kind(model.parameters(), lr=0.05), torch.randn(16, 4), torch.randint(0, 2, (16,))


def train(model, optimizer, x, y, steps=5):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss


# -- OS-05, 06, 07, 29: nothing is attached to the user's objects, nothing stays behind


def test_models_carry_nothing_of_ours_and_can_be_copied_and_saved():
    model, optimizer, x, y = parts()
    before = sorted(vars(model)), list(model.state_dict())
    with observing():
        train(model, optimizer, x, y)
        assert (sorted(vars(model)), list(model.state_dict())) == before
        assert not any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in model.modules())
        file = io.BytesIO()
        torch.save(model, file)
        for clone in (copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model))):
            assert torch.equal(clone(x), model(x))
        pickle.dumps(F.cross_entropy)
        copy.deepcopy(optimizer)


def test_detaching_leaves_torch_as_it_was():
    model, optimizer, x, y = parts()
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    with observing():
        train(model, optimizer, x, y)
        assert len(patched_names()) > 40
    assert patched_names() == []
    assert threading.active_count() == threads and len(os.listdir("/proc/self/fd")) == files
    hooks = sys.modules["torch.optim.optimizer"]
    assert not hooks._global_optimizer_pre_hooks and not hooks._global_optimizer_post_hooks


def test_two_observers_share_the_patches_and_the_second_leaves_last():
    model, optimizer, x, y = parts()
    a, b = Recorder(), Recorder()
    first, second = attach(a), attach(b)
    train(model, optimizer, x, y)
    detach(first)
    train(model, optimizer, x, y)
    detach(second)
    a.close()
    b.close()
    assert len(a.sink.run()["loss/train"]) == 5 and len(b.sink.run()["loss/train"]) == 10


def test_user_patches_on_top_of_ours_survive_the_end():
    own = F.mse_loss
    with observing():
        assert F.mse_loss is own
        F.mse_loss = lambda *a, **k: own(*a, **k)
        theirs = F.mse_loss
    try:
        assert F.mse_loss is theirs
        assert F.mse_loss(torch.zeros(2), torch.ones(2)).item() == 1.0
    finally:
        F.mse_loss = own
    assert own.__code__.co_filename != UNSEEN


# -- OS-09, 10, 32: errors


class Raises(Probe):
    """Fails in every moment."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.calls = 0


def _raiser(name):
    def moment(self, *args):
        self.calls += 1
        raise self.error

    return moment


for name in MOMENTS:
    setattr(Raises, name, _raiser(name))


@pytest.mark.parametrize(
    "error", [ValueError("x"), MemoryError(), RecursionError(), OSError(28, "full"), AssertionError()], ids=repr
)
def test_a_failing_probe_is_switched_off_after_three_errors(error, capfd):
    model, optimizer, x, y = parts()
    probe = Raises(error)
    recorder = Recorder(probes=[probe], budget=None)
    observer = attach(recorder)
    train(model, optimizer, x, y)
    detach(observer)
    recorder.close()
    run = recorder.sink.run()
    assert probe.calls == 3
    assert [e.data["name"] for e in run.events_of("sensor_off")] == ["Raises"]
    assert len(run["loss/train"]) == 5
    assert capfd.readouterr() == ("", "")


def test_ten_errors_switch_everything_off_with_one_line(capfd):
    model, optimizer, x, y = parts()
    kinds = [type(f"Raises{i}", (Raises,), {}) for i in range(4)]
    recorder = Recorder(probes=[k(ValueError("boom")) for k in kinds], budget=None)
    observer = attach(recorder)
    train(model, optimizer, x, y)
    detach(observer)
    recorder.close()
    out, err = capfd.readouterr()
    assert out == "" and err.count("\n") == 1 and "switched off" in err
    assert recorder.off and len(recorder.sink.run().events_of("traindx_off")) == 1


@pytest.mark.parametrize(
    "report",
    [
        "on_batch",
        "forward_begins",
        "forward_ends",
        "loss_called",
        "backward_begins",
        "backward_ends",
        "step_begins",
        "step_ends",
        "zero_grad",
        "module_called",
    ],
)
def test_an_error_in_the_story_never_reaches_the_user(report):
    model, optimizer, x, y = parts()
    recorder = Recorder(budget=None)
    observer = attach(recorder)

    def broken(*args):
        raise RuntimeError("ours")

    observer._on[report] = broken
    loader = DataLoader(TensorDataset(x, y), 8)
    for a, b in loader:
        train(model, optimizer, a, b, 1)
    detach(observer)
    recorder.close()
    assert report == "module_called" or any(f.moment == report for f in recorder.failures)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_interrupts_pass_through_us(error):
    model, optimizer, x, y = parts()
    recorder = Recorder(probes=[Raises(error())], budget=None)
    observer = attach(recorder)
    with pytest.raises(error):
        train(model, optimizer, x, y)
    detach(observer)


def test_the_users_exception_is_the_same_object_and_its_traceback_has_no_frame_of_ours():
    class Odd(Exception):
        pass

    raised = Odd("mine")

    class Bad(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(1))

        def forward(self, x):
            raise raised

    with observing():
        with pytest.raises(Odd) as caught:
            nn.Sequential(Bad())(torch.zeros(1))
        assert caught.value is raised
        files, tb = [], raised.__traceback__
        while tb is not None:
            files.append(tb.tb_frame.f_code.co_filename)
            tb = tb.tb_next
        ours = str(Path(traindx.__file__).parent) + os.sep
        assert not [f for f in files if f.startswith(ours)]


# -- OS-15: nothing of the user's is kept alive


def test_no_tensor_model_or_optimizer_outlives_its_program():
    model, optimizer, x, y = parts(torch.optim.Adam)
    seen_tensors: list[weakref.ref] = []

    class Watching(nn.Module):
        def forward(self, z):
            out = z * 2
            seen_tensors.append(weakref.ref(out))
            return out

    net = nn.Sequential(model, Watching())
    with observing():
        train(net, optimizer, x, y, 4)
        batch = weakref.ref(x)
        refs = [weakref.ref(net), weakref.ref(model), weakref.ref(optimizer), weakref.ref(model[0].weight)]
        del net, model, optimizer, x, y
        gc.collect()
        assert [r() is None for r in refs] == [True] * 4
        assert all(r() is None for r in seen_tensors) and batch() is None


# -- OS-14: flat memory (the long one is in the slow suite)


@pytest.mark.slow
def test_own_memory_is_flat_over_many_steps(tmp_path):
    from traindx.probes.drive.sink import DiskSink
    from traindx.probes.read.machine.memory import resident

    model, optimizer, x, y = parts()
    recorder = Recorder(DiskSink(tmp_path / "run", "run"))
    observer = attach(recorder)
    train(model, optimizer, x, y, 10_000)  # buffers are full by then
    seen, files = [], len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        train(model, optimizer, x, y, 10_000)
        gc.collect()
        seen.append(resident()["mem/rss"])
    grown = len(os.listdir("/proc/self/fd")) - files
    detach(observer)
    recorder.close()
    size = sum(p.stat().st_size for p in (tmp_path / "run").rglob("*") if p.is_file())
    print(f"record {size / 1e6:.2f} MB, descriptors +{grown}, memory {[round(x / 1e6, 1) for x in seen]} MB")
    assert grown <= 0 and size <= 10e6
    slopes = sorted((b - a) / (j - i) for i, a in enumerate(seen) for j, b in enumerate(seen) if j > i)
    assert 10 * slopes[len(slopes) // 2] < 1e6, seen  # Theil-Sen, bytes per 100,000 steps


# -- no device sync: dispatches of the step path


class Count(TorchDispatchMode):
    SYNCS = ("_local_scalar_dense", "equal", "nonzero", "is_nonzero", "unique", "masked_select")

    def __init__(self):
        super().__init__()
        self.seen = dict.fromkeys(self.SYNCS, 0)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in self.seen:
            self.seen[name] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["mlp", "cnn", "gpt", "gan", "accumulation", "autocast"])
def test_no_more_synchronising_dispatches_than_the_bare_loop(name):
    with Count() as bare:
        WORKLOADS[name](25)
    recorder = Recorder(budget=None)
    recorder.write_facts = lambda: None  # facts may read their own numbers: they are asked off the step path
    observer = attach(recorder)
    with Count() as watched:
        WORKLOADS[name](25)
    detach(observer)
    assert watched.seen == bare.seen


# -- OS-16: torch.compile


def test_compiled_models_keep_their_graphs():
    import torch._dynamo
    from torch._dynamo.testing import CompileCounter

    def graphs(watched: bool) -> tuple[int, list[float]]:
        torch._dynamo.reset()
        counter = CompileCounter()
        model, optimizer, x, y = parts()
        step = torch.compile(model, backend=counter)
        losses = []
        for _ in range(6):
            loss = F.cross_entropy(step(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return counter.frame_count, losses

    bare = graphs(False)
    with observing() as seen:
        watched = graphs(True)
    assert watched == bare
    assert seen.run.fact("perf.compiled") is True
    assert "act_rms/module" in seen.run.fact("blind")
    assert len(seen.run["loss/train"]) == 6 and len(seen.run["grad_norm/param"]) == 6


def test_a_compiled_loss_function_with_fullgraph_still_compiles():
    import torch._dynamo

    model, optimizer, x, y = parts()
    with observing():
        torch._dynamo.reset()

        @torch.compile(backend="eager", fullgraph=True)
        def step(a, b):
            return F.cross_entropy(torch.relu(model(a)), b)

        for _ in range(3):
            optimizer.zero_grad()
            step(x, y).backward()
            optimizer.step()


# -- OS-19, 20: autograd features and odd tensors


def test_double_backward_retain_graph_and_anomaly_mode_work():
    model, optimizer, x, y = parts()
    with observing() as seen:
        x.requires_grad_()
        loss = F.cross_entropy(model(x), y)
        (g,) = torch.autograd.grad(loss, x, create_graph=True)
        (loss + g.pow(2).sum()).backward(retain_graph=True)
        loss.backward()
        optimizer.step()
        with torch.autograd.set_detect_anomaly(True):
            train(model, optimizer, x.detach(), y, 2)
    assert len(seen.run["loss/train"]) == 3


CASES = {
    "vmap": lambda m: torch.func.vmap(lambda z: F.mse_loss(m(z), z))(torch.randn(3, 4)),
    "grad": lambda m: torch.func.grad(lambda z: m(z).sum())(torch.randn(3, 4)),
    "inference": lambda m: torch.inference_mode()(m)(torch.randn(3, 4)),
    "empty": lambda m: m(torch.randn(0, 4)),
    "double": lambda m: m.double()(torch.randn(3, 4, dtype=torch.float64)),
    "meta": lambda m: copy.deepcopy(m).to("meta")(torch.randn(3, 4, device="meta")),
    "trace": lambda m: torch.jit.trace(m, torch.randn(3, 4)),
    "script": lambda m: torch.jit.script(nn.Sequential(m, nn.ReLU())),
    "fx": lambda m: torch.fx.symbolic_trace(nn.Sequential(m, nn.ReLU()))(torch.randn(3, 4)),
    "complex": lambda m: nn.Identity()(torch.randn(2, dtype=torch.complex64)),
    "sparse": lambda m: nn.Identity()(torch.eye(3).to_sparse()),
    "nested": lambda m: nn.Identity()(torch.nested.nested_tensor([torch.randn(2), torch.randn(3)])),
    "tuple": lambda m: nn.LSTM(4, 4)(torch.randn(2, 1, 4)),
    "none": lambda m: type("N", (nn.Linear,), {"forward": lambda self, *a: None})(2, 2)(),
    "bool": lambda m: nn.Identity()(torch.tensor([True])),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore")
def test_odd_tensors_and_ambient_modes_do_not_disturb(case):
    model, optimizer, x, y = parts()
    with observing():
        train(model, optimizer, x, y, 2)
        CASES[case](nn.Linear(4, 4))


def test_sparse_gradients_shared_and_tied_weights():
    torch.manual_seed(0)
    emb = nn.Embedding(10, 4, sparse=True)
    shared = nn.Linear(4, 4)
    model = nn.ModuleDict({"emb": emb, "a": shared, "b": shared})
    with observing() as seen:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            optimizer.zero_grad()
            model["b"](model["a"](emb(torch.tensor([1, 2])))).pow(2).mean().backward()
            optimizer.step()
    assert seen.run["grad_norm/param"].names == ("emb.weight", "a.weight", "a.bias")


# -- OS-22: globals


def test_defaults_of_the_user_are_respected_and_left_alone():
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        with observing():
            g = torch.Generator(device="cpu").manual_seed(0)
            model = nn.Linear(4, 2, device="cpu", dtype=torch.float32)
            optimizer = torch.optim.Adam(model.parameters(), 1e-2)
            x = torch.randn(8, 4, generator=g, device="cpu", dtype=torch.float32)
            train(model, optimizer, x, torch.zeros(8, dtype=torch.long, device="cpu"), 3)
            assert torch.get_default_dtype() == torch.float64 and torch.get_default_device().type == "meta"
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)


def test_deterministic_algorithms_do_not_raise_because_of_us():
    torch.use_deterministic_algorithms(True)
    try:
        with observing():
            WORKLOADS["gpt"](5)
    finally:
        torch.use_deterministic_algorithms(False)


# -- OS-24, 26, 27, 30: processes, threads, re-entrancy, changing models


def test_a_forked_child_is_silent():
    model, optimizer, x, y = parts()
    recorder = Recorder(budget=None)
    observer = attach(recorder)
    train(model, optimizer, x, y, 2)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            train(model, optimizer, x, y, 3)
            recorder.close()
            code = 0 if recorder.scene.step == 2 else 3
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    detach(observer)
    recorder.close()
    assert len(recorder.sink.run()["loss/train"]) == 2


def test_a_forked_child_may_watch_itself(tmp_path):
    model, optimizer, x, y = parts()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with traindx.watch(model, optimizer, dir=tmp_path / "r"):
                train(model, optimizer, x, y, 5)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(record.read(tmp_path / "r").series("loss/train")) == 5


def test_other_threads_may_use_torch_meanwhile():
    model, optimizer, x, y = parts()
    other = nn.Linear(4, 2)
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            F.cross_entropy(other(x), y).backward()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with observing() as seen:
            train(model, optimizer, x, y, 1)
            thread = threading.Thread(target=busy)
            thread.start()
            train(model, optimizer, x, y, 30)
            stop.set()
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(seen.run["loss/train"]) == 31
    assert set(seen.run["loop/backwards"].values) == {1}


def test_the_model_may_change_while_it_is_observed():
    model, optimizer, x, y = parts(torch.optim.Adam)
    with observing() as seen:
        train(model, optimizer, x, y, 3)
        model[0].weight.requires_grad_(False)
        train(model, optimizer, x, y, 2)
        model.append(nn.Linear(2, 2))
        optimizer.add_param_group({"params": model[3].parameters(), "lr": 0.01})
        train(model, optimizer, x, y, 3)
        model[0] = nn.Linear(4, 8)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        train(model, optimizer, x, y, 3)
        model.double()
        train(model, optimizer, x.double(), y, 2)
    assert len(seen.run["loss/train"]) >= 8


def test_disabled_by_the_environment(monkeypatch, tmp_path):
    import traindx

    monkeypatch.setenv("TRAINDX_DISABLE", "1")
    monkeypatch.chdir(tmp_path)
    model, optimizer, x, y = parts()
    with traindx.watch(model, optimizer) as dx:
        assert patched_names() == []
        train(model, optimizer, x, y)
        dx.log(accuracy=1.0)
    assert list(tmp_path.iterdir()) == [] and PATCHES.observers == ()
