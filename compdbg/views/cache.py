"""Each look into a cache: what came of it, and on a miss which components of the key differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from compdbg.findings.words import listed
from compdbg.model.caches import Lookup, earlier, said
from compdbg.views.base import Column, Source, View
from compdbg.views.places import size

_KEY = 12
_MOST = 3
_SERVED = {
    "": "compiled",
    "aot": "by the AOT cache",
    "fx": "by the FX-graph cache",
    "ours": "by the built-in compiler's cache",
    "vllm": "by vLLM's cache",
    "twin": "by a twin compiled in this process",
}


def cache(source: Source) -> View:
    items = source.run.lookups
    return View(
        name="cache",
        title="Looks into caches of compiled artifacts",
        lines=[*_lines(items), *(f"{p.layer}: {p.reason} {p.path}" for p in source.run.cache_problems)],
        items=items,
        below=_differences(items),
        columns=(
            Column("piece", lambda e: e.piece or ""),
            Column("range", lambda e: e.range or ""),
            Column("layer", lambda e: e.layer),
            Column("result", lambda e: e.result),
            Column("key", lambda e: (e.key or "")[:_KEY]),
            Column("size", lambda e: size(e.bytes), align="right"),
            Column("why", lambda e: e.reason, wide=True),
        ),
        empty="no cache was asked: nothing was compiled",
    )


def _lines(items: Sequence[Lookup]) -> list[str]:
    lines = []
    for layer in dict.fromkeys(e.layer for e in items):
        results = Counter(e.result for e in items if e.layer == layer)
        lines.append(f"{layer}: " + ", ".join(f"{count} {result}" for result, count in results.most_common()))
    served = Counter(_SERVED.get(e.served_by or "", e.served_by or "") for e in _asked(items))
    if served:
        lines.append("served: " + ", ".join(f"{count} {by}" for by, count in served.most_common()))
    if ops := sorted({op for e in items for op in e.not_in_key}):
        lines.append(
            f"in the graphs but in no key of torch's: code and fake of {', '.join(ops)}; "
            "a change there is not noticed"
        )
    misses = [e for e in items if e.result == "miss"]
    if misses and all(e.nearest_key is None for e in misses):
        lines.append("cold: no earlier entry is known for any of these functions")
    return lines


def _asked(items: Sequence[Lookup]) -> list[Lookup]:
    """One look for each piece that was asked for: the outermost."""
    pieces: dict[object, Lookup] = {}
    for each in items:
        of_torch = each.layer in ("aot", "fx")
        key = (each.process, each.compile_id, None if of_torch else (each.piece, each.range))
        pieces.setdefault(key, each)
    return list(pieces.values())


def _differences(items: Sequence[Lookup]) -> list[str]:
    """What differs from the nearest keys, each difference once, with the pieces that have it."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    remade: dict[str, None] = {}
    compared = [miss for miss in items if miss.result == "miss" and miss.nearest_key is not None]
    for miss in compared:
        piece = f"{miss.piece} {miss.layer}"
        for change in miss.changed_factors or ():
            found[said(change)][piece] = None
        if miss.remade:
            remade[piece] = None
    lines = [f"{what}: {_listed(pieces)}" for what, pieces in found.items()]
    if remade:
        same = "the code made is that of the nearest key: what changed is in the key but does not matter here"
        lines.append(f"{same}: {_listed(remade)}")
    runs = _listed(dict.fromkeys(earlier(miss) for miss in compared))
    return [f"What differs from the nearest key, of {runs}:", *lines] if lines else []


def _listed(pieces: Collection[str]) -> str:
    return listed(list(pieces), most=_MOST)
