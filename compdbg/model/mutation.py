"""Writes that a pass lost, and copies that functionalization kept, put together by cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from compdbg.events import CloneKept, Header, Where
from compdbg.store.reader import Log

INPUT_BYTES = 1024
"""Copies of an input below this cost less than the kernel that makes them."""
OTHER_BYTES = 4096
"""Copies of an intermediate value: it was just computed, and is still in a cache."""


class KeptCopies(Struct, frozen=True, kw_only=True):
    """The copies that one op in one function makes on each call, for one reason."""

    op: str
    arguments: list[str]
    reason: str
    bytes: int
    """A call, in the process and graph that copy most."""
    copies: int
    input: bool
    graphs: list[str]
    where: Where | None
    events: list[str]

    @property
    def costly(self) -> bool:
        return self.bytes >= (INPUT_BYTES if self.input else OTHER_BYTES)


def build_kept_copies(log: Log) -> list[KeptCopies]:
    groups: dict[tuple[str, str, str], list[tuple[Header, CloneKept]]] = defaultdict(list)
    for header, event in log.of(CloneKept):
        place = f"{event.where.file}:{event.where.function}" if event.where else ""
        groups[event.op, place, _kind(event.reason)].append((header, event))
    return [_together(found) for found in groups.values()]


def _kind(reason: str) -> str:
    """The reason without the lines and names in it."""
    return reason.partition("(line")[0].partition("`")[0]


def _together(found: Sequence[tuple[Header, CloneKept]]) -> KeptCopies:
    by_graph: dict[tuple[str, str], list[CloneKept]] = defaultdict(list)
    for header, event in found:
        by_graph[header.process, event.graph].append(event)
    worst = max(by_graph.values(), key=lambda events: sum(e.bytes for e in events))
    first = found[0][1]
    return KeptCopies(
        op=first.op,
        arguments=sorted({event.argument for _, event in found}),
        reason=first.reason,
        bytes=sum(event.bytes for event in worst),
        copies=len(worst),
        input=any(event.input for _, event in found),
        graphs=sorted({event.graph for _, event in found}),
        where=next((event.where for _, event in found if event.where is not None), None),
        events=[header.id for header, _ in found],
    )
