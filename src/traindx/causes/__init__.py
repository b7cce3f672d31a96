"""What would explain findings, as tables of plain data: a file for each part of a training run; see `cause.catalogue`."""
