"""Passes of our own over Inductor's graphs: the manager, what tidies graphs, what fuses operators."""
