"""Cache: each look into a cache; of a miss, which parts of its key differ from the nearest entry's."""

from __future__ import annotations

from compdbg.model.caches import Lookup, earlier
from compdbg.views.base import Column, Source, View
from compdbg.views.cache import cache
from compdbg.views.explorer.base import Block, Code, CodeLine, Page, Place
from compdbg.views.explorer.words import facts, listing
from compdbg.views.places import duration, size

_RESULTS = {
    "hit": ("✓", "good"),
    "miss": ("·", ""),
    "bypass": ("!", "warn"),
    "disabled": ("!", "warn"),
    "corrupt": ("✗", "bad"),
    "stale": ("✗", "bad"),
}


def cache_view(source: Source) -> View:
    told = cache(source)
    return View(
        name="cache",
        title=told.title,
        items=source.run.lookups,
        columns=(
            Column("result", lambda e: f"{_RESULTS.get(e.result, ('?', ''))[0]} {e.result}", role=_role),
            Column("layer", lambda e: e.layer),
            Column("piece", lambda e: e.piece or ""),
            Column("range", lambda e: e.range or ""),
            Column("key", lambda e: (e.key or "")[:12]),
            Column("size", lambda e: size(e.bytes), align="right"),
            Column("took", lambda e: duration(e.duration_ms / 1e3) if e.duration_ms else "", align="right"),
            Column("why", _why, wide=True),
        ),
        lines=told.lines,
        empty="No cache was asked: nothing was compiled, or its caches are off.",
    )


def _role(lookup: Lookup) -> str:
    return _RESULTS.get(lookup.result, ("?", ""))[1]


def _why(lookup: Lookup) -> str:
    changed = [change.name for change in lookup.changed_factors or ()]
    return ", ".join(filter(None, [lookup.reason, f"differs in {', '.join(changed)}" if changed else ""]))


def lookup_page(source: Source, lookup: Lookup) -> Page:
    blocks: list[Block] = [
        *facts(
            ("", f"{lookup.layer}: {lookup.result} for {lookup.piece or lookup.place}", "title"),
            ("result", lookup.result, _role(lookup)),
            ("why", lookup.reason),
            ("key", lookup.key),
            ("range", lookup.range),
            ("nearest", f"{lookup.nearest_key} of {earlier(lookup)}" if lookup.nearest_key else None),
            ("size", size(lookup.bytes)),
            ("took", duration(lookup.duration_ms / 1e3) if lookup.duration_ms else None),
        )
    ]
    for change in lookup.changed_factors or ():
        blocks.append(
            Code(
                [*_lines(change.before, "-"), *_lines(change.after, "+")],
                title=f"differs: {change.name}",
                language="text",
            )
        )
    factors = source.run.log.text(lookup.factors)
    if factors:
        blocks.append(listing("all parts of the key", factors.splitlines()[:200]))
    return Page(title=f"{lookup.layer} {lookup.result} {lookup.piece or ''}".strip(), blocks=blocks)


def _lines(text: str, mark: str) -> list[CodeLine]:
    return [CodeLine(line, mark) for line in text.splitlines() or ["(absent)"]]


CACHE = Place(
    name="cache",
    letter="c",
    title="Cache",
    view=cache_view,
    page=lookup_page,
    key=lambda e: e.event,
    row=Lookup,
    about=lambda r, finding: r.event in finding.evidence,
)
