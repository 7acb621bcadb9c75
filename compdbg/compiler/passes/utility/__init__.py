"""Passes that tidy a graph, so that fusions match and nothing is left over."""
