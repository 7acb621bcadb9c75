"""`stalled`: a phase that has been open for a minute, or in which a process died."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, counted, listed
from compdbg.model.run import Run
from compdbg.model.stalls import Stall


def stalled(run: Run) -> Iterator[Finding]:
    """One finding for each phase: ranks that hang in the same one hang together."""
    groups: dict[tuple[str, str, bool], list[Stall]] = defaultdict(list)
    for stall in run.stalls:
        groups[stall.phases[-1], stall.frame, stall.died].append(stall)
    for found in groups.values():
        yield _finding(found)


def _finding(found: list[Stall]) -> Finding:
    first = max(found, key=lambda stall: stall.open_s)
    ranks = sorted({s.rank for s in found if s.rank is not None})
    who = (
        f"{'rank' if len(ranks) == 1 else 'ranks'} {listed([str(r) for r in ranks])}"
        if ranks
        else "the program"
    )
    phase = first.phases[-1]
    of_frame = f" of {first.frame}" if first.frame else ""
    waiting = sorted({rank for s in found for rank in s.waiting} - set(ranks))
    wait = f"; {_ranks(waiting)} waited" if waiting else ""
    happened = "died in" if first.died else f"has been for {first.open_s:.0f} s in"
    if len(ranks) > 1 and not first.died:
        happened = happened.replace("has", "have")
    return Finding(
        code="stalled",
        severity="error",
        title=f"{who} {happened} {phase}{of_frame}{wait}",
        cause=(
            f"The phase {phase} began {first.open_s:.1f} s before the last that is known of "
            f"{'it' if len(found) == 1 else 'them'} and has no end; around it: "
            f"{' > '.join(first.phases[:-1]) or 'nothing'}. The frame is {first.frame or 'not known'}, at "
            f"{at(first.where)}."
            + (f" {_ranks(waiting).capitalize()} recorded nothing since." if waiting else "")
        ),
        suggestion=_advice(first, bool(waiting)),
        where=first.where,
        evidence=[event for s in found for event in s.events],
        cost=Cost(results="failed", seconds=round(first.open_s, 3)),
        data={
            "phase": phase,
            "phases": first.phases,
            "frame": first.frame,
            "open_s": round(first.open_s, 3),
            "died": first.died,
            "ranks": ranks,
            "waiting": waiting,
            "processes": [s.process for s in found],
        },
        subject=f"{phase} {first.frame}",
    )


def _ranks(ranks: list[int]) -> str:
    return f"{counted(len(ranks), 'rank')} ({listed([str(r) for r in ranks])})"


def _advice(stall: Stall, others: bool) -> str:
    if stall.died:
        return (
            "See who ended the process (its exit status, the kernel's log for memory), and "
            "`compdbg show time` for how long the phases before took."
        )
    wait = " A rank that compiles while others are in a collective holds them all up: compile on every rank "
    return (
        "`py-spy dump --pid` shows where it stands now; `compdbg show time` how long the phases before took."
        + (wait + "before the first collective, or raise the collective's timeout." if others else "")
    )
