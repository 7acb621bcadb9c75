"""What a run, or one rank of it, has of what can be expected."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from msgspec import Struct

from compdbg.events import Where
from compdbg.events.guards import LOADED
from compdbg.expect.expectations import Value
from compdbg.model.fusion import PassFusion
from compdbg.model.fusion_rows import Miss, stopped
from compdbg.model.run import Run


class Measured(Struct, frozen=True, kw_only=True):
    """A value as observed; None where the run can't tell, and then `why` says why."""

    value: Value | None
    why: str = ""
    near_miss: Miss | None = None
    codes: tuple[str, ...] = ()
    """Findings of these codes say more; of a fusion those of the pass `subject`."""
    subject: str = ""


_WATCHED_BY = {
    "fusion": "pattern_matcher",
    "compile.graph_breaks": "dynamo",
    "compile.max_recompiles": "dynamo",
    "guards.violations": "guards",
}
"""The hook without which an area can't be observed."""
_FUSION_CODES = ("pattern-unmatchable", "fusion-missed", "fusion-not-run", "fusion-no-candidate")


def measure(run: Run, area: str, subject: str = "") -> Measured:
    """What a run has of an area; of fusions, of the pass `subject`."""
    for hook in run.health.hooks:
        if hook.hook == _WATCHED_BY.get(area) and hook.state in ("absent", "unused"):
            why = f"the hook {hook.hook} did not watch: {'; '.join(hook.details)}"
            return Measured(value=None, why=why)
    return measure_fusion(run, subject) if area == "fusion" else MEASURES[area](run)


def measure_fusion(run: Run, name: str) -> Measured:
    """The matches of one pass over all graphs, and where it stopped short of more."""
    if name not in run.fusion:
        return _unseen(run, name)
    whole = run.fusion[name]
    miss = nearest_miss(whole)
    return Measured(
        value=whole.matched,
        why=_why(whole),
        near_miss=miss,
        codes=_FUSION_CODES,
        subject=whole.name,
    )


def nearest_miss(whole: PassFusion) -> Miss | None:
    """The near miss of the pass's rows that left sites; of several the one that matched most."""
    left = [row.near_miss for row in whole.rows if row.near_miss is not None and row.sites_left]
    return max(left, key=lambda m: m.matched_nodes / max(m.pattern_nodes, 1), default=None)


def _why(whole: PassFusion) -> str:
    """Where sites were left, at which and why; else what the rows say of themselves."""
    left: dict[str, int] = {}
    for row in whole.rows:
        if row.sites_left and row.near_miss is not None:
            left[stopped(row.near_miss)] = left.get(stopped(row.near_miss), 0) + row.sites_left
    if left:
        return "; ".join(f"{count} site{'s' * (count > 1)} left: {miss}" for miss, count in left.items())
    told = [row.why for row in whole.rows if row.outcome not in ("fired", "superseded", "cached")]
    if whole.matched is None:
        told = [row.why for row in whole.rows if row.matched is None]
    return "; ".join(dict.fromkeys(f"{whole.outcome}: {why}" for why in told if why))


def _unseen(run: Run, name: str) -> Measured:
    seen = [p.name for p in run.fusion.passes if p.custom]
    near = difflib.get_close_matches(name, seen, 1)
    hint = f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(seen)}" if seen else ""
    if run.summary.cold is False and not near:
        return Measured(
            value=None, why=f"a cache served the compile, and no record of the pass is kept{hint}"
        )
    if not run.frames.compiles:
        return Measured(value=0, why=f"not-run: nothing was compiled in this run{hint}")
    return Measured(value=0, why=f"not-run: no such pass was seen in this run{hint}")


def _nothing_traced(run: Run) -> Measured | None:
    """Where no frame was compiled: a model loaded whole was traced without a break when it was stored."""
    if run.frames.compiles:
        return None
    if any(entry.compile_id == LOADED for entry in run.entries) or any(p.loaded for p in run.pieces):
        return Measured(value=0)
    return Measured(value=None, why="no frame was compiled in this run")


def _graph_breaks(run: Run) -> Measured:
    """Places, not events: a frame that is compiled again breaks again at the same line."""
    if (unobserved := _nothing_traced(run)) is not None:
        return unobserved
    breaks = [event for _, event in run.frames.breaks if not event.by_torch]
    places = {_place(e.where) if e.where is not None else e.reason for e in breaks}
    return Measured(
        value=len(places),
        why=f"Broken at {', '.join(sorted(places))}" if places else "",
        codes=("graph-break",),
    )


def _recompiles(run: Run) -> Measured:
    if (unobserved := _nothing_traced(run)) is not None:
        return unobserved
    groups = [group for history in run.histories for group in history.groups]
    why = "; ".join(f"{g.recompiles} for {g.cause} of {g.subject}" if g.subject else g.cause for g in groups)
    return Measured(value=sum(g.recompiles for g in groups), why=why, codes=("recompile-limit", "recompiles"))


def _pieces(run: Run) -> Measured:
    compiled = [p for p in run.pieces if p.kind == "compiled"]
    why = "" if run.pieces else "no graph was split"
    return Measured(value=len(compiled), why=why, codes=("pieces-not-shared",))


def _unique_pieces(run: Run) -> Measured:
    unique = [p for p in run.pieces if p.kind == "compiled" and p.shared_with is None]
    why = "; ".join(dict.fromkeys(f"{p.piece} is no twin: {p.differs_by}" for p in unique if p.differs_by))
    return Measured(
        value=len(unique), why=why if run.pieces else "no graph was split", codes=("pieces-not-shared",)
    )


def _violations(run: Run) -> Measured:
    """Calls on which a dropped guard was false and that may have mattered."""
    dropped = [entry for entry in run.entries if entry.dropped_by is not None]
    if not run.entries:
        return Measured(value=None, why="no guards were recorded: nothing was compiled")
    if dropped and all(entry.audit == "not-audited" for entry in dropped):
        return Measured(value=None, why=f"dropped guards were not audited: {dropped[0].audit_reason}")
    harmful = [v for v in run.violated if v.effect != "same"]
    why = "; ".join(f"{v.first.name}: wanted {v.first.wanted}, seen {v.first.seen}" for v in harmful)
    return Measured(value=sum(v.violations for v in harmful), why=why, codes=("guard-dropped-violated",))


_SIZE_CODES = ("capture-failed", "size-not-captured")


def _captured_sizes(run: Run) -> set[int]:
    """Of a call that was padded, the size that served it was captured, not its own."""
    return {s.padded_to or s.size for s in run.sizes if s.captured}


def _captured(run: Run) -> Measured:
    sizes = sorted(_captured_sizes(run))
    faults = dict.fromkeys(f"{s.size} not captured: {s.fault}" for s in run.sizes if s.fault)
    why = "; ".join(faults) if run.sizes else "no size was captured or dispatched"
    return Measured(value=sizes, why=why, codes=_SIZE_CODES)


def _uncaptured_calls(run: Run) -> Measured:
    """Calls without a capture, but for warm-ups and calls above the largest captured size."""
    if not run.sizes:
        return Measured(value=None, why="no size was captured or dispatched")
    largest = max(_captured_sizes(run), default=None)
    within = [s for s in run.sizes if largest is None or s.size <= largest]
    missed = {s.size: s.eager_calls - s.warm_ups for s in within if s.eager_calls > s.warm_ups}
    why = ", ".join(f"{count} at size {size}" for size, count in missed.items())
    return Measured(value=sum(missed.values()), why=why, codes=_SIZE_CODES)


MEASURES: dict[str, Callable[[Run], Measured]] = {
    "compile.graph_breaks": _graph_breaks,
    "compile.max_recompiles": _recompiles,
    "compile.max_pieces": _pieces,
    "compile.unique_pieces": _unique_pieces,
    "guards.violations": _violations,
    "sizes.captured": _captured,
    "sizes.uncaptured_calls": _uncaptured_calls,
}


def _place(where: Where) -> str:
    return f"{where.file.rpartition('/')[2]}:{where.line}"
