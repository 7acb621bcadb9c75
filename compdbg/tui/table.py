"""A table of any length: only the rows that are seen are made, and only their cells are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from compdbg.report.text import clean
from compdbg.tui.lines import LineView
from compdbg.views.base import Column

SAMPLE = 200
"""Rows that are measured for the widths of columns."""
LEAST_WIDE = 16
LEAST = 9
"""What a column is cut down to for the sake of the wide one."""
MOST = 44
"""Columns of a cell that is not wide, at most."""
GAP = 2
GUTTER = 2


class Table(LineView):
    """Rows under fixed titles, one of them current; the caller says what they are."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "Down", id="down", show=False, priority=True),
        Binding("k,up", "move(-1)", "Up", id="up", show=False, priority=True),
        Binding("pagedown,space", "move_page(1)", "Page down", id="page-down", show=False, priority=True),
        Binding("pageup", "move_page(-1)", "Page up", id="page-up", show=False, priority=True),
        Binding("home", "move_to(0)", "First", id="first", show=False, priority=True),
        Binding("end,G", "move_to(-1)", "Last", id="last", show=False, priority=True),
    ]

    class Moved(Message):
        """Another row is the current one."""

    class Chosen(Message):
        """The current row was clicked again, or entered."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.items: Sequence[Struct] = ()
        self.columns: Sequence[Column] = ()
        self.cursor = 0
        self._widths: list[int] = []
        self._natural: list[int] = []
        self._drawn: dict[int, list[str]] = {}
        self.empty = ""

    def show_rows(
        self, items: Sequence[Struct], columns: Sequence[Column], empty: str, cursor: int = 0
    ) -> None:
        """Other rows. What stays at the top of the view is the caller's to say, with `scroll_row`."""
        self.items, self.columns, self.empty = items, columns, empty
        self._drawn.clear()
        self.cursor = max(0, min(cursor, len(items) - 1))
        self._measure()
        self._fit_columns()
        self.virtual_size = Size(self.size.width, len(items) + 1)
        self.refresh()

    @property
    def current(self) -> Struct | None:
        return self.items[self.cursor] if 0 <= self.cursor < len(self.items) else None

    def cells(self, index: int) -> list[str]:
        """The texts of one row, made once while the rows stay the same."""
        found = self._drawn.get(index)
        if found is None:
            if len(self._drawn) > 2000:
                self._drawn.clear()
            item = self.items[index]
            found = self._drawn[index] = [clean(column.cell(item)) for column in self.columns]
        return found

    def text_of(self, index: int) -> str:
        return "  ".join(self.cells(index))

    def _measure(self) -> None:
        """How wide the content of each column is; 0 where it has none."""
        sample = range(min(len(self.items), SAMPLE))
        natural = [
            max([cell_len(column.title), *(cell_len(self.cells(n)[i].rstrip()) for n in sample)])
            for i, column in enumerate(self.columns)
        ]
        filled = {i for i in range(len(natural)) for n in sample if self.cells(n)[i].strip()}
        self._natural = [n if i in filled else 0 for i, n in enumerate(natural)]

    def _fit_columns(self) -> None:
        """Each column as wide as its content, the wide one as what is left; empty ones are left out."""
        natural = self._natural
        filled = [i for i, n in enumerate(natural) if n]
        widths = [n if c.wide else min(n, MOST) for n, c in zip(natural, self.columns, strict=True)]
        room = self.scrollable_content_region.width - GUTTER - GAP * max(0, len(filled) - 1)
        wide = [i for i, column in enumerate(self.columns) if column.wide and i in filled]
        narrow = sum(w for i, w in enumerate(widths) if i not in wide)
        shrunk = list(widths)
        lacking = LEAST_WIDE * len(wide) - (room - narrow)
        lacking -= _shrink(shrunk, [i for i in range(1, len(widths)) if i not in wide], lacking, LEAST)
        if lacking <= 0:
            widths = shrunk
        left = room - sum(w for i, w in enumerate(widths) if i not in wide)
        for i in wide:  # with too little left for it, it is not shown: the page says it all
            widths[i] = left // len(wide) if lacking <= 0 else 0
        _shrink(widths, range(len(widths)), sum(widths) - room, 1)
        self._widths = widths

    def on_resize(self) -> None:
        self._fit_columns()
        self.virtual_size = Size(self.size.width, len(self.items) + 1)
        self.keep_in_view()

    def render_line(self, y: int) -> Strip:
        base = self.base
        if y == 0:
            return self._titles(base)
        index = self.scroll_offset.y + y - 1
        if not self.items:
            text = f"  {self.empty}" if y == 2 else ""
            return self.strip([Segment(text, base + self.style_of("dim"))], 0, base)
        if index >= len(self.items):
            return Strip.blank(self.size.width, base)
        return self._row(index, base)

    def _titles(self, base: Style) -> Strip:
        if not self.items:
            return Strip.blank(self.size.width, base)
        style = base + self.style_of("head")
        segments = [Segment(" " * GUTTER, base)]
        for column, width in zip(self.columns, self._widths, strict=True):
            if not width:
                continue
            segments += [Segment(_fit(column.title, width, column.align), style), Segment(" " * GAP, base)]
        return self.strip(segments, 0, base)

    def _row(self, index: int, base: Style) -> Strip:
        is_current = index == self.cursor
        style = base + self.style_of("cursor") if is_current else base
        item = self.items[index]
        segments = self.segments("▸ " if is_current else "  ", style)
        for text, column, width in zip(self.cells(index), self.columns, self._widths, strict=True):
            if not width:
                continue
            cell = style + self.style_of(column.role(item)) if column.role is not None else style
            segments += self.segments(_fit(text, width, column.align), cell)
            segments.append(Segment(" " * GAP, style))
        return self.strip(segments, 0, style)

    def move_to(self, index: int) -> None:
        """Make a row the current one, and bring it into view."""
        index, before = max(0, min(index, len(self.items) - 1)), self.cursor
        top = self.scroll_offset.y
        if index != self.cursor:
            self.cursor = index
            self.post_message(self.Moved())
        self.keep_in_view()
        if self.scroll_offset.y == top:  # two lines are drawn anew, not all of them
            self.refresh(*(Region(0, 1 + n - top, self.size.width, 1) for n in {before, index}))
        else:
            self.refresh()

    def keep_in_view(self) -> None:
        height = self.size.height - 1
        top = self.scroll_offset.y
        if height <= 0:
            return
        if self.cursor < top:
            self.scroll_row(self.cursor)
        elif self.cursor >= top + height:
            self.scroll_row(self.cursor - height + 1)

    def scroll_row(self, top: int) -> None:
        self.scroll_to(y=top, animate=False, immediate=True, force=True)

    def action_move(self, step: int) -> None:
        self.move_to(self.cursor + step)

    def action_move_page(self, pages: int) -> None:
        self.move_to(self.cursor + pages * max(1, self.size.height - 2))

    def action_move_to(self, index: int) -> None:
        self.move_to(index if index >= 0 else len(self.items) - 1)

    def on_click(self, event: events.Click) -> None:
        index = self.scroll_offset.y + event.y - 1
        if event.y == 0 or index >= len(self.items):
            return
        if index == self.cursor:
            self.post_message(self.Chosen())
        else:
            self.move_to(index)


def _fit(text: str, width: int, align: str) -> str:
    size = cell_len(text)
    if size > width:
        text = text.rstrip()
        size = cell_len(text)
    if size > width:
        return f"{set_cell_size(text, max(0, width - 1))}…" if width > 0 else ""
    return " " * (width - size) + text if align == "right" else text + " " * (width - size)


def _shrink(widths: list[int], which: Iterable[int], over: int, least: int) -> int:
    """Take from the widest, one column after the other, what is over; what could be taken."""
    indexes = list(which)
    taken = 0
    while taken < over and indexes:
        widest = max(indexes, key=widths.__getitem__)
        if widths[widest] <= least:
            break
        widths[widest] -= 1
        taken += 1
    return taken
