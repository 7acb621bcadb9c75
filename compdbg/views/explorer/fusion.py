"""Fusion: each pattern of each pass with its outcome, the near miss beside the graph, and the passes."""

from __future__ import annotations

import difflib
import re

from msgspec import Struct

from compdbg.events import Graph, MatchAttempt, Pattern, PatternPass, Where
from compdbg.findings.base import Finding
from compdbg.model.fusion_rows import FusionRow, Miss
from compdbg.model.passes import Pass
from compdbg.views.base import Column, Source, View
from compdbg.views.explorer.base import Block, Code, CodeLine, Page, Place, Sides, shortened, source_code
from compdbg.views.explorer.words import facts
from compdbg.views.fusion import fusion
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


class FusionItem(Struct, frozen=True, kw_only=True):
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


def fusion_view(source: Source) -> View:
    """Patterns first, missed ones on top; then the passes, in the order in which they ran."""
    told = fusion(source)
    loud = {id(row) for row in (told.items if told.shown is None else told.shown)}
    patterns = [(_of_pattern(row), id(row) in loud) for row in source.run.fusion.rows]
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
            Column("hit", lambda r: _number(r.matched), align="right"),
            Column("left", lambda r: _number(r.left), align="right"),
            Column("why", lambda r: r.why, wide=True),
        ),
        lines=[*told.lines, *said],
        empty="No pass was seen: nothing was compiled by Inductor, or all of it came from a cache.",
    )


def _order(item: FusionItem) -> int:
    return list(_MARKS).index("missed") - 2 if item.outcome == "missed" else list(_MARKS).index(item.outcome)


def _role(item: FusionItem) -> str:
    return _MARKS[item.outcome][1]


def _number(count: int | None) -> str:
    return "" if count is None else str(count)


def _of_pattern(row: FusionRow) -> FusionItem:
    return FusionItem(
        name=row.pass_,
        pattern=row.pattern or "",
        graph=row.graph or "",
        outcome=row.outcome,
        matched=row.matched,
        left=row.sites_left,
        why=row.why,
        where=row.near_miss.where if row.near_miss else None,
        miss=row.near_miss,
        rank=row.rank,
        process=row.process,
    )


def _of_pass(one: Pass) -> FusionItem:
    outcome = "changed" if one.changed else "no change"
    if one.error or one.disabled_by:
        outcome = "raised" if one.error else "disabled"
    delta = " ".join(f"{change:+d} {op}" for op, change in one.op_delta.items())
    quiet = "changed arguments or order" if one.changed else ""
    return FusionItem(
        name=f"{'  ' if one.within is not None else ''}{one.name}",
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
            ("stage", _STAGES.get(miss.stage, miss.stage)),
        )
        blocks.append(Sides(_pattern_side(found, miss), _graph_side(source, item, miss)))
        blocks += source_code(miss.where)
    elif found is not None:
        blocks.append(_pattern_side(found, None))
    if found is not None and found.where is not None:
        blocks += [*facts(("pattern", f"written at {place(found.where)}")), *source_code(found.where)]
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


def _pattern_side(found: Pattern | None, miss: Miss | None) -> Code:
    """The pattern's ops from its anchor inwards; where matching stopped is marked."""
    title = f"pattern {found.name}" if found else "pattern"
    ops = [*found.anchors[:1], *found.ops] if found else []
    more = f"   (or {len(found.anchors) - 1} more)" if found and len(found.anchors) > 1 else ""
    lines = [CodeLine(f"{op}{more if n == 0 else ''}", "") for n, op in enumerate(dict.fromkeys(ops))]
    if miss is None:
        return Code(lines, title=title, language="text")
    marked = [CodeLine(line.text, _mark(line.text, n, miss)) for n, line in enumerate(lines)]
    return Code([*marked, CodeLine(f"wanted {miss.wanted}", "x")], title=title, language="text")


def _mark(op: str, index: int, miss: Miss) -> str:
    """`x` for the op that was wanted and not found, `=` for those that matching had come past."""
    if op.split("   ", maxsplit=1)[0] in miss.wanted:
        return "x"
    return "=" if index < miss.matched_nodes else ""


def _graph_side(source: Source, item: FusionItem, miss: Miss) -> Code:
    """The graph's lines about the node at which matching stopped, which is marked."""
    text = _graph_text(source, item)
    title = f"graph {item.graph}, node {miss.node}"
    if text is None:
        return Code([CodeLine(f"found {miss.found}", "x")], title=title, language="text")
    defines = re.compile(rf"^\s*{re.escape(miss.node)}\b\s*(?::[^=]*)?=")
    anchors = _anchors(source, item)
    lines = []
    for n, line in enumerate(text.splitlines(), 1):
        mark = "x" if miss.node and defines.match(line) else ""
        mark = mark or ("=" if any(re.match(rf"^\s*{re.escape(a)}\b", line) for a in anchors) else "")
        lines.append(CodeLine(line.strip(), mark, n))
    near = [line for line in lines if line.text]
    return Code([*shortened(near, 2), CodeLine(f"found {miss.found}", "x")], title=title)


def _anchors(source: Source, item: FusionItem) -> set[str]:
    attempts = source.run.log.of(MatchAttempt)
    if len(attempts) > MAX_DIFF:
        return set()
    return {
        e.anchor
        for _, e in attempts
        if (e.pass_name, e.pattern, e.graph) == (item.name, item.pattern, item.graph)
    }


def _graph_text(source: Source, item: FusionItem) -> str | None:
    """The graph as the pass saw it: the last stage that was kept before code was made of it."""
    stages = [e for h, e in source.run.log.of(Graph) if e.graph == item.graph and h.process == item.process]
    order = ("post-grad", "aot-forward", "aot-inference", "piece", "dynamo")
    stages.sort(key=lambda e: order.index(e.stage) if e.stage in order else len(order))
    return source.run.log.text(stages[0].text) if stages else None


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
    blocks += source_code(one.where)
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
