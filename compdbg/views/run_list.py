"""The runs of a folder, newest first: what was run, how it ended, what was found."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from compdbg.findings.collect import find_all
from compdbg.model.run import Run
from compdbg.store.reader import CannotRead, read_log, read_manifest
from compdbg.views.base import Column, View
from compdbg.views.places import duration

State = Literal["ended", "running", "stopped", "unreadable"]


class RunRow(Struct, frozen=True, kw_only=True):
    """One run. `stopped`: whoever was to write its end is gone."""

    run: str
    path: str
    program: list[str]
    state: State
    exit_status: int | None = None
    signal: int | None = None
    started: str | None = None
    age_s: float | None = None
    duration_s: float | None = None
    errors: int | None = None
    warnings: int | None = None


def run_list(folders: Iterable[Path]) -> View:
    return View(
        name="runs",
        title="Runs",
        items=[_row(folder) for folder in folders],
        columns=(
            Column("run", lambda r: r.run),
            Column("age", lambda r: _age(r.age_s), align="right"),
            Column("took", lambda r: duration(r.duration_s), align="right"),
            Column("end", _end),
            Column("errors", lambda r: _number(r.errors), align="right"),
            Column("warnings", lambda r: _number(r.warnings), align="right"),
            Column("program", lambda r: " ".join(r.program), wide=True),
        ),
        empty="no runs here; record one with: compdbg run script.py",
    )


def _row(folder: Path) -> RunRow:
    try:
        manifest = read_manifest(folder)
        found = manifest.get("findings") or _findings(folder)
    except CannotRead:
        return RunRow(run=folder.name, path=str(folder), program=[], state="unreadable")
    return RunRow(
        run=folder.name,
        path=str(folder),
        program=manifest.get("argv", []),
        state=_state(manifest),
        exit_status=manifest.get("exit_status"),
        signal=manifest.get("signal"),
        started=manifest.get("started"),
        age_s=_seconds_since(manifest.get("started")),
        duration_s=manifest.get("duration_s"),
        errors=found.get("error"),
        warnings=found.get("warning"),
    )


def _findings(folder: Path) -> dict[str, int]:
    """How many findings of each severity, for a run that was not counted at its end."""
    run = Run(read_log(folder))
    try:
        found = find_all(run)
    except Exception:  # a rule that fails on one run must not hide the others
        return {}
    return {severity: sum(f.severity == severity for f in found) for severity in ("error", "warning")}


def _state(manifest: dict[str, Any]) -> State:
    if manifest.get("complete"):
        return "ended"
    return "running" if _is_alive(manifest) else "stopped"


def _is_alive(manifest: dict[str, Any]) -> bool:
    """Whether the process that leads the run is there; one on another machine is taken to be."""
    pid, host = manifest.get("pid"), manifest.get("host")
    if pid is None:
        return False
    if host != os.uname().nodename:
        return True
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _seconds_since(started: str | None) -> float | None:
    try:
        then = datetime.datetime.fromisoformat(started or "")
        return round((datetime.datetime.now(datetime.UTC) - then).total_seconds(), 3)
    except (ValueError, TypeError):  # no date, or one without a time zone
        return None


def _age(seconds: float | None) -> str:
    """`5 s`, `12 min`, `3 h`, `2 d`."""
    if seconds is None:
        return ""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _end(row: RunRow) -> str:
    if row.state != "ended":
        return row.state
    if row.signal is not None:
        return f"signal {row.signal}"
    return "" if row.exit_status is None else f"exit {row.exit_status}"


def _number(count: int | None) -> str:
    return "?" if count is None else str(count)
