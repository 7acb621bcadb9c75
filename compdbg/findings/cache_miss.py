"""`cache-miss`: compiled again although an earlier run did so too, and what differs in the key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from compdbg.events import PieceCompiled, Where
from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import counted, listed
from compdbg.model.caches import GRAPH, Lookup, earlier, said
from compdbg.model.run import Run

_MOST = 6
_OF_ONE_GRAPH = ("example_inputs", "source ", "parameters", "call", "piece", "model", "function", "what")
"""Components of keys that tell of the graph or function itself, not of what is around it."""

_REMADE = (
    " The code that came out is the same, to the letter: what changed is in the key but does not matter to "
    "this graph."
)


def cache_miss(run: Run) -> Iterator[Finding]:
    """One finding for each cause; the AOT key covers the FX key, so it goes first.

    What changed around the graphs (a setting, a pass, a version) is one cause for all functions; what
    changed within a graph is one for each function.
    """
    groups: dict[tuple[str, tuple[str, ...]], list[Lookup]] = defaultdict(list)
    explained: set[tuple[str, str | None]] = set()
    misses = _explained_misses(run)
    covered = _pieces_of_missed_models(run, misses)
    models = {(miss.process, f"{miss.piece} ") for miss in misses if miss.range is None}
    for miss in misses:
        if (miss.process, miss.piece) in covered or _is_piece_of(miss, models):
            continue
        same_compile = (miss.process, miss.compile_id)
        if miss.layer == "fx" and same_compile in explained:
            continue
        if miss.layer == "aot":
            explained.add(same_compile)
        cause = _cause(miss)
        groups["" if _is_around_graphs(cause) else miss.place, cause].append(miss)
    for found in groups.values():
        yield _finding(run, found)


def _is_around_graphs(cause: tuple[str, ...]) -> bool:
    """Whether all that changed is the same for every graph of the process."""
    return not any(name == GRAPH or name.startswith(_OF_ONE_GRAPH) for name in cause)


def _is_piece_of(miss: Lookup, models: set[tuple[str, str]]) -> bool:
    """The built-in compiler looks for the model first, and for its pieces only where that is missed."""
    return miss.layer == "ours" and any(
        process == miss.process and (miss.piece or "").startswith(model) for process, model in models
    )


def _pieces_of_missed_models(run: Run, misses: list[Lookup]) -> set[tuple[str, str | None]]:
    """vLLM keeps a model's pieces below the model's key: where that is missed, so are they."""
    missed = {miss.process for miss in misses if miss.layer == "vllm"}
    compiled = run.log.of(PieceCompiled)
    return {(h.process, f"{p.graph} {p.piece} {p.range}") for h, p in compiled if h.process in missed}


def _explained_misses(run: Run) -> list[Lookup]:
    """Misses for which an earlier key is known, AOT before FX of the same compile."""
    misses = [e for e in run.lookups if e.result == "miss" and e.nearest_key is not None]
    return sorted(misses, key=lambda e: e.layer != "aot")


def _cause(miss: Lookup) -> tuple[str, ...]:
    return tuple(change.name for change in miss.changed_factors or ()) or (miss.reason,)


def _finding(run: Run, found: list[Lookup]) -> Finding:
    miss = found[0]
    places = sorted({each.place for each in found})
    changes = miss.changed_factors or []
    names = [change.name for change in changes]
    remade = _is_remade(run, found)
    if changes:
        shown = ["the graph" if name == GRAPH else name for name in names]
        what = f"{listed(shown, most=3)} changed, and with it the cache key"
        told = "; ".join(said(change) for change in changes[:_MOST])
    else:
        what, told = miss.reason, miss.reason
    return Finding(
        code="cache-miss",
        severity="info",
        title=f"{_functions(places)} compiled again: {what}",
        cause=(
            f"The {miss.layer.upper()} cache has no entry for {miss.piece}. Its key differs from the nearest "
            f"one, of {earlier(miss)}: {told}."
            if changes
            else f"The {miss.layer.upper()} cache was asked for {miss.piece} with a key that {earlier(miss)} "
            f"stored: {told}."
        )
        + (_REMADE if remade else ""),
        suggestion=_advice(names, miss),
        where=_where(run, miss),
        evidence=[e.event for e in found],
        cost=Cost(results="same", seconds=_seconds(run, found)),
        data={
            "layer": miss.layer,
            "piece": miss.piece,
            "key": miss.key,
            "nearest_key": miss.nearest_key,
            "nearest_run": miss.nearest_run,
            "changed_factors": names,
            "irrelevant": remade,
        },
        subject=f"{' '.join(places)} {miss.layer}",
    )


def _is_remade(run: Run, found: list[Lookup]) -> bool:
    """Whether each graph of these compiles came out as the nearest key's had."""
    compiles = {(miss.process, miss.compile_id) for miss in found}
    made = [e for e in run.lookups if e.layer == "fx" and (e.process, e.compile_id) in compiles]
    return bool(made) and all(e.remade for e in made)


def _advice(names: list[str], miss: Lookup) -> str:
    if any(
        name.startswith(("inductor_config", "aot_config", "autograd_config", "fx_kwargs")) for name in names
    ):
        return "Keep the settings that changed equal over runs that are to share the cache."
    if GRAPH in names:
        return (
            "The program's graph differs. If the code is the same, look for a value that is traced as a "
            "constant and varies from run to run: a path, a time, a random number, a size."
        )
    if any("example_inputs" in name for name in names):
        return "Inputs differ in shape, stride, dtype or requires_grad: warm up with those that are served."
    if not names:
        return "Keep the cache folder (TORCHINDUCTOR_CACHE_DIR) between runs, and the same one."
    return "Keep what changed equal over runs that are to share the cache."


def _functions(places: list[str]) -> str:
    first = places[0] or "a graph"
    if len(places) == 1:
        return f"{first} was"
    others = len(places) - 1
    return f"{first} and {counted(others, 'other function')} were"


def _seconds(run: Run, found: list[Lookup]) -> float | None:
    """What compiling took, where it is known by compile id: once for each compile."""
    compiles = {(miss.process, miss.compile_id) for miss in found if miss.compile_id is not None}
    took = [p.duration_s for p in run.times.phases if p.depth == 0 and (p.process, p.compile_id) in compiles]
    return round(sum(took), 3) if took else None


def _where(run: Run, miss: Lookup) -> Where | None:
    for compiled in run.frames.compiles:
        if compiled.process == miss.process and compiled.compile_id == miss.compile_id:
            return compiled.where
    return None
