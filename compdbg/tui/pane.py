"""A page drawn in a pane: its lines are laid out for the width, and drawn as they are seen."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.strip import Strip

from compdbg.tui.draw import Line, Pending, bits_of, lines_of, plain_text
from compdbg.tui.lines import LineView
from compdbg.views.explorer.base import Page


class Pane(LineView):
    """One page. `h` and `l` are places and keys of other things; left and right scroll long lines."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll_lines(1)", "Down", id="page-line-down", show=False, priority=True),
        Binding("k,up", "scroll_lines(-1)", "Up", id="page-line-up", show=False, priority=True),
        Binding("right", "scroll_columns(8)", "Right", id="page-right", show=False, priority=True),
        Binding("left", "scroll_columns(-8)", "Left", id="page-left", show=False, priority=True),
        Binding(
            "pagedown,space,ctrl+f", "page_down", "Page down", id="page-page-down", show=False, priority=True
        ),
        Binding("pageup", "page_up", "Page up", id="page-page-up", show=False, priority=True),
        Binding("home", "scroll_lines(-10000000)", "Top", id="page-top", show=False, priority=True),
        Binding("end,G", "scroll_lines(10000000)", "Bottom", id="page-bottom", show=False, priority=True),
    ]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.page: Page | None = None
        self.lines: list[Line | Pending] = []
        self.at = 0
        """The line that the last search came to."""
        self._laid_out: tuple[Page | None, int] = (None, -1)

    def show_page(self, page: Page | None, *, keep: bool = False) -> None:
        """Another page, from its top; or the same one again, where it was."""
        self.page = page
        self._lay_out()
        if not keep:
            self.at = 0
            self.scroll_to(0, 0, animate=False, immediate=True, force=True)
        self.refresh()

    def _lay_out(self) -> None:
        width = max(20, self.size.width - 1)
        if self._laid_out == (self.page, width):
            return
        self._laid_out = (self.page, width)
        self.lines = lines_of(self.page, width) if self.page is not None else []
        self.virtual_size = Size(width, len(self.lines))

    def on_resize(self) -> None:
        self._lay_out()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        base = self.base
        index = self.scroll_offset.y + y
        if index >= len(self.lines):
            return Strip.blank(self.size.width, base)
        segments = [Segment(" ", base)]
        for bit in bits_of(self.lines[index]):
            style = base + self.style_of(bit.role)
            segments += (
                self.code_segments(bit.text, bit.language, style)
                if bit.language
                else self.segments(bit.text, style)
            )
        return self.strip(segments, self._shift, base)

    _shift = 0

    def action_scroll_lines(self, count: int) -> None:
        top = max(0, min(self.scroll_offset.y + count, max(0, len(self.lines) - self.size.height)))
        self.scroll_to(y=top, animate=False, immediate=True, force=True)

    def action_scroll_columns(self, count: int) -> None:
        self._shift = max(0, self._shift + count)
        self.refresh()

    def action_page_down(self) -> None:
        self.action_scroll_lines(self.size.height - 1)

    def action_page_up(self) -> None:
        self.action_scroll_lines(1 - self.size.height)

    def seek(self, text: str, step: int) -> bool:
        """Go to the next (or previous) line that holds the text, all round; whether there is one."""
        count = len(self.lines)
        for n in range(1, count + 1):
            index = (self.at + step * n) % count
            if text in plain_text(self.lines[index]).lower():
                self.at = index
                self.scroll_to(
                    y=max(0, index - self.size.height // 3), animate=False, immediate=True, force=True
                )
                self.refresh()
                return True
        return False
