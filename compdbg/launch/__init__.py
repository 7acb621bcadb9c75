"""Starting a program so that it behaves as always, and recording every process of it."""
