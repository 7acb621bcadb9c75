"""The keys: one table of actions, which the user's file can bind anew.

The file is `compdbg/tui.toml` in `$XDG_CONFIG_HOME` (or `~/.config`):

    theme = "compdbg-light"
    unicode = false

    [keys]
    down = "ctrl+n"
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from compdbg.views.explorer.all import PLACES
from compdbg.views.explorer.base import Block, Code, CodeLine, Fact, Page


class Action(NamedTuple):
    """One thing that a key does. `id` is what the user's file names."""

    id: str
    keys: str
    action: str
    text: str


PLACES_BY_LETTER = [
    Action(f"go-{place.name}", place.letter, f"go('{place.name}')", place.title) for place in PLACES.values()
]
ACTIONS = [
    *PLACES_BY_LETTER,
    Action("open", "enter", "enter", "open what is current: its list, its page, its proof"),
    Action("back", "escape", "back", "back to where you came from"),
    Action("search", "slash", "search", "search (events: filter by kind:guard rank:1 piece:3 text)"),
    Action("next-match", "n", "next_match(1)", "next match"),
    Action("previous-match", "N", "next_match(-1)", "previous match"),
    Action("previous", "left_square_bracket", "sibling(-1)", "page of the row before"),
    Action("next", "right_square_bracket", "sibling(1)", "page of the row after"),
    Action("show-all", "u", "everything", "show or hide rows that say little"),
    Action("pane", "tab", "other_pane", "between the list and its page"),
    Action("copy", "y", "copy", "copy the page as Markdown"),
    Action("edit", "o", "edit", "open the source line in $EDITOR"),
    Action("write", "x", "write", "write the HTML report"),
    Action("rank", "r", "rank", "next rank, then all ranks"),
    Action("reload", "R", "reload", "read the run's log again"),
    Action("help", "question_mark", "help", "the keys"),
    Action("palette", "ctrl+p", "palette", "everything by name"),
    Action("quit", "q,ctrl+q", "quit", "leave"),
]
MOVING = [
    ("j k ↓ ↑", "a row or line down, up"),
    ("pgdn pgup", "a screen down, up"),
    ("home end", "first, last"),
    ("0–9", "in Sizes: go to a size"),
]
SHOWN = {
    "escape": "esc", "slash": "/", "question_mark": "?", "left_square_bracket": "[",
    "right_square_bracket": "]", "ctrl+p": "^p", "ctrl+q": "^q",
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """What the user's file says; a fault in it is told, and the rest of it holds."""

    theme: str | None = None
    unicode: bool | None = None
    keys: dict[str, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()


def settings_file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(base) / "compdbg" / "tui.toml"


def read_settings(known: set[str]) -> Settings:
    """The user's settings. `known` are the ids of what can be bound."""
    path = settings_file()
    try:
        given: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return Settings(faults=(f"{path.name}: {error}",))
    keys = given.get("keys", {})
    keys = keys if isinstance(keys, dict) else {}
    faults = [f"{path.name}: no action {name!r}" for name in keys if name not in known]
    faults += [
        f"{path.name}: no setting {name!r}" for name in given if name not in ("theme", "unicode", "keys")
    ]
    theme, unicode = given.get("theme"), given.get("unicode")
    return Settings(
        theme=theme if isinstance(theme, str) else None,
        unicode=unicode if isinstance(unicode, bool) else None,
        keys={name: str(value) for name, value in keys.items() if name in known},
        faults=tuple(faults),
    )


def shown_key(keys: str) -> str:
    """`esc` of `escape,backspace`: the first key as it is printed on a keyboard."""
    first = keys.split(",", maxsplit=1)[0]
    return SHOWN.get(first, first)


def keys_page(here: str) -> Page:
    """All keys, as a page like any other."""
    moving = [CodeLine(f"{name:<14}{text}") for name, text in MOVING]
    places = [CodeLine(f"{a.keys:<14}{a.text}") for a in PLACES_BY_LETTER]
    rest = [a for a in ACTIONS if a not in PLACES_BY_LETTER]
    others = [CodeLine(f"{' '.join(SHOWN.get(k, k) for k in a.keys.split(',')):<14}{a.text}") for a in rest]
    own = f'Bind them anew, by their names, in {settings_file()}: [keys] with lines like  back = "left"'
    names = ", ".join(a.id for a in rest)
    blocks: list[Block] = [
        Fact("", f"Keys, here in {here}", "title"),
        Code(others, title="everywhere", language="text"),
        Code(places, title="places", language="text"),
        Code(moving, title="moving", language="text"),
        Fact("", own),
        Fact("names", names, "dim"),
    ]
    return Page(title="Keys", blocks=blocks)
