"""What the command palette offers beside the keys: the findings of the run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

if TYPE_CHECKING:
    from compdbg.tui.app import Explorer


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
        return [(f"{f.id} {f.severity}: {f.title}", partial(explorer.open_finding, f.id)) for f in found]
