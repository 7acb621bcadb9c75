"""`split-op-unmatched`: a name in `splitting_ops` that no graph has, so that nothing is split there."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding, Severity
from compdbg.findings.words import counted, listed
from compdbg.model.run import Run
from compdbg.model.splits import UnmatchedOp


def split_op_unmatched(run: Run) -> Iterator[Finding]:
    for op in run.unmatched_split_ops:
        nearest = f"; the graph has {op.nearest!r}" if op.nearest else ""
        yield Finding(
            code="split-op-unmatched",
            severity=_severity(op),
            title=f"splitting_ops: {op.name!r} matches no operator{nearest}",
            cause=_cause(op),
            suggestion=_advice(op),
            evidence=op.events,
            cost=Cost(results="same"),
            data={
                "name": op.name,
                "nearest": op.nearest,
                "exists": op.exists,
                "matched": op.matched,
                "graphs": op.graphs,
            },
            subject=op.name,
        )


def _severity(op: UnmatchedOp) -> Severity:
    """A list made for several models names operators that this one does not use: worth knowing only."""
    return "info" if op.exists and op.matched and op.nearest is None else "warning"


def _cause(op: UnmatchedOp) -> str:
    what = _what(op)
    if op.matched:
        return what + f"The graph is split at {listed(op.matched)} only."
    return (
        what + "None of the names matches: the graph is one piece, and what was to stay out of it is in it."
    )


def _what(op: UnmatchedOp) -> str:
    graphs = f"{counted(len(op.graphs), 'graph')} ({listed(op.graphs)})"
    if op.exists:
        return f"The operator is registered, but no call of it was traced in {graphs}. "
    if op.nearest:
        return f"No operator is called {op.name!r}; {op.nearest!r} is called in {graphs}. "
    return (
        f"No operator of that name is registered with torch, nor one with a name like it called in {graphs}. "
    )


def _advice(op: UnmatchedOp) -> str:
    if op.nearest in op.matched:
        return f"Drop the name: {op.nearest!r} is in the list."
    if op.nearest:
        return f"Write {op.nearest!r}. Names are `namespace::operator`, as torch registers them."
    if op.exists:
        return (
            "Drop the name, or check that the model calls the operator itself and not a function around it."
        )
    return "Write the name as `namespace::operator`, as it stands in torch.library; import what registers it."
