"""The patches: each puts one fault into a base program's text; which faults exist is the tables in `clinic/operators/`."""
