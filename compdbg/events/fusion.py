"""Fusion: each pattern of each pattern-matcher pass, each attempt, and where it stopped."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from compdbg.events.base import Event, Where

Outcome = Literal["fired", "missed", "superseded", "no-candidate", "not-run", "cached", "unobservable"]
Reason = Literal[
    "target-mismatch",
    "multiple-users",
    "arg-mismatch",
    "dtype-mismatch",
    "shape-mismatch",
    "kwarg-mismatch",
    "extra-check",
    "retrace-mismatch",
    "mutation-region",
    "stream-boundary",
    "unsupported-dtype",
    "crosses-split",
    "other",
]


class Pattern(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A registered pattern. `name` is its search function's, made unique within the pass."""

    name: str
    where: Where | None = None
    anchors: list[str] = []
    ops: list[str] = []
    nodes: int = 0


class PatternPassMade(Event, frozen=True):
    """A `PatternMatcherPass` was made outside torch, at `where`: a custom fusion exists."""

    pass_id: str
    pass_name: str
    where: Where | None = None


class PatternPass(Event, frozen=True):
    """One `apply` of a pattern-matcher pass to one graph, with all its patterns."""

    pass_id: str
    pass_name: str
    graph: str
    aliases: list[str] = []
    custom: bool = True
    patterns: list[Pattern] = []
    attempted: int = 0
    matched: int = 0
    matched_by: dict[str, int] = {}
    attempted_by: dict[str, int] = {}
    duration_us: float = 0.0
    compile_id: str | None = None


class NearMiss(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where matching stopped: at `node`, `wanted` in the pattern against `found` in the graph."""

    reason: Reason
    stage: str
    """`first` (loose), `second` (retraced at the real shapes), `check` or `discard`."""
    node: str = ""
    wanted: str = ""
    found: str = ""
    matched_nodes: int = 0
    pattern_nodes: int = 0
    where: Where | None = None
    detail: str = ""


class MatchAttempt(Event, frozen=True):
    """One pattern tried at one anchor node of one graph. `outcome`: `matched`, `missed`, `discarded`.

    `near` says that, besides the anchor, another op of the pattern stands within 4 hops of where
    matching stopped: only then is a site that nothing took a miss.
    """

    pass_id: str
    pass_name: str
    pattern: str
    graph: str
    anchor: str
    outcome: str
    near: bool = False
    miss: NearMiss | None = None
    where: Where | None = None
    """The user's line of the anchor."""
    compile_id: str | None = None


class PatternProblem(Event, frozen=True):
    """A registered pattern is broken in itself. `problem`: `no-self-match`, `unreachable-output`,
    `lost-nodes`.
    """

    pass_id: str
    pass_name: str
    pattern: str
    problem: str
    detail: str
    where: Where | None = None
