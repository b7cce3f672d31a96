"""Seeds and determinism that can be taken back."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

_CUBLAS = "CUBLAS_WORKSPACE_CONFIG"


def seed_everything(seed: int, *, deterministic: bool = True) -> Callable[[], None]:
    """Seed Python, numpy and torch now, and make torch deterministic; call what it returns to have all as before.

    >>> undo = seed_everything(3)
    >>> first = float(torch.rand(()))
    >>> undo()
    >>> undo = seed_everything(3)
    >>> float(torch.rand(())) == first
    True
    >>> undo()
    """
    python, arrays, strict = random.getstate(), np.random.get_state(), torch.are_deterministic_algorithms_enabled()  # noqa: NPY002
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    cpu, gpus = torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    cudnn = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    workspace = os.environ.get(_CUBLAS)

    def undo() -> None:
        random.setstate(python)
        np.random.set_state(arrays)  # noqa: NPY002
        torch.set_rng_state(cpu)
        torch.cuda.set_rng_state_all(gpus)
        torch.use_deterministic_algorithms(strict, warn_only=warn_only)
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = cudnn
        if workspace is None:
            os.environ.pop(_CUBLAS, None)

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)
    if deterministic:
        os.environ.setdefault(_CUBLAS, ":4096:8")  # cuBLAS is deterministic only with a fixed workspace
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    return undo


def seed_worker(worker_id: int) -> None:
    """For `DataLoader(worker_init_fn=seed_worker)`: Python's and numpy's generators follow the worker's torch seed."""
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002


@contextmanager
def seeded(seed: int, *, deterministic: bool = True) -> Iterator[None]:
    """`seed_everything` for the length of a block."""
    undo = seed_everything(seed, deterministic=deterministic)
    try:
        yield
    finally:
        undo()
