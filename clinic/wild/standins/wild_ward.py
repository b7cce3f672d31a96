"""Imported first by every program of the ward, bare and observed alike: seeds, and a fingerprint of the weights on the way.

The fingerprint is taken after steps 1, 2, 4, 8 … of every optimizer and written to the file that WILD_DIGEST names. With
WILD_SEED the seeds that the program sets itself are moved by as much, so that one program runs over several seeds.
"""

import ctypes
import hashlib
import os
import random
import weakref

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

_moved = int(os.environ.get("WILD_SEED", "0"))


def _seeded(original):
    def set_seed(seed=None, *args, **kw):
        return original(seed if seed is None else (int(seed) + _moved) % 2**31, *args, **kw)

    return set_seed


torch.manual_seed(_moved)
np.random.seed(_moved)
random.seed(_moved)
if _moved:
    torch.manual_seed = torch.random.manual_seed = _seeded(torch.manual_seed)
    np.random.seed, random.seed = _seeded(np.random.seed), _seeded(random.seed)

_steps = weakref.WeakKeyDictionary()
_file = os.environ.get("WILD_DIGEST")


def _mark(optimizer, *_):
    n = _steps[optimizer] = _steps.get(optimizer, 0) + 1
    if n & (n - 1):
        return
    h = hashlib.sha256()
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.device.type == "cpu" and p.is_contiguous():
                h.update(ctypes.string_at(p.data_ptr(), p.numel() * p.element_size()))
    with open(_file, "a", encoding="utf-8") as out:
        out.write(f"{n} {h.hexdigest()[:16]}\n")


if _file:
    register_optimizer_step_post_hook(_mark)
