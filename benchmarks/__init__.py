"""Benchmarks: each module has a `main()` that measures side by side and prints one table."""
