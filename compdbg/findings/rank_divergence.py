"""`rank-divergence`: ranks compiled different graphs, or took different decisions."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, listed
from compdbg.model.ranks import Divergence
from compdbg.model.run import Run

_WHAT = {
    "graph": "the graph of {subject} is not the same on all ranks",
    "fusion": "{subject} fuses differently on different ranks",
    "pieces": "{subject} is not the same on all ranks",
    "captures": "{subject} are not the same on all ranks",
}


def rank_divergence(run: Run) -> Iterator[Finding]:
    for found in run.divergences:
        yield _finding(found)


def _finding(found: Divergence) -> Finding:
    ranks = listed([f"rank {rank}: {what}" for rank, what in found.by_rank.items()], 8)
    return Finding(
        code="rank-divergence",
        severity="error",
        title=f"{_WHAT[found.kind].format(subject=found.subject)} ({ranks})",
        cause=(
            f"{found.detail[:1].upper()}{found.detail[1:]}. Ranks that run other code come to their "
            "collectives in another order or not at all: they hang, or add up what does not belong together."
        ),
        suggestion=(
            f"Look for what depends on the rank in what is compiled from {at(found.where)}: a branch on the "
            "rank, on data that ranks do not share, or on an environment variable. "
            "`compdbg diff RUN@0 RUN@1` shows both sides."
        ),
        where=found.where,
        evidence=found.events,
        cost=Cost(results="failed"),
        data={
            "kind": found.kind,
            "subject": found.subject,
            "by_rank": {str(rank): what for rank, what in found.by_rank.items()},
            "detail": found.detail,
        },
        subject=f"{found.kind} {found.subject}",
    )
