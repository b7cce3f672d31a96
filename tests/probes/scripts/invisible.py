"""Prints what a program can know about how it was started."""

import sys

import torch

print(__name__, __file__ == sys.modules["__main__"].__file__, __file__.rpartition("/")[2], __spec__, __package__, __doc__)
print(sys.argv, sys.path[0].rpartition("/")[2], sorted(k for k in globals() if k.startswith("__")))
print(type(__loader__).__name__, __builtins__.__name__, sys.modules["__main__"].__dict__ is globals())
print(
    torch.nn.functional.cross_entropy.__module__, torch.nn.functional.cross_entropy.__name__, torch.nn.Module.__call__.__name__
)
print(torch.get_num_threads(), torch.is_grad_enabled(), torch.initial_seed() > 0, sys.excepthook is sys.__excepthook__)
model = torch.nn.Linear(2, 2)
print(list(model.state_dict()), len(model._forward_hooks), len(model._forward_pre_hooks), sorted(vars(model)))
loader = torch.utils.data.DataLoader([1, 2, 3])
print(type(iter(loader)).__name__, torch.nn.modules.module._global_forward_hooks)
