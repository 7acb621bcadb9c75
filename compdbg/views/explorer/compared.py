"""What changed between two runs; of a long one worked out by a process of its own, by its index.

`python -m compdbg.views.explorer.compared A B` prints it: neither its time nor its memory is the explorer's.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from compdbg.compare.runs import Difference, compare
from compdbg.findings.base import Finding
from compdbg.findings.collect import find_all
from compdbg.model.run import Run
from compdbg.store.index import build_index, is_long, read_index
from compdbg.store.indexed import IndexedLog
from compdbg.store.locate import find_run, open_run
from compdbg.store.ranks import open_side
from compdbg.store.reader import CannotRead, Log
from compdbg.views.diff import diff


class Compared(Struct, frozen=True):
    """The differences, and the sentences above them."""

    rows: list[Difference]
    title: str
    lines: list[str]


def compared(before: Run, after: Run, found: list[Finding] | None, names: tuple[str, str]) -> Compared:
    """`found`: the findings of `after`, where they are known."""
    rows = compare(before, find_all(before), after, find_all(after) if found is None else found)
    told = diff(rows, before.summary, after.summary, names)
    return Compared(rows, told.title, list(told.lines))


def has_long(*sides: str) -> bool:
    """Whether a run that `RUN` or `RUN@RANK` names is long."""
    folders = (Path(side if Path(side).exists() else side.rpartition("@")[0]) for side in sides)
    return any(folder.is_dir() and is_long(folder) for folder in folders)


def compared_apart(a: str, b: str, names: tuple[str, str]) -> Compared:
    """By a process of its own.

    Raises:
        CannotRead: one of the runs can't be read.
    """
    command = [sys.executable, "-m", __name__, a, b, *names]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise CannotRead(said[-1] if said else f"comparing was ended by signal {-done.returncode}")
    return msgspec.json.decode(done.stdout, type=Compared)


def _opened(given: str | None) -> Log:
    folder = find_run(given)
    if folder.is_file() or not is_long(folder):
        return open_run(given)
    return IndexedLog(folder, read_index(folder) or build_index(folder, lambda part: None))


def main(a: str, b: str, *names: str) -> None:
    gc.disable()  # what is made here stays
    try:
        before, after = Run(open_side(a, _opened)), Run(open_side(b, _opened))
    except CannotRead as problem:
        raise SystemExit(str(problem)) from None
    first, second = names
    sys.stdout.buffer.write(msgspec.json.encode(compared(before, after, None, (first, second)), enc_hook=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
