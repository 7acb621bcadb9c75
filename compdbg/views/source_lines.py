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
