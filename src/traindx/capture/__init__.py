"""A Task from a script that nobody changed: its first steps are watched and written down, so that they can be made again."""
