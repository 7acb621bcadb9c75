"""Writing a run: one file a process, one line an event, large texts by content hash."""
