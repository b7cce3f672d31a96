"""What traindx sees, shown in the tracker you already have: TensorBoard, W&B, MLflow, trackio.

    with traindx.watch(model, optimizer) as dx:
        mirror(dx, SummaryWriter("runs/exp1"))      # or a W&B run, mlflow, trackio; or True: whatever is active

Numbers travel on a thread of their own, so that no tracker is waited for. Findings and verdict follow when the watch closes.
"""

from __future__ import annotations

import importlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from traindx import api
from traindx.diagnosis import Diagnosis
from traindx.errors import EnvironmentFault, UsageError
from traindx.finding import Severity
from traindx.report.words import safe

LAYERS = ("grad_norm/param", "weight_norm/param", "update_ratio/param", "dead_fraction/module", "activation_std/module")
MOST_LAYERS = 100  # of each layer signal: beyond that a tracker's page is no help any more
WAITING = 1000  # messages in line; when a tracker is slower than that, the newest are dropped

Numbers = dict[str, float]


class Target:
    """A tracker as we use it: numbers at a step, and a text at the end."""

    def __init__(self, numbers: Callable[[Numbers, int], Any], text: Callable[[str, str, int], Any], close: Any = None) -> None:
        self.numbers, self.text, self.close = numbers, text, close or (lambda: None)


def mirror(dx: Any, to: Any = True, *, every: int = 20) -> Mirror:
    """Show the watch `dx` in `to`: a SummaryWriter, a folder for one, a W&B run, the modules mlflow or trackio, or several.

    `True` takes every tracker with an active run. Losses, rates, norms and times are sent every `every` steps, layers when they
    were read. Your own steps in these trackers are not touched.
    """
    return Mirror(dx, targets(to), every)


def targets(to: Any) -> list[Target]:
    """The trackers behind `to`."""
    if to is True:
        found = _active()
        if not found:
            raise UsageError("no tracker has an active run; start one before, or say which: mirror(dx, SummaryWriter(…))")
        return found
    return [_target(one) for one in (to if isinstance(to, list | tuple) else [to])]


def _active() -> list[Target]:
    wandb, mlflow, trackio = (sys.modules.get(name) for name in ("wandb", "mlflow", "trackio"))
    return [
        *([_wandb(wandb.run)] if wandb is not None and getattr(wandb, "run", None) is not None else []),
        *([_mlflow(mlflow)] if mlflow is not None and mlflow.active_run() is not None else []),
        *([_trackio(trackio)] if trackio is not None and _trackio_run(trackio) is not None else []),
    ]


def _target(one: Any) -> Target:
    if isinstance(one, str | os.PathLike):
        try:
            writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter(os.fspath(one))
        except ModuleNotFoundError as why:
            raise EnvironmentFault("to mirror to TensorBoard: pip install tensorboard") from why
        return _tensorboard(writer, writer.close)
    if hasattr(one, "add_scalar"):
        return _tensorboard(one, one.flush)
    name = getattr(one, "__name__", "")
    if name == "mlflow":
        return _mlflow(one)
    if name == "trackio":
        return _trackio(one)
    run = one.run if name == "wandb" else one
    if hasattr(run, "define_metric"):
        return _wandb(run)
    raise UsageError(f"traindx mirrors to a SummaryWriter, a folder, a W&B run, mlflow or trackio; not to {type(one).__name__}")


def _tensorboard(writer: Any, close: Callable[[], None]) -> Target:
    def numbers(values: Numbers, step: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)

    return Target(numbers, lambda title, text, step: writer.add_text(title, text, step), close)


def _wandb(run: Any) -> Target:
    run.define_metric("traindx/step", hidden=True)
    run.define_metric("traindx/*", step_metric="traindx/step")

    def numbers(values: Numbers, step: int) -> None:
        run.log({**values, "traindx/step": step}, commit=False)  # it goes out with your next log and takes no step of yours

    return Target(numbers, lambda title, text, step: run.summary.update({title: text}))


def _mlflow(mlflow: Any) -> Target:
    active = mlflow.active_run()
    if active is None:
        raise UsageError("mlflow has no active run; mirror inside `with mlflow.start_run():`")
    client, run_id = mlflow.tracking.MlflowClient(), active.info.run_id  # the active run belongs to the thread that began it

    def numbers(values: Numbers, step: int) -> None:
        for name, value in values.items():
            client.log_metric(run_id, "".join(c if c.isalnum() or c in "_-. /" else "_" for c in name), value, step=step)

    return Target(numbers, lambda title, text, step: client.set_tag(run_id, title.replace("/", "."), text[:5000]))


def _trackio_run(trackio: Any) -> Any:
    return importlib.import_module("trackio.context_vars").current_run.get()


def _trackio(trackio: Any) -> Target:
    run = _trackio_run(trackio)
    if run is None:
        raise UsageError("trackio has no active run; call trackio.init before")
    return Target(
        lambda values, step: run.log(dict(values), step=step), lambda title, text, step: run.log({title: text}, step=step)
    )


class Mirror:
    """The thread that sends; `troubles` has what a tracker did not take."""

    def __init__(self, dx: Any, to: list[Target], every: int = 20) -> None:
        self._to, self._every, self._seen = to, max(every, 1), -1
        self.troubles: list[str] = []
        self._line: queue.Queue[Callable[[Target], Any] | None] = queue.Queue(WAITING)
        self._recorder: Any = getattr(dx, "_recorder", None)
        self._last = 0
        if self._recorder is None:
            return  # traindx is switched off: nothing to show
        self._thread = threading.Thread(target=self._send, daemon=True, name="traindx-mirror")
        self._thread.start()
        self._recorder.on_step.append(self._stepped)
        closing = dx.close

        def close(how: str = "closed") -> None:
            was_open = dx.open
            closing(how)
            if was_open:
                self.finish(api.diagnose(dx.run()))

        dx.close = close

    def _stepped(self, step: int, row: Mapping[str, Any]) -> None:
        self._last = step
        if step % self._every:
            return
        values = {f"traindx/{k}": v for k, v in row.items() if isinstance(v, float) and not k.startswith("metric/")}
        names = self._recorder.post._names
        for at, late in [entry for entry in self._recorder.post.latest if entry[0] > self._seen][-self._every :]:
            self._seen = at
            for signal in LAYERS:
                if signal in late and signal in names:
                    self._put(
                        {f"traindx/{signal}/{n}": float(v) for n, v in zip(names[signal][:MOST_LAYERS], late[signal])}, at
                    )
        self._put(values, step)

    def _put(self, values: Numbers, step: int) -> None:
        finite = {k: v for k, v in values.items() if v == v and abs(v) != float("inf")}
        if finite:
            try:
                self._line.put_nowait(lambda target: target.numbers(finite, step))
            except queue.Full:
                self.troubles.append(f"step {step}: the trackers are too slow, numbers were dropped")

    def _send(self) -> None:
        while (message := self._line.get()) is not None:
            for target in self._to:
                try:
                    message(target)
                except Exception as why:  # a tracker's trouble must not reach the training; it is kept for whoever asks
                    self.troubles.append(f"{type(why).__name__}: {why}")

    def finish(self, diagnosis: Diagnosis, wait_s: float = 10.0) -> None:
        """Send verdict and findings, and let the trackers go."""
        found = {s.value: float(sum(f.severity is s for f in diagnosis.findings)) for s in Severity}
        self._put({f"traindx/findings/{name}": count for name, count in found.items()}, self._last)
        lines = [f"- **{f.code} {f.name}** ({f.severity.value}): {safe(f.message, 500)}" for f in diagnosis.findings]
        said = {
            "traindx/verdict": f"{diagnosis.verdict}: {safe(diagnosis.summary, 1000)}",
            "traindx/findings": "\n".join(lines),
        }
        messages: list[Any] = [self._text(title, text) for title, text in said.items()]
        try:
            for message in [*messages, lambda target: target.close(), None]:
                self._line.put(message, timeout=wait_s)
        except queue.Full:
            self.troubles.append("the trackers are too slow: findings were not sent")
            return
        self._thread.join(wait_s)

    def _text(self, title: str, text: str) -> Callable[[Target], Any]:
        return lambda target: target.text(title, text or "none", self._last)
