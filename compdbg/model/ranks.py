"""What the ranks of a run compiled and decided, side by side."""

from __future__ import annotations

import re
from collections import defaultdict

from msgspec import Struct

from compdbg.events import Capture, FusionsDiffer, Graph, PatternPass, Piece, Where
from compdbg.model.frames import Frames
from compdbg.model.fusion import Fusion
from compdbg.store.reader import Log

_NUMBER = re.compile(r"(?<![A-Za-z_])-?\d+(\.\d+)?(e[+-]?\d+)?")
_NOTE = re.compile(r"#.*|\"[^\"\n]*\"")
_SYMBOL = re.compile(r"\bs\d+\b")


class Divergence(Struct, frozen=True, kw_only=True):
    """One thing in which ranks differ. `kind`: `graph`, `fusion`, `pieces`, `captures`."""

    kind: str
    subject: str
    by_rank: dict[int, str]
    detail: str
    where: Where | None
    events: list[str]


def build_divergences(log: Log, frames: Frames, fusion: Fusion) -> list[Divergence]:
    """Root first: ranks with other graphs fuse, split and capture otherwise for that reason."""
    if len({h.rank for h, _ in log.of(Graph)} - {None}) < 2:
        return _fusions_seen(log)
    graphs = _graphs(log, frames)
    if graphs:
        return graphs
    fusions = _fusions(log, fusion)
    known = {found.subject for found in fusions}
    seen = [found for found in _fusions_seen(log) if found.subject not in known]
    return [*fusions, *seen, *_pieces(log), *_captures(log)]


def _graphs(log: Log, frames: Frames) -> list[Divergence]:
    """Frames whose first graph is another one on another rank, but for the numbers in it."""
    names = {(c.process, c.compile_id): c for c in frames.compiles}
    first: dict[str, dict[int, tuple[str, str, Where | None]]] = defaultdict(dict)
    for header, event in log.of(Graph):
        compiled = names.get((header.process, event.compile_id or ""))
        if event.stage != "dynamo" or header.rank is None or compiled is None:
            continue
        text = log.text(event.text) or ""
        first[compiled.frame].setdefault(header.rank, (text, header.id, compiled.where))
    found = []
    for frame, by_rank in first.items():
        shapes = {rank: structure(text) for rank, (text, _, _) in by_rank.items()}
        if len(set(shapes.values())) > 1:
            found.append(_divergence(frame, by_rank, shapes))
    return found


def structure(text: str) -> str:
    """A graph's code without its numbers, comments and annotations: what must be equal on all ranks."""
    lines = (_NUMBER.sub("N", _SYMBOL.sub("S", _NOTE.sub("", line))).strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def _divergence(
    frame: str, by_rank: dict[int, tuple[str, str, Where | None]], shapes: dict[int, str]
) -> Divergence:
    ranks = sorted(by_rank)
    base = shapes[ranks[0]]
    other = next(rank for rank in ranks if shapes[rank] != base)
    pairs = zip(base.splitlines(), shapes[other].splitlines(), strict=False)
    lines = next(((a, b) for a, b in pairs if a != b), ("", ""))
    groups: dict[str, str] = {}
    return Divergence(
        kind="graph",
        subject=frame.rpartition(":")[2],
        by_rank={rank: groups.setdefault(shapes[rank], f"graph {len(groups) + 1}") for rank in ranks},
        detail=f"rank {ranks[0]} has `{lines[0][:100]}` where rank {other} has `{lines[1][:100]}`"
        if any(lines)
        else f"the graph of rank {ranks[0]} and that of rank {other} differ in length",
        where=by_rank[ranks[0]][2],
        events=[id for _, id, _ in by_rank.values()],
    )


def _fusions(log: Log, fusion: Fusion) -> list[Divergence]:
    """Patterns that matched otherwise on a graph that several ranks have; what is cached is not known."""
    counts: dict[tuple[str, str, str], dict[int, int]] = defaultdict(dict)
    for row in fusion.rows:
        if row.custom and row.rank is not None and row.matched is not None and row.graph is not None:
            counts[row.pass_, row.pattern or "", row.graph][row.rank] = row.matched
    found: dict[str, Divergence] = {}
    for (name, pattern, graph), by_rank in counts.items():
        if len(set(by_rank.values())) > 1 and name not in found:
            found[name] = Divergence(
                kind="fusion",
                subject=name,
                by_rank={rank: f"{n} matched" for rank, n in sorted(by_rank.items())},
                detail=f"{pattern or name} matched another number of times in graph {graph}",
                where=None,
                events=[h.id for h, e in log.of(PatternPass) if (e.pass_name, e.graph) == (name, graph)],
            )
    return list(found.values())


def _fusions_seen(log: Log) -> list[Divergence]:
    """What ranks saw of each other while they compiled, also where not all of them are recorded."""
    found: dict[str, Divergence] = {}
    for header, event in log.of(FusionsDiffer):
        by_rank = {header.rank or 0: event.matched, event.other_rank: event.other_matched}
        found.setdefault(
            event.pass_name,
            Divergence(
                kind="fusion",
                subject=event.pass_name,
                by_rank={rank: f"{n} matched" for rank, n in sorted(by_rank.items())},
                detail=f"{event.pass_name} matched another number of times in graph {event.graph}",
                where=None,
                events=[header.id],
            ),
        )
    return list(found.values())


def _pieces(log: Log) -> list[Divergence]:
    pieces: dict[int, dict[str, str]] = defaultdict(dict)
    for header, event in log.of(Piece):
        if header.rank is not None:
            pieces[header.rank][f"{event.graph} {event.piece}"] = header.id
    return _sets("pieces", "the split graph", {rank: dict(found) for rank, found in pieces.items()})


def _captures(log: Log) -> list[Divergence]:
    sizes: dict[int, dict[str, str]] = defaultdict(dict)
    for header, event in log.of(Capture):
        if header.rank is not None and event.error is None:
            sizes[header.rank][str(event.size)] = header.id
    return _sets("captures", "the captured sizes", {rank: dict(found) for rank, found in sizes.items()})


def _sets(kind: str, subject: str, by_rank: dict[int, dict[str, str]]) -> list[Divergence]:
    """Ranks that hold other members; `by_rank` maps each to its event."""
    if len({frozenset(found) for found in by_rank.values()}) < 2:
        return []
    everything = set.union(*(set(found) for found in by_rank.values()))
    odd = sorted(name for name in everything if any(name not in found for found in by_rank.values()))
    lacking = {rank: [name for name in odd if name not in found] for rank, found in by_rank.items()}
    detail = "; ".join(
        f"rank {rank} has no {', '.join(names[:6])}" for rank, names in lacking.items() if names
    )
    return [
        Divergence(
            kind=kind,
            subject=subject,
            by_rank={rank: f"{len(found)}" for rank, found in sorted(by_rank.items())},
            detail=detail,
            where=None,
            events=[id for found in by_rank.values() for name, id in found.items() if name in odd],
        )
    ]
