"""Words and glyphs that several places use."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from compdbg.events import Where
from compdbg.views.explorer.base import Code, CodeLine, Fact

MARKS = {"error": "✗", "warning": "!", "info": "·"}
ROLES = {"error": "bad", "warning": "warn", "info": "dim"}


def short(where: Where | None) -> str:
    """`model.py:12`: a place as a table has room for."""
    return "" if where is None else f"{PurePath(where.file).name}:{where.line}"


def severity_mark(severity: str) -> str:
    return f"{MARKS.get(severity, '?')} {severity}"


def facts(*pairs: tuple[str, object] | tuple[str, object, str]) -> list[Fact]:
    """Facts that have something to say."""
    found = []
    for label, value, *role in pairs:
        text = "" if value is None else str(value)
        if text:
            found.append(Fact(label, text, role[0] if role else ""))
    return found


def listing(title: str, lines: Iterable[str], language: str = "text") -> Code:
    return Code([CodeLine(line) for line in lines], title=title, language=language)
