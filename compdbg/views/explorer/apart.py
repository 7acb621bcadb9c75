"""Work of seconds is done by a process of its own: neither its time nor its memory is the explorer's.

Such a process prints how far it is, a line each time (`@0.25 indexing events`), and last what came of it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress

Tell = Callable[[str, float | None], None]
"""Told what is being done, and which part of it is."""
_working: list[subprocess.Popen[str]] = []


class Failed(Exception):
    """It did not come to an end; the message is what it said last."""


def tell(what: str, part: float) -> None:
    """Say how far this process is."""
    answer(f"@{part:.3f} {what}".encode("utf-8", "backslashreplace"))


def answer(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def by_itself(module: str, *arguments: str, told: Tell) -> str:
    """Run a module of ours in a process of its own; what came of it.

    Raises:
        Failed: it ended otherwise than with 0.
    """
    command = [sys.executable, "-m", module, *arguments]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            encoding="utf-8",
            errors="replace",
        ) as worker,
    ):
        _working.append(worker)
        try:
            result = _listen(worker, told)
        finally:
            _working.remove(worker)
        if worker.wait():
            complaints.seek(0)
            said = complaints.read().strip().splitlines()
            raise Failed(said[-1] if said else f"ended by signal {-worker.returncode}")
    return result


def _listen(worker: subprocess.Popen[str], told: Tell) -> str:
    result = ""
    assert worker.stdout is not None
    for line in worker.stdout:
        part, _, what = line.rstrip("\n").partition(" ")
        if not part.startswith("@"):
            result += line
            continue
        with suppress(ValueError):
            told(what, float(part[1:]))
    return result


def stop() -> None:
    """End whatever is at work: nobody waits for it any longer."""
    for worker in list(_working):
        worker.terminate()
