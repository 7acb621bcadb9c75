"""The exception that a program failed with: the first of its processes', if the program failed."""

from __future__ import annotations

from msgspec import Struct

from compdbg.events import ChildEnd, Header, ProcessEnd, ProcessStart, Where
from compdbg.store.reader import Log

_ASKED_FOR = {"SystemExit", "GeneratorExit"}
"""What ends a `record()` block and is no failure."""


class Uncaught(Struct, frozen=True, kw_only=True):
    """An exception that ended a process."""

    of: str
    """`program`; `block` of `record()`; `process` for one that the program started."""
    rank: int | None
    process: str
    error: str
    message: str
    where: Where | None
    event: str


def find_uncaught(log: Log, exit_status: int | None, signal: int | None) -> Uncaught | None:
    """The first one, which others follow from; None for a program that went well in spite of it.

    Whoever records from inside sees no exit status: there the main process's own says that it failed.
    """
    if exit_status == 0 and signal is None:
        return None
    main, of = _main(log)
    found = [
        _uncaught(header, end, of if header.process == main else "process")
        for header, end in log.of(ProcessEnd)
        if end.uncaught and end.uncaught not in _ASKED_FOR
    ]
    failed = exit_status is not None or signal is not None or any(each.process == main for each in found)
    return found[0] if found and failed else None


def _main(log: Log) -> tuple[str | None, str]:
    """The process that the user started, if it is one of Python, and what to call it."""
    starts = log.of(ProcessStart)
    child = next((end.pid for _, end in log.of(ChildEnd)), None)
    of_child = ((h.process, s) for h, s in starts if child is None or s.pid == child)
    process, start = next(of_child, (None, None))
    return process, "block" if start is not None and start.how == "record" else "program"


def _uncaught(header: Header, end: ProcessEnd, of: str) -> Uncaught:
    return Uncaught(
        of=of,
        rank=header.rank,
        process=header.process,
        error=end.uncaught or "",
        message=end.message,
        where=end.where,
        event=header.id,
    )
