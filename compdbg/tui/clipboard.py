"""Copies a text: by the terminal (OSC 52), by whatever else holds a clipboard here, and into a file.

A terminal does not answer whether it took the text, and tmux keeps it from the terminal by default.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TIME_S = 2.0


def copied_file() -> Path:
    """Where the text that was copied last can be read again."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "compdbg" / "copied.md"


def copy(text: str) -> Path | None:
    """Give the text to each clipboard but the terminal's; the file that it is in, if it could be written."""
    content = text.encode("utf-8", "backslashreplace")
    for command in _commands():
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                command, input=content, timeout=_TIME_S, check=False,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
    path = copied_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError:
        return None
    return path


def at_home(path: Path) -> str:
    """The path as one would type it."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):  # not below it; there is none
        return str(path)


def _commands() -> Iterator[list[str]]:
    known: list[tuple[bool, list[str]]] = [
        (bool(os.environ.get("TMUX")), ["tmux", "load-buffer", "-w", "-"]),
        (bool(os.environ.get("WAYLAND_DISPLAY")), ["wl-copy"]),
        (bool(os.environ.get("DISPLAY")), ["xclip", "-selection", "clipboard"]),
        (sys.platform == "darwin", ["pbcopy"]),
    ]
    yield from (command for may, command in known if may and shutil.which(command[0]))
