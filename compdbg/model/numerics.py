"""Calls of compiled graphs that were compared with eager, in the order of time."""

from __future__ import annotations

from msgspec import Struct

from compdbg.events import Compared, Where
from compdbg.store.reader import Log


class Comparison(Struct, frozen=True, kw_only=True):
    """One call of one graph. `check`: `equal`, `differs`, or `not-checked` for the `reason`."""

    graph: str
    frame: str
    call: int
    inputs: str
    check: str
    output: int | None
    dtype: str | None
    max_abs: float | None
    max_rel: float | None
    reason: str
    backend: str
    where: Where | None
    custom_ops: list[str]
    process: str
    rank: int | None
    event: str


def build_comparisons(log: Log) -> list[Comparison]:
    return [
        Comparison(
            graph=event.graph,
            frame=event.frame,
            call=event.call,
            inputs=event.inputs,
            check=event.check,
            output=event.output,
            dtype=event.dtype or None,
            max_abs=event.max_abs,
            max_rel=event.max_rel,
            reason=event.reason,
            backend=event.backend,
            where=event.where,
            custom_ops=event.custom_ops,
            process=header.process,
            rank=header.rank,
            event=header.id,
        )
        for header, event in log.of(Compared)
    ]
