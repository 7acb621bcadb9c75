"""The lines that frame a place: where you are, the places, what the rows add up to, and the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text
from textual import events
from textual.widget import Widget

from compdbg.report.text import clean
from compdbg.tui.glyphs import plain


class Bar(Widget):
    """A few lines of text that is never read as markup."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "bar--dim", "bar--key", "bar--here", "bar--title", "bar--good", "bar--warn", "bar--bad",
    }  # fmt: skip
    DEFAULT_CSS = """
    Bar {
        height: 1;
        & .bar--dim { color: $quiet; }
        & .bar--key { color: $accented; text-style: bold; }
        & .bar--here { background: $linked; color: $background; text-style: bold; }
        & .bar--title { text-style: bold; }
        & .bar--good { color: $good; }
        & .bar--warn { color: $warn; text-style: bold; }
        & .bar--bad { color: $bad; text-style: bold; }
    }
    """
    unicode = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._text = Text()
        self._actions: list[str] = []
        """What a click does, a column each."""

    def render(self) -> Text:
        return self._text

    def style_of(self, role: str) -> Style:
        return self.get_component_rich_style(f"bar--{role}", partial=True) if role else Style.null()

    def say(self, parts: Sequence[tuple[str, str, str]]) -> None:
        """Stretches of text, each with its role and the action that a click on it is."""
        text = Text(no_wrap=True, overflow="ellipsis")
        self._actions = []
        for part, role, action in parts:
            text.append(part if self.unicode else plain(part), self.style_of(role))
            self._actions += [action] * cell_len(part)
        self._text = text
        self.refresh(layout=True)

    async def on_click(self, event: events.Click) -> None:
        column = event.get_content_offset_capture(self).x
        if column < len(self._actions) and self._actions[column]:
            await self.screen.run_action(self._actions[column])


class Header(Bar):
    """`compdbg › Fusion › …` and, at the right, the run and its rank."""

    DEFAULT_CSS = "Header { background: $panel; padding: 0 1; }"

    def show(self, trail: Sequence[str], right: Sequence[tuple[str, str]]) -> None:
        width = max(10, self.app.size.width - 2)
        said = [(_without_middle(clean(text), width * 2 // 5), role) for text, role in right]
        end = sum(cell_len(text) + 2 for text, _ in said) - 2
        path = _path([clean(one) for one in trail], width - end - 2)
        gap = " " * max(1, width - cell_len(path) - end)
        tail = [(text + "  " * (n + 1 < len(said)), role, "") for n, (text, role) in enumerate(said)]
        self.say([(path, "title", ""), (gap, "", ""), *tail])


def _path(trail: Sequence[str], room: int) -> str:
    """The way here, its end above all: what does not fit is left out behind its first step."""
    shown = " › ".join(trail)
    for n in range(2, len(trail)):
        if cell_len(shown) <= room:
            break
        shown = " › ".join([trail[0], "…", *trail[n:]])
    return shown if cell_len(shown) <= room else f"{set_cell_size(shown, max(0, room - 1))}…"


def _without_middle(text: str, room: int) -> str:
    """A name that is told from others by its end as well as by its beginning."""
    if len(text) <= room:
        return text
    half = max(1, (room - 1) // 2)
    return f"{text[:half]}…{text[-half:]}"


class Tabs(Bar):
    """The places with their letters; the current one is marked."""

    DEFAULT_CSS = "Tabs { background: $surface; }"

    def show(self, places: Sequence[tuple[str, str, str]], here: str) -> None:
        parts: list[tuple[str, str, str]] = [(" ", "", "")]
        gap = "   " if self.app.size.width >= 110 else " "
        for letter, title, name in places:
            action = f"go('{name}')"
            if name == here:
                parts.append((f"{letter} {title}", "here", action))
            else:
                parts += [(letter, "key", action), (f" {title}", "", action)]
            parts.append((gap, "", ""))
        self.say(parts[:-1])


class Summary(Bar):
    """The verdict or what the rows add up to; as many lines as there is room for."""

    DEFAULT_CSS = "Summary { height: auto; padding: 0 1; max-height: 9; }"

    def show(self, lines: Sequence[tuple[str, str]], most: int) -> None:
        text = Text(overflow="ellipsis", no_wrap=True)
        width = max(20, self.app.size.width - 2)
        for n, (line, role) in enumerate(lines[:most]):
            said = clean(line)
            if cell_len(said) > width:
                said = f"{set_cell_size(said, width - 1)}…"
            text.append(("\n" if n else "") + (said if self.unicode else plain(said)), self.style_of(role))
        self._text = text
        self.refresh(layout=True)


class Footer(Bar):
    """The keys that do something here, most useful first."""

    DEFAULT_CSS = "Footer { background: $panel; padding: 0 1; }"

    def show(self, keys: Sequence[tuple[str, str, str]], note: str = "") -> None:
        said = clean(note)
        if cell_len(said) > self.app.size.width - 2:
            said = f"{set_cell_size(said, max(0, self.app.size.width - 3))}…"
        parts: list[tuple[str, str, str]] = [(f"{said}  ", "warn", "")] if said else []
        used = sum(cell_len(text) for text, _, _ in parts)
        for key, text, action in keys:
            size = cell_len(f"{key} {text}  ")
            if used + size > self.app.size.width - 1:
                break
            parts += [(key, "key", action), (f" {text}  ", "", action)]
            used += size
        self.say(parts)
