"""What a terminal can show: whether it has Unicode, and what stands for a glyph where it has not."""

from __future__ import annotations

import os
import sys

_PLAIN = str.maketrans(
    {
        "✗": "x", "✓": "v", "·": ".", "→": ">", "▸": ">", "▏": "|", "│": "|", "─": "-", "█": "#", "░": ":",
        "■": "#", "○": "o", "…": "~", "±": "+", "×": "x", "µ": "u", "↵": "<", "≠": "!", "⏵": ">",
    }
)  # fmt: skip


def has_unicode() -> bool:
    """Whether the terminal's encoding can say `✓`; TERM=linux and dumb terminals have no such font."""
    if os.environ.get("TERM", "") in ("linux", "dumb", "vt100"):
        return False
    try:
        "✗✓→█".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def plain(text: str) -> str:
    """The text in ASCII, column for column."""
    shown = text.translate(_PLAIN)
    return shown if shown.isascii() else "".join(c if c.isascii() else "?" for c in shown)
