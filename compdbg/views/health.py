"""How well the recorder itself worked: a row a hook, then what was lost and what was not seen."""

from __future__ import annotations

from msgspec import Struct

from compdbg.hooks.installed import MODULES
from compdbg.model.health import Health, HookHealth
from compdbg.views.base import Column, Source, View
from compdbg.views.places import counted


class HealthRow(Struct, frozen=True, kw_only=True):
    """One hook, or one of `log` and `processes`, which belong to no hook."""

    hook: str
    state: str
    detail: str | None
    lost_events: int


def health(source: Source) -> View:
    seen = source.run.health
    rows = [_hook(h) for h in seen.hooks]
    known = {h.hook for h in seen.hooks}
    rows += [
        HealthRow(hook=name, state="unused", detail="what it watches was not imported", lost_events=0)
        for name in MODULES
        if name not in known
    ]
    rows += [_log(seen), _processes(seen, source.run.summary.processes)]
    bad = [row.hook for row in rows if row.state in ("degraded", "absent")]
    return View(
        name="health",
        title=f"The recording is incomplete: {', '.join(bad)}" if bad else "The recorder worked as it should",
        items=rows,
        columns=(
            Column("what", lambda r: r.hook),
            Column("state", lambda r: r.state),
            Column("lost", lambda r: str(r.lost_events or ""), align="right"),
            Column("detail", lambda r: r.detail or "", wide=True),
        ),
    )


def _hook(hook: HookHealth) -> HealthRow:
    return HealthRow(
        hook=hook.hook, state=hook.state, detail="; ".join(hook.details) or None, lost_events=hook.errors
    )


def _log(seen: Health) -> HealthRow:
    """The files themselves. A cut last line is what a killed process leaves, and no fault of the log."""
    lost = seen.lost + seen.damaged
    details = [
        f"{counted(seen.lost, 'event')} not written: {seen.lost_reason}" if seen.lost else "",
        counted(seen.damaged, "damaged line") if seen.damaged else "",
        f"{counted(seen.partial, 'last line')} cut short" if seen.partial else "",
        f"unreadable: {', '.join(seen.unreadable)}" if seen.unreadable else "",
        _unknown(seen),
        f"{counted(seen.compiled_before, 'frame')} had been compiled before recording began"
        if seen.compiled_before
        else "",
    ]
    state = "degraded" if lost or seen.unreadable else "works"
    detail = "; ".join(d for d in details if d)
    return HealthRow(hook="log", state=state, detail=detail or None, lost_events=lost)


def _unknown(seen: Health) -> str:
    if not seen.unknown:
        return ""
    kinds = ", ".join(f"{kind} ({n})" for kind, n in sorted(seen.unknown.items()))
    return f"kinds that this version does not know: {kinds}"


def _processes(seen: Health, recorded: int) -> HealthRow:
    details = [f"{counted(recorded, 'process', 'processes')} recorded"]
    details += [f"not recorded: {' '.join(m.argv)} ({m.reason})" for m in seen.missed]
    return HealthRow(
        hook="processes",
        state="degraded" if seen.missed else "works",
        detail="; ".join(details),
        lost_events=0,
    )
