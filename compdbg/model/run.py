"""A run as everything above reads it: each area is worked out from the log on first use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from compdbg.model.health import Health, build_health
from compdbg.model.pipeline import (
    ServedSize,
    Setting,
    SplitPiece,
    build_pieces,
    build_settings,
    build_sizes,
)
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

    @cached_property
    def health(self) -> Health:
        return build_health(self.log)

    @cached_property
    def pieces(self) -> list[SplitPiece]:
        return build_pieces(self.log)

    @cached_property
    def sizes(self) -> list[ServedSize]:
        return build_sizes(self.log)

    @cached_property
    def settings(self) -> list[Setting]:
        return build_settings(self.log)


def load(path: str | Path | None = None) -> Run:
    """Open a recorded run: a folder, or with no path the newest one below the current directory.

    Raises:
        compdbg.store.reader.CannotRead: there is no run, or it can't be read.
    """
    return Run(read_log(find_run(None if path is None else str(path))))
