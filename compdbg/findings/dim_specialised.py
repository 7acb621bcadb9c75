"""`dim-specialised`: a dimension that was asked to be dynamic became a number."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import msgspec

from compdbg.events import CompileError, SizeBranch, Where
from compdbg.findings.base import Cost, Finding
from compdbg.findings.dim_words import cause_of, suggestion_for, title_of
from compdbg.model.causes import read_reason
from compdbg.model.fixed_sizes import fixed_sizes
from compdbg.model.frames import Compile
from compdbg.model.life_lines import life_line
from compdbg.model.run import Run
from compdbg.model.sources import dimension
from compdbg.model.symbols import EXPLICIT, Dimension

_VIOLATED = re.compile(r"Constraints violated \((?P<sources>.*?)\)!")


def dim_specialised(run: Run) -> Iterator[Finding]:
    """One finding for each op or compile that fixes what was asked to vary."""
    errors = {
        (id.partition(":")[0], e.frame, e.compile_id): (id, e)
        for id, e in run.frames.errors
        if e.root_error == "ConstraintViolationError"
    }
    groups: dict[tuple[object, ...], list[Dimension]] = defaultdict(list)
    for each in run.dimensions:
        key = (each.process, each.frame, each.compile_id)
        if each.is_static and (key in errors or _matters(run, each)):
            where = each.fixed.where if each.fixed else None
            groups[each.frame, where, each.zero_one, each.why != ""].append(each)
    explained: set[str] = set()
    for found in groups.values():
        first = found[0]
        error = errors.get((first.process, first.frame, first.compile_id)) if _is_explicit(first) else None
        if error is not None:
            explained.add(error[0])
        yield _finding(run, found, error)
    for id, error_event in errors.values():
        if id not in explained:
            yield _out_of_range(run, id, error_event)


def _is_explicit(each: Dimension) -> bool:
    return each.asked in EXPLICIT


def _matters(run: Run, each: Dimension) -> bool:
    """Asked for by name and never dynamic before; or of all dimensions, and a later call differed."""
    if each.dim is None or each.asked in ("automatic", "static"):
        return False
    if _is_explicit(each):
        return not (each.zero_one and _was_dynamic_before(run, each))
    return bool(_recompiles_for(run, each))


def _was_dynamic_before(run: Run, each: Dimension) -> bool:
    """A size of 0 or 1 that comes after a dynamic compile only adds an entry for itself."""
    for other in run.dimensions:
        if other is each:
            return False
        same = (other.process, other.frame, other.source) == (each.process, each.frame, each.source)
        if same and not other.is_static:
            return True
    return False


def _recompiles_for(run: Run, each: Dimension, *, of_any_entry: bool = False) -> list[str]:
    """Events of recompiles because this very entry (or any of the frame) held this size fixed."""
    events = []
    for compiled in run.frames.compiles:
        if (compiled.process, compiled.frame) != (each.process, each.frame):
            continue
        for reason in compiled.reasons:
            cause = read_reason(reason.text)
            same_size = (cause.subject, cause.axis) == (each.tensor, each.dim)
            if same_size and (of_any_entry or reason.failed == each.compile_id):
                events += [reason.event, compiled.start]
    return events


def _finding(run: Run, found: list[Dimension], error: tuple[str, CompileError] | None) -> Finding:
    first = found[0]
    compiled = _compile_of(run, first)
    where = (first.fixed.where if first.fixed else None) or (compiled.where if compiled else None)
    failed = error is not None
    recompiled = [event for each in found for event in _recompiles_for(run, each, of_any_entry=True)]
    name = compiled.name if compiled is not None else first.frame
    limit, through = _limit_through(run, found)
    return Finding(
        code="dim-specialised",
        severity="error" if failed or limit else "warning",
        title=title_of(found, name, where),
        cause=cause_of(found, name, where, failed=failed, recompiled=bool(recompiled)) + _eager_from(limit),
        suggestion=suggestion_for(first),
        where=where,
        evidence=list(dict.fromkeys(event for each in found for event in each.events)),
        explains=[*([error[0]] if error else []), *recompiled, *through, *_harmless(run, found)],
        cost=Cost(results="failed" if failed else "same"),
        data={
            "zero_one": first.zero_one,
            "asked": first.asked,
            "sources": list(dict.fromkeys(each.source for each in found)),
            "dimensions": list(dict.fromkeys(each.name for each in found)),
            "value": first.fixed.value if first.fixed else first.value,
            "op": first.fixed.op if first.fixed else None,
            "node": first.fixed.node if first.fixed else None,
            "met": first.fixed.met if first.fixed else [],
            "constraint_violated": failed,
            "function": name,
            "eager_from_call": limit.limit.call if limit and limit.limit and not limit.limit.raises else None,
            "life_line": msgspec.to_builtins(life_line(first)),
        },
        subject=" ".join(dict.fromkeys(each.name for each in found)),
    )


def _harmless(run: Run, found: list[Dimension]) -> list[str]:
    """Dropped guards on these sizes that were false and changed no result."""
    return [
        event
        for violated in run.violated
        if violated.effect == "same" and fixed_sizes(violated, found)
        for event in (*violated.events, violated.entry.event)
    ]


def _limit_through(run: Run, found: list[Dimension]) -> tuple[Compile | None, list[str]]:
    """The recompile limit that was hit because of these sizes and nothing else, and its events."""
    fixed = {(each.process, each.frame, each.tensor, each.dim) for each in found}
    for history in run.histories:
        hit = history.limit
        if hit is None:
            continue
        causes = {(hit.process, hit.frame, group.subject, group.axis) for group in history.groups}
        if causes and causes <= fixed:
            return hit, [*hit.events, *(event for group in history.groups for event in group.events)]
    return None, []


def _eager_from(hit: Compile | None) -> str:
    if hit is None or hit.limit is None:
        return ""
    effect = "raise" if hit.limit.raises else "run eager"
    call = "a later call" if hit.limit.call is None else f"call {hit.limit.call}"
    limit = f"{hit.limit.limit} ({hit.limit.limit_value})"
    return f" {limit} is used up: calls of other sizes {effect} from {call} on."


def _compile_of(run: Run, each: Dimension) -> Compile | None:
    key = (each.process, each.frame, each.compile_id)
    return next((c for c in run.frames.compiles if (c.process, c.frame, c.compile_id) == key), None)


def _out_of_range(run: Run, id: str, error: CompileError) -> Finding:
    """A constraint is violated though nothing became a number: the code narrows a promised range."""
    found = _VIOLATED.search(error.message)
    names = [dimension(source.strip()) for source in found["sources"].split(",")] if found else []
    shown = ", ".join(tensor if dim is None else f"{tensor}.size({dim})" for tensor, dim in names)
    detail = " ".join(line.strip(" -") for line in error.message.splitlines()[1:4] if line.strip())
    return Finding(
        code="dim-specialised",
        severity="error",
        title=f"the code does not hold for all sizes that {shown or 'a dimension'} was marked dynamic for",
        cause=detail or error.message.partition("\n")[0],
        suggestion="Narrow the range given to mark_dynamic (min=, max=) to the sizes that the code handles "
        "alike, "
        "or take the branch on the size out of the compiled function.",
        where=_branch_line(run, id, error) or error.where,
        evidence=[id],
        explains=[id],
        cost=Cost(results="failed"),
        data={
            "zero_one": False,
            "asked": "mark_dynamic",
            "sources": [source.strip() for source in found["sources"].split(",")] if found else [],
            "dimensions": [shown] if shown else [],
            "value": None,
            "op": None,
            "node": None,
            "met": [],
            "constraint_violated": True,
            "function": error.frame.rsplit(":", 1)[-1],
        },
        subject=shown,
    )


def _branch_line(run: Run, id: str, error: CompileError) -> Where | None:
    """The user's line of the first decision over sizes in that compile."""
    process = id.partition(":")[0]
    for header, event in run.log.of(SizeBranch):
        same = (header.process, event.frame, event.compile_id) == (process, error.frame, error.compile_id)
        if same and not event.harmless and event.where is not None:
            return event.where
    return None
