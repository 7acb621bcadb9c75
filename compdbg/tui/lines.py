"""The base of what is drawn a line at a time: styles by role, glyphs, and marks of what was searched."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.scroll_view import ScrollView
from textual.strip import Strip

from compdbg.tui.glyphs import plain
from compdbg.tui.highlight import highlighted

ROLES = (
    "good", "warn", "bad", "bar", "dim", "label", "title", "mark", "add", "del", "match", "cursor", "head",
    "comment", "string", "number", "keyword", "name", "builtin",
)  # fmt: skip


class LineView(ScrollView, can_focus=True):
    """A scroll view whose lines are made when they are seen."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"role--{role}" for role in ROLES}
    DEFAULT_CSS = """
    LineView {
        background: $background;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        scrollbar-size-horizontal: 1;
        scrollbar-background: $background;
        scrollbar-color: $edge;
        scrollbar-color-hover: $quiet;
        scrollbar-background-hover: $background;
        scrollbar-color-active: $quiet;
        scrollbar-background-active: $background;
        overflow-x: hidden;
        & .role--good { color: $good; }
        & .role--warn { color: $warn; }
        & .role--bad { color: $bad; text-style: bold; }
        & .role--bar { color: $linked; }
        & .role--dim { color: $quiet; }
        & .role--label { color: $quiet; }
        & .role--title { text-style: bold; }
        & .role--mark { text-style: bold; background: $same; }
        & .role--add { color: $good; background: $added; }
        & .role--del { color: $bad; background: $removed; }
        & .role--match { background: $warn; color: $background; text-style: bold; }
        & .role--cursor { background: $current; text-style: bold; }
        & .role--head { color: $quiet; }
        & .role--comment { color: $quiet; text-style: italic; }
        & .role--string { color: $good; }
        & .role--number { color: $accented; }
        & .role--keyword { color: $linked; text-style: bold; }
        & .role--name { color: $accented; }
        & .role--builtin { color: $linked; }
    }
    """

    unicode = True
    sought = ""
    """What was searched, marked wherever it is seen."""

    _base: Style | None = None

    @property
    def base(self) -> Style:
        """The widget's own style; Textual would work it out for each line."""
        if self._base is None:
            self._base = self.rich_style
        return self._base

    def notify_style_update(self) -> None:
        self._base = None
        super().notify_style_update()

    def style_of(self, role: str) -> Style:
        return self.get_component_rich_style(f"role--{role}", partial=True) if role else Style.null()

    def segments(self, text: str, style: Style) -> list[Segment]:
        """The text with what was searched marked."""
        shown = text if self.unicode else plain(text)
        if not self.sought:
            return [Segment(shown, style)]
        found, lower, start = [], shown.lower(), 0
        match = style + self.style_of("match")
        while (at := lower.find(self.sought, start)) >= 0:
            end = at + len(self.sought)
            found += [Segment(shown[start:at], style), Segment(shown[at:end], match)]
            start = end
        return [*found, Segment(shown[start:], style)]

    def code_segments(self, text: str, language: str, base: Style) -> list[Segment]:
        return [
            segment
            for part, role in highlighted(text, language)
            for segment in self.segments(part, base + self.style_of(role))
        ]

    def strip(self, segments: list[Segment], offset: int, base: Style) -> Strip:
        """Exactly as wide as the widget, from a column on."""
        width = self.size.width
        return Strip(segments).crop_extend(offset, offset + width, base)
