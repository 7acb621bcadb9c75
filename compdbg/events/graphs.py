"""Graphs from Dynamo to kernels: the passes over them, and what the passes lost or copied."""

from __future__ import annotations

from compdbg.events.base import Event, Where

LEFT_TO_OTHERS = "left to"
"""How the reason begins where a pass did not run because another does its work."""
ONE_RANK = "one rank:"
"""How it begins where a pass is for several ranks."""
NO_LOSS = (LEFT_TO_OTHERS, ONE_RANK)


class Graph(Event, frozen=True):
    """A graph as text. `stage`: `dynamo`, `aot-joint`, `aot-forward`, `aot-backward`,
    `aot-inference`, `post-grad`, `piece`. `graph` is its name in this run (`0/0`, `0/0 backward`).
    """

    graph: str
    stage: str
    text: str
    """Content hash of the readable code in the payload store."""
    compile_id: str | None = None
    ops: dict[str, int] = {}
    inputs: int = 0
    outputs: int = 0
    cached: bool = False
    """It came with an artifact from a cache: made in an earlier process, not seen here."""


class PassRun(Event, frozen=True):
    """One pass over one graph. `before` and `after` are payload hashes, where the graph changed.

    `index` counts a graph's passes in the order in which they began; `within` is the index of
    the pass that called this one. A pass that the user hung into a slot of Inductor's has its
    own name, and the slot's in `slot`.
    """

    pass_name: str
    graph: str
    index: int
    subsystem: str = ""
    changed: bool = False
    op_delta: dict[str, int] = {}
    duration_us: float = 0.0
    before: str | None = None
    after: str | None = None
    custom: bool = False
    disabled_by: str | None = None
    """Why it did not run; begins with one of `NO_LOSS` where it is none."""
    compile_id: str | None = None
    error: str | None = None
    within: int | None = None
    slot: str | None = None
    where: Where | None = None
    """Where a custom pass is defined."""


class GeneratedCode(Event, frozen=True):
    """Code that Inductor wrote for a graph."""

    graph: str
    path: str
    text: str
    compile_id: str | None = None
    kernels: int | None = None


class EffectRemoved(Event, frozen=True):
    """An op that mutates was in the graph before a pass and is gone after it."""

    pass_name: str
    graph: str
    op: str
    node: str
    where: Where | None = None
    compile_id: str | None = None


class CloneKept(Event, frozen=True):
    """A mutated argument is copied, and perhaps copied back, on every call: `bytes` a call."""

    graph: str
    op: str
    argument: str
    base: str
    bytes: int
    reason: str = ""
    where: Where | None = None
    compile_id: str | None = None
    input: bool = False
    """What is copied is memory from outside the graph: an input or a buffer."""


class CloneRemoved(Event, frozen=True):
    """After a pass, `readers` read a base after it was overwritten: the copy was needed."""

    pass_name: str
    graph: str
    op: str
    base: str
    readers: list[str]
    where: Where | None = None
    compile_id: str | None = None
    read_at: Where | None = None
    """The user's line of the first reader."""
