"""What changed between two runs: both told as facts under names that are the same in each run."""
