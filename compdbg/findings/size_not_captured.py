"""`size-not-captured`: calls that captures were meant for ran without one, and why."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding, Severity
from compdbg.findings.words import counted, listed
from compdbg.model.run import Run
from compdbg.model.uncaptured import ELSEWHERE, Uncaptured

_CALLS, _SHARE = 10, 0.01
_BY_DESIGN = ("empty", *ELSEWHERE)

_WHY = {
    "failed": "their capture failed",
    "layout": "an input has a layout that no padded buffer can have (overlapping or expanded memory)",
    "gradients": "they want gradients, which a capture does not compute",
    "disagree": "an input has another size, dtype or device than the batch says or the capture was made with",
    "overlap": "an input lies in the memory of another, which the graph writes to; copies would not",
    "form": "their attention metadata has other tensors, or tensors of other shapes, than the captured one",
    "no-capture": "no capture was made for them",
}
_ADVICE = {
    "failed": "See the capture that failed.",
    "layout": "Pass a contiguous tensor (`x.contiguous()`), made once for each call.",
    "gradients": "Call it under torch.inference_mode() or torch.no_grad().",
    "disagree": (
        "Give all inputs that share the batch dimension the same number of rows; pad a second size that "
        "varies "
        "to one that does not."
    ),
    "overlap": "Pass inputs with memory of their own (`x.clone()`), made once for each call.",
    "form": "Let the metadata's `pad_to` give tensors of one shape for each size, whatever the batch.",
    "no-capture": "Add these sizes to the capture sizes, or pad to the next captured one.",
}


def size_not_captured(run: Run) -> Iterator[Finding]:
    for found in run.uncaptured:
        if found.reason not in _BY_DESIGN and found.calls >= _CALLS and found.share >= _SHARE:
            yield _finding(found)


def _finding(found: Uncaptured) -> Finding:
    sizes = listed([str(size) for size in found.sizes])
    return Finding(
        code="size-not-captured",
        severity=_severity(found),
        title=(
            f"{found.calls} of {counted(found.of, 'call')} of {found.graph} ran without a capture: "
            f"{_short(found)}"
        ),
        cause=(
            f"{'Size' if len(found.sizes) == 1 else 'Sizes'} {sizes}: {_why(found)}. Such a call launches "
            "each "
            "kernel by itself, where a replay launches them all at once."
        ),
        suggestion=_advice(found),
        evidence=found.events,
        cost=Cost(results="same"),
        data={
            "graph": found.graph,
            "reason": found.reason,
            "calls": found.calls,
            "of": found.of,
            "sizes": found.sizes,
            "largest": found.largest,
        },
        subject=f"{found.graph} {found.reason}",
    )


def _severity(found: Uncaptured) -> Severity:
    """A size above the largest, and a kind of batch that the mode leaves out, are decisions."""
    if found.reason == "too-large":
        return "info"
    if found.reason == "mode":
        return "warning" if found.never else "info"
    return "warning"


def _short(found: Uncaptured) -> str:
    return {
        "too-large": f"they are larger than {found.largest}, the largest captured size",
        "unpaddable": "rows can't be added to them",
        "mode": "batches of their kind are not captured",
    }.get(found.reason) or _WHY.get(found.reason, found.reason)


def _why(found: Uncaptured) -> str:
    if found.reason == "too-large":
        return f"captures end at {found.largest}; larger batches run compiled, as they are"
    if found.reason == "unpaddable":
        return (
            f"only exact sizes are captured, because {found.why or 'a size is no multiple of the batch size'}"
        )
    if found.reason == "mode":
        return (
            "the cudagraph_mode captures uniform decode batches only, and these calls did not say that "
            "they are "
            "one (set_forward_context(..., uniform_decode=True))"
        )
    return _WHY.get(found.reason, found.reason)


def _advice(found: Uncaptured) -> str:
    if found.reason == "too-large":
        return f"Nothing, if large batches are rare; else add {max(found.sizes)} to cudagraph_capture_sizes."
    if found.reason == "unpaddable":
        return f"Add {listed([str(size) for size in found.sizes])} to cudagraph_capture_sizes."
    if found.reason == "mode":
        return (
            "Say uniform_decode=True where it is so, or take cudagraph_mode PIECEWISE or "
            "FULL_AND_PIECEWISE, which "
            "capture other batches too."
        )
    return _ADVICE.get(found.reason, "See `compdbg show sizes`.")
