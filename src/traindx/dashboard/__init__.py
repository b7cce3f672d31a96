"""The live dashboard: a read-only server on loopback and a page of hand-written modules."""
