"""`fusion-missed`: an anchor that no pattern took, with more of the pattern close by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

from compdbg.events import NearMiss, Pattern
from compdbg.findings.base import Cost, Finding
from compdbg.model.fusion import Fusion
from compdbg.model.fusion_rows import Applied
from compdbg.model.fusion_sites import Attempt, Site, grouped_by_reason
from compdbg.model.run import Run

_ADVICE = {
    "target-mismatch": "Register a variant of the pattern with {found} there, or take it out of the model.",
    "multiple-users": "Keep the intermediate value to one user, or return it from the pattern as an output.",
    "arg-mismatch": "Register a variant of the pattern for {found}, or make the call as the pattern has it.",
    "dtype-mismatch": "Register the pattern with example inputs of the dtype that the model has.",
    "shape-mismatch": "Register the pattern with example inputs of the model's rank, or without such ops.",
    "kwarg-mismatch": "Give the pattern a separate argument where the model passes another value.",
    "extra-check": "See why the check refuses these sites; it alone keeps the fusion from firing.",
    "retrace-mismatch": "Trace the pattern at the model's shapes, and compare with `compdbg show passes`.",
    "mutation-region": "Move the mutation before or after the ops to be fused.",
    "stream-boundary": "Run the ops of the pattern on one stream and memory pool.",
    "unsupported-dtype": "Inductor generates no code for this dtype: convert before the ops to be fused.",
    "crosses-split": "Split elsewhere, or leave the op out of splitting_ops, so that one piece holds all.",
    "other": "See what torch said, and try the pattern on a graph of its own.",
}


_STAGES = {
    "first": "first match",
    "second": "second match, at the real shapes",
    "check": "extra check",
    "discard": "discarded after the match",
}


def fusion_missed(run: Run) -> Iterator[Finding]:
    fusion = run.fusion
    broken = {(p.pass_name, p.pattern) for _, p in fusion.problems if p.problem != "lost-nodes"}
    by_pass: dict[str, list[tuple[Applied, Site]]] = {}
    for site in fusion.sites:
        applied = fusion.applied.get((site.process, site.pass_id))
        if (
            applied is not None
            and applied.custom
            and (applied.name, site.nearest.event.pattern) not in broken
        ):
            by_pass.setdefault(applied.name, []).append((applied, site))
    for found in by_pass.values():
        fired = _on_one_rank(fusion, [(applied, site) for applied, site in found if site.state == "taken"])
        owners = {id(site): applied for applied, site in found}
        for reason, group in grouped_by_reason(site for _, site in found).items():
            sites = _on_one_rank(fusion, [(owners[id(site)], site) for site in group])
            yield _finding(owners[id(group[0])], reason, group, sites, fired)


def _on_one_rank(fusion: Fusion, sites: list[tuple[Applied, Site]]) -> int:
    """How many there are on one rank, as ranks do the same work; of twin pieces each counts."""
    counts: Counter[int | None] = Counter()
    for applied, site in sites:
        counts[applied.rank] += fusion.pieces(site.graph)
    return max(counts.values(), default=0)


def _finding(applied: Applied, reason: str, sites: list[Site], count: int, fired: int) -> Finding:
    nearest = max(sites, key=lambda s: s.nearest.progress).nearest
    miss = nearest.miss
    assert miss is not None
    first = next((s for s in sites if s.where is not None), sites[0])
    lines = sorted({(s.where.file, s.where.line) for s in sites if s.where is not None})
    return Finding(
        code="fusion-missed",
        severity="warning",
        title=f"{applied.name} missed {_counted(count)}: wanted {miss.wanted}, found {miss.found}",
        cause=_cause(applied, nearest, miss, fired),
        suggestion=_ADVICE[reason].format(found=miss.found),
        where=first.where,
        evidence=[a.id for s in sites for a in s.attempts if a.near][:50],
        cost=Cost(results="same"),
        data={
            "pass": applied.name,
            "pattern": nearest.event.pattern,
            "reason": reason,
            "sites": count,
            "fired": fired,
            "lines": [line for _, line in lines],
            "stage": miss.stage,
            "wanted": miss.wanted,
            "found": miss.found,
        },
        subject=f"{applied.name}|{reason}",
    )


def _cause(applied: Applied, nearest: Attempt, miss: NearMiss, fired: int) -> str:
    pattern = next((p for p in applied.patterns if p.name == nearest.event.pattern), None)
    parts = [
        f"Pattern {nearest.event.pattern}{_defined(pattern)} wants {miss.wanted}; "
        f"found at node {miss.node} of graph {nearest.event.graph}: {miss.found}.",
        f"Matching began at {nearest.event.anchor} and took {miss.matched_nodes} of "
        f"{miss.pattern_nodes} nodes ({miss.reason}, {_STAGES.get(miss.stage, miss.stage)}).",
    ]
    if miss.detail:
        parts.append(f"{_sentence(miss.detail)}.")
    if fired:
        parts.append(f"At {_counted(fired)} the pass fired.")
    return " ".join(parts)


def _sentence(detail: str) -> str:
    """A place alone, `model.py:12`, stays as it is written."""
    return f"{detail[0].upper()}{detail[1:]}" if " " in detail else f"See {detail}"


def _defined(pattern: Pattern | None) -> str:
    if pattern is None or pattern.where is None:
        return ""
    return f" ({PurePath(pattern.where.file).name}:{pattern.where.line})"


def _counted(count: int) -> str:
    return f"{count} site{'s' if count != 1 else ''}"
