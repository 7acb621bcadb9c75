"""`constant-baked`: Python values frozen in the compiled code, whose guards were dropped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from compdbg.events import Guard, Where
from compdbg.findings.base import Finding
from compdbg.findings.guard_dropped_violated import dropper, named
from compdbg.findings.words import at, listed
from compdbg.model.guards import Entry
from compdbg.model.run import Run

_MOST = 100
_TRAINING = ".training"


class _Constant(Struct, frozen=True):
    name: str
    value: object
    where: Where | None


def constant_baked(run: Run) -> Iterator[Finding]:
    """One finding a function that was compiled with its guards dropped and froze anything."""
    by_function: dict[str, list[Entry]] = defaultdict(list)
    for entry in run.entries:
        if entry.drop_requested:
            by_function[entry.function].append(entry)
    violated = {(v.entry.function, v.first.name) for v in run.violated}
    for function, entries in by_function.items():
        constants = [c for c in _constants(entries) if (function, c.name) not in violated]
        if constants:
            yield _finding(entries, constants)


def _constants(entries: list[Entry]) -> list[_Constant]:
    """Each name once; the train/eval flags of a model are one constant if they agree."""
    found: dict[str, _Constant] = {}
    flags: dict[str, Guard] = {}
    for guard in (guard for entry in entries for guard in entry.guards):
        if not guard.constant or guard.kept or str(guard.value) == guard.constant:
            continue  # `torch.int8` is the value that it names
        if guard.constant.endswith(_TRAINING):
            flags.setdefault(guard.constant, guard)
        else:
            found.setdefault(guard.constant, _Constant(guard.constant, guard.value, guard.where))
    return [*found.values(), *_flags(list(flags.values()))]


def _flags(guards: list[Guard]) -> list[_Constant]:
    if len(guards) > 1 and len({guard.value for guard in guards}) == 1:
        return [_Constant(f"training of {len(guards)} modules", guards[0].value, guards[0].where)]
    return [_Constant(guard.constant, guard.value, guard.where) for guard in guards]


def _finding(entries: list[Entry], constants: list[_Constant]) -> Finding:
    entry = entries[0]
    name = named(entry)
    shown = [f"{c.name} = {_text(c.value)} ({at(c.where)})" for c in constants]
    noun = "Python value is frozen" if len(constants) == 1 else "Python values are frozen"
    return Finding(
        code="constant-baked",
        severity="info",
        title=f"{name}: {len(constants)} {noun} in its compiled code",
        cause=f"Read while tracing, their guards dropped by {dropper(entry)}: {listed(shown, 12)}. "
        "None was seen to change.",
        suggestion="Nothing while they stay as they are. One that changes from call to call belongs in a "
        "tensor argument, or needs its guard.",
        where=next((c.where for c in constants if c.where is not None), None),
        evidence=[e.event for e in entries],
        data={
            "constants": [
                {
                    "name": c.name,
                    "value": c.value,
                    "file": c.where.file if c.where else None,
                    "line": c.where.line if c.where else None,
                }
                for c in constants[:_MOST]
            ],
            "total": len(constants),
            "frame": entry.frame,
        },
        subject=entry.name,
    )


def _text(value: object) -> str:
    return repr(value) if isinstance(value, (bool, int, float, str, type(None))) else str(value)
