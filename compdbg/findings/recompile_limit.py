"""`recompile-limit`: from some call on, calls that match no compiled entry run eager (or raise)."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding
from compdbg.findings.recompile_groups import advice, axis_of, rows, said
from compdbg.findings.words import at
from compdbg.model.frames import Compile
from compdbg.model.recompiles import History
from compdbg.model.run import Run


def recompile_limit(run: Run) -> Iterator[Finding]:
    """One finding a function, also where its resume functions hit the limit too."""
    seen: set[str] = set()
    for history in run.histories:
        hit = history.limit
        if hit is not None and history.function not in seen:
            seen.add(history.function)
            yield _finding(history, hit)


def _finding(history: History, hit: Compile) -> Finding:
    assert hit.limit is not None
    limit, call = hit.limit, hit.limit.call
    groups = sorted(history.groups, key=lambda group: (group.frame != hit.frame, not group.excess))
    main = groups[0] if groups else None
    because = f": {axis_of(main)} varies" if main is not None else ""
    which = f"call {call}" if call is not None else "a later call"
    effect = "raises" if limit.raises else "runs eager"
    name = (
        f"the rest of {hit.name} (after its line {hit.where.line})"
        if hit.resume_of and hit.where
        else hit.name
    )
    start = f"From {which} on, a call of {name} ({at(hit.where)}) that matches none of the compiled entries "
    return Finding(
        code="recompile-limit",
        severity="error",
        title=f"{name} hit {limit.limit} ({limit.limit_value}) and {effect} from {which} on{because}",
        cause=f"{start}{effect}. " + " ".join(said(group) for group in groups),
        suggestion=advice([group for group in groups if group.excess] or groups)
        or f"Find what varies with `compdbg show guards`; raising torch._dynamo.config.{limit.limit} only "
        "buys time.",
        where=hit.where,
        evidence=[*hit.events, *(event for group in groups for event in group.events)],
        explains=[event for compiled in history.compiles for event in compiled.events],
        cost=Cost(results="failed" if limit.raises else "same", seconds=round(history.seconds, 3)),
        data={
            "function": hit.name,
            "eager_from_call": None if limit.raises else call,
            "raises_from_call": call if limit.raises else None,
            "limit": limit.limit,
            "limit_value": limit.limit_value,
            "recompiles": sum(group.recompiles for group in groups),
            "groups": rows(groups),
        },
        subject=hit.name,
    )
