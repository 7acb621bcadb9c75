"""Fusions: each pattern of each pass on each graph, with its outcome in words and its near miss."""

from __future__ import annotations

from compdbg.model.fusion import Fusion, PassFusion, rank_key
from compdbg.model.fusion_rows import FusionRow
from compdbg.views.base import Column, Source, View
from compdbg.views.places import counted, place


def fusion(source: Source) -> View:
    found = source.run.fusion
    return View(
        name="fusion",
        title="Fusion",
        items=found.rows,
        shown=[row for row in found.rows if not _torchs(row)],
        columns=(
            Column("pass", lambda r: r.pass_),
            Column("pattern", lambda r: r.pattern or ""),
            Column("graph", lambda r: r.graph or ""),
            Column("outcome", lambda r: r.outcome),
            Column("matched", lambda r: counts(r.matched, r.pieces), align="right"),
            Column("sites left", lambda r: counts(r.sites_left, r.pieces), align="right"),
            Column("where", _where),
            Column("why", lambda r: r.why, wide=True),
        ),
        lines=[*(_sentence(p) for p in found.passes if p.custom), *_how_counted(found), *_torchs_own(found)],
        empty="no pass of custom patterns was seen: a cache served the compile, and keeps no record of any"
        if source.run.summary.cold is False
        else "no pass of custom patterns was applied, and none is in effect",
    )


def counts(count: int | None, pieces: int) -> str:
    """A row's count, and how many pieces have each of it."""
    if count is None:
        return "?"
    return f"{count} × {pieces}" if count and pieces > 1 else str(count)


def _how_counted(found: Fusion) -> list[str]:
    """Why the sentences have other numbers than the rows, where they do."""
    rows = [row for row in found.rows if row.custom and (row.matched or row.sites_left)]
    lines = []
    if any(row.pieces > 1 for row in rows):
        one = next(row for row in rows if row.pieces > 1)
        lines.append(
            f"{one.matched or one.sites_left} × {one.pieces} in the table: a graph compiled once for "
            f"{one.pieces} equal pieces; the sentences count each piece."
        )
    if any(p.left < sum((r.sites_left or 0) * r.pieces for r in _of_one_rank(p)) for p in found.passes):
        lines.append(
            "A site that several patterns nearly took is in the row of each; the sentences count it once."
        )
    if len({row.rank for row in rows}) > 1:
        lines.append(
            f"The rows are of all ranks; the sentences count those of rank {min(r.rank or 0 for r in rows)}."
        )
    return lines


def _of_one_rank(whole: PassFusion) -> list[FusionRow]:
    first = min(whole.matched_by_rank)
    return [row for row in whole.rows if rank_key(row.rank) == first]


def _where(row: FusionRow) -> str:
    return place(row.near_miss.where) if row.near_miss else ""


def _sentence(whole: PassFusion) -> str:
    also = f" ({', '.join(whole.aliases)})" if whole.aliases else ""
    return f"{whole.name}{also} {_words(whole)}."


def _words(whole: PassFusion) -> str:
    left = whole.left
    fired = f"fired at {counted(whole.matched, 'site')}" if whole.matched else "found nothing to fuse"
    missed = (
        f"{fired} and left {counted(left, 'site')}" if whole.matched else f"missed {counted(left, 'site')}"
    )
    recorded = (
        "nothing is known of how it was filled"
        if whole.matched is None
        else f"when that was filled, it {missed if left else fired}"
    )
    return {
        "fired": fired,
        "missed": missed,
        "no-candidate": "ran and found nothing to fuse",
        "superseded": "came near only where another pattern fired",
        "cached": f"did not run, because a cache served the compile; {recorded}",
        "not-run": "ran, and applied none of its patterns"
        if all("did not apply it" in row.why for row in whole.rows)
        else f"is configured and did not run: {whole.rows[0].why.removeprefix('skipped: ')}",
        "unobservable": "could not be observed",
    }[whole.outcome]


def _torchs(row: FusionRow) -> bool:
    """A count of all of torch's own patterns in one pass, not the story of one pattern."""
    return not row.custom and row.pattern is None


def _torchs_own(found: Fusion) -> list[str]:
    own = [row for row in found.rows if _torchs(row)]
    if not own:
        return []
    tried, matched = sum(r.attempted or 0 for r in own), sum(r.matched or 0 for r in own)
    passes = len({r.pass_ for r in own})
    counts = f"{counted(passes, 'pass', 'passes')}, {tried} attempts, {matched} matches"
    return [f"torch's own: {counts}; `run --inductor-patterns` says more."]
