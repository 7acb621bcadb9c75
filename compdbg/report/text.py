"""Draws a view as text: sentences, then a table that fits the width. Plain, so that it diffs."""

from __future__ import annotations

import unicodedata

from compdbg.views.base import Column, View

MIN_WIDE = 24


def render(view: View, width: int = 100) -> str:
    """The view as lines of at most `width` columns."""
    out = [view.title, *view.lines]
    if not view.items:
        return "\n".join([*out, f"  {view.empty}"]) + "\n"
    if view.columns and (view.shown is None or view.shown):
        out += ["", *_table(view, width)]
    return "\n".join(line.rstrip() for line in out) + "\n"


def clean(text: str) -> str:
    """Text from the program as one line that no terminal will interpret."""
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
    return [_line(row, widths, view.columns) for row in [titles, *rows]]


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


def _line(row: list[str], widths: list[int], columns: object) -> str:
    assert isinstance(columns, (tuple, list))
    cells = []
    for text, width, column in zip(row, widths, columns, strict=True):
        fitted = fit(text, width)
        pad = " " * (width - columns_of(fitted))
        cells.append(pad + fitted if column.align == "right" else fitted + pad)
    return "  " + "  ".join(cells)


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
