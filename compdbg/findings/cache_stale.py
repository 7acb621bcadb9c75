"""`cache-stale`: an artifact was reused that was made with another op schema, fake or pass."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.events import FactorChange
from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import counted, listed
from compdbg.model.run import Run
from compdbg.model.stale import Stale


def cache_stale(run: Run) -> Iterator[Finding]:
    for stale in run.stale:
        yield _finding(stale)


def _finding(stale: Stale) -> Finding:
    names = [change.name for change in stale.changes]
    has = "has" if len(names) == 1 else "have"
    one = len(stale.graphs) == 1
    graphs, used = counted(len(stale.graphs), "graph"), "is used" if one else "are used"
    made = f"by the run {stale.run}" if stale.run else "by an earlier run"
    return Finding(
        code="cache-stale",
        severity="error",
        title=f"{listed(names)} {has} changed, and {graphs} compiled before {used}",
        cause=(
            f"torch's cache gave {listed(stale.graphs)}, compiled {made}. Its key does not hold "
            f"{listed([_said(change) for change in stale.changes])}: what runs is what was made then."
        ),
        suggestion=_advice(names),
        where=stale.where,
        evidence=stale.events,
        explains=stale.events,
        cost=Cost(results="wrong"),
        data={
            "changes": [{"name": c.name, "before": c.before, "after": c.after} for c in stale.changes],
            "graphs": stale.graphs,
            "layers": stale.layers,
            "keys": stale.keys,
            "made_by": stale.run,
        },
        subject=" ".join(sorted(names)),
    )


def _said(change: FactorChange) -> str:
    if change.before and change.after:
        return f"{change.name} ({change.before} then, {change.after} now)"
    return f"the code of {change.name.removeprefix('the ')}" if "pass" in change.name else change.name


def _advice(names: list[str]) -> str:
    if all(name.startswith("the pass") for name in names):
        return (
            "Let uuid() of the pass tell its source: return get_hash_for_files((__file__,)) of "
            "torch._inductor.custom_graph_pass. For now, start once with "
            "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1, or remove torch's cache folder."
        )
    return (
        "Start with an empty cache (TORCHINDUCTOR_CACHE_DIR names another folder, "
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1 uses none), and give the op another name when what it promises "
        "changes."
    )
