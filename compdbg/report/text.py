"""Draws a view as text: sentences, then a table that fits the width. Plain, so that it diffs."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence

from compdbg.views.base import Column, View

MIN_WIDE = 24
MAX_LINES = 4


def render(view: View, width: int = 100) -> str:
    """The view as lines of at most `width` columns."""
    out = [view.title, *view.lines]
    if not view.items:
        return "\n".join([*out, f"  {view.empty}"]) + "\n"
    if view.columns and (view.shown is None or view.shown):
        out += ["", *_table(view, width)]
    if view.below:
        out += ["", *(line for said in view.below for line in _hanging(said, width))]
    return "\n".join(line.rstrip() for line in out) + "\n"


def clean(text: str) -> str:
    """Text from the program as one line that no terminal will interpret."""
    if text.isprintable():
        return text
    shown = (c if c.isprintable() or c == " " else f"\\x{ord(c):02x}" for c in text.replace("\n", " "))
    return "".join(shown)


def columns_of(text: str) -> int:
    """How many terminal columns a text takes."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    combining = sum(bool(unicodedata.combining(c)) for c in text)
    return len(text) + wide - combining


def _table(view: View, width: int) -> list[str]:
    items = view.items if view.shown is None else view.shown
    rows = [[clean(column.cell(item)) for column in view.columns] for item in items]
    titles = [column.title for column in view.columns]
    widths = _widths(view.columns, [titles, *rows], width)
    return [line for row in [titles, *rows] for line in _lines(row, widths, view.columns)]


def _widths(
    columns: tuple[Column, ...] | list[Column] | object, rows: list[list[str]], width: int
) -> list[int]:
    assert isinstance(columns, (tuple, list))
    natural = [max(columns_of(row[i]) for row in rows) for i in range(len(columns))]
    over = sum(natural) + 2 * (len(natural) - 1) + 2 - width
    wide = [i for i, column in enumerate(columns) if column.wide]
    for i in sorted(wide, key=lambda i: -natural[i]):
        cut = max(0, min(over, natural[i] - MIN_WIDE))
        natural[i] -= cut
        over -= cut
    return natural


def _lines(row: list[str], widths: list[int], columns: Sequence[Column]) -> list[str]:
    """One row: wide cells that do not fit go on below, the others are cut."""
    cells = [
        _wrap(text, width) if column.wide else [fit(text, width)]
        for text, width, column in zip(row, widths, columns, strict=True)
    ]
    height = max(len(cell) for cell in cells)
    return [
        _line([cell[n] if n < len(cell) else "" for cell in cells], widths, columns) for n in range(height)
    ]


def _line(row: list[str], widths: list[int], columns: Sequence[Column]) -> str:
    cells = []
    for text, width, column in zip(row, widths, columns, strict=True):
        pad = " " * (width - columns_of(text))
        cells.append(pad + text if column.align == "right" else text + pad)
    return "  " + "  ".join(cells)


def _wrap(text: str, width: int) -> list[str]:
    """At most MAX_LINES lines of `width` columns; what is over is cut."""
    if columns_of(text) <= width:
        return [text]
    lines = textwrap.wrap(text, width, break_long_words=True) or [""]
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], " ".join(lines[MAX_LINES - 1 :])]
    return [fit(line, width) for line in lines]


def _hanging(text: str, width: int) -> list[str]:
    first, *more = _wrap(clean(text), width - 2)
    return [first, *(f"  {line}" for line in more)]


def fit(text: str, width: int) -> str:
    """The text, cut to a number of columns."""
    if columns_of(text) <= width:
        return text
    kept, used = [], 0
    for c in text:
        used += columns_of(c)
        if used > width - 1:
            break
        kept.append(c)
    return "".join(kept) + "…"
