"""The graphs of a run, each in the stages in which it was seen."""

from __future__ import annotations

from msgspec import Struct

from compdbg.events import GeneratedCode, Graph
from compdbg.store.reader import Log


class GraphStage(Struct, frozen=True, kw_only=True):
    """One graph at one stage: `dynamo`, `aot-joint`, `aot-forward`, ..., `post-grad`, `code`."""

    graph: str
    stage: str
    text: str
    compile_id: str | None
    ops: dict[str, int]
    inputs: int
    outputs: int
    cached: bool
    process: str
    rank: int | None
    event: str


def build_graphs(log: Log) -> list[GraphStage]:
    """Graphs in the order in which they were seen, and the code that was written for them."""
    stages = [
        GraphStage(
            graph=event.graph,
            stage=event.stage,
            text=event.text,
            compile_id=event.compile_id,
            ops=event.ops,
            inputs=event.inputs,
            outputs=event.outputs,
            cached=event.cached,
            process=header.process,
            rank=header.rank,
            event=header.id,
        )
        for header, event in log.of(Graph)
    ]
    code = [
        GraphStage(
            graph=event.graph,
            stage="code",
            text=event.text,
            compile_id=event.compile_id,
            ops={},
            inputs=0,
            outputs=0,
            cached=False,
            process=header.process,
            rank=header.rank,
            event=header.id,
        )
        for header, event in log.of(GeneratedCode)
    ]
    return stages + code
