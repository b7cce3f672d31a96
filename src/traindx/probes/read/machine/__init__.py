"""Processes, devices, files."""
