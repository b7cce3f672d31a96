"""Losses, and what evaluations come to."""
