"""Guards: what a compiled entry depends on, what was dropped, and what later calls did to it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from compdbg.events.base import Event, Where


class Guard(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One guard as torch built it. `layer`: `dynamo`, `aot` or `inductor`.

    A model has thousands, made while the program compiles: the garbage collector need not know them.
    """

    type: str
    expr: str
    source: str = ""
    where: Where | None = None
    kept: bool = True
    dropped_by: str | None = None
    layer: str = "dynamo"
    value: Any = None
    """For guards on constants: the value frozen at trace time, as JSON or its text."""
    constant: str = ""
    """For a Python value of the user's that is frozen in the code: what the user calls it."""


LOADED = "loaded"
"""Stands for the compile id of a function that came with an artifact, and was not compiled here."""


class Guards(Event, frozen=True):
    """All guards of one compiled entry. `audit`: `on`, `sampled` or `not-audited`."""

    frame: str
    compile_id: str
    guards: list[Guard]
    drop_requested: bool = False
    audit: str = "not-audited"
    audit_reason: str = ""


class GuardViolation(Event, frozen=True):
    """A dropped guard was false on a call: the first time, and when its values change.

    Guards that are false for one reason share a `cause`: one attribute seen through several sources,
    one size in several expressions. `expr` is the guard that says it best, `also` are the others.
    """

    frame: str
    compile_id: str
    call: int
    expr: str
    type: str
    source: str = ""
    wanted: str = ""
    seen: str = ""
    guard_kind: str = "other"
    """`shape`, `constant`, `type`, `identity`, `global-state` or `other`."""
    effect: str = "unknown"
    """`differs`, `same` or `unknown`."""
    why: str = ""
    """Why the effect is what it is, in words."""
    where: Where | None = None
    cause: str = ""
    """Names the cause within its frame."""
    name: str = ""
    """What the guard is about, as the user calls it: `self.scale`, `x.shape[0]`, `num_threads`."""
    also: list[str] = []
    guards: int = 1
    """How many guards of the entry are false for this cause; `also` names the first few."""


class GuardAudit(Event, frozen=True):
    """The audit's tally for one compiled entry so far; the last one counts."""

    frame: str
    compile_id: str
    calls: int
    checked: int
    violations: dict[str, int] = {}
    """Expression of a dropped guard -> calls on which it was seen false."""
    causes: dict[str, int] = {}
    """Cause -> calls on which any of its guards was seen false."""
    skipped_by: str = ""
    """Who had torch skip guards that it kept: a stance."""
    seconds: float = 0.0
