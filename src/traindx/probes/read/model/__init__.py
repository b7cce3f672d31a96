"""The model as it is wired."""
