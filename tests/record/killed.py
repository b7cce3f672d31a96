"""The victim of the kill tests: records as fast as it is told and says on stdout what it has handed over, and when.

python killed.py DIR FIRST_STEP SECONDS_PER_STEP
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np

from traindx.record import Budget, Writer


def main() -> None:
    directory, first, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    writer = Writer(directory, budget=Budget().scaled(1 / 500))
    writer.fact("script", "killed.py")
    step = first
    while True:
        writer.write(step, {"loss/train": float(step), "grad_norm/param": np.full(20, step, np.float32)})
        os.write(1, f"{step} {time.monotonic()}\n".encode())  # past every buffer: what is said was done
        step += 1
        time.sleep(pause)


if __name__ == "__main__":
    main()
