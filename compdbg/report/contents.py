"""What a report is made of: the run as it may be shown, its views, and what was left out or replaced."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from msgspec import Struct

from compdbg.events import Where
from compdbg.findings.base import Finding
from compdbg.findings.collect import find_all
from compdbg.model.run import Run
from compdbg.report.thin import thinned
from compdbg.store.reader import Log
from compdbg.store.redact import redacted
from compdbg.views.base import Source
from compdbg.views.source_lines import line_of

_AROUND = 6
_LONGEST = 400


class Contents(Struct, frozen=True, kw_only=True):
    """A run to be shown to others. `redactions` is None where nothing was to be replaced."""

    source: Source
    redactions: list[str] | None
    carried: Log
    """The run as the report carries it: it may hold less than the views were made from."""


def contents(log: Log, *, redact: bool = True) -> Contents:
    """Take a run as it was read: lines of the program's files are added, what identifies people replaced."""
    if log.sources is None:
        log = replace(log, sources=_sources(log))
    hidden, redactor = redacted(log) if redact else (log, None)
    source = _source(hidden)
    carried = thinned(source)
    return Contents(source=source, redactions=redactor.told() if redactor else None, carried=carried)


def _source(log: Log) -> Source:
    run = Run(log)
    return Source(run, find_all(run))


def _sources(log: Log) -> dict[str, dict[int, str]]:
    """The lines around every place that a finding names, read now; none if source was not to be recorded.

    Only of Python files and of the program itself: a run that somebody else made may name any file.
    """
    if log.manifest.get("options", {}).get("source") is False:
        return {}
    found: dict[str, dict[int, str]] = {}
    for where in _places(find_all(Run(log))):
        if not (where.file.endswith(".py") or where.file in log.manifest.get("argv", [])):
            continue
        lines = found.setdefault(where.file, {})
        for number in range(max(1, where.line - _AROUND), where.line + _AROUND + 1):
            text = line_of(where.file, number).rstrip("\n")
            if text:
                lines[number] = text[:_LONGEST]
    return {file: lines for file, lines in found.items() if lines}


def _places(findings: Iterable[Finding]) -> Iterable[Where]:
    return (f.where for f in findings if f.where is not None and f.where.line > 0)
