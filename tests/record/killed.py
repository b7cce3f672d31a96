"""The victim of the kill tests: records as fast as it is told and says on stdout what it has handed over, and when,
and how late the machine wakes its threads.

python killed.py DIR FIRST_STEP SECONDS_PER_STEP
"""

from __future__ import annotations

import os
import sys
import threading
import time

import numpy as np

from traindx.record import Budget, Writer


def lateness(worst: list[float]) -> None:
    """How late a thread of this process is woken at worst: the machine's share of what a kill loses."""
    while True:
        begun = time.monotonic()
        time.sleep(0.05)
        worst[0] = max(worst[0], time.monotonic() - begun - 0.05)


def main() -> None:
    directory, first, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    writer = Writer(directory, budget=Budget().scaled(1 / 500))
    writer.fact("script", "killed.py")
    late = [0.0]
    threading.Thread(target=lateness, args=(late,), daemon=True).start()
    step = first
    while True:
        writer.write(step, {"loss/train": float(step), "grad_norm/param": np.full(20, step, np.float32)})
        os.write(1, f"{step} {time.monotonic()} {late[0]}\n".encode())  # past every buffer: what is said was done
        step += 1
        time.sleep(pause)


if __name__ == "__main__":
    main()
