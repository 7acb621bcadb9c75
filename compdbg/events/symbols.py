"""Dynamic shapes: what was asked, what each dimension became, and what fixed it."""

from __future__ import annotations

from compdbg.events.base import Event, Where


class Symbol(Event, frozen=True):
    """One size (or int input) at trace time: asked for as `asked`, traced as `became`.

    `asked`: `mark_dynamic`, `maybe_mark_dynamic`, `mark_unbacked`, `dynamic=True`, `shapes spec`,
    `automatic`, `static`. `became`: `dynamic`, `unbacked`, `static`.
    """

    frame: str
    compile_id: str
    source: str
    value: int | None
    asked: str
    became: str
    symbol: str | None = None
    dim: int | None = None
    zero_one: bool = False
    where: Where | None = None
    why: str = ""
    """For a static one: why torch did not even make a symbol of it."""


class SymbolFixed(Event, frozen=True):
    """A symbol became a number: `op` at the user's line `where` made it so."""

    frame: str
    compile_id: str
    symbol: str
    value: int
    sources: list[str] = []
    message: str = ""
    op: str | None = None
    node: str | None = None
    where: Where | None = None
    met: list[str] = []
    """The other operands of that op that have the size `value` fixed: `G['table'] (8, 1)`."""


class SymbolJoined(Event, frozen=True):
    """A symbol was found equal to another, or to an expression: `op` at the user's line made it so."""

    frame: str
    compile_id: str
    symbol: str
    into: str
    sources: list[str] = []
    """The sizes that `symbol` stands for."""
    others: list[str] = []
    """Those that `into` stands for."""
    op: str | None = None
    node: str | None = None
    where: Where | None = None


class SizeBranch(Event, frozen=True):
    """An expression over sizes was decided at trace time; sizes `flips_at` decide it otherwise."""

    frame: str
    compile_id: str
    expr: str
    result: bool
    flips_at: list[int] = []
    harmless: bool = False
    """Decided by a fallback (`guard_or_false`), so the result is right for the flipping sizes too."""
    symbols: list[str] = []
    where: Where | None = None
