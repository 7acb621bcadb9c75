"""A view: columns, rows and a few sentences, ready to be drawn by any face."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from compdbg.findings.base import Finding
from compdbg.model.run import Run


class Column(Struct, frozen=True):
    """One column of the table: its title and the text of a row's cell."""

    title: str
    cell: Callable[..., str]
    align: Literal["left", "right"] = "left"
    wide: bool = False
    """Takes the width that is left over; the others are as wide as their content."""
    role: Callable[..., str] | None = None
    """How a row's cell is drawn where there is colour: `good`, `warn`, `bad`, `dim` or nothing."""


class Source(Struct, frozen=True):
    """What views are made from: the run and its findings, each worked out once."""

    run: Run
    findings: list[Finding]


class View(Struct, frozen=True, kw_only=True):
    """One view of one run. `items` are the rows, with the JSON keys of the contract as fields."""

    name: str
    title: str
    items: Sequence[Struct]
    shown: Sequence[Struct] | None = None
    """The rows worth a line of text, where these are not all; `lines` say what is left out."""
    columns: Sequence[Column] = ()
    lines: Sequence[str] = ()
    """Sentences above the table: what the rows add up to."""
    below: Sequence[str] = ()
    """Sentences below the table: what the cells have no room for."""
    empty: str = "nothing recorded"
    """What to say when there are no rows, and why that may be."""


ViewMaker = Callable[[Source], View]
