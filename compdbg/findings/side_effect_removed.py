"""`side-effect-removed`: a write that was in the graph before a pass is gone after it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, counted, listed
from compdbg.model.mutation import LostWrite
from compdbg.model.run import Run


def side_effect_removed(run: Run) -> Iterator[Finding]:
    """One finding a pass and op: every layer of a model loses the same write."""
    groups: dict[tuple[str, str], list[LostWrite]] = defaultdict(list)
    for lost in run.lost_writes:
        groups[lost.event.pass_name, lost.event.op].append(lost)
    for (pass_name, op), found in groups.items():
        yield _finding(pass_name, op, found)


def _finding(pass_name: str, op: str, found: list[LostWrite]) -> Finding:
    passed = found[0].passed
    where = next((lost.event.where for lost in found if lost.event.where is not None), None)
    graphs = sorted({lost.event.graph for lost in found})
    nodes = list(dict.fromkeys(lost.event.node for lost in found))
    named = f"{pass_name} ({passed.slot})" if passed is not None and passed.slot else pass_name
    defined = f" The pass is defined at {at(passed.where)}." if passed is not None and passed.where else ""
    return Finding(
        code="side-effect-removed",
        severity="error",
        title=f"the pass {named} removed {op}, which writes to memory that the program sees",
        cause=(
            f"Before the pass, graph {listed(graphs)} holds {counted(len(nodes), 'call')} of {op} from "
            f"{at(where)} ({listed(nodes)}); after it the call is gone, and nothing else writes what it "
            f"wrote. The compiled code leaves the memory as it was.{defined}"
        ),
        suggestion=(
            "In a functional graph the write is an auto_functionalized node: keep it, or replace it by one "
            "that mutates the same tensors, and let what read its outputs read the replacement's. If the "
            "pass only calls eliminate_dead_code, something cut the write's outputs off before: declare "
            "the mutation in mutates_args so that it can't."
        ),
        where=where,
        evidence=[lost.id for lost in found],
        explains=[lost.id for lost in found],
        cost=Cost(results="wrong"),
        data={
            "pass": pass_name,
            "slot": passed.slot if passed is not None else None,
            "op": op,
            "graphs": graphs,
            "nodes": nodes,
        },
        subject=f"{pass_name} {op}",
    )
