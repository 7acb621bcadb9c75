"""Guards as Python, and the dispatch of a function as the chain of conditions that torch checks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from compdbg.model.guards import Entry
from compdbg.model.sources import shown
from compdbg.views.explorer.base import CodeLine
from compdbg.views.guards import GuardRow, guard_rows
from compdbg.views.places import counted

_TENSOR = re.compile(
    r"check_tensor\((?P<source>.+?), \w+, DispatchKeySet\(.*?\), (?P<dtype>[\w.]+), "
    r"device=(?P<device>[^,]+), requires_grad=(?P<grad>\w+), "
    r"size=\[(?P<size>.*?)\], stride=\[(?P<stride>.*?)\]\)$"
)
_SIZE = re.compile(r"(?P<tensor>[\w.\[\]'\"]+)\.size\(\)\[(?P<dim>\d+)\]")
_TYPE = re.compile(r"___check_type_id\((?P<source>.+?), \d+\), type=<class '(?P<type>[\w.]+)'>$")
_OBJECT = re.compile(r"___check_obj_id\((?P<source>.+?), \d+\)")
_ALIAS = re.compile(r"check_no_aliasing\((?P<sources>.+)\)$")
_ON_STATE = re.compile(r"^(?P<what>.*?) ?\(?(?:checked by )?___check_\w+\(\)\)?$")
MAX_CONDITIONS = 12


def in_python(expr: str) -> str:
    """A guard as a Python condition: what torch's C++ check compares, in the names of the user."""
    if found := _TENSOR.match(expr):
        name = shown(found["source"])
        parts = [f"{name}.dtype == {found['dtype']}", f"{name}.shape == ({_sizes(found['size'])})"]
        if found["grad"] == "True":
            parts.append(f"{name}.requires_grad")
        return " and ".join(parts)
    if found := _TYPE.match(expr):
        return f"type({shown(found['source'])}) is {found['type']}"
    if found := _OBJECT.match(expr):
        return f"{shown(found['source'])} is the same object"
    if found := _ALIAS.match(expr):
        return f"{' and '.join(map(shown, found['sources'].split(', ')))} are not the same tensor"
    if found := _ON_STATE.match(expr):
        return f"{found['what'].strip() or 'global state'} is as it was"
    return shown(_SIZE.sub(lambda s: f"{shown(s['tensor'])}.shape[{s['dim']}]", expr))


def _sizes(text: str) -> str:
    """`*, 4` for the sizes `None, 4`: any size."""
    sizes = ["*" if s.strip() == "None" else s.strip() for s in text.split(",")]
    return ", ".join(sizes) + ("," if len(sizes) == 1 else "")


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
