"""What a run is expected to be, and whether it is: `compdbg check` and the pytest plugin."""
