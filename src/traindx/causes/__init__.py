"""One cause to a file, plain data; `cause.catalogue` scans this folder."""
