"""The rows of the `fusion` view: one pattern of one pass on one graph, its outcome in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from compdbg.events import NearMiss, Pattern, PatternPass, Where
from compdbg.model.fusion_idle import Idle
from compdbg.model.fusion_sites import Site

ORDER = ("missed", "fired", "superseded", "cached", "not-run", "no-candidate", "unobservable")
"""Outcomes; of several, the first says what became of a pass as a whole."""


class Miss(Struct, frozen=True, kw_only=True):
    """The near miss of a row, all keys present."""

    reason: str
    stage: str
    node: str
    wanted: str
    found: str
    matched_nodes: int
    pattern_nodes: int
    where: Where | None
    detail: str


class FusionRow(Struct, frozen=True, kw_only=True, rename={"pass_": "pass"}):
    """One pattern of one pass on one graph; `pattern` is null where the pass did not get to its patterns."""

    pass_: str
    pass_aliases: list[str]
    pattern: str | None
    graph: str | None
    enabled: bool
    outcome: str
    matched: int | None
    """Null where a cache served the compile, and nothing was recorded of how it was filled."""
    attempted: int | None
    candidates: int | None
    sites_left: int | None
    near_miss: Miss | None
    duration_us: float | None
    reason: str | None = None
    why: str = ""
    custom: bool = True
    rank: int | None = None
    process: str = ""
    pieces: int = 1
    """How many pieces run what was compiled for the graph: one, and its twins."""


class Applied(Struct, kw_only=True):
    """All applies of one pass in one process."""

    name: str
    aliases: list[str]
    custom: bool
    process: str
    rank: int | None
    pass_id: str
    patterns: list[Pattern] = []
    runs: list[tuple[str, PatternPass]] = []
    """Event ids and applies."""


def rows_of(applied: Applied, sites: list[Site]) -> list[FusionRow]:
    by_graph: dict[str, list[PatternPass]] = defaultdict(list)
    for _, event in applied.runs:
        by_graph[event.graph].append(event)
    sites_of: dict[str, list[Site]] = defaultdict(list)
    for site in sites:
        sites_of[site.graph].append(site)
    rows: list[FusionRow] = []
    for graph, runs in by_graph.items():
        if any(event.traced for event in runs):
            here = sites_of[graph]
            made = [_row(applied, pattern, graph, runs, here) for pattern in applied.patterns]
            rows += sorted(made, key=lambda r: ORDER.index(r.outcome))
        if not applied.custom and any(not event.traced for event in runs):
            rows.append(_counted_row(applied, graph, runs))
    return rows


def _row(
    applied: Applied, pattern: Pattern, graph: str, runs: list[PatternPass], sites: list[Site]
) -> FusionRow:
    name = pattern.name
    matched = sum(event.matched_by.get(name, 0) for event in runs)
    tried = [s for s in sites if any(a.event.pattern == name for a in s.attempts)]
    left = [s for s in tried if s.state == "missed" and any(_is_near(s, name))]
    outcome, shown = _outcome(name, matched, left, tried, runs, applied)
    miss = _nearest_miss(name, shown)
    return FusionRow(
        pass_=applied.name,
        pass_aliases=applied.aliases,
        pattern=name,
        graph=graph,
        enabled=True,
        outcome=outcome,
        matched=matched,
        attempted=sum(event.attempted_by.get(name, 0) for event in runs),
        candidates=len(tried),
        sites_left=len(left),
        near_miss=miss,
        duration_us=round(sum(event.us_by.get(name, 0.0) for event in runs), 1),
        reason=miss.reason if miss else None,
        why=_why(outcome, pattern, matched, len(tried), len(left), miss),
        custom=applied.custom,
        rank=applied.rank,
        process=applied.process,
    )


def _is_near(site: Site, pattern: str) -> Iterator[bool]:
    return (a.near for a in site.attempts if a.event.pattern == pattern)


def _outcome(
    name: str,
    matched: int,
    left: list[Site],
    tried: list[Site],
    runs: list[PatternPass],
    applied: Applied,
) -> tuple[str, list[Site]]:
    """The outcome, and the sites whose near miss shows why."""
    if left:
        return "missed", left
    if matched:
        return "fired", []
    elsewhere = [s for s in tried if s.state in ("taken", "superseded")]
    if any(a.event.near for s in elsewhere for a in s.attempts if a.event.pattern == name) or (
        elsewhere and len(elsewhere) == len(tried)
    ):
        return "superseded", elsewhere
    if not tried and _sibling_fired(name, runs, applied):
        return "superseded", []
    return "no-candidate", []


def _sibling_fired(name: str, runs: list[PatternPass], applied: Applied) -> bool:
    """Whether a pattern with the same anchor fired, so that this one found nothing left to try."""
    anchors = {p.name: set(p.anchors) for p in applied.patterns}
    fired = {n for event in runs for n, count in event.matched_by.items() if count}
    return any(anchors.get(n, set()) & anchors[name] for n in fired if n != name)


def _nearest_miss(name: str, sites: list[Site]) -> Miss | None:
    tries = [a for s in sites for a in s.attempts if a.event.pattern == name and a.miss is not None]
    if not tries:
        return None
    near = [a for a in tries if a.near] or tries
    miss = max(near, key=lambda a: a.progress).miss
    return None if miss is None else as_miss(miss)


def as_miss(miss: NearMiss) -> Miss:
    return Miss(
        reason=miss.reason,
        stage=miss.stage,
        node=miss.node,
        wanted=miss.wanted,
        found=miss.found,
        matched_nodes=miss.matched_nodes,
        pattern_nodes=miss.pattern_nodes,
        where=miss.where,
        detail=miss.detail,
    )


def _why(outcome: str, pattern: Pattern, matched: int, candidates: int, left: int, miss: Miss | None) -> str:
    """The outcome in a sentence's worth of words."""
    anchors = _anchors(pattern)
    if outcome == "missed" and miss is not None:
        share = f"{left} of {matched + left} sites left: " if matched else ""
        return f"{share}{stopped(miss)}"
    if outcome == "fired":
        return f"fired at {matched} of {max(candidates, matched)} {anchors}"
    if outcome == "superseded":
        return "another pattern fired at each of its sites"
    if not candidates:
        return f"no {anchors} in the graph"
    return f"{candidates} {anchors} in the graph, and nothing else like the pattern there"


def _anchors(pattern: Pattern) -> str:
    first, *more = pattern.anchors or ["anchor"]
    return f"{first} (or {len(more)} more)" if more else first


def stopped(miss: Miss) -> str:
    """`arg-mismatch: wanted eps=1e-05, found eps=1e-06`."""
    text = f"{miss.reason}: wanted {miss.wanted}, found {miss.found}"
    return f"{text} ({miss.detail})" if miss.detail else text


def _counted_row(applied: Applied, graph: str, runs: list[PatternPass]) -> FusionRow:
    """One of torch's own passes, whose attempts were counted but not looked into."""
    matched, attempted = sum(e.matched for e in runs), sum(e.attempted for e in runs)
    outcome = "fired" if matched else "unobservable"
    why = f"{matched} matches in {attempted} attempts of torch's own patterns"
    return FusionRow(
        pass_=applied.name,
        pass_aliases=applied.aliases,
        pattern=None,
        graph=graph,
        enabled=True,
        outcome=outcome,
        matched=matched,
        attempted=attempted,
        candidates=0,
        sites_left=0,
        near_miss=None,
        duration_us=round(sum(e.duration_us for e in runs), 1),
        why=why if matched else f"{why}; `--inductor-patterns` says why",
        custom=False,
        rank=applied.rank,
        process=applied.process,
    )


def idle_row(idle: Idle) -> FusionRow:
    unknown = None if idle.outcome == "cached" else 0
    return FusionRow(
        pass_=idle.name,
        pass_aliases=idle.aliases,
        pattern=None,
        graph=idle.graph,
        enabled=True,
        outcome=idle.outcome,
        matched=unknown,
        attempted=unknown,
        candidates=unknown,
        sites_left=unknown,
        near_miss=None,
        duration_us=None,
        why=idle.why,
        rank=idle.rank,
        process=idle.process,
    )
