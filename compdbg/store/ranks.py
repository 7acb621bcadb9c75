"""One rank of a run: `RUN@1`, and the log of that rank alone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from compdbg.events import ProcessStart
from compdbg.store.locate import open_run
from compdbg.store.reader import CannotRead, Log


def ranks_of(log: Log) -> list[int]:
    """The ranks that were recorded; none where the program has no ranks."""
    return sorted({header.rank for header, _ in log.of(ProcessStart) if header.rank is not None})


def only_rank(log: Log, rank: int) -> Log:
    """The log as if only the processes of one rank had been recorded."""
    return log.of_rank(rank)


def open_side(given: str, opened: Callable[[str | None], Log] = open_run) -> Log:
    """The run, or the one rank of a run, that `RUN` or `RUN@RANK` names; `@1` is of the newest run.

    `opened` opens a run by its name.

    Raises:
        CannotRead: there is no such run, or it has no such rank.
    """
    found = re.fullmatch(r"(.*)@(\d+)", given)
    if found is None or os.path.exists(given):
        return opened(given)
    log, rank = opened(found[1] or None), int(found[2])
    known = ranks_of(log)
    if rank not in known:
        there = f"its ranks are {', '.join(map(str, known))}" if known else "its processes have no ranks"
        raise CannotRead(f"{found[1] or log.folder} has no rank {rank}; {there}")
    return only_rank(log, rank)
