"""The command line: one small module a command, heavy imports inside the command."""
