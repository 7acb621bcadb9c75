"""What may happen to a run folder while somebody reads it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def log_of(folder: Path) -> Path:
    return next(folder.glob("*.jsonl"))


def emptied(folder: Path) -> None:
    os.truncate(log_of(folder), 0)


def cut(folder: Path) -> None:
    """In the middle of a line."""
    os.truncate(log_of(folder), log_of(folder).stat().st_size // 2 + 7)


def removed(folder: Path) -> None:
    shutil.rmtree(folder)


def log_removed(folder: Path) -> None:
    log_of(folder).unlink()


def replaced(folder: Path) -> None:
    """By another run, longer than it, in the same files."""
    path = log_of(folder)
    path.write_text(path.read_text().replace("1700000000.0", "1700009999.0")[40:] * 3)


@contextmanager
def without_rights(path: Path, left: int = 0) -> Iterator[None]:
    """`path` has the rights `left`; also for the superuser, who is somebody else meanwhile."""
    mode, user = path.stat().st_mode, os.geteuid()
    path.chmod(left)
    try:
        if user == 0:
            os.seteuid(65534)
        yield
    finally:
        os.seteuid(user)
        path.chmod(mode)
