"""One finding explained: the sentences of every face, in the order in which they are read."""

from __future__ import annotations

from msgspec import Struct

from compdbg.events import Where
from compdbg.findings.base import Finding
from compdbg.views.base import Source
from compdbg.views.places import duration, place, size
from compdbg.views.source_lines import source_line

_RESULTS = {"wrong": "wrong results", "failed": "the compile failed", "same": "results are right"}
MAX_EVIDENCE = 4
_UNTOLD = {"pass_id", "request", "factors", "text", "guard_kind"}
"""Fields that lead from event to event and tell a person nothing."""


class Explanation(Struct, frozen=True, kw_only=True):
    """What is said of one finding. `line` is the user's source line; `evidence` one line an event."""

    finding: Finding
    where: str
    line: str | None
    cost: str
    evidence: list[str]
    page: str


def explain(source: Source, finding: Finding) -> Explanation:
    records = source.run.log.by_id
    shown = [summary_of(records[id].event, id) for id in finding.evidence[:MAX_EVIDENCE] if id in records]
    more = len(finding.evidence) - MAX_EVIDENCE
    if more > 0:
        shown.append(f"and {more} more: compdbg explain --json")
    return Explanation(
        finding=finding,
        where=place(finding.where),
        line=source_line(finding.where, source.run.log.sources),
        cost=_cost(finding),
        evidence=shown,
        page=f"compdbg explain --code {finding.code}",
    )


def summary_of(event: object, id: str) -> str:
    """An event on one line: its kind and the fields that say most."""
    kind = getattr(event, "kind", "?")
    if not isinstance(event, Struct):
        return f"{id} {kind}"
    parts = [f"{name}={_short(name, value)}" for name, value in _telling(event)]
    return f"{id} {kind} " + " ".join(parts)


def _telling(event: Struct) -> list[tuple[str, object]]:
    fields = ((name, getattr(event, name)) for name in event.__struct_fields__ if name not in _UNTOLD)
    return [(n, v) for n, v in fields if v not in (None, "", [], {}, False) and not _bulky(v)][:7]


def _bulky(value: object) -> bool:
    return isinstance(value, (list, dict)) and len(value) > 4


def _short(name: str, value: object) -> str:
    if isinstance(value, Where):
        return place(value)
    text = str(value).replace("\n", " ")
    if name == "frame":
        text = text.rpartition(":")[2]
    return text if len(text) <= 60 else text[:59] + "…"


def _cost(finding: Finding) -> str:
    cost = finding.cost
    parts = [_RESULTS[cost.results]] if cost.results else []
    if cost.seconds is not None:
        parts.append(duration(cost.seconds))
    if cost.bytes is not None:
        parts.append(f"{size(cost.bytes)} a call")
    return ", ".join(parts)
