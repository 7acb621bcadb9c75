"""The command palette: the keys by name, the findings of the run; drawn in ASCII where the rest is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from compdbg.report.text import clean
from compdbg.tui.glyphs import plain

if TYPE_CHECKING:
    from compdbg.tui.app import Explorer


class Palette(CommandPalette):
    """Textual's own, with lines and signs that each terminal has."""

    DEFAULT_CSS = """
    Palette.-ascii {
        & #--input, & #--input.--list-visible { border: none; border-bottom: ascii $edge; }
        & SearchIcon, & LoadingIndicator { display: none; }
        & CommandList { border: none; scrollbar-size-vertical: 0; }
    }
    """

    def __init__(self, *, unicode: bool) -> None:
        classes = "" if unicode else "-ascii"
        super().__init__(placeholder="a key's or a finding's words", id="--command-palette", classes=classes)


class Findings(Provider):
    """Each finding by its title; their texts are the program's and never read as markup."""

    async def discover(self) -> Hits:
        for title, act in self._known():
            yield DiscoveryHit(Content(title), act, title)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for title, act in self._known():
            score = matcher.match(title)
            if score > 0:
                yield Hit(score, Content(title), act, title)

    def _known(self) -> list[tuple[str, partial[None]]]:
        explorer = cast("Explorer", self.app)
        source = explorer.session.source
        found = source.findings if source is not None else []
        titles = [clean(f"{f.id} {f.severity}: {f.title}") for f in found]
        return [
            (title if explorer.unicode else plain(title), partial(explorer.open_finding, f.id))
            for title, f in zip(titles, found, strict=True)
        ]
