"""`guards-kept`: an options dict used for two compiles; torch took its guard filter out for the first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from compdbg.events import CompileRequest
from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, counted, listed
from compdbg.model.run import Run


def guards_kept(run: Run) -> Iterator[Finding]:
    """One finding a dict, with every compile that got it without its filter."""
    frames = run.frames
    compiled = {c.request for c in frames.compiles}
    groups: dict[str, list[tuple[str, CompileRequest]]] = defaultdict(list)
    for id, request in frames.requests.values():
        if request.lost_guard_filter and request.request in compiled:
            groups[request.filter_taken_by or ""].append((id, request))
    for taken_by, found in groups.items():
        yield _finding(frames.requests.get(taken_by), found)


def _finding(first: tuple[str, CompileRequest] | None, found: list[tuple[str, CompileRequest]]) -> Finding:
    lost = found[0][1]
    targets = list(dict.fromkeys(request.target for _, request in found))
    taken_at = at(first[1].where) if first is not None else "an earlier torch.compile"
    return Finding(
        code="guards-kept",
        severity="warning",
        title=f"{listed(targets)} compiled at {at(lost.where)} keeps all its guards: guard_filter_fn was "
        f"taken out of the options at {taken_at}",
        cause=f"torch.compile removes guard_filter_fn from the dict that it is given. The options at "
        f"{at(lost.where)} are the dict of {taken_at}, so {counted(len(found), 'compile')} got none: the "
        "guards "
        "are checked on every call, and a failed one compiles again.",
        suggestion="Give each torch.compile a dict of its own: options=dict(OPTIONS), or {**OPTIONS}.",
        where=lost.where,
        evidence=[*([first[0]] if first else []), *(id for id, _ in found)],
        cost=Cost(results="same"),
        data={
            "targets": targets,
            "lines": sorted({request.where.line for _, request in found if request.where}),
            "taken_at": None
            if first is None or first[1].where is None
            else {"file": first[1].where.file, "line": first[1].where.line},
        },
        subject=" ".join(targets),
    )
