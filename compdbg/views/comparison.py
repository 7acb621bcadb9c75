"""A pattern beside the graph that it did not match: both as lines, paired, with the first difference."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from compdbg.events import NearMiss, Where
from compdbg.model.fusion_sites import Site
from compdbg.views.base import Source

State = Literal["matched", "differs", "around"]

_NODE = re.compile(r'^\s*(?P<name>\w+)(?:: "(?P<type>[^"]*)")? = (?P<call>(?P<op>[^\s(]+).*)$')
_RETURN = re.compile(r"^\s*return (?P<call>.*)$")
_WORD = re.compile(r"[A-Za-z_]\w*")
_MOST = 14
"""Nodes of the graph that are shown."""


class Line(Struct, frozen=True, kw_only=True):
    """One line of a side. `pair` is its partner's place on the other side; `gap`: lines left out before."""

    name: str
    text: str
    type: str = ""
    state: State = "around"
    pair: int | None = None
    gap: bool = False


class Comparison(Struct, frozen=True, kw_only=True, rename={"pass_": "pass"}):
    """One near miss. `sites` are all that a pattern missed for the same reason; this is the first."""

    pass_: str
    pattern: str
    graph: str
    anchor: str
    sites: int
    reason: str
    stage: str
    node: str
    wanted: str
    found: str
    detail: str
    matched_nodes: int
    pattern_nodes: int
    where: Where | None
    pattern_lines: list[Line]
    graph_lines: list[Line]
    events: list[str]


def comparisons(source: Source) -> list[Comparison]:
    """One for each pass, pattern and way of missing it, in the order in which they were seen."""
    grouped: dict[tuple[str, ...], list[Site]] = defaultdict(list)
    for site in source.run.fusion.sites:
        miss = site.nearest.miss
        if site.state == "missed" and miss is not None:
            event = site.nearest.event
            grouped[event.pass_name, event.pattern, miss.reason, miss.wanted, miss.found].append(site)
    return [_compared(source, sites) for sites in grouped.values()]


def _compared(source: Source, sites: Sequence[Site]) -> Comparison:
    site = sites[0]
    event, miss = site.nearest.event, site.nearest.miss
    assert miss is not None
    pattern = _pattern_lines(source, site, miss)
    graph = _graph_lines(source, site, miss)
    pattern, graph = _paired(pattern, graph)
    return Comparison(
        pass_=event.pass_name,
        pattern=event.pattern,
        graph=event.graph,
        anchor=event.anchor,
        sites=len(sites),
        reason=miss.reason,
        stage=miss.stage,
        node=miss.node,
        wanted=miss.wanted,
        found=miss.found,
        detail=miss.detail,
        matched_nodes=miss.matched_nodes,
        pattern_nodes=miss.pattern_nodes,
        where=miss.where or event.where,
        pattern_lines=pattern,
        graph_lines=graph,
        events=[s.nearest.id for s in sites],
    )


def _pattern_lines(source: Source, site: Site, miss: NearMiss) -> list[Line]:
    """The pattern's steps: those after the one that differs were matched, as torch goes from the end."""
    applied = source.run.fusion.applied.get((site.process, site.pass_id))
    name = site.nearest.event.pattern
    known = next((p for p in applied.patterns if p.name == name), None) if applied else None
    if known is None:
        return []
    steps = known.steps or [*known.ops, *known.anchors[:1]]
    lines = [Line(name=s.partition(" = ")[0], text=s) for s in steps]
    stop = max((n for n, line in enumerate(lines) if _op(line.text) in miss.wanted), default=None)
    if stop is None:
        stop = max(0, len(lines) - miss.matched_nodes - 1)
    states: list[State] = [_state(n, stop) for n in range(len(lines))]
    return [_with(line, state=state) for line, state in zip(lines, states, strict=True)]


def _state(place: int, stop: int) -> State:
    if place == stop:
        return "differs"
    return "matched" if place > stop else "around"


def _op(step: str) -> str:
    return step.rpartition(" = ")[2].partition("(")[0]


def _graph_lines(source: Source, site: Site, miss: NearMiss) -> list[Line]:
    """The node at which matching stopped, what it is made of, and the way from it to the anchor."""
    text = _graph_text(source, site.graph, {site.anchor, miss.node})
    if text is None:
        return []
    lines = [line for line in map(_graph_line, text.splitlines()) if line is not None]
    places = {line.name: n for n, line in enumerate(lines)}
    inputs = [[places[w] for w in _WORD.findall(_call(line)) if w in places] for line in lines]
    way = _way(places.get(site.anchor), places.get(miss.node), inputs)
    shown = _chosen(lines, inputs, way, places.get(miss.node))
    out = []
    before: int | None = None
    for place in sorted(shown):
        state: State = "matched" if place in way else "around"
        state = "differs" if lines[place].name == miss.node else state
        gap = before is not None and place != before + 1
        out.append(_with(lines[place], state=state, gap=gap))
        before = place
    return out


def _way(anchor: int | None, node: int | None, inputs: list[list[int]]) -> set[int]:
    """Places between the anchor and what it is computed from, down to the node."""
    if anchor is None or node is None:
        return set() if anchor is None else {anchor}
    reaching: set[int] = {node}
    for place in range(node, anchor + 1):
        if reaching & set(inputs[place]):
            reaching.add(place)
    return reaching if anchor in reaching else {anchor}


def _chosen(lines: list[Line], inputs: list[list[int]], way: set[int], node: int | None) -> set[int]:
    """At most `_MOST`: the way, the node's inputs and users, then what those are made of."""
    shown = dict.fromkeys(sorted(way, reverse=True))
    if node is not None:
        shown[node] = None
        shown |= dict.fromkeys(inputs[node])
        shown |= dict.fromkeys([n for n, given in enumerate(inputs) if node in given][:3])
    for place in list(shown):
        shown |= dict.fromkeys(inputs[place])
    return set(list(shown)[:_MOST])


def _graph_text(source: Source, graph: str, nodes: set[str]) -> str | None:
    """The graph as it was when the pass saw it, as near as was recorded: a text that has the nodes."""
    run = source.run
    digests = [p.before for p in run.changes if p.graph == graph and p.custom and p.before]
    digests += [g.text for g in reversed(run.graphs) if g.graph == graph and g.stage != "code"]
    digests += [d for p in run.changes if p.graph == graph for d in (p.before, p.after) if d]
    for digest in dict.fromkeys(digests):
        text = run.log.text(digest)
        if text and all(re.search(rf"^\s*{re.escape(n)}\b.* = ", text, re.MULTILINE) for n in nodes if n):
            return text
    return None


def _graph_line(text: str) -> Line | None:
    if found := _NODE.match(text):
        return Line(name=found["name"], text=f"{found['name']} = {found['call']}", type=found["type"] or "")
    if found := _RETURN.match(text):
        return Line(name="output", text=text.strip())
    return None


def _call(line: Line) -> str:
    """What a line is computed from: its text without the name and the op before the brackets."""
    if line.name == "output":
        return line.text.removeprefix("return")
    return line.text.partition("(")[2]


def _paired(pattern: list[Line], graph: list[Line]) -> tuple[list[Line], list[Line]]:
    """Partners from the end: the two lines that differ, and lines of the same op in their order."""
    partners: dict[int, int] = {}
    free = list(range(len(graph)))
    for place in range(len(pattern) - 1, -1, -1):
        partner = next(_partners(pattern[place], graph, free), None)
        if partner is not None:
            partners[place] = partner
            free = [n for n in free if n < partner]
    back = {partner: place for place, partner in partners.items()}
    return (
        [_with(line, pair=partners.get(n)) for n, line in enumerate(pattern)],
        [_with(line, pair=back.get(n)) for n, line in enumerate(graph)],
    )


def _partners(step: Line, graph: list[Line], free: list[int]) -> Iterator[int]:
    if step.state == "differs":
        yield from (n for n, line in enumerate(graph) if line.state == "differs")
    else:
        yield from (
            n for n in reversed(free) if graph[n].state == step.state and _op(graph[n].text) == _op(step.text)
        )


def _with(line: Line, **changes: object) -> Line:
    fields = {name: getattr(line, name) for name in Line.__struct_fields__}
    return Line(**{**fields, **changes})
