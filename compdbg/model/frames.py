"""Frames: every compile that Dynamo made or refused, in order, and what each request came to."""

from __future__ import annotations

from collections import defaultdict

from msgspec import Struct

from compdbg.events import (
    CompileError,
    CompileRequest,
    FrameCalls,
    FrameEnd,
    FrameStart,
    GraphBreak,
    NotCompiled,
    RecompileLimit,
    RecompileReason,
    Where,
)
from compdbg.store.reader import Log, Record

_WRAPPER = "_dynamo/external_utils.py:"
"""torch's own function around a target whose frame it would not convert."""

_READ = (RecompileReason, FrameStart, RecompileLimit, FrameEnd, FrameCalls)


class Reason(Struct, frozen=True):
    """The guard of one earlier entry that failed, in torch's words."""

    text: str
    failed: str
    where: Where | None
    event: str


class Compile(Struct, kw_only=True):
    """One compile of one frame. `life` counts `torch._dynamo.reset()`: ids start again after it."""

    process: str
    rank: int | None
    frame: str
    compile_id: str
    where: Where | None
    name: str
    request: str
    resume_of: str | None
    life: int
    result: str = "?"
    """`?`: the log ends before the compile did."""
    reason: str = ""
    calls: int | None = None
    duration_ms: float | None = None
    graph_ops: int | None = None
    call: int | None = None
    """The call of the frame that was compiled, from 1."""
    entries: int | None = None
    """How many entries torch makes for the frame."""
    reasons: list[Reason] = []
    limit: RecompileLimit | None = None
    events: list[str] = []

    @property
    def start(self) -> str:
        """The event that it begins with; a frame that was never tried has only its end."""
        return self.events[len(self.reasons)]

    @property
    def function(self) -> str:
        """The frame whose code this is: for a resume function the one that broke."""
        return self.resume_of or self.frame


class Frames(Struct, frozen=True, kw_only=True):
    """All of a run's compiles, and the events beside them with their ids."""

    compiles: list[Compile]
    requests: dict[str, tuple[str, CompileRequest]]
    """Request -> event id and what was asked."""
    breaks: list[tuple[str, GraphBreak]]
    errors: list[tuple[str, CompileError]]
    refused: list[tuple[str, NotCompiled]]
    """Calls of requested functions that ran eager without an attempt."""


def build_frames(log: Log) -> Frames:
    """Put starts, reasons and ends together, process by process."""
    by_process: dict[str, list[Record]] = defaultdict(list)
    records_of_frames = log.among(_READ)
    for record in records_of_frames:
        by_process[record.header.process].append(record)
    compiles = [c for records in by_process.values() for c in _Process().read(records)]
    order = {record.id: n for n, record in enumerate(records_of_frames)}
    compiles.sort(key=lambda c: order[c.events[0]])
    requests = {event.request: (header.id, event) for header, event in log.of(CompileRequest)}
    _name_targets(compiles, requests)
    return Frames(
        compiles=compiles,
        requests=requests,
        breaks=[(header.id, event) for header, event in log.of(GraphBreak)],
        errors=[(header.id, event) for header, event in log.of(CompileError)],
        refused=[(header.id, event) for header, event in log.of(NotCompiled)],
    )


def _name_targets(compiles: list[Compile], requests: dict[str, tuple[str, CompileRequest]]) -> None:
    """A frame that was asked for goes by the name of what was asked: a module, not `forward` or `inner`."""
    for compiled in compiles:
        _, request = requests.get(compiled.request, ("", None))
        if request is not None and (compiled.function == request.code or _WRAPPER in compiled.function):
            compiled.name = request.target


class _Process:
    """Reads the events of one process in their order."""

    def __init__(self) -> None:
        self.made: list[Compile] = []
        self.open: dict[tuple[str, str], Compile] = {}
        self.reasons: dict[tuple[str, str], list[Reason]] = {}
        self.calls: dict[tuple[str, str], int] = {}
        self.lives: dict[str, int] = {}

    def read(self, records: list[Record]) -> list[Compile]:
        for record in records:
            event = record.event
            if isinstance(event, RecompileReason):
                reason = Reason(event.reason, event.failed_compile_id, event.where, record.id)
                self.reasons.setdefault((event.frame, event.compile_id), []).append(reason)
            elif isinstance(event, FrameStart):
                self.start(record, event)
            elif isinstance(event, RecompileLimit):
                self.limited(record, event)
            elif isinstance(event, FrameEnd):
                self.end(record, event)
            elif isinstance(event, FrameCalls):
                self.calls[event.frame, event.compile_id] = event.calls
        for compiled in self.made:
            compiled.calls = self.calls.get((compiled.frame, compiled.compile_id))
        return self.made

    def start(self, record: Record, event: FrameStart) -> None:
        key = (event.frame, event.compile_id)
        compiled = self.add(record, *key, event.request, event.where, event.resume_of)
        compiled.name = event.name or compiled.name
        compiled.call, compiled.entries = event.call, event.limit
        self.open[key] = compiled

    def limited(self, record: Record, event: RecompileLimit) -> None:
        """A compile that never started: the limit stands in its place."""
        key = (event.frame, event.compile_id)
        before = next((c for c in reversed(self.made) if c.frame == event.frame), None)
        where, resume_of = (before.where, before.resume_of) if before else (None, None)
        compiled = self.add(record, *key, event.request, where, resume_of)
        compiled.name = before.name if before else compiled.name
        compiled.limit, compiled.call = event, event.call
        self.open[key] = compiled

    def end(self, record: Record, event: FrameEnd) -> None:
        key = (event.frame, event.compile_id)
        compiled = self.open.pop(key, None) or self.add(record, *key, event.request, None, None)
        compiled.result, compiled.reason = event.result, event.reason
        compiled.duration_ms = event.duration_ms or None
        compiled.graph_ops = event.graph_ops
        if record.id not in compiled.events:
            compiled.events.append(record.id)

    def add(
        self,
        record: Record,
        frame: str,
        compile_id: str,
        request: str,
        where: Where | None,
        resume_of: str | None,
    ) -> Compile:
        reasons = self.reasons.pop((frame, compile_id), [])
        compiled = Compile(
            process=record.header.process,
            rank=record.header.rank,
            frame=frame,
            compile_id=compile_id,
            where=where or place_of(frame),
            name=name_of(resume_of or frame),
            request=request,
            resume_of=resume_of,
            life=self.life(resume_of or frame, frame, compile_id),
            reasons=reasons,
            events=[*(reason.event for reason in reasons), record.id],
        )
        self.made.append(compiled)
        return compiled

    def life(self, function: str, frame: str, compile_id: str) -> int:
        """Counted by the first compiles of a function's own frame: ids start again after a reset."""
        if frame == function and compile_id.endswith("/0"):
            self.lives[function] = self.lives.get(function, -1) + 1
        return max(self.lives.get(function, 0), 0)


def name_of(frame: str) -> str:
    """`step` of `model.py:12:step`."""
    return frame.rsplit(":", 1)[-1]


def place_of(frame: str) -> Where | None:
    """File and first line of a frame."""
    parts = frame.rsplit(":", 2)
    return Where(parts[0], int(parts[1]), parts[2]) if len(parts) == 3 and parts[1].isdecimal() else None
