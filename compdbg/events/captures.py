"""What a captured call was given that the capture did not expect, and what padding did."""

from __future__ import annotations

from typing import Literal

from compdbg.events.base import Event, Where


class AddressChanged(Event, frozen=True):
    """A replay was given a tensor elsewhere than at capture: it ran without the capture instead.

    `piece` is empty where the whole graph was called; `calls` counts such calls so far.
    """

    graph: str
    piece: str
    size: int
    argument: str
    captured: str
    seen: str
    static: bool = False
    """The argument is a parameter or a buffer of the model."""
    calls: int = 1
    where: Where | None = None
    """The program's line that made the call."""


class StaleInput(Event, frozen=True):
    """The capture has read a value that is another one now: such calls ran without the capture.

    `form`: it is no value that changed, but metadata of another shape, or of other parts. `replayed`:
    nothing prevents the replay; an operator reads the value by itself, and `where` is its line.
    """

    graph: str
    piece: str
    size: int
    name: str
    captured: str
    seen: str
    calls: int = 1
    form: bool = False
    replayed: bool = False
    where: Where | None = None
    """The program's line that made the call, or that reads the value."""


class PaddingLeak(Event, frozen=True):
    """Rows that padding added changed a result or live memory: they were filled twice, differently."""

    graph: str
    size: int
    padded_to: int
    what: str
    """`output 0`, or the name of the input that was written to."""
    elements: int
    max_abs: float | None = None
    where: Where | None = None
    """The program's line that made the call."""
    op: str = ""
    """The first operator of whose result the true rows differ, though those of its inputs do not."""
    node: str = ""
    piece: str = ""
    op_where: Where | None = None
    op_writes: bool = False
    """The operator writes added rows to the memory, and mixes none itself."""
    told: Literal["operator", "compiled", ""] = ""
    """`compiled`: run by eager nothing leaks; nothing: it could not be told."""
