"""The dispatch of a function as the chain of conditions that torch checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compdbg.model.guards import Entry
from compdbg.views.explorer.base import CodeLine
from compdbg.views.guard_text import in_python
from compdbg.views.guards import GuardRow, guard_rows
from compdbg.views.places import counted

MAX_CONDITIONS = 12


def dispatch(entries: Sequence[Entry], shown_entry: Entry) -> list[CodeLine]:
    """What a call of a function does: an if for each compiled entry, newest first as torch tries them."""
    lines = [CodeLine(f"def {entries[0].name}(…):")]
    for entry in reversed(entries):
        lines += _branch(entry, marked=entry is shown_entry)
    return [*lines, CodeLine("    compile again, or run eager")]


def _branch(entry: Entry, *, marked: bool) -> Iterable[CodeLine]:
    rows = guard_rows(entry)
    kept = list(dict.fromkeys(in_python(r.expr) for r in rows if r.kept))
    dropped = [r for r in rows if not r.kept]
    calls = "" if entry.calls is None else f", {counted(entry.calls, 'call')}"
    yield CodeLine(f"    # entry {entry.compile_id}{calls}", ">" if marked else "")
    conditions = kept[:MAX_CONDITIONS]
    if not conditions:
        yield CodeLine("    if True:   # no guard was kept")
    for n, condition in enumerate(conditions):
        yield CodeLine(f"    {'if' if n == 0 else '   and'} {condition}")
    if len(kept) > MAX_CONDITIONS:
        yield CodeLine(f"       and … {len(kept) - MAX_CONDITIONS} more")
    yield from _not_checked(dropped)
    yield CodeLine(f"        return compiled_{entry.compile_id.replace('/', '_')}(…)")


def _not_checked(dropped: list[GuardRow]) -> Iterable[CodeLine]:
    if not dropped:
        return
    yield CodeLine(f"       # not checked, {counted(len(dropped), 'guard was', 'guards were')} dropped:")
    false_first = sorted(dropped, key=lambda r: not r.violations)
    for row in false_first[:MAX_CONDITIONS]:
        said = f"   false on {counted(row.violations, 'call')}" if row.violations else ""
        yield CodeLine(f"       #   {in_python(row.expr)}{said}", "x" if row.violations else "")
    if len(dropped) > MAX_CONDITIONS:
        yield CodeLine(f"       #   … {len(dropped) - MAX_CONDITIONS} more")
