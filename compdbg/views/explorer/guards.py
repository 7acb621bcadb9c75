"""Guards: the compiled entries by cost, those with a false guard first; each opens its guards."""

from __future__ import annotations

from msgspec import Struct

from compdbg.events import Where
from compdbg.model.frames import Compile, place_of
from compdbg.model.guards import Entry, Violation
from compdbg.views.base import Column, Source, View
from compdbg.views.explorer.base import Block, Code, Page, Place, source_code
from compdbg.views.explorer.guard_code import dispatch
from compdbg.views.explorer.words import facts, listing, short
from compdbg.views.guard_text import in_python
from compdbg.views.guards import GuardRow, guard_rows, guards
from compdbg.views.places import counted, duration

_EFFECTS = {"differs": ("✗", "bad", 0), "unknown": ("!", "warn", 1), "same": ("·", "dim", 2)}


class EntryRow(Struct, frozen=True, kw_only=True):
    """One compiled entry: what it cost, how many of its guards were dropped, whether one was false."""

    event: str
    evidence: list[str]
    name: str
    compile_id: str
    where: Where | None
    guards: int
    dropped: int
    effect: str | None
    false_calls: int
    calls: int | None
    seconds: float | None
    why: str
    process: str
    rank: int | None


def guards_view(source: Source) -> View:
    compiles = {(c.process, c.frame, c.compile_id): c for c in source.run.frames.compiles}
    rows = [_row(e, compiles.get((e.process, e.frame, e.compile_id))) for e in source.run.entries]
    rows.sort(key=lambda r: (_EFFECTS[r.effect][2] if r.effect else 3, -(r.seconds or 0.0)))
    return View(
        name="guards",
        title="Guards: what each compiled entry depends on",
        items=rows,
        columns=(
            Column("state", _state, role=lambda r: _EFFECTS[r.effect][1] if r.effect else "good"),
            Column("id", lambda r: r.compile_id),
            Column("frame", lambda r: r.name),
            Column("where", lambda r: short(r.where)),
            Column("kept", lambda r: str(r.guards - r.dropped), align="right"),
            Column("dropped", lambda r: str(r.dropped or ""), align="right"),
            Column("calls", lambda r: "" if r.calls is None else str(r.calls), align="right"),
            Column("took", lambda r: duration(r.seconds), align="right"),
            Column("why", lambda r: r.why, wide=True),
        ),
        lines=_lines(rows),
        empty=guards(source).empty,
    )


def _row(entry: Entry, compiled: Compile | None) -> EntryRow:
    worst = min(entry.violations, key=lambda v: _EFFECTS[v.effect][2], default=None)
    milliseconds = compiled.duration_ms if compiled else None
    return EntryRow(
        event=entry.event,
        evidence=[*(e for v in entry.violations for e in v.events), *(compiled.events if compiled else [])],
        name=compiled.name if compiled else entry.name,
        compile_id=entry.compile_id,
        where=(compiled.where if compiled else None) or place_of(entry.function),
        guards=len(entry.guards),
        dropped=len(entry.dropped),
        effect=worst.effect if worst else None,
        false_calls=worst.violations if worst else 0,
        calls=entry.calls if entry.calls is not None else (compiled.calls if compiled else None),
        seconds=milliseconds / 1e3 if milliseconds is not None else None,
        why=_why(worst, compiled),
        process=entry.process,
        rank=entry.rank,
    )


def _why(worst: Violation | None, compiled: Compile | None) -> str:
    if worst is not None:
        return f"wanted {worst.wanted or in_python(worst.expr)}; call {worst.call} had {worst.seen}"
    if compiled is not None and compiled.reasons:
        return f"recompiled: {in_python(compiled.reasons[0].text.partition(' # ')[0].strip())}"
    return ""


def _state(row: EntryRow) -> str:
    if row.effect is None:
        return "✓ kept" if not row.dropped else "✓ holds"
    return f"{_EFFECTS[row.effect][0]} {row.effect}"


def _lines(rows: list[EntryRow]) -> list[str]:
    if not rows:
        return []
    dropped = sum(r.dropped for r in rows)
    harmful = sum(r.effect in ("differs", "unknown") for r in rows)
    said = f"{counted(len(rows), 'compiled entry', 'compiled entries')}, {sum(r.guards for r in rows)} guards"
    said += f", {dropped} dropped" if dropped else ", all kept"
    return [f"{said}; {harmful} with a guard that was false on a later call" if harmful else said]


def _entry(source: Source, row: EntryRow) -> Entry | None:
    own = (row.event, row.process)
    return next((e for e in source.run.entries if (e.event, e.process) == own), None)


def entry_page(source: Source, row: EntryRow) -> Page:
    entry = _entry(source, row)
    blocks: list[Block] = facts_of(row)
    worst: Where | None = None
    if entry is not None:
        for violation in sorted(entry.violations, key=lambda v: _EFFECTS[v.effect][2]):
            blocks += _violation(source, violation)
            worst = worst or violation.where
        alike = [e for e in source.run.entries if (e.process, e.frame) == (entry.process, entry.frame)]
        blocks.append(Code(dispatch(alike, entry), title=f"a call of {row.name}, as torch dispatches it"))
    blocks += _recompiled(source, row)
    return Page(title=f"{row.name} {row.compile_id}", blocks=blocks, where=worst or row.where)


def facts_of(row: EntryRow) -> list[Block]:
    calls = "" if row.calls is None else counted(row.calls, "call")
    return [
        *facts(
            ("", f"{row.name}, entry {row.compile_id}", "title"),
            ("guards", f"{row.guards - row.dropped} kept, {row.dropped} dropped (enter lists them)"),
            ("called", calls),
            ("compiled", f"in {duration(row.seconds)}" if row.seconds is not None else None),
        )
    ]


def _violation(source: Source, violation: Violation) -> list[Block]:
    mark, role, _ = _EFFECTS[violation.effect]
    effect = {"differs": "the result differs from eager", "same": "the result is the same"}
    return [
        *facts(
            ("false", f"{mark} {in_python(violation.expr)}", role),
            ("wanted", violation.wanted, "good"),
            ("seen", f"{violation.seen} on call {violation.call}", role),
            ("effect", f"{effect.get(violation.effect, 'unknown')}: {violation.why}".rstrip(": ")),
            ("false on", counted(violation.violations, "call")),
        ),
        *source_code(source, violation.where),
    ]


def _recompiled(source: Source, row: EntryRow) -> list[Block]:
    for compiled in source.run.frames.compiles:
        if compiled.process == row.process and compiled.compile_id == row.compile_id and compiled.reasons:
            if compiled.name != row.name:
                continue
            reasons = [f"{r.failed}: {r.text.partition(' # ')[0].strip()}" for r in compiled.reasons]
            return [listing("compiled again, because these failed", reasons)]
    return []


def guards_of(source: Source, row: EntryRow) -> Place | None:
    """The guards of one entry as a place of their own: false ones first, then dropped, then kept."""
    entry = _entry(source, row)
    if entry is None:
        return None
    rows = sorted(guard_rows(entry), key=lambda g: (not g.violations, g.kept))
    return Place(
        name=f"guards of {row.name} {row.compile_id}",
        letter="",
        title=f"{row.name} {row.compile_id}",
        view=lambda _: _guard_list(row, rows),
        page=guard_page,
        key=lambda g: f"{g.layer} {g.type} {g.source} {g.expr}",
        row=GuardRow,
    )


def _guard_list(row: EntryRow, rows: list[GuardRow]) -> View:
    return View(
        name="guards-of",
        title=f"Guards of {row.name}, entry {row.compile_id}",
        items=rows,
        columns=(
            Column("state", _guard_state, role=_guard_role),
            Column("guard", lambda g: in_python(g.expr), wide=True),
            Column("type", lambda g: g.type),
            Column("where", lambda g: short(g.where)),
            Column("false on", lambda g: str(g.violations or ""), align="right"),
        ),
        lines=[f"{row.guards - row.dropped} kept, {row.dropped} dropped"],
        empty="This entry has no guards.",
    )


def _guard_state(guard: GuardRow) -> str:
    if guard.violations:
        return f"{_EFFECTS[_effect(guard)][0]} false"
    return "✓ kept" if guard.kept else "- dropped"


def _effect(guard: GuardRow) -> str:
    return guard.first_violation.effect if guard.first_violation else "unknown"


def _guard_role(guard: GuardRow) -> str:
    if guard.violations:
        return _EFFECTS[_effect(guard)][1]
    return "" if guard.kept else "dim"


def guard_page(source: Source, guard: GuardRow) -> Page:
    first = guard.first_violation
    blocks: list[Block] = [
        *facts(
            ("", in_python(guard.expr), "title"),
            ("state", _guard_state(guard), _guard_role(guard)),
            ("first", f"call {first.call}: {first.seen} ({first.effect})" if first else None, "bad"),
            ("false on", counted(guard.violations, "call") if guard.violations else None),
            ("audit", f"{guard.audit}: {guard.audit_reason}"),
            ("dropped", f"by {guard.dropped_by}" if guard.dropped_by else None),
            ("type", f"{guard.type}, layer {guard.layer}"),
            ("source", guard.source),
        ),
        listing("as torch writes it", [guard.expr]),
        *source_code(source, guard.where),
    ]
    return Page(title=f"{guard.type} {guard.source}", blocks=blocks, where=guard.where)


GUARDS = Place(
    name="guards",
    letter="g",
    title="Guards",
    view=guards_view,
    page=entry_page,
    key=lambda r: f"{r.process} {r.event}",
    row=EntryRow,
    about=lambda r, finding: not {r.event, *r.evidence}.isdisjoint(finding.evidence),
    inside=guards_of,
)
