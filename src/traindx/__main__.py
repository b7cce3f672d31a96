"""`python -m traindx`."""

from traindx.cli import main

main()
