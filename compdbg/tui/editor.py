"""The user's editor at a source line."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from compdbg.events import Where

_GOTO = {"code", "codium", "cursor", "windsurf"}
_COLON = {"subl", "zed", "hx", "helix", "micro"}


class NoEditor(Exception):
    """There is none, or the file is gone; the message is for the user."""


def editor_command(where: Where) -> list[str]:
    """The command that opens the line.

    Raises:
        NoEditor: neither VISUAL nor EDITOR names one that is installed, or the file is not here.
    """
    if not Path(where.file).is_file():
        raise NoEditor(f"{where.file} is not on this machine")
    given = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    words = shlex.split(given) if given else []
    if not words:
        raise NoEditor("set $EDITOR to open source lines")
    if shutil.which(words[0]) is None:
        raise NoEditor(f"$EDITOR is {words[0]}, which is not installed")
    name = Path(words[0]).name
    if name in _GOTO:
        return [*words, "--goto", f"{where.file}:{where.line}"]
    if name in _COLON:
        return [*words, f"{where.file}:{where.line}"]
    return [*words, f"+{where.line}", where.file]


def edit(where: Where) -> None:
    """Open the line and wait until the editor is closed."""
    subprocess.run(editor_command(where), check=False)
