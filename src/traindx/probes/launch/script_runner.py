"""Runs a user's script as plain python would, with observation switched on when it imports torch."""

from __future__ import annotations

import builtins
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import runpy
import signal
import sys
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traindx.children import first_on_path
from traindx.probes.read.machine import generators


@dataclass(frozen=True)
class Ended:
    """How a script ended."""

    code: int
    how: str  # closed, exit, exception
    error: BaseException | None = None


class _OnTorch(importlib.abc.MetaPathFinder):
    """Calls back once `torch` has been imported by the script; goes away after that."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                run(module)
                self._then()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def when_torch_is_there(then: Callable[[], None]) -> Callable[[], None]:
    """Call `then` as soon as torch is imported (now, if it is); gives the function that calls it off."""
    generators.remember()
    if "torch" in sys.modules:
        then()
        return lambda: None
    finder = _OnTorch(then)
    sys.meta_path.insert(0, finder)
    return lambda: sys.meta_path.remove(finder) if finder in sys.meta_path else None


def run_script(script: str, args: list[str]) -> Ended:
    """Execute a script file (or a folder or archive with a `__main__.py`) as `python script args` would."""
    sys.argv = [script, *args]
    if not Path(script).is_file() or script.endswith((".zip", ".pyz")):
        first_on_path(script)
        main = _main_module(None)
        return _guarded(lambda: runpy._run_module_as_main("__main__", False), main)  # type: ignore[attr-defined]
    path = str(Path(script).absolute())
    first_on_path(str(Path(script).resolve().parent))
    main = _main_module(path)

    def go() -> None:
        with open(path, "rb") as file:
            source = file.read()
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)  # noqa: S102

    return _guarded(go, main)


def run_module(module: str, args: list[str]) -> Ended:
    """Execute `python -m module args`."""
    sys.argv = ["-m", *args]
    first_on_path(str(Path.cwd()))
    main = _main_module(None)
    return _guarded(lambda: runpy._run_module_as_main(module), main)  # type: ignore[attr-defined]


def _main_module(path: str | None) -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __annotations__={})
    if path is not None:
        main.__dict__.update(__file__=path, __cached__=None)
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    sys.modules["__main__"] = main
    return main


def _guarded(go: Callable[[], Any], main: types.ModuleType) -> Ended:
    ended = Ended(0, "closed")
    # so that the script can call as deeply as under plain python: a module inside a module takes four frames, and one of ours
    sys.setrecursionlimit(sys.getrecursionlimit() * 5 // 4 + _depth())
    try:
        go()
    except SystemExit as leaving:
        ended = Ended(_exit_code(leaving), "exit", None)
    except BaseException as error:
        error.__traceback__ = _users_part(error.__traceback__)
        ended = Ended(1, "exception", error)
    if ended.error is not None:
        sys.excepthook(type(ended.error), ended.error, ended.error.__traceback__)
    _join_threads()
    return ended


def _depth() -> int:
    """The frames of ours that the script stands on, with the two that are still to come."""
    frame: types.FrameType | None = sys._getframe()
    count = 2
    while frame is not None:
        count, frame = count + 1, frame.f_back
    return count


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    with contextlib.suppress(OSError, ValueError, AttributeError):  # as Python itself, which says nothing then
        sys.stderr.write(f"{leaving.code}\n")
    return 1


def _users_part(tb: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback from the script's own first frame on (or runpy's, which plain `python -m` shows too)."""
    here = __file__
    while tb is not None and tb.tb_frame.f_code.co_filename == here:
        tb = tb.tb_next
    return tb


def _join_threads() -> None:
    """Wait for the script's threads, as the interpreter does at its end."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon and thread is not threading.current_thread():
            thread.join()


def leave(ended: Ended, code: int) -> None:
    """End the process as python would have after such an ending."""
    if isinstance(ended.error, KeyboardInterrupt):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    sys.exit(code)
