"""`fusion-not-run`: a fusion that the configuration enables never ran, and who or what kept it from it."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding
from compdbg.model.run import Run


def fusion_not_run(run: Run) -> Iterator[Finding]:
    told: set[str] = set()
    for idle in run.fusion.idle:
        if not idle.alarming or idle.name in told or _ran_elsewhere(run, idle.name):
            continue
        told.add(idle.name)
        yield Finding(
            code="fusion-not-run",
            severity="warning",
            title=f"{idle.name} is configured and never ran: {idle.why}",
            cause=f"{idle.name} is enabled in Inductor's configuration, but {idle.why}.",
            suggestion=idle.advice,
            where=idle.where,
            evidence=idle.events,
            cost=Cost(results="same"),
            data={"pass": idle.name, "why": idle.why, "graph": idle.graph},
            subject=idle.name,
        )


def _ran_elsewhere(run: Run, name: str) -> bool:
    """In another process of the run: the one that compiles need not be the one that configures."""
    return any(name in (applied.name, *applied.aliases) for applied in run.fusion.applied.values())
