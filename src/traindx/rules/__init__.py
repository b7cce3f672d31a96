"""One condition to a file; `rule.catalogue` scans this folder."""
