"""`clone-removed`: after a pass, a value is read after the memory it stands in was overwritten."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from compdbg.events import CloneRemoved
from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, listed
from compdbg.model.run import Run


def clone_removed(run: Run) -> Iterator[Finding]:
    groups: dict[tuple[str, str], list[tuple[str, CloneRemoved]]] = defaultdict(list)
    for id, event in run.dropped_copies:
        groups[event.pass_name, event.op].append((id, event))
    for (pass_name, op), found in groups.items():
        yield _finding(pass_name, op, found)


def _finding(pass_name: str, op: str, found: list[tuple[str, CloneRemoved]]) -> Finding:
    event = found[0][1]
    where = next((e.where for _, e in found if e.where is not None), None)
    read_at = next((e.read_at for _, e in found if e.read_at is not None), None)
    readers = list(dict.fromkeys(reader for _, e in found for reader in e.readers))
    return Finding(
        code="clone-removed",
        severity="error",
        title=f"the pass {pass_name} lets {op} overwrite {event.base} before {listed(readers)} "
        f"({at(read_at)}) read it",
        cause=(
            f"In graph {event.graph}, {listed(readers)} at {at(read_at)} need what {event.base} held before "
            f"{op} ({at(where)}) writes to it. Before the pass the write went to a copy, or came later; "
            "after it the write is in place and comes first, so the new value is read."
        ),
        suggestion=(
            f"Let the pass write to a clone of {event.base} where a reader of the old value follows, or "
            "leave the decision to Inductor: keep auto_functionalized, which its reinplacing pass turns "
            "into the op in place only where nobody reads the old value."
        ),
        where=where,
        evidence=[id for id, _ in found],
        explains=[id for id, _ in found],
        cost=Cost(results="wrong"),
        data={
            "pass": pass_name,
            "op": op,
            "base": event.base,
            "readers": readers,
            "graphs": sorted({e.graph for _, e in found}),
        },
        subject=f"{pass_name} {op}",
    )
