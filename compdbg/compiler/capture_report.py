"""What captures say: that one was made or can't be, and why a call could not be replayed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from compdbg import probe
from compdbg.compiler.capture_rules import Fault, callers_line
from compdbg.compiler.static_metadata import Mismatch
from compdbg.events import AddressChanged, Capture, StaleInput


class CaptureReport:
    """The events of one piece, or without a name of the whole graph."""

    def __init__(self, graph: str, piece: str = "") -> None:
        self.graph = graph
        self.piece = piece
        self._refused = 0
        self._read_anew = 0

    def captured(self, size: int, mode: str, milliseconds: float, held: int | None, emulated: bool) -> None:
        probe.emit(
            Capture(
                graph=self.graph,
                piece=self.piece,
                size=size,
                duration_ms=milliseconds,
                bytes=held,
                emulated=emulated,
                mode=mode,
            )
        )

    def failed(self, size: int, mode: str, milliseconds: float, fault: Fault, emulated: bool) -> None:
        probe.emit(
            Capture(
                graph=self.graph,
                piece=self.piece,
                size=size,
                duration_ms=milliseconds,
                emulated=emulated,
                mode=mode,
                error=fault.message,
                fault=fault.kind,
                op=fault.op,
                thread=fault.thread,
                stack=list(fault.stack),
                where=fault.where,
            )
        )

    def refused(
        self,
        size: int,
        moved: Iterable[tuple[str, int, int]] = (),
        changed: Iterable[tuple[str, Any, Any]] = (),
        *,
        static: Collection[str] = (),
        form: bool = False,
    ) -> None:
        """A call that could not be replayed: inputs that are elsewhere, and values that are others.

        The 1st, 10th, 100th ... such call is recorded.
        """
        self._refused += 1
        if not _is_told(self._refused):
            return
        where = callers_line()
        for name, was, now in moved:
            probe.emit(
                AddressChanged(
                    graph=self.graph,
                    piece=self.piece,
                    size=size,
                    argument=name,
                    captured=hex(was),
                    seen=hex(now),
                    static=name in static,
                    calls=self._refused,
                    where=where,
                )
            )
        for name, before, after in changed:
            probe.emit(
                StaleInput(
                    graph=self.graph,
                    piece=self.piece,
                    size=size,
                    name=name,
                    captured=str(before)[:200],
                    seen=str(after)[:200],
                    calls=self._refused,
                    form=form,
                    where=where,
                )
            )

    def read_anew(self, size: int, name: str, captured: str, seen: str) -> None:
        """On a replay an operator has read another value than at capture; on a GPU it would not have.

        The 1st, 10th, 100th ... such replay is recorded.
        """
        self._read_anew += 1
        if _is_told(self._read_anew):
            probe.emit(
                StaleInput(
                    graph=self.graph,
                    piece=self.piece,
                    size=size,
                    name=name,
                    captured=captured[:200],
                    seen=seen[:200],
                    calls=self._read_anew,
                    replayed=True,
                    where=callers_line(),
                )
            )

    def metadata_refused(self, size: int, mismatch: Mismatch) -> None:
        """A call whose attention metadata does not fit the capture."""
        name = f"attn_metadata.{mismatch.name}" if mismatch.name else "attn_metadata"
        if mismatch.kind == "moved":
            self.refused(size, moved=[(name, int(mismatch.captured, 16), int(mismatch.seen, 16))])
        else:
            changed = [(name, mismatch.captured, mismatch.seen)]
            self.refused(size, changed=changed, form=mismatch.kind == "form")


def _is_told(occurrence: int) -> bool:
    """The 1st, 10th, 100th ... of its kind, while somebody records."""
    return str(occurrence).strip("0") == "1" and probe.active()
