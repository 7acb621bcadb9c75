"""Artifacts that were reused though what they were made of has changed."""

from __future__ import annotations

from collections import defaultdict

from msgspec import Struct

from compdbg.events import FactorChange, StaleArtifact, Where
from compdbg.store.reader import Log


class Stale(Struct, frozen=True, kw_only=True):
    """What artifacts were made of that is another thing now, and every hit on such a one."""

    changes: list[FactorChange]
    graphs: list[str]
    layers: list[str]
    keys: list[str]
    run: str
    where: Where | None
    events: list[str]


def build_stale(log: Log) -> list[Stale]:
    """One row for each set of changes: a model's graphs are all made with the same op or pass."""
    groups: dict[tuple[str, ...], list[tuple[str, StaleArtifact]]] = defaultdict(list)
    for header, event in log.of(StaleArtifact):
        groups[tuple(change.name for change in event.changes)].append((header.id, event))
    return [
        Stale(
            changes=found[0][1].changes,
            graphs=list(dict.fromkeys(e.graph for _, e in found)),
            layers=list(dict.fromkeys(e.layer for _, e in found)),
            keys=list(dict.fromkeys(e.key for _, e in found)),
            run=found[0][1].run,
            where=next((e.where for _, e in found if e.where is not None), None),
            events=[id for id, _ in found],
        )
        for found in groups.values()
    ]
