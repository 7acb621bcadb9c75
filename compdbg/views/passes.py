"""The passes over each graph, in order: what each changed, and how long it took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from compdbg.model.passes import Pass
from compdbg.views.base import Column, Source, View
from compdbg.views.places import counted, duration


def passes(source: Source) -> View:
    items = source.run.passes
    depth, shared = _depths(items), _of_several(items)
    return View(
        name="passes",
        title="Passes over graphs",
        lines=_lines(items),
        items=items,
        shown=_from_outside_in([p for p in items if _tells(p)]),
        columns=(
            Column("graph", lambda p: f"{p.graph} {_whose(p)}" if p.graph in shared else p.graph),
            Column("#", lambda p: str(p.index), align="right"),
            Column("pass", lambda p: "  " * depth[p.event, p.graph, p.index] + _name(p)),
            Column("time", lambda p: duration(p.duration_us / 1e6), align="right"),
            Column("did", _did, wide=True),
        ),
        empty="no pass was seen: nothing was compiled by Inductor, or all of it came from a cache",
    )


def _lines(items: Sequence[Pass]) -> list[str]:
    seen = [p for p in items if not p.cached]
    lines = []
    if seen:
        changed = sum(p.changed for p in seen)
        total = sum(p.duration_us for p in seen if p.within is None) / 1e6
        graphs = counted(len({p.graph for p in seen}), "graph")
        hidden = "; the others are not shown" if any(not _tells(p) for p in seen) else ""
        lines.append(
            f"{counted(len(seen), 'pass', 'passes')} over {graphs} in {duration(total)}, "
            + (f"{changed} of them changed something{hidden}" if changed else "none of them changed anything")
        )
    loaded = sorted({p.graph for p in items if p.cached})
    if loaded:
        runs = ", ".join(sorted({p.run or "an earlier run" for p in items if p.cached}))
        lines.append(f"{', '.join(loaded)} came from a cache: the passes shown ran in {runs}")
    return lines


def _from_outside_in(items: list[Pass]) -> list[Pass]:
    """By graph, and a pass before those that it runs: they end, and are recorded, before it does."""
    graphs = {(p.graph, p.process): n for n, p in reversed(list(enumerate(items)))}
    return sorted(items, key=lambda p: (graphs[p.graph, p.process], p.cached, p.index))


def _of_several(items: Sequence[Pass]) -> set[str]:
    """Names of graphs that several processes have, each with passes of its own."""
    processes: dict[str, set[str]] = defaultdict(set)
    for one in items:
        processes[one.graph].add(one.process)
    return {graph for graph, seen in processes.items() if len(seen) > 1}


def _whose(one: Pass) -> str:
    return f"of rank {one.rank}" if one.rank is not None else f"of process {one.process}"


def _tells(one: Pass) -> bool:
    return bool(one.changed or one.custom or one.disabled_by or one.error)


def _depths(items: Sequence[Pass]) -> dict[tuple[str, str, int], int]:
    """In how many others each pass runs; what runs in another is recorded before it."""
    depths: dict[tuple[str, str, int], int] = {}
    outer: dict[tuple[str, str, int], int] = {}
    for one in reversed(items):
        place = one.process, one.graph, one.index
        around = (one.process, one.graph, one.within) if one.within is not None else None
        outer[place] = 0 if around is None else outer.get(around, 0) + 1
        depths[one.event, one.graph, one.index] = outer[place]
    return depths


def _name(one: Pass) -> str:
    return f"{one.name} ({one.slot})" if one.slot and one.slot != one.name else one.name


def _did(one: Pass) -> str:
    if one.disabled_by:
        return f"disabled: {one.disabled_by}"
    if one.error:
        return f"raised {one.error}"
    if not one.changed:
        return ""
    delta = " ".join(f"{change:+d} {op}" for op, change in one.op_delta.items())
    said = delta or "changed arguments or order"
    return f"{said} (in {one.run or 'an earlier run'})" if one.cached else said
