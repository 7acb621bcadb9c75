"""What a terminal can show: whether it has Unicode, and what stands for a glyph where it has not."""

from __future__ import annotations

import os
import sys

_PLAIN = str.maketrans(
    {
        "✗": "x", "✓": "v", "·": ".", "→": ">", "▸": ">", "▏": "|", "│": "|", "─": "-", "█": "#", "░": ":",
        "■": "#", "○": "o", "…": "~", "±": "+", "×": "x", "µ": "u", "↵": "<", "≠": "!", "⏵": ">", "›": ">",
    }
)  # fmt: skip


def has_unicode() -> bool:
    """Whether the terminal's encoding can say `✓`; TERM=linux and dumb terminals have no such font."""
    if os.environ.get("TERM", "") in ("linux", "dumb", "vt100") or _locale() in ("C", "POSIX"):
        return False
    try:
        "✗✓→█".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _locale() -> str:
    """The one that the user asked for; Python puts LC_CTYPE=C.UTF-8 over C by itself."""
    everything, characters, rest = (os.environ.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    return everything or (characters if characters != "C.UTF-8" else "") or rest


def plain(text: str) -> str:
    """The text in ASCII, column for column."""
    shown = text.translate(_PLAIN)
    return shown if shown.isascii() else "".join(c if c.isascii() else "?" for c in shown)
