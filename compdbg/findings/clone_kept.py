"""`clone-kept`: a mutated tensor is copied on each call because torch could not write in place."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, counted, listed
from compdbg.model.cached_copies import REASON
from compdbg.model.mutation import KeptCopies
from compdbg.model.run import Run

_SHARED = "shares its memory"
_MOVED = "was moved behind"
_VIEW = "view of an input"


def clone_kept(run: Run) -> Iterator[Finding]:
    for kept in run.kept_copies:
        if kept.costly:
            yield _finding(kept)


def _finding(kept: KeptCopies) -> Finding:
    arguments = listed([name if " " in name else f"`{name}`" for name in kept.arguments])
    copied = "copied, and copied back," if kept.input else "copied"
    return Finding(
        code="clone-kept",
        severity="warning",
        title=f"{kept.bytes:,} bytes are copied on each call: {kept.op} writes to {arguments}",
        cause=(
            f"{kept.op} at {at(kept.where)} mutates {arguments} of graph {listed(kept.graphs)}. torch does "
            f"not write in place there, because {kept.reason}: what {arguments} stands in is {copied} "
            f"({counted(kept.copies, 'copy', 'copies')}, {kept.bytes:,} bytes) each time."
        ),
        suggestion=_advice(kept),
        where=kept.where,
        evidence=kept.events,
        explains=kept.events,
        cost=Cost(results="same", bytes=kept.bytes),
        data={
            "bytes": kept.bytes,
            "copies": kept.copies,
            "op": kept.op,
            "arguments": kept.arguments,
            "reason": kept.reason,
            "graphs": kept.graphs,
        },
        subject=f"{kept.op} {' '.join(kept.arguments)}",
    )


def _advice(kept: KeptCopies) -> str:
    if _SHARED in kept.reason or kept.reason == REASON:
        return (
            "Pass the tensor that both are views of as one argument, and take the views inside the "
            "compiled function; or give each its own allocation."
        )
    if _VIEW in kept.reason:
        return (
            "Pass the part that is written as an argument of its own, write through the whole tensor with "
            "one index, or wrap the write in a custom op with mutates_args."
        )
    if _MOVED in kept.reason:
        return (
            "Inductor moved the reader: torch._inductor.config.reorder_for_locality = False keeps it in "
            "front of the write; or compute what it reads in a function of its own."
        )
    return "Let the op write to a tensor that nothing else in the graph reads afterwards."
