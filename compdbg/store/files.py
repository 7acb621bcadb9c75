"""The files of a run folder, whoever may read them and whatever becomes of them meanwhile."""

from __future__ import annotations

import os
from pathlib import Path


def log_files(folder: Path) -> list[Path]:
    """The files of a run's processes; none where the folder is gone or can't be looked into."""
    try:
        with os.scandir(folder) as entries:
            return sorted(folder / entry.name for entry in entries if _is_log(entry))
    except OSError:
        return []


def _is_log(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.name.endswith(".jsonl") and entry.is_file()
    except OSError:  # no right to look at it: it is told as one that can't be read
        return True


def stamp(path: Path) -> tuple[int, int]:
    """Size and time of a file; of one that is gone or that can't be looked at, those of none."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def why_unreadable(folder: Path) -> str | None:
    """Why a folder can't be looked into, in the system's words; None where it can."""
    try:
        with os.scandir(folder):
            return None
    except OSError as problem:
        return problem.strerror or type(problem).__name__


class Descriptor(int):
    """A file's descriptor, closed when nobody holds it any longer."""

    def __new__(cls, path: Path) -> Descriptor:
        """Open a file to read in it.

        Raises:
            OSError: it can't be opened.
        """
        return super().__new__(cls, os.open(path, os.O_RDONLY))

    def __del__(self) -> None:
        os.close(self)
