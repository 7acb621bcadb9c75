"""The user's own lines: kept with the run, or read from the file as it is now, if it is still there."""

from __future__ import annotations

import linecache
import os
from collections.abc import Mapping

from compdbg.events import Where

Kept = Mapping[str, Mapping[int, str]] | None
"""Lines by file and number that came with a run; None where they are read from the files themselves."""


def source_line(where: Where | None, kept: Kept = None) -> str | None:
    """The text of the line, without its indentation; None if the file or the line is gone."""
    if where is None or where.line < 1:
        return None
    return _line(where.file, where.line, kept).strip() or None


def lines_around(where: Where | None, around: int, kept: Kept = None) -> list[tuple[int, str]]:
    """The line and its neighbours with their numbers, without empty ones at the ends; none if it is gone."""
    if source_line(where, kept) is None or where is None:
        return []
    numbers = range(max(1, where.line - around), where.line + around + 1)
    lines = [(n, _line(where.file, n, kept).rstrip()) for n in numbers]
    while not lines[-1][1]:
        lines.pop()
    while not lines[0][1]:
        lines.pop(0)
    return lines


def _line(file: str, number: int, kept: Kept) -> str:
    if kept is not None:
        return kept.get(file, {}).get(number, "")
    return line_of(file, number)


def line_of(file: str, number: int) -> str:
    """A line of a file as it is now; nothing if there is none, or no such file can be."""
    try:
        linecache.checkcache(file)
        return linecache.getline(file, number) if os.path.isfile(file) else ""
    except ValueError:  # a name that no file can have
        return ""
