"""A run as everything above reads it: each area is worked out from the log on first use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from compdbg.model.summary import Summary, summarise
from compdbg.store.locate import find_run
from compdbg.store.reader import Log, read_log


@dataclass(frozen=True)
class Run:
    """One recorded run. Areas: `summary`, ..."""

    log: Log

    @cached_property
    def summary(self) -> Summary:
        return summarise(self.log)


def load(path: str | Path | None = None) -> Run:
    """Open a recorded run: a folder, or with no path the newest one below the current directory.

    Raises:
        compdbg.store.reader.CannotRead: there is no run, or it can't be read.
    """
    return Run(read_log(find_run(None if path is None else str(path))))
