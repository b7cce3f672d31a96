"""A small data-parallel program with one fault of choice: `program.py FAULT STEPS`, started by torchrun (gloo).

With a third argument, a port, it starts its two ranks itself (a fourth says how); $WATCH is where `traindx.watch` shall write.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def _break(fault: str) -> None:
    """What happens to rank 1 in the middle of the run."""
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "hang":
        time.sleep(600)
    elif fault == "raises":
        raise ValueError("sample 17 is broken")
    elif fault == "leaves":
        sys.exit(0)
    elif fault == "stopped":  # by the system, until somebody lets it go on
        subprocess.Popen(["sh", "-c", f"sleep {os.environ.get('STOPPED_S', '60')}; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "extra-barrier":
        dist.barrier()


def _wrapped(net: nn.Sequential, fault: str) -> nn.Module:
    if fault == "fsdp":
        return FullyShardedDataParallel(net, device_id=torch.device("cpu"), use_orig_params=True)
    if fault.startswith("fsdp2"):
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in (net[0], net[2], net):
            fully_shard(layer, mesh=mesh)
    if fault == "own-statistics":
        return DistributedDataParallel(net, broadcast_buffers=False)
    return net if fault in ("no-wrapper", "fsdp2", "fsdp2-same-data", "local-sgd") else DistributedDataParallel(net)


def _optimizer(model: nn.Module, fault: str) -> torch.optim.Optimizer:
    if fault == "zero":  # each rank has the state of a part, makes that part's update, and sends it to the others
        return ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    return torch.optim.SGD(model.parameters(), lr=0.05)


class _Less:
    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self.loader), len(self.loader) * 3 // 4)


def train(fault: str, steps: int) -> list[Tensor]:
    """Train in this rank; gives the weights."""
    rank, half = dist.get_rank(), steps // 2
    torch.manual_seed(rank if fault == "no-wrapper" else 0)
    x = torch.randn(512, 8)
    y = (x[:, :2].sum(1) > 0).long()
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
    if fault == "own-statistics":
        net.insert(1, nn.BatchNorm1d(16))
    model = _wrapped(net, fault)
    opt = _optimizer(model, fault)
    if "WATCH" in os.environ:
        import traindx

        traindx.watch(model, opt, dir=os.environ["WATCH"])
    data = TensorDataset(x, y)
    sampler = DistributedSampler(data, seed=3)
    same = fault.endswith("same-data")
    torch.manual_seed(5 if same else 100 + rank)
    loader = DataLoader(data, batch_size=16, sampler=None if same else sampler, shuffle=same)
    if fault == "no-disk" and rank == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # every write to a file fails from now on
    batches: Iterable[list[Tensor]] = loader
    if fault == "join" and rank == 1:  # a quarter less of everything
        batches, steps = _Less(loader), steps * 3 // 4
    step, epoch = 0, 0
    while step < steps:
        if fault != "no-set-epoch":
            sampler.set_epoch(epoch)
        epoch += 1
        with Join([model]) if fault == "join" else contextlib.nullcontext():  # type: ignore[list-item]
            for a, b in batches:
                if fault == "uneven-tokens" and rank:
                    b = torch.where((torch.arange(len(b)) < 3) & (b == 1), b, -100)
                    b[0] = 1
                if fault == "straggler" and rank == dist.get_world_size() - 1:
                    time.sleep(0.03)  # far more than a step takes, also where several ranks share a core
                if step == half and rank == 1:
                    _break(fault)
                if fault == "lone-nan" and rank == 1 and step == half:
                    a[3, 1] = float("nan")
                called = net if fault == "around" else model
                with model.no_sync() if fault == "no-sync" and step % 2 else contextlib.nullcontext():
                    loss = nn.functional.cross_entropy(called(a), b)
                    opt.zero_grad()
                    loss.backward()
                if fault == "drift" and rank == 1 and step == half:
                    with torch.no_grad():
                        net[0].weight[0, 0] += 1e-4
                if "NORMS" in os.environ:
                    with open(f"{os.environ['NORMS']}.{rank}", "a", encoding="utf-8") as out:
                        out.write(f"{_whole_norm(model)}\n")
                if fault.startswith("fsdp2"):
                    nn.utils.clip_grad_norm_(model.parameters(), 1e6)  # of shards: its norm is a sum that is not made yet
                opt.step()
                step += 1
                if fault == "local-sgd" and step % 4 == 0:
                    for p in net.parameters():
                        dist.all_reduce(p.data)
                        p.data /= dist.get_world_size()
                if step == steps:
                    break
    return [getattr(p, "_local_tensor", p).detach() for p in net.parameters()]


def _whole_norm(model: nn.Module) -> float:
    """The norm of the whole gradient, as torch itself makes it of the shards."""
    if isinstance(model, FullyShardedDataParallel):
        return float(model.clip_grad_norm_(float("inf")))
    return float(nn.utils.get_total_norm([p.grad for p in model.parameters()]).full_tensor())  # type: ignore[operator]


def spawned(rank: int, world: int, port: str, fault: str, steps: int) -> None:
    """One of the processes that the program spawns itself."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    train(fault, steps)
    dist.destroy_process_group()


if __name__ == "__main__" and len(sys.argv) > 3:
    given = (2, sys.argv[3], sys.argv[1], int(sys.argv[2]))
    if sys.argv[4:] == ["one-by-one"]:
        processes = [torch.multiprocessing.get_context("spawn").Process(target=spawned, args=(r, *given)) for r in range(2)]
        for process in processes:
            process.start()
        sys.exit(sum(process.join() or abs(process.exitcode or 0) for process in processes))
    start = torch.multiprocessing.start_processes if sys.argv[4:] == ["start"] else torch.multiprocessing.spawn
    start(spawned, given, nprocs=2)
elif __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    weights = train(sys.argv[1], int(sys.argv[2]))
    if os.environ.get("WEIGHTS") and dist.get_rank() == 0:
        torch.save(weights, Path(os.environ["WEIGHTS"]))
    dist.destroy_process_group()
