"""The order of calls: what is training, what evaluates, what an update is."""
