"""What changed between two runs; of a long one worked out by a process of its own, by its index.

`python -m compdbg.views.explorer.compared A B` prints it (see `apart`).
"""

from __future__ import annotations

import gc
import os
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
from compdbg.views.explorer.apart import Tell, answer, by_itself, tell

_OPENED, _FOUND = 0.1, 0.35
"""Which part of the time is over by then."""


class Compared(Struct, frozen=True):
    """The differences, and the sentences above them."""

    rows: list[Difference]
    title: str
    lines: list[str]


def compared(before: Run, after: Run, found: list[Finding] | None, names: tuple[str, str]) -> Compared:
    """`found`: the findings of `after`, where they are known."""
    rows = compare(before, find_all(before), after, find_all(after) if found is None else found)
    return _told(rows, before, after, names)


def _told(rows: list[Difference], before: Run, after: Run, names: tuple[str, str]) -> Compared:
    shown = diff(rows, before.summary, after.summary, names)
    return Compared(rows, shown.title, list(shown.lines))


def has_long(*sides: str) -> bool:
    """Whether a run that `RUN` or `RUN@RANK` names is long."""
    folders = (Path(side if os.path.exists(side) else side.rpartition("@")[0]) for side in sides)
    return any(os.path.isdir(folder) and is_long(folder) for folder in folders)


def compared_apart(a: str, b: str, names: tuple[str, str], told: Tell) -> Compared:
    """By a process of its own.

    Raises:
        Failed: one of the runs can't be read.
    """
    return msgspec.json.decode(by_itself(__name__, a, b, *names, told=told), type=Compared)


def _opened(given: str | None) -> Log:
    folder = find_run(given)
    if folder.is_file() or not is_long(folder):
        return open_run(given)
    return IndexedLog(folder, read_index(folder) or build_index(folder, lambda part: None))


def main(a: str, b: str, *names: str) -> None:
    gc.disable()  # what is made here stays
    first, second = names
    tell("opening the runs", 0.0)
    try:
        before, after = Run(open_side(a, _opened)), Run(open_side(b, _opened))
    except CannotRead as problem:
        raise SystemExit(str(problem)) from None
    found = [
        _findings(run, name, part)
        for run, name, part in ((before, first, _OPENED), (after, second, (_OPENED + _FOUND) / 2))
    ]
    rows = compare(
        before, found[0], after, found[1], lambda what, part: tell(what, _FOUND + (1 - _FOUND) * part)
    )
    answer(msgspec.json.encode(_told(rows, before, after, (first, second)), enc_hook=str))


def _findings(run: Run, name: str, begun: float) -> list[Finding]:
    """By a run that is let go with all that it worked out: both at once would take too much memory."""
    share = (_FOUND - _OPENED) / 2
    return find_all(Run(run.log), lambda code, part: tell(f"{name}: {code}", begun + share * part))


if __name__ == "__main__":
    main(*sys.argv[1:])
