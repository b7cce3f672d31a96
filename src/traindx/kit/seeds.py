"""Seeds and determinism that can be taken back, with what they cost."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import get_worker_info

_CUBLAS, _HASH = "CUBLAS_WORKSPACE_CONFIG", "PYTHONHASHSEED"


@dataclass(frozen=True)
class Price:
    """What determinism costs: seconds of a step with it and without, the median of pairs taken in turns."""

    deterministic_s: float
    usual_s: float

    @property
    def ratio(self) -> float:
        return self.deterministic_s / self.usual_s

    def __str__(self) -> str:
        slower = f"{self.ratio - 1:+.0%}"
        return f"{self.deterministic_s * 1e3:.3g} ms a step against {self.usual_s * 1e3:.3g} ms without determinism ({slower})"


class Seeds:
    """What was set, and the way back: call it, or use it as a block."""

    def __init__(self, seed: int, back: Callable[[], None], *, deterministic: bool, hash_note: str = "") -> None:
        self.seed, self._back, self.deterministic = seed, back, deterministic
        self.hash_note = hash_note  # empty when PYTHONHASHSEED was set in time, else what to do

    def __repr__(self) -> str:
        how = "deterministic" if self.deterministic else "not deterministic"
        return f"<Seeds {self.seed}, {how}: price(step) measures what it costs, undo() takes it back>"

    def __call__(self) -> None:
        self.undo()

    def __enter__(self) -> Seeds:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def undo(self) -> None:
        """Generators, determinism and environment as they were before."""
        self._back()

    def price(self, step: Callable[[], Any], *, times: int = 20) -> Price:
        """Call `step` with determinism and without, in turns, and compare. Generators are put back, what `step` did stays.

        >>> with seed_everything(0) as seeds:
        ...     price = seeds.price(lambda: torch.randn(64, 64).exp().sum(), times=5)
        >>> price.ratio > 0
        True
        """
        before = _generators()
        now = _strictness()
        took: dict[bool, list[float]] = {True: [], False: []}
        try:
            for strict in (True, False):  # the first call of either kind chooses its algorithms
                _be_strict(strict)
                _timed(step)
            for i in range(2 * times):
                strict = (i + i // 2) % 2 == 0  # with, without, without, with: what drifts falls on both alike
                _be_strict(strict)
                took[strict].append(_timed(step))
        finally:
            _set_strictness(*now)
            before()
        return Price(statistics.median(took[True]), statistics.median(took[False]))


def seed_everything(seed: int, *, deterministic: bool = True, warn_only: bool = False) -> Seeds:
    """Seed Python, numpy and torch now, and make torch deterministic; what it returns undoes it and knows its price.

    An operation without a deterministic version raises; with `warn_only` it warns. PYTHONHASHSEED is set for the processes you
    start; this one has made its choice when Python began, and `hash_note` of what is returned says so where it matters.
    Workers of a DataLoader follow: torch seeds their generators from its own. Generator objects that a data set keeps are
    copied to every worker; `worker_init_fn=traindx.seed_worker` gives each of them a seed of its own.

    >>> undo = seed_everything(3)
    >>> undo
    <Seeds 3, deterministic: price(step) measures what it costs, undo() takes it back>
    >>> first = float(torch.rand(()))
    >>> undo()
    >>> with seed_everything(3):
    ...     float(torch.rand(())) == first
    True
    """
    generators, strictness = _generators(), _strictness()
    outside = {name: os.environ.get(name) for name in (_CUBLAS, _HASH)}

    def back() -> None:
        generators()
        _set_strictness(*strictness)
        for name, value in outside.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)

    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch.manual_seed(seed)
    os.environ[_HASH] = str(seed % 2**32)
    if deterministic:
        os.environ.setdefault(_CUBLAS, ":4096:8")  # cuBLAS is deterministic only with a fixed workspace
        _set_strictness(True, warn_only, True, False)
    late = outside[_HASH] in (None, "", "random")
    note = f"strings still hash at random in this process: start it with {_HASH}={seed % 2**32} to pin sets" if late else ""
    return Seeds(seed, back, deterministic=deterministic, hash_note=note)


def seed_worker(worker_id: int) -> None:
    """For `DataLoader(worker_init_fn=seed_worker)`: every generator follows the worker's torch seed, those that the data set
    keeps too, which are otherwise the same in all workers.

    >>> from torch.utils.data import DataLoader
    >>> loader = DataLoader(range(8), batch_size=4, worker_init_fn=seed_worker)
    """
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    info = get_worker_info()
    dataset = info.dataset if info is not None else None
    while dataset is not None:  # a Subset has the data set inside
        for i, (name, held) in enumerate(sorted(getattr(dataset, "__dict__", {}).items())):
            if (fresh := _reseeded(held, seed + i)) is not None:
                setattr(dataset, name, fresh)
        dataset = getattr(dataset, "dataset", None)


@contextmanager
def seeded(seed: int, *, deterministic: bool = True, warn_only: bool = False) -> Iterator[None]:
    """`seed_everything` for the length of a block.

    >>> with seeded(3):
    ...     first = float(torch.rand(()))
    >>> with seeded(3):
    ...     float(torch.rand(())) == first
    True
    """
    with seed_everything(seed, deterministic=deterministic, warn_only=warn_only):
        yield


def _reseeded(held: Any, seed: int) -> Any:
    """A generator of the same kind with another seed; None for anything else."""
    if isinstance(held, np.random.Generator):
        return np.random.Generator(type(held.bit_generator)(seed))
    if isinstance(held, np.random.RandomState):
        return np.random.RandomState(seed % 2**32)
    if type(held) is random.Random:
        return random.Random(seed)
    if isinstance(held, torch.Generator):
        return held.manual_seed(seed)
    return None


def _generators() -> Callable[[], None]:
    """The way back to the state that every global generator has now."""
    python, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002
    cpu, gpus = torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def back() -> None:
        random.setstate(python)
        np.random.set_state(arrays)  # noqa: NPY002
        torch.set_rng_state(cpu)
        torch.cuda.set_rng_state_all(gpus)

    return back


def _strictness() -> tuple[bool, bool, bool, bool]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
    )


def _set_strictness(strict: bool, warn_only: bool, cudnn: bool, benchmark: bool) -> None:
    torch.use_deterministic_algorithms(strict, warn_only=warn_only)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = cudnn, benchmark


def _be_strict(strict: bool) -> None:
    _set_strictness(strict, False, strict, False)


def _timed(step: Callable[[], Any]) -> float:
    _wait()
    begun = time.perf_counter()
    step()
    _wait()
    return time.perf_counter() - begun


def _wait() -> None:
    """For what is still running on an accelerator."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
