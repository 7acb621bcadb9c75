"""What a report is made of: the run as it may be shown, its views, and what was left out or replaced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from msgspec import Struct

from compdbg.events import Where
from compdbg.findings.base import Finding
from compdbg.findings.collect import find_all
from compdbg.model.run import Run
from compdbg.report.readable import with_readable_code
from compdbg.report.thin import thinned
from compdbg.store.reader import Log
from compdbg.store.redact import redacted
from compdbg.views.base import Source
from compdbg.views.source_lines import line_of

_AROUND = 6
_LONGEST = 400
_MOST = 500
"""Places of which the lines are kept."""


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
    log = with_readable_code(log)
    hidden, redactor = redacted(log) if redact else (log, None)
    source = _source(hidden)
    carried = thinned(source)
    return Contents(source=source, redactions=redactor.told() if redactor else None, carried=carried)


def _source(log: Log) -> Source:
    run = Run(log)
    return Source(run, find_all(run))


def _sources(log: Log) -> dict[str, dict[int, str]]:
    """The lines around the places that matter, read now; none if source was not to be recorded.

    Only of Python files and of the program itself: a run that somebody else made may name any file.
    """
    if log.manifest.get("options", {}).get("source") is False:
        return {}
    found: dict[str, dict[int, str]] = {}
    run = Run(log)
    for where in islice(dict.fromkeys(_places(run, find_all(run))), _MOST):
        if not (where.file.endswith(".py") or where.file in log.manifest.get("argv", [])):
            continue
        lines = found.setdefault(where.file, {})
        for number in range(max(1, where.line - _AROUND), where.line + _AROUND + 1):
            text = line_of(where.file, number).rstrip("\n")
            if text:
                lines[number] = text[:_LONGEST]
    return {file: lines for file, lines in found.items() if lines}


def _places(run: Run, findings: Iterable[Finding]) -> Iterator[Where]:
    """What findings name; patterns; guards that were false; where matching stopped."""
    yield from (f.where for f in findings if f.where is not None)
    yield from (p.where for a in run.fusion.applied.values() if a.custom for p in a.patterns if p.where)
    yield from (v.first.where for v in run.violated if v.first.where is not None)
    yield from (s.where for s in run.fusion.sites if s.state == "missed" and s.where is not None)
