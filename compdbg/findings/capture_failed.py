"""`capture-failed`: a size has no capture, because something in it can't be captured."""

from __future__ import annotations

import re
from collections.abc import Iterator

from compdbg.events import Capture
from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, listed, sentence
from compdbg.model.captures import FailedCapture
from compdbg.model.run import Run

_KINDS = ("op", "compile-inside", "sync", "alloc", "other-thread", "collective")
_TEXTS = (
    (r"compil", "compile-inside"),
    (r"nccl|collective|process ?group", "collective"),
    (r"out of memory|alloc", "alloc"),
    (r"other thread|another thread|wrong thread", "other-thread"),
    (r"legacy stream|synchroni[sz]|\.item\(|StreamCaptureImplicit|StreamCaptureUnsupported", "sync"),
)
"""What CUDA says, where the capture itself gives no kind."""
_ADVICE = {
    "sync": (
        "Keep the value on the device (a tensor, torch.where in place of a branch, a fixed size in place "
        "of one "
        "that depends on data), or name the operator in splitting_ops, so that it runs between captures."
    ),
    "compile-inside": (
        "Compile it before: call the function once with such inputs ahead of the capture, or take the inner "
        "torch.compile away; the outer one compiles it too."
    ),
    "alloc": "Allocate before the capture, or give captures less: fewer or smaller sizes.",
    "other-thread": "Stop that thread's work on the device while captures are made.",
    "collective": "Use a communicator that can be captured, or name the collective in splitting_ops.",
    "op": "Name the operator in splitting_ops, so that it runs between captures.",
}


def capture_failed(run: Run) -> Iterator[Finding]:
    for failed in run.failed_captures:
        yield _finding(run, failed)


def _finding(run: Run, failed: FailedCapture) -> Finding:
    first = failed.first
    kind = _kind(first)
    stack = [f"{at(frame)} in {frame.function}" for frame in first.stack]
    piece = f"piece {first.piece}" if first.piece else "the whole graph"
    return Finding(
        code="capture-failed",
        severity="error",
        title=f"{failed.graph} can't be captured{_at_sizes(failed)}: {first.error}"[:300],
        cause=(
            f"While {piece} was captured{_at_size(first)}, {sentence(first.error or '')} "
            f"First illegal call: {first.op or 'unknown'} at {at(first.where)}, on thread "
            f"{first.thread or 'unknown'}{_way(stack)}.{_consequence(failed)}"
        ),
        suggestion=_ADVICE[kind],
        where=first.where,
        evidence=failed.events,
        explains=[
            event
            for size in run.sizes
            if size.graph == failed.graph and size.uncaptured.get("failed")
            for event in size.events
        ],
        cost=Cost(results="failed" if not first.emulated and not _served(run, failed) else "same"),
        data={
            "kind": kind,
            "op": first.op,
            "size": first.size or None,
            "sizes": [size for size in failed.sizes if size],
            "piece": first.piece or None,
            "pieces": [piece for piece in failed.pieces if piece],
            "thread": first.thread or None,
            "stack": stack,
            "mode": first.mode or None,
        },
        subject=f"{failed.graph} {kind} {first.op}",
    )


def _served(run: Run, failed: FailedCapture) -> bool:
    return any(s.graph == failed.graph and (s.eager_calls or s.replays) for s in run.sizes)


def _kind(first: Capture) -> str:
    """As the capture itself said, else by the text of CUDA's error."""
    if first.fault in _KINDS:
        return str(first.fault)
    text = first.error or ""
    return next((kind for pattern, kind in _TEXTS if re.search(pattern, text, re.IGNORECASE)), "op")


def _at_size(first: Capture) -> str:
    return f" at size {first.size}" if first.size else ""


def _at_sizes(failed: FailedCapture) -> str:
    sizes = [str(size) for size in failed.sizes if size]
    return f" at {'size' if len(sizes) == 1 else 'sizes'} {listed(sizes)}" if sizes else ""


def _consequence(failed: FailedCapture) -> str:
    sizes = _at_sizes(failed)
    return f" Calls{sizes} run without a capture." if sizes else ""


def _way(stack: list[str]) -> str:
    return f" (called from {', '.join(stack[-4:-1])})" if len(stack) > 1 else ""
