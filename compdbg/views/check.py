"""The verdicts of a check: each expectation, what was found, and for a failure where it stopped."""

from __future__ import annotations

from collections.abc import Sequence

from compdbg.expect.judge import Verdict
from compdbg.views.base import Column, View
from compdbg.views.places import counted, place


def check(verdicts: Sequence[Verdict], what: str) -> View:
    return View(
        name="check",
        title=title(verdicts, what),
        items=verdicts,
        lines=[sentence(v) for v in verdicts if v.status != "pass"],
        columns=(
            Column("expectation", lambda v: v.expectation),
            Column("wanted", lambda v: shown(v.wanted)),
            Column("found", lambda v: shown(v.found), wide=True),
            Column("status", lambda v: v.status),
            Column("finding", lambda v: v.finding or ""),
        ),
    )


def title(verdicts: Sequence[Verdict], what: str) -> str:
    """How it went, in a sentence."""
    count = {s: sum(v.status == s for v in verdicts) for s in ("fail", "not-observed")}
    bad = ", ".join(f"{n} {s.replace('-', ' ')}" for s, n in (("failed", count["fail"]),
                    ("not-observed", count["not-observed"])) if n)  # fmt: skip
    of = f"of {counted(len(verdicts), 'expectation')} from {what}"
    return f"{bad} {of}" if bad else f"All {counted(len(verdicts), 'expectation')} from {what} hold"


def sentence(verdict: Verdict) -> str:
    """One expectation that does not hold: wanted, found, why, and at which line unless that was said."""
    found = f"found {shown(verdict.found)}" if verdict.found is not None else "not observed"
    parts = [f"{verdict.expectation}: wanted {shown(verdict.wanted)}, {found}"]
    if verdict.why:
        parts.append(verdict.why)
    line = place(verdict.where) if verdict.where is not None else ""
    return ". ".join(parts) + (f" ({line})" if line and line not in (verdict.why or "") else "")


def shown(value: object) -> str:
    """A value as a cell: nothing observed is not nothing found."""
    return "not observed" if value is None else str(value)
