"""`recorder-degraded`: what this run does not show, because the recorder could not see or keep it."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.findings.base import Finding
from compdbg.model.health import Health, HookHealth
from compdbg.model.run import Run


def recorder_degraded(run: Run) -> Iterator[Finding]:
    """One finding a hook, one for events lost, one for a log without any, one for processes not covered."""
    health = run.health
    for hook in health.hooks:
        if hook.state in ("absent", "degraded"):
            yield _hook(hook)
    if health.lost or health.damaged or health.unreadable:
        yield _lost(health)
    if health.empty:
        yield _empty()
    if health.missed:
        yield _missed(health)


def _hook(hook: HookHealth) -> Finding:
    what = {"absent": "could not be installed"}.get(hook.state, "worked in part only")
    detail = "; ".join(hook.details) or "no detail was recorded"
    return Finding(
        code="recorder-degraded",
        severity="warning",
        title=f"the hook {hook.hook!r} {what}: what it watches may be missing from this run",
        cause=f"{detail}. The program was not affected.",
        suggestion="Run `compdbg doctor` to see which hooks work with this version of torch, and upgrade "
        f"compdbg; --no-{hook.hook} leaves the hook out.",
        evidence=hook.evidence,
        data={"kind": "hook", "hook": hook.hook, "state": hook.state, "errors": hook.errors},
        subject=f"hook {hook.hook}",
    )


def _lost(health: Health) -> Finding:
    count = health.lost + health.damaged
    parts = [
        f"{health.lost} could not be written ({health.lost_reason})" if health.lost else "",
        f"{health.damaged} can't be read back" if health.damaged else "",
        f"no right to read {', '.join(health.unreadable)}" if health.unreadable else "",
    ]
    return Finding(
        code="recorder-degraded",
        severity="warning",
        title=f"{count} events are missing from the log" if count else "part of the log can't be read",
        cause=f"Of the events recorded, {' and '.join(p for p in parts if p)}.",
        suggestion="Make room or give the rights where the run is written, or name another folder with -o; "
        "then run again. Other findings of this run are true, but some may be missing.",
        evidence=health.lost_evidence,
        data={"kind": "events", "lost": health.lost, "damaged": health.damaged},
        subject="events",
    )


def _empty() -> Finding:
    return Finding(
        code="recorder-degraded",
        severity="warning",
        title="the log holds no event, though the run came to its end",
        cause="What was recorded is gone: the run's *.jsonl files are not there, were cut, or are empty.",
        suggestion="Look whether they were moved or cleaned up, or whether the disk was full; then run "
        "again. Nothing can be said of what the run did.",
        data={"kind": "empty"},
        subject="empty log",
    )


def _missed(health: Health) -> Finding:
    first = health.missed[0]
    count = len(health.missed)
    return Finding(
        code="recorder-degraded",
        severity="warning",
        title=f"{count} {'process was' if count == 1 else 'processes were'} not recorded: "
        f"{' '.join(first.argv)[:80]}",
        cause="; ".join(dict.fromkeys(m.reason for m in health.missed)) + ".",
        suggestion="Install compdbg in the environment of that process, and let COMPDBG_RUN through where "
        "the program makes an environment of its own.",
        evidence=[id for m in health.missed for id in m.evidence],
        data={"kind": "processes", "count": count},
        subject="processes",
    )
