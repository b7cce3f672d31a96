"""The wild ward: real programs that nobody here wrote, run bare and observed."""
