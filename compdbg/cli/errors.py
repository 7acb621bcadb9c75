"""The command line's own exceptions.

CommandError
└── UsageError
"""

from __future__ import annotations

FINE, FAILED, USAGE, UNREADABLE, OUR_FAULT = range(5)
NOT_EXECUTABLE, NOT_FOUND = 126, 127  # as shells have it, for `run -- COMMAND`


class CommandError(Exception):
    """Ends the command with one line on stderr and an exit code."""

    def __init__(self, message: str, exit_code: int = UNREADABLE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UsageError(CommandError):
    """The command line itself is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(message, USAGE)
