"""From what the user typed to a run: a folder, a report, or nothing for the newest run here."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from compdbg.store.embedded import is_report, read_report
from compdbg.store.reader import CannotRead, Log, read_log

RUNS = "compdbg-runs"


def find_run(given: str | None) -> Path:
    """The folder, or the file, of the run that `given` names.

    Raises:
        CannotRead: there is none.
    """
    if given is not None:
        path = Path(given)
        if os.path.isdir(path) or is_report(path):
            return path
        inside = Path(RUNS) / given
        if os.path.isdir(inside):
            return inside
        raise CannotRead(_no_run(given, path))
    latest = Path(RUNS) / "latest"
    if os.path.isdir(latest):
        return latest.resolve()
    if runs := all_runs():
        return runs[0]
    raise CannotRead(f"no run below {_here() / RUNS}; record one with: compdbg run script.py")


def _here() -> Path:
    """The current directory; `.` where it has been removed."""
    try:
        return Path.cwd()
    except OSError:
        return Path()


def _no_run(given: str, path: Path) -> str:
    try:
        path.stat()
    except PermissionError as problem:
        return f"{given} can't be read: {problem.strerror}"
    except (OSError, ValueError):  # none there, or a name that no file can have
        return f"no run at {given}; runs are listed by: compdbg runs"
    if not path.is_file():
        return f"no run at {given}; runs are listed by: compdbg runs"
    if path.suffix == ".py":
        return f"{given} is a program, no run; it is recorded by: compdbg run {given}"
    return f"{given} is no run; a run is a folder that `compdbg run` wrote, or a report of compdbg"


def all_runs(under: Path = Path(RUNS)) -> list[Path]:
    """The folders of all runs below `under`, newest first."""
    dated: list[tuple[float, Path]] = []
    for manifest in under.glob("*/run.json"):
        with contextlib.suppress(OSError):  # just removed
            dated.append((manifest.stat().st_mtime, manifest.parent))
    return [folder for _, folder in sorted(dated, reverse=True) if not folder.is_symlink()]


def open_run(given: str | None) -> Log:
    """The run that `given` names, whatever form it has.

    Raises:
        CannotRead: there is none, or it can't be read.
    """
    path = find_run(given)
    return read_report(path) if path.is_file() else read_log(path)
