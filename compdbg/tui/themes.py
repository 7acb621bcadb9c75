"""Two themes of our own, calm in colour; Textual's own can be chosen too."""

from __future__ import annotations

from textual.color import Color
from textual.theme import Theme

DARK = Theme(
    name="compdbg-dark",
    primary="#6ca6e0",
    secondary="#8fb8de",
    accent="#d7a65f",
    warning="#e0b25e",
    error="#ef7a78",
    success="#86c28b",
    foreground="#d6dae0",
    background="#15181d",
    surface="#1b1f26",
    panel="#252b34",
    dark=True,
)
LIGHT = Theme(
    name="compdbg-light",
    primary="#1f5f9e",
    secondary="#35709f",
    accent="#8a5a00",
    warning="#8f5b00",
    error="#b3261e",
    success="#22702b",
    foreground="#1f2328",
    background="#fbfbf9",
    surface="#f3f3ef",
    panel="#e6e6e0",
    dark=False,
)
THEMES = (DARK, LIGHT)


def own_colours(variables: dict[str, str]) -> dict[str, str]:
    """Opaque colours for what is drawn a line at a time, blended from those of whichever theme it is."""
    named = {name: Color.parse(variables[name]) for name in _NAMED}
    paper, ink = named["background"], named["foreground"]
    blended = {
        "quiet": ink.blend(paper, 0.42),
        "edge": ink.blend(paper, 0.78),
        "current": paper.blend(named["primary"], 0.26),
        "same": paper.blend(named["primary"], 0.14),
        "added": paper.blend(named["success"], 0.13),
        "removed": paper.blend(named["error"], 0.13),
        "good": named["success"],
        "warn": named["warning"],
        "bad": named["error"],
        "accented": named["accent"],
        "linked": named["primary"],
    }
    return {name: color.hex for name, color in blended.items()}


_NAMED = ("background", "foreground", "primary", "success", "warning", "error", "accent")
