"""Findings that say alike of many subjects, told as one where a person reads; each has its id in JSON."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import msgspec

from compdbg.findings.base import Finding
from compdbg.findings.fusion_no_candidate import is_idle
from compdbg.findings.words import listed


def together(findings: Sequence[Finding]) -> list[Finding]:
    """With all fusions on, most have nothing to do in any one model: they are one finding of many ids."""
    told: list[Finding] = []
    for alike, group in itertools.groupby(findings, key=is_idle):
        found = list(group)
        told += [_as_one(found)] if alike and len(found) > 1 else found
    return told


def _as_one(found: list[Finding]) -> Finding:
    first, last = found[0], found[-1]
    names = [str(finding.data["pass"]) for finding in found]
    return msgspec.structs.replace(
        first,
        id=f"{first.id}-{last.id}",
        title=f"{len(found)} fusions ran and found nothing to fuse: {', '.join(names)}",
        cause="\n".join(_causes(found)),
        evidence=[finding.evidence[0] for finding in found if finding.evidence],
    )


def _causes(found: list[Finding]) -> Iterator[str]:
    """Each with its reason; the graphs once, where they are the same."""
    graphs = {tuple(finding.data["graphs"]) for finding in found}
    if len(graphs) == 1:
        yield f"On graph {listed(list(map(str, graphs.pop())), most=5)}:"
        yield from (f"{finding.data['pass']}: {finding.data['why']}." for finding in found)
    else:
        yield from (f"{finding.data['pass']}: {finding.cause}" for finding in found)
