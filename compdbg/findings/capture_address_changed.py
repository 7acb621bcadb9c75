"""`capture-address-changed`: a replay was given a tensor elsewhere than the capture reads it."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, counted, listed
from compdbg.model.captures import MovedInputs
from compdbg.model.run import Run


def capture_address_changed(run: Run) -> Iterator[Finding]:
    for moved in run.moved_inputs:
        names = [argument.name for argument in moved.arguments]
        first = moved.arguments[0]
        yield Finding(
            code="capture-address-changed",
            severity="error",
            title=(
                f"{listed(names, 3)} of {moved.graph} {'is' if len(names) == 1 else 'are'} no longer where "
                "the "
                f"captures read {'it' if len(names) == 1 else 'them'}: {counted(moved.calls, 'call')} not "
                "replayed"
            ),
            cause=(
                f"{first.name} was at {first.captured} when size {moved.size} was captured, and is at "
                f"{first.seen} "
                f"now (called from {at(moved.where)}). {_why(moved)} The call ran without its capture, so "
                "its "
                "result is right; a capture that is replayed unchecked would have read the old memory."
            ),
            suggestion=_advice(moved),
            where=moved.where,
            evidence=moved.events,
            cost=Cost(results="same"),
            data={
                "graph": moved.graph,
                "arguments": names,
                "static": moved.static,
                "captured": first.captured,
                "seen": first.seen,
                "size": moved.size,
                "calls": moved.calls,
            },
            subject=f"{moved.graph} {'static' if moved.static else ' '.join(sorted(names))}",
        )


def _why(moved: MovedInputs) -> str:
    if moved.static:
        return "It is a parameter or buffer of the model, which was replaced after the capture."
    return "It is passed in by the call and was taken for memory that stays, as a cache does."


def _advice(moved: MovedInputs) -> str:
    if moved.static:
        return (
            "Write new values into the old tensors (`p.copy_(new)`, load_state_dict without assign=True), "
            "or load "
            "and move the model before it is captured."
        )
    return "Allocate it once and write into it; or clear the captures after it was allocated anew."
