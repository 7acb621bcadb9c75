"""`side-effect-removed`: a write that was in the graph before a pass is gone after it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from compdbg.events import EffectRemoved, Header, PassRun
from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, counted, listed
from compdbg.model.run import Run


def side_effect_removed(run: Run) -> Iterator[Finding]:
    """One finding a pass and op: every layer of a model loses the same write."""
    groups: dict[tuple[str, str], list[tuple[Header, EffectRemoved]]] = defaultdict(list)
    for header, event in run.log.of(EffectRemoved):
        groups[event.pass_name, event.op].append((header, event))
    for (pass_name, op), found in groups.items():
        yield _finding(run, pass_name, op, found)


def _finding(run: Run, pass_name: str, op: str, found: list[tuple[Header, EffectRemoved]]) -> Finding:
    passed = _pass(run, found[0][0])
    where = next((event.where for _, event in found if event.where is not None), None)
    graphs = sorted({event.graph for _, event in found})
    nodes = list(dict.fromkeys(event.node for _, event in found))
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
        evidence=[header.id for header, _ in found],
        explains=[header.id for header, _ in found],
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


def _pass(run: Run, header: Header) -> PassRun | None:
    """The pass in whose record the event stands."""
    record = run.log.by_id.get(f"{header.process}:{header.parent}")
    return record.event if record is not None and isinstance(record.event, PassRun) else None
