"""Every guard of every compiled entry: what it protects, whether it was kept, what the audit saw."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath

from msgspec import Struct

from compdbg.events import Guard, Where
from compdbg.events.guards import LOADED
from compdbg.model.guards import Entry, Violation
from compdbg.views.base import Column, Source, View
from compdbg.views.guard_text import in_python
from compdbg.views.places import counted, place


class FirstViolation(Struct, frozen=True):
    """The first call on which a dropped guard was false."""

    call: int
    seen: str
    effect: str


class GuardRow(Struct, frozen=True, kw_only=True):
    """One guard."""

    frame: str
    compile_id: str
    type: str
    expr: str
    source: str
    where: Where | None
    kept: bool
    layer: str
    dropped_by: str | None
    checked: int | None
    violations: int
    first_violation: FirstViolation | None
    audit: str
    audit_reason: str
    process: str
    rank: int | None


def guards(source: Source) -> View:
    entries = [entry for entry in source.run.entries if not entry.inherited]
    rows = [row for entry in entries for row in guard_rows(entry)]
    return View(
        name="guards",
        title="Guards",
        items=rows,
        shown=[*(r for r in rows if r.violations), *(r for r in rows if not r.violations)],
        columns=(
            Column("id", lambda r: r.compile_id),
            Column("type", lambda r: r.type),
            Column("guard", lambda r: in_python(r.expr), wide=True),
            Column("where", lambda r: place(r.where)),
            Column("state", _state),
            Column("false on", lambda r: str(r.violations) if r.violations else "", align="right"),
        ),
        lines=[_line(entry) for entry in entries],
        empty="no guards: nothing was compiled",
    )


def guard_rows(entry: Entry) -> list[GuardRow]:
    """The guards of one compiled entry, in the order in which torch built them."""
    seen = {expr: v for v in entry.violations for expr in (v.expr, *v.also)}
    return [_row(entry, guard, seen.get(guard.expr)) for guard in entry.guards]


def _row(entry: Entry, guard: Guard, violation: Violation | None) -> GuardRow:
    audit, reason = _audit(entry, guard)
    audited = audit != "not-audited"
    first = None
    if violation is not None and audited:
        first = FirstViolation(violation.call, violation.seen, violation.effect)
    return GuardRow(
        frame=entry.frame,
        compile_id=entry.compile_id,
        type=guard.type,
        expr=guard.expr,
        source=guard.source,
        where=guard.where,
        kept=guard.kept,
        layer=guard.layer,
        dropped_by=guard.dropped_by,
        checked=entry.checked if audited else None,
        violations=entry.violated.get(guard.expr, violation.violations if violation else 0) if audited else 0,
        first_violation=first,
        audit=audit,
        audit_reason=reason,
        process=entry.process,
        rank=entry.rank,
    )


def _audit(entry: Entry, guard: Guard) -> tuple[str, str]:
    """Whether the guard was checked on later calls, and if not or not always, why."""
    if guard.kept:
        return _audit_of_kept(entry)
    if entry.audit == "not-audited":
        return "not-audited", entry.audit_reason
    if guard.type == "EMPTY_NN_MODULE_HOOKS_DICT":
        return "not-audited", "torch has no check for it: skip_nnmodule_hook_guards"
    if entry.calls is None:
        return entry.audit, "the log ends before the audit was told"
    later = _later_calls(entry)
    if entry.checked >= later:
        return "on", f"checked on all {counted(later, 'later call')}"
    return "sampled", f"checked on {entry.checked} of {counted(later, 'later call')}"


def _audit_of_kept(entry: Entry) -> tuple[str, str]:
    if not entry.skipped_by:
        return "not-audited", "kept: torch checks it on every call"
    return "sampled", f"checked on {counted(entry.checked, 'call')} on which {entry.skipped_by} skipped it"


def _later_calls(entry: Entry) -> int:
    """Calls after the one that compiled; what is compiled ahead of time is compiled by none."""
    return max(0, (entry.calls or 0) - 1, entry.checked)


def _state(row: GuardRow) -> str:
    state = "kept" if row.kept else "dropped"
    return state if row.layer == "dynamo" else f"{state}, of {row.layer}"


def _line(entry: Entry) -> str:
    dropped = len(entry.dropped)
    text = f"{entry.compile_id} {PurePath(entry.frame).name}: {counted(len(entry.guards), 'guard')}"
    if entry.compile_id == LOADED and entry.audit == "not-audited":
        return f"{text} known, not audited: {entry.audit_reason}"
    if not dropped:
        return f"{text}, all kept"
    layers = Counter(guard.layer for guard in entry.dropped if guard.layer != "dynamo")
    droppers = [entry.dropped_by] if entry.dropped_by else sorted({g.dropped_by or "" for g in entry.dropped})
    by = f" by {' and '.join(droppers)}" if any(droppers) else ""
    text += f", {dropped} dropped{by}"
    if layers:
        text += f" ({', '.join(f'{count} of {layer}' for layer, count in layers.items())})"
    if entry.audit != "not-audited" and entry.calls:
        text += f"; audited on {entry.checked} of {counted(_later_calls(entry), 'later call')}"
        harmful = [v for v in entry.violations if v.effect != "same"]
        text += f", {counted(len(harmful), 'cause')} of wrong calls" if harmful else ", none harmful"
    return text
