"""Batches and what they hold."""
