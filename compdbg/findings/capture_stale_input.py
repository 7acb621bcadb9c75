"""`capture-stale-input`: a capture has frozen a value that has changed since."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, counted, listed, trend
from compdbg.model.captures import StaleValue
from compdbg.model.run import Run


def capture_stale_input(run: Run) -> Iterator[Finding]:
    for stale in run.stale_values:
        sizes = f"{'size' if len(stale.sizes) == 1 else 'sizes'} {listed([str(n) for n in stale.sizes])}"
        yield Finding(
            code="capture-stale-input",
            severity="error",
            title=(
                f"{stale.name} is {stale.captured} in the captures of {stale.graph}, and was "
                f"{trend(stale.seen, 4)}"
            ),
            cause=_read_by_itself(stale, sizes) if stale.replayed else _refused(stale, sizes),
            suggestion=_advice(stale),
            where=stale.where,
            evidence=stale.events,
            explains=[
                *stale.events,
                *(c.event for c in run.comparisons if c.graph == stale.graph and c.apart_equal and c.mode),
            ],
            cost=Cost(results="wrong" if stale.replayed else "same"),
            data={
                "graph": stale.graph,
                "name": stale.name,
                "captured": stale.captured,
                "seen": stale.seen,
                "sizes": stale.sizes,
                "calls": stale.calls,
                "replayed": stale.replayed,
            },
            subject=f"{stale.graph} {stale.name}",
        )


def _refused(stale: StaleValue, sizes: str) -> str:
    return (
        f"The capture of {sizes} has read {stale.name} as a plain value, which a replay can't give it anew; "
        f"{counted(stale.calls, 'call')} (the first from {at(stale.where)}) had another one. They ran "
        "without "
        "the capture, so their results are right; a capture that is replayed unchecked would have computed "
        f"with {stale.captured}."
    )


def _read_by_itself(stale: StaleValue, sizes: str) -> str:
    return (
        f"At {at(stale.where)} Python gives an operator {stale.name}, inside what was captured for "
        f"{sizes}. A "
        f"CUDA graph has frozen it as {stale.captured}; on {counted(stale.calls, 'replay')} that "
        f"{'was' if stale.calls == 1 else 'were'} compared it was another value. The recorded call on this "
        "CPU "
        "reads the new one; a replay on a GPU computes with the old one."
    )


def _advice(stale: StaleValue) -> str:
    if stale.name.startswith("attn_metadata"):
        return (
            "Make it a tensor of the metadata, which is copied to where the capture reads it, or let "
            "`pad_to` "
            "set it to a constant that holds for every batch (the largest length)."
        )
    return "Pass it as a tensor, or name the operator in splitting_ops: it then runs on each call."
