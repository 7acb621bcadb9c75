"""Says which parts of compdbg work here: the environment, and each hook on a small program."""
