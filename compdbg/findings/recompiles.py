"""`recompiles`: a function compiled more often than automatic dynamism explains."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from compdbg.findings.base import Cost, Finding
from compdbg.findings.recompile_groups import advice, axis_of, outlook, rows, said
from compdbg.findings.words import counted
from compdbg.model.life_lines import drawn
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
            yield _finding(run, history, excess)


def _finding(run: Run, history: History, excess: list[Group]) -> Finding:
    name = history.compiles[0].name
    own = [group for group in excess if not group.resumed] or excess
    total = sum(group.recompiles for group in own)
    return Finding(
        code="recompiles",
        severity="warning",
        title=f"{name} was recompiled {counted(total, 'time')} because {axis_of(excess[0])} varies",
        cause=" ".join(said(group) + _fixed_again(run, history, group) for group in excess)
        + outlook(history.forecast),
        suggestion=advice(excess),
        where=history.compiles[0].where,
        evidence=[event for group in excess for event in group.events],
        cost=Cost(results="same", seconds=round(history.seconds, 3)),
        data={
            "function": name,
            "recompiles": total,
            "groups": rows(excess),
            "forecast": msgspec.to_builtins(history.forecast),
        },
        subject="; ".join(axis_of(group) for group in excess),
    )


def _fixed_again(run: Run, history: History, group: Group) -> str:
    """Of a size that torch made dynamic by itself and the code then fixed: where, and by what."""
    frames = {(c.process, c.frame) for c in history.compiles}
    for each in run.dimensions:
        same = (each.process, each.frame) in frames and (each.tensor, each.dim) == (group.subject, group.axis)
        if same and each.fixed is not None:
            return f" The code fixes it. {drawn(each)}."
    return ""
