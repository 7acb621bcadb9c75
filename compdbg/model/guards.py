"""Guards: each with what the audit saw of it, and the causes for which dropped ones were false."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from compdbg.events import FrameStart, Guard, GuardAudit, Guards, GuardViolation, Header, Where
from compdbg.events.guards import LOADED
from compdbg.model.frames import name_of
from compdbg.store.reader import Log

_WORSE = {"same": 0, "unknown": 1, "differs": 2}


class Violation(Struct, frozen=True, kw_only=True):
    """One cause within one compiled entry."""

    key: str
    name: str
    kind: str
    effect: str
    why: str
    expr: str
    type: str
    wanted: str
    seen: str
    call: int
    where: Where | None
    also: list[str]
    guards: int
    violations: int
    """Calls on which it was seen false."""
    events: list[str]


class Entry(Struct, kw_only=True):
    """One compiled entry: its guards, how often it was called, and what was false."""

    event: str
    process: str
    rank: int | None
    frame: str
    compile_id: str
    function: str
    """The frame itself, or for a resume function the one that broke."""
    guards: list[Guard]
    drop_requested: bool
    audit: str
    audit_reason: str
    calls: int | None = None
    checked: int = 0
    skipped_by: str = ""
    """Who had torch skip guards that it kept: then it is those that were audited."""
    seconds: float = 0.0
    violated: dict[str, int] = {}
    """Expression -> calls on which it was seen false."""
    violations: list[Violation] = []
    inherited: bool = False
    """Made in a parent process, called in a forked child."""

    @property
    def name(self) -> str:
        return name_of(self.function)

    @property
    def dropped(self) -> list[Guard]:
        return [guard for guard in self.guards if not guard.kept]

    @property
    def dropped_by(self) -> str | None:
        by = (guard.dropped_by for guard in self.guards if guard.dropped_by and _is_asked(guard))
        return next(by, None) or self.skipped_by or None


class Violated(Struct, frozen=True, kw_only=True):
    """One cause over all entries of one function, frames resumed after a break included."""

    first: Violation
    entry: Entry
    effect: str
    violations: int
    calls: int | None
    checked: int
    events: list[str]


def _is_asked(guard: Guard) -> bool:
    """Dropped because the user asked for it, not by torch's default."""
    return guard.type != "EMPTY_NN_MODULE_HOOKS_DICT"


def build_entries(log: Log) -> list[Entry]:
    """Every compiled entry in the order in which it was made."""
    resumed = {event.frame: event.resume_of for _, event in log.of(FrameStart) if event.resume_of}
    entries: dict[str, Entry] = {}
    for header, event in log.of(Guards):
        entries[header.id] = Entry(
            event=header.id,
            process=header.process,
            rank=header.rank,
            frame=event.frame,
            compile_id=event.compile_id,
            function=resumed.get(event.frame) or event.frame,
            guards=event.guards,
            drop_requested=event.drop_requested,
            audit=event.audit,
            audit_reason=event.audit_reason,
        )
    _add_audits(log, entries)
    known = {(e.process, e.frame) for e in entries.values() if e.compile_id == LOADED and e.guards}
    return [e for e in entries.values() if e.guards or (e.process, e.frame) not in known]


def _add_audits(log: Log, entries: dict[str, Entry]) -> None:
    audits: dict[tuple[str, str], GuardAudit] = {}
    for header, audit in log.of(GuardAudit):
        entry = _entry_of(header, audit, entries)
        if entry is not None:
            audits[_key(entry)] = audit
            entry.calls, entry.checked, entry.seconds = audit.calls, audit.checked, audit.seconds
            entry.violated, entry.skipped_by = audit.violations, audit.skipped_by
    found: dict[tuple[str, str], dict[str, list[tuple[str, GuardViolation]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for header, violation in log.of(GuardViolation):
        entry = _entry_of(header, violation, entries)
        if entry is not None:
            found[_key(entry)][violation.cause or violation.expr].append((header.id, violation))
    for entry in entries.values():
        last = audits.get(_key(entry))
        counts = last.causes if last is not None else {}
        entry.violations = [
            _violation(key, events, counts.get(key, 0)) for key, events in found[_key(entry)].items()
        ]


def _key(entry: Entry) -> tuple[str, str]:
    return entry.process, entry.event


def _entry_of(header: Header, event: GuardAudit | GuardViolation, entries: dict[str, Entry]) -> Entry | None:
    """By the parent; in a forked child, whose parent's log has the entry, by frame and id."""
    entry = entries.get(f"{header.process}:{header.parent}")
    if entry is not None:
        return entry
    alike = [e for e in entries.values() if (e.frame, e.compile_id) == (event.frame, event.compile_id)]
    own = [e for e in alike if e.process == header.process]
    if own or not alike:
        return own[-1] if own else None
    child = replace(
        alike[-1],
        process=header.process,
        rank=header.rank,
        inherited=True,
        calls=None,
        checked=0,
        violations=[],
    )
    entries[f"{header.process} {child.event}"] = child
    return child


def _violation(key: str, events: list[tuple[str, GuardViolation]], counted: int) -> Violation:
    """A log that was cut off has no count: then there were at least as many calls as events."""
    worst = max((event for _, event in events), key=lambda e: _WORSE.get(e.effect, 1))
    return Violation(
        key=key,
        name=worst.name or worst.expr,
        kind=worst.guard_kind,
        effect=worst.effect if worst.effect in _WORSE else "unknown",
        why=worst.why,
        expr=worst.expr,
        type=worst.type,
        wanted=worst.wanted,
        seen=worst.seen,
        call=worst.call,
        where=worst.where,
        also=events[-1][1].also,
        guards=events[-1][1].guards,
        violations=max(counted, len({event.call for _, event in events})),
        events=[id for id, _ in events],
    )


def build_violated(entries: Iterable[Entry]) -> list[Violated]:
    """One for each cause in each function: entries, resumed frames and ranks see the same."""
    found: dict[tuple[str, str, str, bool], list[tuple[Entry, Violation]]] = defaultdict(list)
    for entry in entries:
        for violation in entry.violations:
            harmless = violation.effect == "same"
            found[entry.function, violation.name, violation.kind, harmless].append((entry, violation))
    return [_merged(seen) for seen in found.values()]


def _merged(seen: list[tuple[Entry, Violation]]) -> Violated:
    """Entries of one frame share its calls; its resumed frames, and other ranks, see each call again."""
    entry, first = max(seen, key=lambda pair: (_WORSE.get(pair[1].effect, 1), -pair[1].call))
    per_frame: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for e, violation in seen:
        sums = per_frame[e.process, e.frame]
        for i, value in enumerate((violation.violations, e.calls or 0, e.checked)):
            sums[i] += value
    violations, calls, checked = max(per_frame.values())
    return Violated(
        first=first,
        entry=entry,
        effect=first.effect,
        violations=violations,
        calls=calls or None,
        checked=checked,
        events=[event for _, violation in seen for event in violation.events],
    )
