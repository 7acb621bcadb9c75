"""`cache-unusable`: every start compiles again, because a cache can't be read, written or asked."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import counted, listed
from compdbg.model.caches import Lookup, Problem
from compdbg.model.run import Run

_OWN_DOING = re.compile(r"custom pass|_custom_pass|_fusion_custom|ddp_communication|[Pp]ickle", re.ASCII)
"""Bypasses that the program can mend. What torch can't cache at all (some higher-order operators,
frozen weights, torchbind objects) is no fault: the `cache` view has the reason."""
_LAYER = re.compile(r"/(fxgraph|aotautograd)(?=/|$)")


def cache_unusable(run: Run) -> Iterator[Finding]:
    problems: dict[tuple[str, str], list[Problem]] = defaultdict(list)
    for problem in run.cache_problems:
        problems[problem.reason, _folder(problem.path)].append(problem)
    yield from (_of_problem(reason, path, found) for (reason, path), found in problems.items())
    bypassed: dict[str, list[Lookup]] = defaultdict(list)
    for lookup in run.lookups:
        if lookup.result == "bypass" and _OWN_DOING.search(lookup.reason):
            bypassed[_kind(lookup.reason)].append(lookup)
    yield from (_of_bypass(run, found) for found in bypassed.values())


def _of_problem(reason: str, path: str, found: list[Problem]) -> Finding:
    layers = sorted({problem.layer for problem in found})
    corrupt = "corrupt" in reason
    advice = (
        f"Delete {path}: torch makes the entry again. If it comes back, look for several programs that "
        "write to the same folder, or a full disk."
        if corrupt
        else f"Make {path} writable for this user, or name another folder in TORCHINDUCTOR_CACHE_DIR."
    )
    return Finding(
        code="cache-unusable",
        severity="warning",
        title=f"the compile cache can't be {'read' if corrupt else 'written'}: {reason}",
        cause=(
            f"{counted(len(found), 'entry', 'entries')} of the {listed(layers)} cache in {path}: {reason}. "
            "torch only logs it and goes on; the next start compiles again."
        ),
        suggestion=advice,
        evidence=[problem.event for problem in found],
        cost=Cost(results="same"),
        data={
            "kind": "corrupt" if corrupt else "unwritable",
            "layers": layers,
            "path": path,
            "reason": reason,
        },
        subject=f"{'corrupt' if corrupt else 'unwritable'} {' '.join(layers)}",
    )


def _of_bypass(run: Run, found: list[Lookup]) -> Finding:
    reason = found[0].reason
    pieces = sorted({lookup.piece or "?" for lookup in found})
    culprits = [p for p in run.passes if p.slot and p.where and "pass" in reason.lower()]
    named = f" ({listed(sorted({p.name for p in culprits}))})" if culprits else ""
    return Finding(
        code="cache-unusable",
        severity="warning",
        title=f"compiled artifacts are not cached: {reason}{named}",
        cause=(
            f"torch bypassed its {listed(sorted({e.layer.upper() for e in found}))} cache for graph "
            f"{listed(pieces)}: {reason}{named}. Every start of the program compiles again."
        ),
        suggestion=_bypass_advice(reason),
        where=culprits[0].where if culprits else None,
        evidence=[lookup.event for lookup in found],
        cost=Cost(results="same"),
        data={
            "kind": "bypass",
            "layers": sorted({e.layer for e in found}),
            "pieces": pieces,
            "reason": reason,
        },
        subject=f"bypass {_kind(reason)}",
    )


def _bypass_advice(reason: str) -> str:
    if "custom pass" in reason or "custom_pass" in reason:
        return (
            "Make the pass a torch._inductor.custom_graph_pass.CustomGraphPass whose uuid() covers its "
            "source (get_hash_for_files): a bare function has no identity that could go into the key."
        )
    return "Keep what can't be pickled out of the graph: pass it as an input, or hide it in a custom op."


def _kind(reason: str) -> str:
    return re.sub(r"\d+|0x[0-9a-f]+", "", reason)[:80]


def _folder(path: str) -> str:
    """The layer's folder: entries have one each below it."""
    layer = _LAYER.search(path)
    return path[: layer.end()] if layer is not None else path
