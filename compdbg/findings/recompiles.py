"""`recompiles`: a function compiled more often than automatic dynamism explains."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding
from compdbg.findings.recompile_groups import advice, axis_of, rows, said
from compdbg.findings.words import counted
from compdbg.model.recompiles import Group, History
from compdbg.model.run import Run


def recompiles(run: Run) -> Iterator[Finding]:
    """One finding a function; those that went on to hit the limit are found there."""
    said_of: set[tuple[str, tuple[tuple[str, str, int | None], ...]]] = set()
    for history in run.histories:
        excess = [group for group in history.groups if group.excess]
        key = (history.function, tuple((g.cause, g.subject, g.axis) for g in excess))
        if history.limit is None and excess and key not in said_of:
            said_of.add(key)
            yield _finding(history, excess)


def _finding(history: History, excess: list[Group]) -> Finding:
    name = history.compiles[0].name
    own = [group for group in excess if not group.resumed] or excess
    total = sum(group.recompiles for group in own)
    return Finding(
        code="recompiles",
        severity="warning",
        title=f"{name} was recompiled {counted(total, 'time')} because {axis_of(excess[0])} varies",
        cause=" ".join(said(group) for group in excess),
        suggestion=advice(excess),
        where=history.compiles[0].where,
        evidence=[event for group in excess for event in group.events],
        cost=Cost(results="same", seconds=round(history.seconds, 3)),
        data={
            "function": name,
            "recompiles": total,
            "groups": rows(excess),
        },
        subject="; ".join(axis_of(group) for group in excess),
    )
