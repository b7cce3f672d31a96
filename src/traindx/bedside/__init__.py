"""The ways in to a training: in front of a command, in a notebook, and to a process that is already running."""
