"""A run as everything above reads it: each area is worked out from the log on first use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from compdbg.events import CloneRemoved
from compdbg.model.asked import Asked, build_asked
from compdbg.model.caches import Lookup, Problem, build_cache_problems, build_lookups
from compdbg.model.capture_sizes import Padding, build_padding
from compdbg.model.captures import (
    FailedCapture,
    Leak,
    MovedInputs,
    StaleValue,
    build_failed_captures,
    build_leaks,
    build_moved_inputs,
    build_stale_values,
)
from compdbg.model.frames import Frames, build_frames
from compdbg.model.fusion import Fusion
from compdbg.model.graphs import GraphStage, build_graphs
from compdbg.model.guards import Entry, Violated, build_entries, build_violated
from compdbg.model.health import Health, build_health
from compdbg.model.mutation import (
    KeptCopies,
    LostWrite,
    build_dropped_copies,
    build_kept_copies,
    build_lost_writes,
)
from compdbg.model.numerics import Comparison, build_comparisons
from compdbg.model.ops import WrongOp, build_wrong_ops
from compdbg.model.passes import Pass, build_changes, build_passes
from compdbg.model.pipeline import Setting, SplitPiece, build_pieces, build_settings
from compdbg.model.ranks import Divergence, build_divergences
from compdbg.model.recompiles import History, build_histories
from compdbg.model.replacements import WrongFusion, build_wrong_fusions
from compdbg.model.sizes import ServedSize, build_sizes
from compdbg.model.splits import (
    BadCrossing,
    NearTwins,
    UnmatchedOp,
    build_bad_crossings,
    build_near_twins,
    build_unmatched,
)
from compdbg.model.stale import Stale, build_stale
from compdbg.model.stalls import Stall, build_stalls
from compdbg.model.summary import Summary, summarise
from compdbg.model.symbols import Dimension, build_dimensions
from compdbg.model.time import Times
from compdbg.model.uncaptured import Uncaptured, build_uncaptured
from compdbg.model.uncompiled import Uncompiled, build_uncompiled
from compdbg.store.locate import open_run
from compdbg.store.reader import Log


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
    def unmatched_split_ops(self) -> list[UnmatchedOp]:
        return build_unmatched(self.log)

    @cached_property
    def near_twins(self) -> list[NearTwins]:
        return build_near_twins(self.pieces)

    @cached_property
    def bad_crossings(self) -> list[BadCrossing]:
        return build_bad_crossings(self.pieces)

    @cached_property
    def failed_captures(self) -> list[FailedCapture]:
        return build_failed_captures(self.log)

    @cached_property
    def moved_inputs(self) -> list[MovedInputs]:
        return build_moved_inputs(self.log, self.sizes)

    @cached_property
    def stale_values(self) -> list[StaleValue]:
        return build_stale_values(self.log, self.sizes)

    @cached_property
    def leaks(self) -> list[Leak]:
        return build_leaks(self.log)

    @cached_property
    def uncaptured(self) -> list[Uncaptured]:
        return build_uncaptured(self.sizes)

    @cached_property
    def padding(self) -> list[Padding]:
        return build_padding(self.sizes)

    @cached_property
    def settings(self) -> list[Setting]:
        return build_settings(self.log)

    @cached_property
    def frames(self) -> Frames:
        return build_frames(self.log)

    @cached_property
    def entries(self) -> list[Entry]:
        return build_entries(self.log)

    @cached_property
    def violated(self) -> list[Violated]:
        return build_violated(self.entries)

    @cached_property
    def histories(self) -> list[History]:
        return build_histories(self.frames)

    @cached_property
    def uncompiled(self) -> list[Uncompiled]:
        return build_uncompiled(self.log, self.frames)

    @cached_property
    def dimensions(self) -> list[Dimension]:
        return build_dimensions(self.log)

    @cached_property
    def graphs(self) -> list[GraphStage]:
        return build_graphs(self.log)

    @cached_property
    def passes(self) -> list[Pass]:
        return build_passes(self.log)

    @cached_property
    def changes(self) -> list[Pass]:
        """The passes that changed their graph."""
        return build_changes(self.log)

    @cached_property
    def kept_copies(self) -> list[KeptCopies]:
        return build_kept_copies(self.log)

    @cached_property
    def lost_writes(self) -> list[LostWrite]:
        return build_lost_writes(self.log)

    @cached_property
    def dropped_copies(self) -> list[tuple[str, CloneRemoved]]:
        return build_dropped_copies(self.log)

    @cached_property
    def wrong_fusions(self) -> list[WrongFusion]:
        return build_wrong_fusions(self.log)

    @cached_property
    def wrong_ops(self) -> list[WrongOp]:
        return build_wrong_ops(self.log)

    @cached_property
    def lookups(self) -> list[Lookup]:
        return build_lookups(self.log)

    @cached_property
    def asked(self) -> list[Asked]:
        return build_asked(self.log, self.lookups)

    @cached_property
    def comparisons(self) -> list[Comparison]:
        return build_comparisons(self.log)

    @cached_property
    def stalls(self) -> list[Stall]:
        return build_stalls(self.log, self.times)

    @cached_property
    def divergences(self) -> list[Divergence]:
        return build_divergences(self.log, self.frames, self.fusion)

    @cached_property
    def stale(self) -> list[Stale]:
        return build_stale(self.log)

    @cached_property
    def cache_problems(self) -> list[Problem]:
        return build_cache_problems(self.log)

    @cached_property
    def times(self) -> Times:
        return Times(self.log)

    @cached_property
    def fusion(self) -> Fusion:
        return Fusion(self.log)


def load(path: str | Path | None = None) -> Run:
    """Open a recorded run: a folder or a report, or with no path the newest below the current directory.

    Raises:
        compdbg.store.reader.CannotRead: there is no run, or it can't be read.
    """
    return Run(open_run(None if path is None else str(path)))
