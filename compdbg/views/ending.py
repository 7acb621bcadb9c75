"""How a program ended, in words: a run that failed is never told as one without a fault."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from compdbg.findings.base import Finding
from compdbg.model.ending import Uncaught
from compdbg.model.run import Run
from compdbg.model.summary import Summary
from compdbg.views.places import duration, place

_MESSAGE = 200
_WHO = {"program": "the program", "block": "the recorded block", "process": "a process of the program"}


def failure(run: Run, *, with_message: bool = True) -> str:
    """How the program failed, as half a sentence; empty if it did not."""
    summary = run.summary
    if summary.uncaught is not None:
        what = raised(summary.uncaught, with_message=with_message)
        return f"{_who(summary.uncaught)} ended with {what}"
    if summary.signal:
        return f"the program was ended by {signal_name(summary.signal)}"
    if summary.exit_status:
        return f"the program ended with exit status {summary.exit_status}"
    return ""


def is_told(run: Run, findings: Sequence[Finding]) -> bool:
    """Whether a finding is of what the program failed with: it says more than the exception does."""
    return any(f.severity == "error" and f.cost.results == "failed" and _is_of(f, run) for f in findings)


def _is_of(finding: Finding, run: Run) -> bool:
    names = {finding.data.get("error"), finding.data.get("root_error")} - {None}
    return not names or run.summary.uncaught is None or run.summary.uncaught.error in names


def raised(uncaught: Uncaught, *, with_message: bool = True) -> str:
    """`ValueError at train.py:12: no good`."""
    where = f" at {place(uncaught.where)}" if uncaught.where is not None else ""
    message = uncaught.message.strip().partition("\n")[0].rstrip(".") if with_message else ""
    if len(message) > _MESSAGE:
        message = message[: _MESSAGE - 1] + "…"
    return f"{uncaught.error}{where}" + (f": {message}" if message else "")


def ended(summary: Summary) -> str:
    """The end of the program itself, as a fact."""
    if not summary.complete:
        return "still running, or the recorder was stopped"
    took = f"after {duration(summary.duration_s)}"
    what = f"; {raised(summary.uncaught)}" if summary.uncaught is not None else ""
    if summary.signal:
        return f"by {signal_name(summary.signal)} {took}{what}"
    if summary.exit_status is None:
        return f"{took}; nobody waited for its exit status{what}"
    return f"with exit status {summary.exit_status} {took}{what}"


def nothing_found(run: Run) -> str:
    """What stands in place of findings where there are none."""
    if failure(run):
        return "No findings: nothing that was recorded explains how the program ended."
    return "No findings: nothing wrong was seen in this run."


def signal_name(number: int) -> str:
    """`signal 11 (SIGSEGV)`."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _who(uncaught: Uncaught) -> str:
    if uncaught.of == "process" and uncaught.rank is not None:
        return f"rank {uncaught.rank}"
    return _WHO[uncaught.of]
