"""`diverges`: a compiled graph gives other results than the same graph in eager."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, counted
from compdbg.model.numerics import Comparison
from compdbg.model.run import Run


def diverges(run: Run) -> Iterator[Finding]:
    """One finding a function: its recompiles and its ranks diverge together."""
    groups: dict[str, list[Comparison]] = defaultdict(list)
    for comparison in run.comparisons:
        if comparison.check == "differs":
            groups[comparison.frame].append(comparison)
    for found in groups.values():
        yield _finding(found)


def _finding(found: list[Comparison]) -> Finding:
    first = found[0]
    name = first.frame.rpartition(":")[2] or "a graph"
    if first.max_abs is None:
        apart = "NaN or infinity on one side, numbers on the other"
    else:
        apart = f"up to {first.max_abs:.3g}, {first.max_rel or 0.0:.3g} of the largest value"
    graphs = list(dict.fromkeys(c.graph for c in found))
    more = f" {counted(len(graphs), 'graph')} of this function differ." if len(graphs) > 1 else ""
    return Finding(
        code="diverges",
        severity="error",
        title=f"{name} gives other results compiled than in eager: {apart}",
        cause=(
            f"Graph {first.graph} of {at(first.where)}, compiled by {first.backend or 'its backend'}, "
            f"differs at call {first.call} in result {first.output} ({first.dtype}): {apart}. Eager was run "
            f"twice on the same inputs ({first.inputs}) and agreed with itself.{more}"
        ),
        suggestion=(
            "Run it with `--check-replacements --check-ops`, which try the commonest causes: a fusion and an "
            'operator. If they find none, compile with backend="aot_eager": results that then agree with '
            "eager leave Inductor's passes and kernels."
        ),
        where=first.where,
        evidence=[c.event for c in found],
        cost=Cost(results="wrong"),
        data={
            "graph": first.graph,
            "graphs": graphs,
            "call": first.call,
            "output": first.output,
            "max_abs": first.max_abs,
            "max_rel": first.max_rel,
            "inputs": first.inputs,
        },
        subject=name,
    )
