"""The findings as a table, most costly first; those that say alike in one row."""

from __future__ import annotations

from compdbg.findings.base import Finding
from compdbg.views.base import Column, Source, View
from compdbg.views.ending import nothing_found
from compdbg.views.places import place
from compdbg.views.together import together


def findings(source: Source) -> View:
    return View(
        name="findings",
        title="Findings",
        items=source.findings,
        shown=together(source.findings),
        columns=(
            Column("id", lambda f: f.id),
            Column("severity", lambda f: f.severity),
            Column("code", lambda f: f.code),
            Column("where", lambda f: place(f.where)),
            Column("what", _title, wide=True),
        ),
        empty=nothing_found(source.run),
    )


def _title(finding: Finding) -> str:
    return finding.title
