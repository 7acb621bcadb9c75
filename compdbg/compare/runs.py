"""Two runs compared: every difference, as a view, a key, and what each run has there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from compdbg.compare.factors import factor_changes
from compdbg.compare.facts import Facts, facts_of
from compdbg.compare.findings import unmatched
from compdbg.compare.graphs import Change, graph_changes, work_of
from compdbg.compare.names import Script, script_of
from compdbg.compare.times import time_changes
from compdbg.findings.base import Finding
from compdbg.model.run import Run
from compdbg.store.ranks import only_rank, ranks_of

VIEWS = ("summary", "findings", "config", "frames", "guards", "fusion", "passes", "splits", "sizes", "cache",
         "time")  # fmt: skip
_TOLD = ("slow-compile", "cache-miss")
"""Findings about what `time` and `cache` compare."""


class Difference(Struct, frozen=True, kw_only=True):
    """One difference. `a` and `b` are what the two runs have; None where one has nothing."""

    view: str
    key: str
    change: Literal["added", "removed", "changed"]
    a: str | None
    b: str | None


def compare(
    a: Run,
    found_a: Sequence[Finding],
    b: Run,
    found_b: Sequence[Finding],
    told: Callable[[str, float], None] = lambda what, part: None,
) -> list[Difference]:
    """All differences, in the order of the views; `told` what is being compared, and how far that is."""
    script = script_of(b, a)
    told("comparing facts", 0.0)
    found = [*_findings(found_a, found_b, script), *_facts(facts_of(a), facts_of(b, script))]
    told("comparing passes", 0.3)
    found += _of("passes", _by_rank(a, b, lambda x, y: graph_changes(work_of(x), work_of(y, script))))
    told("comparing caches", 0.55)
    found += _of("cache", _by_rank(a, b, factor_changes))
    told("comparing times", 0.7)
    found += _of("time", _by_rank(a, b, time_changes))
    return sorted(found, key=lambda d: VIEWS.index(d.view))


def _by_rank(a: Run, b: Run, compared: Callable[[Run, Run], Iterable[Change]]) -> Iterator[Change]:
    """Changes of each rank that both runs have: what all ranks have alike once, the rest by rank."""
    ranks = ranks_of(a.log)
    if len(ranks) < 2 or ranks != ranks_of(b.log):
        yield from compared(a, b)
        return
    found: dict[Change, list[int]] = {}
    for rank in ranks:
        for change in compared(*(Run(only_rank(run.log, rank)) for run in (a, b))):
            found.setdefault(change, []).append(rank)
    for change, on in found.items():
        if on == ranks:
            yield change
        else:
            yield Change(f"rank {', '.join(map(str, on))}: {change.key}", change.a, change.b)


def _difference(view: str, key: str, a: str | None, b: str | None) -> Difference:
    change: Literal["added", "removed", "changed"] = (
        "added" if a is None else "removed" if b is None else "changed"
    )
    return Difference(view=view, key=key, change=change, a=a, b=b)


def _of(view: str, changes: Iterable[Change]) -> Iterator[Difference]:
    return (_difference(view, c.key, c.a, c.b) for c in changes)


def _facts(a: Facts, b: Facts) -> Iterator[Difference]:
    for key in dict.fromkeys([*a.values, *b.values]):
        before, after = a.values.get(key), b.values.get(key)
        hidden = key in a.weak | b.weak and (before is None or after is None)
        hidden |= a.frames.get(key, b.frames.get(key)) in a.loaded ^ b.loaded
        if before != after and not hidden:
            yield _difference(*key, before, after)


def _findings(a: Sequence[Finding], b: Sequence[Finding], script: Script) -> Iterator[Difference]:
    a, b = ([f for f in found if f.code not in _TOLD] for found in (a, b))
    gone, new = (
        {_key(f): _said(f) for f in found} for found in (unmatched(a, b, script), unmatched(b, a, script))
    )
    yield from (_difference("findings", key, said, None) for key, said in gone.items())
    yield from (_difference("findings", key, None, said) for key, said in new.items())
    before = {f.fingerprint: f for f in a}
    for finding in b:
        old = before.get(finding.fingerprint)
        if old is not None and old.severity != finding.severity:
            yield _difference("findings", _key(finding), _said(old), _said(finding))


def _key(finding: Finding) -> str:
    return f"{finding.code} {finding.fingerprint}"


def _said(finding: Finding) -> str:
    return f"{finding.severity}: {finding.title}"
