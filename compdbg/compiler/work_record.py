"""What happened while a piece was compiled, kept with it: a warm run can then say what it runs.

The record holds the passes that ran and what they changed, and the matches of each pattern pass:
as the hooks saw them where something recorded, else as our own pass manager counted them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from compdbg import probe
from compdbg.events import CachedWork, Event, PassRun, PatternPass


class WorkRecord(Struct, frozen=True):
    """Passes and matches of one compile."""

    passes: list[PassRun] = []
    patterns: list[PatternPass] = []
    run: str = ""

    def emit(self, layer: str, key: str, graph: str, made: float) -> None:
        """Say, on a hit, what the entry was made with."""
        if not probe.active():
            return
        probe.emit(
            CachedWork(
                layer=layer,
                key=key,
                graph=graph,
                run=self.run,
                made=made,
                passes=[_for(graph, run) for run in self.passes],
                patterns=[_for(graph, match) for match in self.patterns],
            )
        )


def _for(graph: str, event: Any) -> Any:
    """The event, said of the graph that uses the work now; texts stayed in the run that made it."""
    texts = {"before": None, "after": None} if isinstance(event, PassRun) else {}
    return msgspec.structs.replace(event, graph=graph, compile_id=None, **texts)


class Recorder:
    """Collects while compiling; `finish` gives the record."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._seen: list[Event] = []
        self.code = ""
        """The code that Inductor wrote, if it did."""

    def note(self, event: Event) -> None:
        if isinstance(event, (PassRun, PatternPass)):
            self._seen.append(event)

    def finish(self) -> WorkRecord:
        passes = [event for event in self._seen if isinstance(event, PassRun)]
        patterns = [event for event in self._seen if isinstance(event, PatternPass)]
        own = self._manager
        return WorkRecord(passes or list(own.runs), patterns or list(own.matches), probe.run_name())


@contextlib.contextmanager
def recording(manager: Any, *, inductor: bool) -> Iterator[Recorder]:
    """Record the compile inside the block, by Inductor or another compiler."""
    recorder = Recorder(manager)
    manager.runs, manager.matches = [], []

    def keep(code: str, *_: Any) -> None:
        recorder.code = code

    with probe.listening(recorder.note), _generated_code(keep) if inductor else contextlib.nullcontext():
        yield recorder


@contextlib.contextmanager
def _generated_code(keep: Any) -> Iterator[None]:
    from torch._inductor.graph import GraphLowering

    name = "save_output_code"
    if name not in vars(GraphLowering):
        yield
        return
    before = vars(GraphLowering)[name]
    setattr(GraphLowering, name, staticmethod(keep))
    try:
        yield
    finally:
        setattr(GraphLowering, name, before)
