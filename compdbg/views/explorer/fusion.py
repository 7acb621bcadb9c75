"""Fusion: each pattern of each pass with its outcome, the near miss beside the graph, and the passes."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from msgspec import Struct

from compdbg.events import Pattern, PatternPass, Where
from compdbg.findings.base import Finding
from compdbg.model.fusion_rows import FusionRow, Miss
from compdbg.model.passes import Pass
from compdbg.views.base import Column, Source, View
from compdbg.views.comparison import Comparison, Line, comparisons
from compdbg.views.explorer.base import Block, Code, CodeLine, Page, Place, Sides, source_code
from compdbg.views.explorer.words import facts
from compdbg.views.fusion import counts, fusion
from compdbg.views.passes import passes
from compdbg.views.places import duration, place

_MARKS = {
    "fired": ("✓", "good"),
    "missed": ("✗", "bad"),
    "superseded": ("·", "dim"),
    "no-candidate": ("·", "dim"),
    "not-run": ("!", "warn"),
    "cached": ("~", ""),
    "unobservable": ("?", "dim"),
    "changed": ("±", ""),
    "no change": ("·", "dim"),
    "raised": ("✗", "bad"),
    "disabled": ("!", "warn"),
}
MAX_DIFF = 2000


class FusionItem(Struct, frozen=True, kw_only=True, gc=False):
    """A pattern of a pass on a graph, or (without a pattern) a pass that was seen to run on it."""

    name: str
    pattern: str | None
    graph: str
    outcome: str
    matched: int | None
    left: int | None
    why: str
    where: Where | None
    miss: Miss | None
    rank: int | None
    process: str
    run: Pass | None = None
    compared: Comparison | None = None
    pieces: int = 1


def fusion_view(source: Source) -> View:
    """Patterns first, missed ones on top; then the passes, in the order in which they ran."""
    told = fusion(source)
    loud = {id(row) for row in (told.items if told.shown is None else told.shown)}
    compared = {_missed_for(c.pass_, c.pattern, c): c for c in comparisons(source)}
    patterns = [(_of_pattern(row, compared), id(row) in loud) for row in source.run.fusion.rows]
    patterns.sort(key=lambda pair: (not pair[1], _order(pair[0])))
    ran = [(_of_pass(one), one.changed or bool(one.error or one.disabled_by)) for one in source.run.passes]
    both = [*patterns, *ran]
    said = passes(source).lines
    return View(
        name="fusion",
        title="Fusion: what became of each pattern and each pass",
        items=[item for item, _ in both],
        shown=[item for item, tells in both if tells],
        columns=(
            Column("outcome", lambda r: f"{_MARKS[r.outcome][0]} {r.outcome}", role=_role),
            Column("pass", lambda r: r.name),
            Column("pattern", lambda r: r.pattern or ""),
            Column("graph", lambda r: r.graph),
            Column("hit", lambda r: _number(r.matched, r.pieces), align="right"),
            Column("left", lambda r: _number(r.left, r.pieces), align="right"),
            Column("why", lambda r: r.why, wide=True),
        ),
        lines=[*told.lines, *said],
        empty="No pass was seen: nothing was compiled by Inductor, or all of it came from a cache.",
    )


def _order(item: FusionItem) -> int:
    return list(_MARKS).index("missed") - 2 if item.outcome == "missed" else list(_MARKS).index(item.outcome)


def _role(item: FusionItem) -> str:
    return _MARKS[item.outcome][1]


def _number(count: int | None, pieces: int) -> str:
    return "" if count is None else counts(count, pieces)


Missed = tuple[str, str | None, str, str, str]


def _missed_for(name: str, pattern: str | None, miss: Comparison | Miss) -> Missed:
    return name, pattern, miss.reason, miss.wanted, miss.found


def _of_pattern(row: FusionRow, compared: dict[Missed, Comparison]) -> FusionItem:
    miss = row.near_miss
    return FusionItem(
        name=row.pass_,
        pattern=row.pattern or "",
        graph=row.graph or "",
        outcome=row.outcome,
        matched=row.matched,
        left=row.sites_left,
        why=row.why,
        where=miss.where if miss else None,
        miss=miss,
        rank=row.rank,
        process=row.process,
        compared=compared.get(_missed_for(row.pass_, row.pattern, miss)) if miss else None,
        pieces=row.pieces,
    )


def _of_pass(one: Pass) -> FusionItem:
    outcome = "changed" if one.changed else "no change"
    if one.error or one.disabled_by:
        outcome = "raised" if one.error else "disabled"
    delta = " ".join(f"{change:+d} {op}" for op, change in one.op_delta.items())
    quiet = "changed arguments or order" if one.changed else ""
    return FusionItem(
        name=f"  {one.name}" if one.within is not None else one.name,
        pattern=None,
        graph=one.graph,
        outcome=outcome,
        matched=None,
        left=None,
        why=one.error or one.disabled_by or delta or quiet,
        where=one.where,
        miss=None,
        rank=one.rank,
        process=one.process,
        run=one,
    )


def fusion_page(source: Source, item: FusionItem) -> Page:
    if item.run is not None:
        return _pass_page(source, item, item.run)
    found = _pattern(source, item)
    miss = item.miss
    blocks: list[Block] = [
        *facts(("", f"{item.name} {item.pattern or ''}: {item.outcome}".replace(" :", ":"), "title"))
    ]
    blocks += facts(
        (
            "outcome",
            f"{_MARKS[item.outcome][0]} {item.outcome} on graph {item.graph or '(none)'}",
            _role(item),
        ),
        ("why", item.why),
    )
    if miss is not None:
        blocks += facts(
            ("wanted", miss.wanted, "good"),
            ("found", miss.found, "bad"),
            ("at", f"node {miss.node}, {miss.matched_nodes} of {miss.pattern_nodes} nodes matched"),
            ("tried", _STAGES.get(miss.stage, miss.stage)),
        )
        blocks += [_sides(item.compared)] if item.compared is not None else []
        blocks += source_code(source, miss.where)
    if found is not None and found.where is not None:
        blocks += [*facts(("pattern", f"written at {place(found.where)}")), *source_code(source, found.where)]
    return Page(
        title=f"{item.name} {item.pattern or ''} on {item.graph}".replace("  ", " "),
        blocks=blocks,
        where=item.where or (found.where if found else None),
    )


_STAGES = {
    "first": "the pattern itself, any shapes",
    "second": "the pattern traced again at the real shapes and constants",
    "check": "the pattern's own extra check",
    "discard": "matched, then given up",
}


def _pattern(source: Source, item: FusionItem) -> Pattern | None:
    for _, event in source.run.log.of(PatternPass):
        if event.pass_name == item.name:
            for pattern in event.patterns:
                if pattern.name == item.pattern:
                    return pattern
    return None


def _sides(compared: Comparison) -> Sides:
    """Pattern and graph beside each other, the first difference marked on both."""
    left = Code(
        [*map(_side_line, compared.pattern_lines), CodeLine(f"wanted {compared.wanted}", "x")],
        title=f"pattern {compared.pattern}",
    )
    right = Code(
        [*_with_gaps(compared), CodeLine(f"found {compared.found}", "x")],
        title=f"graph {compared.graph}, node {compared.node}",
    )
    return Sides(left, right)


def _side_line(line: Line) -> CodeLine:
    return CodeLine(line.text, {"matched": "=", "differs": "x"}.get(line.state, ""))


def _with_gaps(compared: Comparison) -> Iterator[CodeLine]:
    for line in compared.graph_lines:
        if line.gap:
            yield CodeLine("…")
        yield _side_line(line)


def _pass_page(source: Source, item: FusionItem, one: Pass) -> Page:
    cached = f"in {one.run or 'an earlier run'}, which filled the cache" if one.cached else None
    blocks: list[Block] = [
        *facts(
            ("", f"{one.name}: {item.outcome}", "title"),
            ("graph", f"{one.graph}, pass {one.index}"),
            ("slot", one.slot),
            ("took", duration(one.duration_us / 1e6)),
            ("ran", cached),
            ("did", item.why),
        )
    ]
    before, after = source.run.log.text(one.before), source.run.log.text(one.after)
    if before is not None and after is not None:
        blocks.append(diff(before, after, f"what {one.name} did to {one.graph}"))
    elif one.changed:
        blocks += facts(("", "The texts of the graph before and after are not in this run.", "dim"))
    blocks += source_code(source, one.where)
    return Page(title=f"{one.name} on {one.graph}", blocks=blocks, where=one.where)


def diff(before: str, after: str, title: str) -> Code:
    """Both texts as one, with what went and what came marked."""
    a, b = before.splitlines(), after.splitlines()
    if len(a) + len(b) > 2 * MAX_DIFF:
        lines = list(difflib.unified_diff(a[:MAX_DIFF], b[:MAX_DIFF], n=3, lineterm=""))[2:]
    else:
        lines = list(difflib.unified_diff(a, b, n=3, lineterm=""))[2:]
    found = [CodeLine(line[1:], line[0].strip()) for line in lines if not line.startswith("@@")]
    return Code(found or [CodeLine("no line differs")], title=title)


def _is_about(item: FusionItem, finding: Finding) -> bool:
    """The pattern that the finding names, where it has that outcome; else any of its pass."""
    if item.run is not None:
        return item.run.event in finding.evidence
    data = finding.data
    names = data.get("pass"), data.get("pattern")
    return item.name == names[0] and (names[1] is None or item.pattern == names[1])


FUSION = Place(
    name="fusion",
    letter="f",
    title="Fusion",
    view=fusion_view,
    page=fusion_page,
    key=lambda r: f"{r.process} {r.run.event if r.run else ''} {r.name} {r.pattern} {r.graph}",
    row=FusionItem,
    about=_is_about,
)
