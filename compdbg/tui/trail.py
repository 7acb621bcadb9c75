"""Where one is, and the way that led there."""

from __future__ import annotations

from dataclasses import dataclass

from compdbg.views.explorer.base import Page, Place


@dataclass
class Level:
    """A list, or (with `page`) the page of one of its rows, or a page of its own."""

    place: Place
    page: bool = False
    own: Page | None = None
    everything: bool = False
    key: str = ""
    """The key of the current row: what stays current when rows come or go."""
    top: int = 0
    number: int = 0
    """Which row of all it is, where rows are kept on disk: to look for its key would take too long."""
    title: str = ""
    """The title of its page, as the trail shows it."""
    finding: str = ""
    """The finding that led here; the first row about it becomes the current one."""
