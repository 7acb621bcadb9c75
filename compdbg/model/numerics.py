"""Calls of compiled graphs that were compared with eager, in the order of time."""

from __future__ import annotations

from msgspec import Struct

from compdbg.events import Compared, Decorated, Where
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
    form: str
    reason: str
    backend: str
    where: Where | None
    custom_ops: list[str]
    size: int | None
    padded_to: int | None
    mode: str
    piece: str
    apart_equal: bool
    process: str
    rank: int | None
    event: str

    @property
    def padded(self) -> bool:
        """Whether the call ran with more rows than it had."""
        return self.padded_to not in (None, self.size)


def _graph_of(decorated: Decorated) -> str:
    """What the graphs of a decorated method are called, but for a number."""
    method = decorated.target.rpartition(".")[2]
    return decorated.owner if method == "forward" else f"{decorated.owner}.{method}"


def build_comparisons(log: Log) -> list[Comparison]:
    lines = {(header.process, _graph_of(event)): event.where for header, event in log.of(Decorated)}
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
            form=event.form,
            reason=event.reason,
            backend=event.backend,
            where=event.where or lines.get((header.process, event.graph.partition("#")[0])),
            custom_ops=event.custom_ops,
            size=event.size,
            padded_to=event.padded_to,
            mode=event.mode,
            piece=event.piece,
            apart_equal=event.apart_equal,
            process=header.process,
            rank=header.rank,
            event=header.id,
        )
        for header, event in log.of(Compared)
    ]
