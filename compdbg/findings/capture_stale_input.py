"""`capture-stale-input`: a capture has frozen a value that has changed since."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, counted, listed, trend
from compdbg.model.run import Run


def capture_stale_input(run: Run) -> Iterator[Finding]:
    for stale in run.stale_values:
        yield Finding(
            code="capture-stale-input",
            severity="error",
            title=(
                f"{stale.name} is {stale.captured} in the captures of {stale.graph}, and was "
                f"{trend(stale.seen, 4)}"
            ),
            cause=(
                f"The capture of {'size' if len(stale.sizes) == 1 else 'sizes'} "
                f"{listed([str(size) for size in stale.sizes])} has read {stale.name} as a plain value, "
                "which a "
                f"replay can't give it anew; {counted(stale.calls, 'call')} (the first from "
                f"{at(stale.where)}) had "
                "another one. They ran without the capture, so their results are right; a capture that is "
                f"replayed unchecked would have computed with {stale.captured}."
            ),
            suggestion=_advice(stale.name),
            where=stale.where,
            evidence=stale.events,
            cost=Cost(results="same"),
            data={
                "graph": stale.graph,
                "name": stale.name,
                "captured": stale.captured,
                "seen": stale.seen,
                "sizes": stale.sizes,
                "calls": stale.calls,
            },
            subject=f"{stale.graph} {stale.name}",
        )


def _advice(name: str) -> str:
    if name.startswith("attn_metadata"):
        return (
            "Make it a tensor of the metadata, which is copied to where the capture reads it, or let "
            "`pad_to` "
            "set it to a constant that holds for every batch (the largest length)."
        )
    return "Pass it as a tensor, or read it in a splitting operator, which runs on each call."
