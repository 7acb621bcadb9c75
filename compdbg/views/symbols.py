"""Sizes as the frames view shows them: the life of each, from what was asked to where it was fixed."""

from __future__ import annotations

from msgspec import Struct

from compdbg.model.frames import Compile, name_of
from compdbg.model.life_lines import Step, drawn, life_line
from compdbg.model.run import Run
from compdbg.model.symbols import Dimension

_LINES = 12
"""Life-lines written above the table; the rows hold them all."""


class SizeRow(Struct, frozen=True, kw_only=True):
    """One size of one compile."""

    name: str
    asked: str
    became: str
    symbol: str | None
    value: int | None
    life_line: list[Step]


Traced = dict[tuple[str, str, str], list[Dimension]]
"""By process, frame and compile."""


def sizes_traced(run: Run) -> Traced:
    found: Traced = {}
    for each in run.dimensions:
        found.setdefault((each.process, each.frame, each.compile_id), []).append(each)
    return found


def size_rows(traced: Traced, compiled: Compile) -> list[SizeRow]:
    found = traced.get((compiled.process, compiled.frame, compiled.compile_id), [])
    return [
        SizeRow(
            name=each.name,
            asked=each.asked,
            became="fixed" if each.fixed is not None else each.became,
            symbol=each.symbol,
            value=each.fixed.value if each.fixed is not None else each.value,
            life_line=life_line(each),
        )
        for each in found
    ]


def life_lines(run: Run) -> list[str]:
    """Of the sizes that were to be dynamic and that the code made numbers."""
    fixed = dict.fromkeys(
        f"{name_of(each.frame)}: {drawn(each)}" for each in run.dimensions if each.fixed is not None
    )
    more = [f"and {len(fixed) - _LINES} more sizes that were fixed"] if len(fixed) > _LINES else []
    return [*list(fixed)[:_LINES], *more]
