"""The code of a run: each graph in its stages, and what each pass made of it."""

from __future__ import annotations

from msgspec import Struct

from compdbg.events import FrameCode
from compdbg.views.base import Source

BYTECODE = "bytecode"
STAGES = {
    BYTECODE: "what Dynamo runs in the frame's place",
    "dynamo": "as Dynamo traced it",
    "aot-joint": "forward and backward in one",
    "aot-forward": "the forward graph",
    "aot-backward": "the backward graph",
    "aot-inference": "as AOTAutograd made it",
    "post-grad": "after all passes",
    "piece": "a piece of the split graph",
    "code": "the code that Inductor wrote",
}


class Text(Struct, frozen=True, kw_only=True):
    """One text: of a graph at one stage. `text` names it among the run's texts."""

    graph: str
    stage: str
    title: str
    text: str
    ops: int
    event: str
    language: str


class Change(Struct, frozen=True, kw_only=True, rename={"pass_": "pass"}):
    """One pass that changed a graph, with the names of the texts before and after it."""

    graph: str
    pass_: str
    index: int
    op_delta: dict[str, int]
    duration_us: float
    custom: bool
    before: str | None
    after: str | None
    event: str


class Code(Struct, frozen=True, kw_only=True):
    """All texts, and all changes, in the order in which they were made."""

    texts: list[Text]
    changes: list[Change]


def code(source: Source) -> Code:
    run = source.run
    texts = [
        Text(
            graph=g.graph,
            stage=g.stage,
            title=STAGES.get(g.stage, g.stage),
            text=g.text,
            ops=sum(g.ops.values()),
            event=g.event,
            language="python",
        )
        for g in run.graphs
        if g.text
    ]
    texts += [
        Text(
            graph=frame.compile_id,
            stage=BYTECODE,
            title=STAGES[BYTECODE],
            text=frame.text,
            ops=0,
            event=header.id,
            language="python",
        )
        for header, frame in run.log.of(FrameCode)
        if frame.text
    ]
    changes = [
        Change(
            graph=p.graph,
            pass_=p.name,
            index=p.index,
            op_delta=p.op_delta,
            duration_us=p.duration_us,
            custom=p.custom,
            before=p.before,
            after=p.after,
            event=p.event,
        )
        for p in run.changes
    ]
    return Code(texts=texts, changes=changes)
