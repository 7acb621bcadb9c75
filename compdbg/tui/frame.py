"""What stands around a place: the way here, the places, what the rows add up to, the keys."""

from __future__ import annotations

from collections.abc import Sequence

from compdbg.tui import keys
from compdbg.tui.actions import Actions
from compdbg.tui.bars import Footer, Header, Summary, Tabs
from compdbg.tui.trail import Level
from compdbg.views.base import View
from compdbg.views.explorer.all import PLACES


class Framed(Actions):
    """Draws the lines above and below."""

    def __init__(self) -> None:
        super().__init__()
        self._view: View | None = None
        self.doing: tuple[str, float | None] = ("opening", None)
        """What one waits for while there is no view, and which part of it is done."""

    def frame(self) -> None:
        """The lines above and below: trail, places, sums, keys."""
        session, level = self.session, self.level
        trail = ["compdbg", *(self._title_of(one) for one in self.trail)]
        right = [(session.folder.name, "dim")]
        if session.ranks:
            right.append(("all ranks" if session.rank is None else f"rank {session.rank}", "dim"))
        right += [(state, "warn") for state in self.explorer.states]
        self.query_one(Header).show(trail, right)
        tabs = [(place.letter, place.title, place.name) for place in PLACES.values()]
        here = next((one.place.name for one in reversed(self.trail) if one.place.name in PLACES), "")
        self.query_one(Tabs).show(tabs, here)
        self.query_one(Summary).show(self._said(), self._room())
        self.query_one(Footer).show(self._keys(level), self.note)

    def _title_of(self, level: Level) -> str:
        if level.own is not None:
            return level.own.title
        if level is self.level and level.page and self.pane.page is not None:
            level.title = self.pane.page.title
        return level.title if level.page and level.title else level.place.title

    def _room(self) -> int:
        height = self.app.size.height
        most = 6 if self.level.place.name == "home" else 3
        return 1 if self.level.page else most if height >= 24 else 2

    def _said(self) -> list[tuple[str, str]]:
        view = self._view
        if self.level.own is not None:
            return [(self._title_of(self.level), "title")]
        if view is None:
            what, part = self.doing
            done = "" if part is None else f"  {'█' * int(30 * part):░<30} {part:4.0%}"
            known = self.session.known if self.session.source is None else []
            return [(f"{what} …{done}", "title"), *((line, "") for line in known)]
        if self.level.page:
            at = f"{self.table.cursor + 1} of {len(view.items)}"
            return [(f"{at} in {self.level.place.title}", "dim")]
        titled = [(view.title, "title")] if self.level.place.name in ("home", "events") else []
        return [*titled, *((line, "" if titled or n else "title") for n, line in enumerate(view.lines))]

    def _keys(self, level: Level) -> list[tuple[str, str, str]]:
        page = self.pane.page
        if self._view is None:
            return self._named(["back"] * (len(self.trail) > 1) + ["help", "palette", "quit"])
        wanted = ["open"] if not level.page or (page is not None and page.leads_to) else []
        wanted += ["back"] if len(self.trail) > 1 else []
        wanted += ["search"]
        wanted += ["next-match"] if self.sought else []
        wanted += ["previous", "next"] if level.page and level.own is None else []
        wanted += ["show-all"] if level.place.name in ("fusion", "time") and not level.page else []
        wanted += ["edit"] if page is not None and page.where else []
        wanted += ["copy"] if page is not None else []
        wanted += ["rank"] if len(self.session.ranks) > 1 else []
        wanted += ["reload"] if self.session.change is not None else []
        return self._named([*wanted, "write", "help", "palette", "quit"])

    def _named(self, wanted: Sequence[str]) -> list[tuple[str, str, str]]:
        """Key, word and action of each; a key may be the user's own."""
        level = self.level
        words = {
            "open": "proof" if level.page else "open", "back": "back",
            "search": "filter" if level.place.name == "events" and not level.page else "search",
            "next-match": "next match", "previous": "prev", "next": "next",
            "show-all": "less" if level.everything else "all", "edit": "editor", "copy": "copy",
            "rank": "rank", "reload": "read again", "write": "html", "help": "keys", "palette": "palette",
            "quit": "quit",
        }  # fmt: skip
        actions = {action.id: action for action in keys.ACTIONS}
        bound = self.explorer.settings.keys
        return [
            (keys.shown_key(bound.get(id, actions[id].keys)), words[id], actions[id].action) for id in wanted
        ]
