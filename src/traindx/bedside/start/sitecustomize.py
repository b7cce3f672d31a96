"""Stands first on PYTHONPATH below `traindx run COMMAND`: every Python starts with it and waits for torch.

Old Pythons read this file too, so it keeps to what they understand. The `sitecustomize` that it stands before is run as always.
"""

import os
import sys


class _OnTorch:
    """Calls `inside.arrived` once torch has been imported, then goes away."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "torch":
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                _arrived()

            spec.loader.exec_module = exec_module
        return spec


def _arrived():
    """torch is there: import our own copy of traindx, whatever this environment has, and let it wait for a training."""
    try:
        if sys.version_info < (3, 11):
            raise ImportError("it needs Python 3.11 or newer, and this is Python %d.%d" % sys.version_info[:2])
        import importlib.util

        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        if "traindx" not in sys.modules:
            spec = importlib.util.spec_from_file_location("traindx", os.path.join(package, "__init__.py"))
            module = importlib.util.module_from_spec(spec)
            sys.modules["traindx"] = module
            spec.loader.exec_module(module)
        from traindx.bedside import inside

        inside.arrived()
    except Exception as why:  # the program continues, unobserved
        if os.environ.get("LOCAL_RANK", "0") == "0":
            sys.stderr.write("traindx: %s is not observed: %s\n" % (sys.executable, why))


def _hand_on():
    """Leave the path, and run the `sitecustomize` that would have been run without us."""
    from importlib import machinery, util

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != here]
    spec = machinery.PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        module = util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("TRAINDX_RUN") and os.environ.get("TRAINDX_DISABLE", "0") in ("", "0"):
    sys.meta_path.insert(0, _OnTorch())
_hand_on()
