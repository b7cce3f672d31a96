"""The conditions that our team checks besides those of traindx."""
