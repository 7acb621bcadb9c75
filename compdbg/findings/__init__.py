"""Findings: one rule a file, a cause with its evidence and advice. `collect.find_all` runs them."""
