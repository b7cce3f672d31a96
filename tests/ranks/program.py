"""A small data-parallel program with one fault of choice: `program.py FAULT STEPS`, started by torchrun (gloo)."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train(fault: str, steps: int) -> list[Tensor]:
    """Train in this rank; gives the weights."""
    rank, half = dist.get_rank(), steps // 2
    torch.manual_seed(rank if fault == "no-wrapper" else 0)
    x = torch.randn(512, 8)
    y = (x[:, :2].sum(1) > 0).long()
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
    model = net if fault == "no-wrapper" else DistributedDataParallel(net)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    data = TensorDataset(x, y)
    sampler = DistributedSampler(data, seed=3)
    torch.manual_seed(5 if fault == "same-data" else 100 + rank)
    loader = DataLoader(data, batch_size=16, sampler=None if fault == "same-data" else sampler, shuffle=fault == "same-data")
    step, epoch = 0, 0
    while step < steps:
        if fault != "no-set-epoch":
            sampler.set_epoch(epoch)
        epoch += 1
        for a, b in loader:
            if fault == "uneven-tokens" and rank:
                b = torch.where((torch.arange(len(b)) < 3) & (b == 1), b, -100)
                b[0] = 1
            if fault == "straggler" and rank:
                time.sleep(0.01)
            if fault == "killed" and rank and step == half:
                os.kill(os.getpid(), signal.SIGKILL)
            if fault in ("hang", "stopped") and rank and step == half:
                time.sleep(600 if fault == "hang" else 6)
            if fault == "lone-nan" and rank and step == half:
                a[3, 1] = float("nan")
            called = net if fault == "around" else model
            with model.no_sync() if fault == "no-sync" and step % 2 else contextlib.nullcontext():
                loss = nn.functional.cross_entropy(called(a), b)
                opt.zero_grad()
                loss.backward()
            if fault == "drift" and rank and step == half:
                with torch.no_grad():
                    net[0].weight[0, 0] += 1e-4
            opt.step()
            step += 1
            if step == steps:
                break
    return [p.detach() for p in net.parameters()]


def spawned(rank: int, world: int, port: str, fault: str, steps: int) -> None:
    """One of the processes that the program spawns itself."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    train(fault, steps)
    dist.destroy_process_group()


if __name__ == "__main__" and len(sys.argv) > 3:
    torch.multiprocessing.spawn(spawned, (2, sys.argv[3], sys.argv[1], int(sys.argv[2])), nprocs=2)
elif __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(sys.argv[1], int(sys.argv[2]))
    dist.destroy_process_group()
