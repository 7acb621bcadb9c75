"""What a finding is, and what a rule is: a function from a run to its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from msgspec import Struct

from compdbg.events import Where
from compdbg.model.run import Run

Severity = Literal["error", "warning", "info"]
Results = Literal["wrong", "failed", "same"]


class Cost(Struct, frozen=True, kw_only=True):
    """What the cause costs the user: the results' truth, seconds, bytes. None where unknown."""

    results: Results | None = None
    seconds: float | None = None
    bytes: int | None = None


class Finding(Struct, frozen=True, kw_only=True):
    """A cause, said as an engineer would: what is wrong, where, what it costs, what to do.

    A rule leaves `id`, `fingerprint` and `doc` empty; ranking fills them in. `subject` is what,
    besides code and place, tells this finding from its like; it goes into the fingerprint.
    """

    code: str
    severity: Severity
    title: str
    cause: str
    suggestion: str
    where: Where | None = None
    evidence: list[str] = []
    cost: Cost = Cost()
    data: dict[str, Any] = {}
    subject: str = ""
    explains: list[str] = []
    """Evidence that follows from this cause: a lesser finding built on these alone is dropped."""
    id: str = ""
    fingerprint: str = ""
    doc: str = ""


Rule = Callable[[Run], Iterable[Finding]]
