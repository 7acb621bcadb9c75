"""Configuration: what was asked for, what is in effect, who changed it and why."""

from __future__ import annotations

from compdbg.views.base import Column, Source, View


def config(source: Source) -> View:
    return View(
        name="config",
        title="Configuration",
        items=source.run.settings,
        columns=(
            Column("key", lambda s: s.key),
            Column("requested", lambda s: _short(s.requested)),
            Column("effective", lambda s: _short(s.effective)),
            Column("changed by", lambda s: s.changed_by),
            Column("why", lambda s: s.why, wide=True),
        ),
        empty="no configuration was recorded: the program used no engine that has one",
    )


def _short(value: str | None) -> str:
    """A value that fits a column; the whole of it is in the JSON."""
    if value is None:
        return "(open)"
    return value if len(value) <= 48 else value[:47] + "…"
