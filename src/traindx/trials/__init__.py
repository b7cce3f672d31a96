"""One experiment to a file; `trial.catalogue` scans this folder."""
