"""What has become of a run's log since it was read: logs grow, and do nothing else by themselves."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from compdbg.store.files import log_files

_HEAD = 512
"""Bytes at the start of a file by which it is told from another: its process and when that began."""


class Change(NamedTuple):
    """What happened to a log other than that it grew."""

    word: str
    """`gone`, `shorter`, `replaced`, `unreadable`."""
    sentence: str


class _Seen(NamedTuple):
    size: int
    head: bytes


class Watch:
    """A run's files as they were at the last look."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[Path, _Seen] = {}

    def look(self) -> None:
        """Take the files as they are now for what is read; to be called before reading."""
        seen = {}
        for path in log_files(self._folder):
            with suppress(OSError):  # it is not read either
                seen[path] = _look_at(path)
        self._seen = seen

    def change(self) -> Change | None:
        """What happened to the files since the last look; None where they are as they were, or longer."""
        if not self._seen:
            return None
        try:
            self._folder.stat()
        except FileNotFoundError:
            return Change("gone", f"{self._folder.name} is gone")
        except OSError as problem:
            return Change("unreadable", f"{self._folder.name} can't be read any longer ({problem.strerror})")
        return next((found for path, seen in self._seen.items() if (found := _change(path, seen))), None)


def _look_at(path: Path) -> _Seen:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        return _Seen(size, file.read(min(size, _HEAD)))


def _change(path: Path, before: _Seen) -> Change | None:
    try:
        now = _look_at(path)
    except FileNotFoundError:
        return Change("gone", f"{path.name} is gone")
    except OSError as problem:
        return Change("unreadable", f"{path.name} can't be read any longer ({problem.strerror})")
    if not now.head.startswith(before.head[: len(now.head)]):
        return Change("replaced", f"{path.name} is another run's log now")
    if now.size < before.size:
        return Change("shorter", f"{path.name} is shorter than before")
    return None
