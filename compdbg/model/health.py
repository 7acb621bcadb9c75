"""How well the recorder itself did: its hooks, what it lost, and the processes that it did not see."""

from __future__ import annotations

from collections import defaultdict

from msgspec import Struct

from compdbg.events import (
    ChildEnd,
    EventsLost,
    HookError,
    HookState,
    ProcessMissed,
    ProcessStart,
)
from compdbg.store.reader import Log

_WORST_FIRST = ("absent", "degraded", "works", "unused")


class HookHealth(Struct, frozen=True, kw_only=True):
    """One hook over all processes: the worst state that any of them reports."""

    hook: str
    state: str
    details: list[str] = []
    errors: int = 0
    """How often the hook itself raised."""
    evidence: list[str] = []


class Missed(Struct, frozen=True, kw_only=True):
    """A process that was not recorded."""

    argv: list[str]
    reason: str
    evidence: list[str] = []


class Health(Struct, frozen=True, kw_only=True):
    """The recorder's own record."""

    hooks: list[HookHealth]
    lost: int
    """Events that could not be written."""
    lost_reason: str
    lost_evidence: list[str]
    damaged: int
    partial: int
    unknown: dict[str, int]
    unreadable: list[str]
    empty: bool
    """Whether a run that came to its end has no event, though its files can be read."""
    missed: list[Missed]
    compiled_before: int
    """Frames that were compiled before a `record()` block began."""


def build_health(log: Log) -> Health:
    losses = log.of(EventsLost)
    reasons = [event.reason for _, event in losses] or ["the log could not be written"] * bool(log.lost)
    return Health(
        hooks=_hooks(log),
        lost=sum(event.count for _, event in losses) + sum(log.lost.values()),
        lost_reason="; ".join(dict.fromkeys(reasons)),
        lost_evidence=[header.id for header, _ in losses],
        damaged=log.damaged,
        partial=log.partial,
        unknown=log.unknown,
        unreadable=log.unreadable,
        empty=bool(log.manifest.get("complete")) and not log.records and not log.unreadable,
        missed=_missed(log),
        compiled_before=sum(event.compiled_before for _, event in log.of(ProcessStart)),
    )


def _hooks(log: Log) -> list[HookHealth]:
    states: dict[str, list[tuple[str, HookState]]] = defaultdict(list)
    errors: dict[str, dict[tuple[str, str], tuple[str, HookError]]] = defaultdict(dict)
    for header, state in log.of(HookState):
        states[state.hook].append((header.id, state))
    for header, error in log.of(HookError):  # each is written at 1, 10, 100, ...: the last counts
        errors[error.hook][header.process, error.error] = (header.id, error)
    return [_hook(name, states[name], list(errors[name].values())) for name in sorted({*states, *errors})]


def _hook(name: str, states: list[tuple[str, HookState]], errors: list[tuple[str, HookError]]) -> HookHealth:
    worst = min((s.state for _, s in states), key=_severity, default="degraded")
    if errors and worst in ("works", "unused"):
        worst = "degraded"
    bad = [(id, s.detail) for id, s in states if s.state in ("absent", "degraded")]
    bad += [(id, f"raised {e.error}") for id, e in errors]
    switched_off = [s.detail for _, s in states if s.state == "unused" and s.detail]
    return HookHealth(
        hook=name,
        state=worst,
        details=list(dict.fromkeys([detail for _, detail in bad] or switched_off)),
        errors=sum(e.count for _, e in errors),
        evidence=[id for id, _ in bad],
    )


def _severity(state: str) -> int:
    return _WORST_FIRST.index(state) if state in _WORST_FIRST else len(_WORST_FIRST)


def _missed(log: Log) -> list[Missed]:
    missed = [Missed(argv=e.argv, reason=e.reason, evidence=[h.id]) for h, e in log.of(ProcessMissed)]
    if log.of(ProcessStart):
        return missed
    for header, end in log.of(ChildEnd):
        argv = [str(word) for word in log.manifest.get("argv", [])]
        reason = f"process {end.pid}, the program itself, and whatever it started began no recording"
        missed.append(Missed(argv=argv, reason=reason, evidence=[header.id]))
    return missed
