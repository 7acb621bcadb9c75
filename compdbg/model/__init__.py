"""The typed run: what the events add up to. One file an area; `run.Run` is the door to all."""
