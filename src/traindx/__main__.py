"""`python -m traindx`."""

import sys
from pathlib import Path

if not sys.flags.safe_path:  # otherwise the current folder stands first, and a `numpy.py` in it would be run
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from traindx.cli import main

main()
