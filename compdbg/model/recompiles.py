"""Why frames were compiled again: torch's reasons read into causes, and more than is normal told apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from compdbg.events import Where
from compdbg.model.causes import Cause, guard_of, read_reason
from compdbg.model.frames import Compile, Frames, Reason
from compdbg.model.trends import Forecast, forecast, movement

DYNAMIC = ("shape", "stride", "value", "branch", "zero-one")
"""Causes that torch answers by making something dynamic: one recompile each is how it works."""
_ALLOWED = {
    "shape": 1,
    "stride": 1,
    "value": 1,
    "branch": 2,
    "attribute": 1,
    "global": 1,
    "closure": 1,
    "identity": 1,
    "instance": 1,
    "container": 1,
    "grad-mode": 1,
    "backend": 1,
}
"""Recompiles of one subject that an expert expects; of what takes few values (dtypes, types,
None or a tensor, flags), one for each of three values."""
_OTHERS_ALLOWED = 2
_STATIC_ALLOWED = 2
"""Under `dynamic=False` an entry for each size is what was asked for: a few are no surprise."""
_COUNTED_APART = ("instance", "backend")
"""torch counts the entries of each instance, and of each backend, by themselves."""

Answered = dict[tuple[str, str, int | None], int]
"""What varied -> the newest entry that was compiled because of it."""


class Group(Struct, frozen=True, kw_only=True):
    """The recompiles of one cause: how many, with which values, more than is normal or not."""

    cause: str
    subject: str
    axis: int | None
    recompiles: int
    expected: int
    values: list[str]
    guard: str
    frame: str
    resumed: bool
    """Of a resume function after a graph break: what varies is a value on its way."""
    where: Where | None
    """The first line of the function; of a resume function, the line with the break."""
    events: list[str]
    calls: list[int | None]
    """The calls that were compiled for it, from 1; None where calls are not counted."""

    @property
    def trend(self) -> str | None:
        """How the value moves from one recompile to the next."""
        return movement(self.values)

    @property
    def excess(self) -> bool:
        return self.recompiles > self.expected


class History(Struct, frozen=True, kw_only=True):
    """The compiles of one function under one request in one process."""

    function: str
    compiles: list[Compile]
    groups: list[Group]
    """Those of the function itself first, then those of its resume functions; most recompiles first."""

    @property
    def limit(self) -> Compile | None:
        return next((c for c in self.compiles if c.limit is not None), None)

    @property
    def forecast(self) -> Forecast | None:
        """When the main cause, going on as it does, uses up the entries of the function's own frame."""
        if self.limit is not None or not self.groups:
            return None
        main = self.groups[0]
        if main.resumed or not main.excess or main.cause in _COUNTED_APART:
            return None
        own = [c for c in self.compiles if c.resume_of is None and c.result == "compiled"]
        return forecast(len(own), own[-1].entries, main.calls) if own else None

    @property
    def seconds(self) -> float:
        """What the recompiles cost."""
        return sum((c.duration_ms or 0.0) for c in self.compiles if c.reasons) / 1e3


def build_histories(frames: Frames) -> list[History]:
    """Group recompiles by function, request and cause; resume functions count to their function."""
    found: dict[tuple[str, str, int, str], list[Compile]] = defaultdict(list)
    for compiled in frames.compiles:
        if compiled.compile_id:
            key = (compiled.process, compiled.request, compiled.life, compiled.function)
            found[key].append(compiled)
    return [
        History(function=key[3], compiles=compiles, groups=_groups(compiles, _is_static(frames, key[1])))
        for key, compiles in found.items()
    ]


def _is_static(frames: Frames, request: str) -> bool:
    asked = frames.requests.get(request)
    return asked is not None and asked[1].dynamic is False


def _groups(compiles: list[Compile], static: bool) -> list[Group]:
    causes: dict[tuple[str, str, str, int | None], list[tuple[Cause, Compile, Reason]]] = defaultdict(list)
    answered: dict[str, Answered] = defaultdict(dict)
    first_of: set[str] = set()
    for compiled in compiles:
        again = compiled.frame in first_of
        first_of.add(compiled.frame)
        if compiled.reasons and (again or compiled.limit is not None):
            cause, reason = main_cause(compiled.reasons, answered[compiled.frame])
            causes[compiled.frame, *cause.group].append((cause, compiled, reason))
            answered[compiled.frame][cause.group] = _number(compiled.compile_id)
    groups = [_group(found, static) for found in causes.values()]
    return sorted(groups, key=lambda g: (g.resumed, -g.recompiles, g.cause, g.subject))


def _group(found: list[tuple[Cause, Compile, Reason]], static: bool) -> Group:
    first = found[0][0]
    special = {value for cause, _, _ in found if cause.kind in ("shape", "value") for value in cause.special}
    allowed = _ALLOWED.get(first.kind, _OTHERS_ALLOWED) + len(special)
    values: dict[str, None] = {}
    for cause, compiled, _ in found:
        for other in reversed(compiled.reasons):
            same = read_reason(other.text)
            if same.group == cause.group and same.wanted is not None:
                values[same.wanted] = None
        if cause.seen is not None:
            values[cause.seen] = None
    return Group(
        cause=first.kind,
        subject=first.subject,
        axis=first.axis,
        recompiles=len(found),
        expected=max(allowed, _STATIC_ALLOWED) if static and first.kind in DYNAMIC else allowed,
        values=list(values),
        guard=guard_of(found[-1][2].text),
        frame=found[0][1].frame,
        resumed=found[0][1].resume_of is not None,
        where=found[0][1].where,
        events=[event for _, compiled, reason in found for event in (reason.event, compiled.start)],
        calls=[compiled.call for _, compiled, _ in found],
    )


def main_cause(reasons: Sequence[Reason], answered: Answered) -> tuple[Cause, Reason]:
    """The cause of a recompile: of the entry that came nearest, the newest of several.

    An entry that fails in a size, where guards of other kinds come before, fits in all else; the
    newest of those is the one that torch had made most general. A size that a newer entry has
    made dynamic (`answered`) says nothing: only that the older entry is more special.
    """
    read = [(read_reason(reason.text), reason) for reason in reasons]

    def rank(pair: tuple[Cause, Reason]) -> tuple[bool, int, int]:
        cause, number = pair[0], _number(pair[1].failed)
        stale = cause.kind in DYNAMIC and number < answered.get(cause.group, number)
        return stale, _distance(cause), -number

    return min(read, key=rank)


def _distance(cause: Cause) -> int:
    """How early a guard of this kind is checked: global state first, sizes last."""
    if cause.kind in DYNAMIC:
        return 0
    near, far = ("attribute", "container", "global"), ("grad-mode", "global-state", "backend")
    if cause.kind in near:
        return 1 + near.index(cause.kind)
    return 9 if cause.kind in far else 5


def _number(compile_id: str) -> int:
    number = compile_id.rpartition("/")[2]
    return int(number) if number.isdecimal() else -1
