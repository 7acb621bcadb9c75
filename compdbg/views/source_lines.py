"""The user's own line, read from the file as it is now, if it is still there."""

from __future__ import annotations

import linecache

from compdbg.events import Where


def source_line(where: Where | None) -> str | None:
    """The text of the line, without its indentation; None if the file or the line is gone."""
    if where is None or where.line < 1:
        return None
    linecache.checkcache(where.file)
    return linecache.getline(where.file, where.line).strip() or None


def lines_around(where: Where, around: int) -> list[tuple[int, str]]:
    """The line and its neighbours with their numbers; none if the line is gone."""
    if where.line < 1:
        return []
    linecache.checkcache(where.file)
    lines = linecache.getlines(where.file)
    if where.line > len(lines):
        return []
    first = max(1, where.line - around)
    return [(n, lines[n - 1].rstrip("\n")) for n in range(first, min(len(lines), where.line + around) + 1)]
