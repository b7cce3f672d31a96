"""Gradients, weights and the optimizer's state."""
