"""Graphs of two runs side by side: the first stage or pass after which they differ, and each pass."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from msgspec import Struct

from compdbg.compare.names import Names, Script, plain
from compdbg.model.graphs import GraphStage
from compdbg.model.passes import Pass
from compdbg.model.run import Run
from compdbg.store.reader import Log

_ORDER = ("dynamo", "aot-joint", "aot-forward", "aot-inference", "aot-backward", "post-grad")
_COMMENT = re.compile(r"^\s*#.*$|\s+# .*$", re.MULTILINE)
_SYMBOL = re.compile(r"\b([su])\d+\b")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*\b")
_DEFINED = re.compile(r"^\s+(\w+)(?=: \"|: '| = )", re.MULTILINE)


class Work(Struct, frozen=True):
    """What was recorded of the graphs of a run, by stable names."""

    stages: dict[tuple[str, str], GraphStage]
    passes: dict[str, list[Pass]]
    """By graph, in the order in which they began."""
    log: Log


class Change(Struct, frozen=True):
    """A difference: of a pass, of a stage, or the first of a graph."""

    key: str
    a: str | None
    b: str | None


def work_of(run: Run, script: Script = ("", "")) -> Work:
    names = Names(run, script)
    stages: dict[tuple[str, str], GraphStage] = {}
    for stage in run.graphs:
        if stage.stage in _ORDER and stage.ops:
            stages.setdefault((names.graph(stage.process, stage.graph), stage.stage), stage)
    passes: dict[str, list[Pass]] = defaultdict(list)
    for each in sorted(run.passes, key=lambda p: p.index):
        passes[names.graph(each.process, each.graph)].append(each)
    return Work(stages, dict(passes), run.log)


def graph_changes(a: Work, b: Work) -> Iterator[Change]:
    """For each graph that both runs have: the first difference, then stages and passes one by one."""
    graphs = dict.fromkeys([*(graph for graph, _ in a.stages), *a.passes])
    in_b = {*(graph for graph, _ in b.stages), *b.passes}
    for graph in graphs:
        if graph not in in_b:
            continue
        first = _first(graph, a, b)
        if first is not None:
            yield first
        yield from _stages(graph, a, b)
        if graph in a.passes and graph in b.passes:
            yield from _passes(graph, a.passes[graph], b.passes[graph])


def _first(graph: str, a: Work, b: Work) -> Change | None:
    """Before any pass, or after which pass of each run, the two graphs are no longer the same."""
    for stage in _ORDER[:-1]:
        seen, other = a.stages.get((graph, stage)), b.stages.get((graph, stage))
        if seen is None or other is None:
            continue
        line = _differing_line(a.log.text(seen.text), b.log.text(other.text))
        if line is not None:
            return Change(f"{graph}: graphs differ first at the stage {stage}", *line)
    pairs = itertools.zip_longest(*(_telling(work.passes.get(graph, [])) for work in (a, b)))
    for mine, theirs in pairs:
        if mine is not None and theirs is not None and _same(mine, theirs, a.log, b.log):
            continue
        name = " | ".join(dict.fromkeys(_name(p) for p in (mine, theirs) if p is not None))
        key = f"{graph}: graphs differ first after the pass {name}"
        return Change(key, _did(mine) or "nothing", _did(theirs) or "nothing")
    return None


def _same(mine: Pass, theirs: Pass, log_a: Log, log_b: Log) -> bool:
    if _name(mine) != _name(theirs) or _delta(mine) != _delta(theirs):
        return False
    return _differing_line(log_a.text(mine.after), log_b.text(theirs.after)) is None


def _differing_line(a: str | None, b: str | None) -> tuple[str, str] | None:
    """The first line of either text that the other has not there; None if equal or not recorded."""
    if a is None or b is None or a == b:
        return None
    for mine, theirs in itertools.zip_longest(_lines(a), _lines(b), fillvalue=("", "")):
        if mine[0] != theirs[0]:
            return mine[1], theirs[1]
    return None


def _lines(text: str) -> list[tuple[str, str]]:
    """Lines without comments: with symbols and values named by the order in which they appear, and as is."""
    text = _COMMENT.sub("", text)
    order = {name: f"%{n}" for n, name in enumerate(dict.fromkeys(_DEFINED.findall(text)))}
    renamed = _WORD.sub(lambda found: order.get(found[0], found[0]), plain_symbols(text))
    pairs = zip(renamed.splitlines(), text.splitlines(), strict=True)
    return [(plain(line), shown.strip()) for line, shown in pairs if shown.strip()]


def plain_symbols(text: str) -> str:
    """Symbols `s77` and `s3` are the same where they come in the same order."""
    order: dict[str, str] = {}
    return _SYMBOL.sub(lambda found: order.setdefault(found[0], f"{found[1]}{len(order)}"), text)


def _stages(graph: str, a: Work, b: Work) -> Iterator[Change]:
    for stage in _ORDER:
        mine, theirs = a.stages.get((graph, stage)), b.stages.get((graph, stage))
        if mine is None or theirs is None or mine.ops == theirs.ops:
            continue
        differing = [op for op in {**mine.ops, **theirs.ops} if mine.ops.get(op) != theirs.ops.get(op)]
        texts = [
            ", ".join(f"{seen.ops[op]} {op}" for op in differing if seen.ops.get(op)) or "none of these"
            for seen in (mine, theirs)
        ]
        yield Change(f"{graph}: ops at the stage {stage}", *texts)


def _passes(graph: str, a: list[Pass], b: list[Pass]) -> Iterator[Change]:
    if any(each.cached for each in (*a, *b)):  # of what a cache stands for, only changes were kept
        mine, theirs = _numbered(_telling(a)), _numbered(_telling(b))
    else:
        mine, theirs = _numbered(_worth(a, b)), _numbered(_worth(b, a))
    for key in dict.fromkeys([*mine, *theirs]):
        did_a = _did(mine.get(key)) or _idle(key, a)
        did_b = _did(theirs.get(key)) or _idle(key, b)
        if did_a != did_b:
            yield Change(f"{graph}: {key}", did_a, did_b)


def _telling(passes: list[Pass]) -> list[Pass]:
    """Those that did something; of passes within each other that did the same, the innermost."""
    inner = {(p.process, p.graph, p.within, _delta(p)) for p in passes if p.within is not None and p.changed}
    return [
        p
        for p in passes
        if p.disabled_by or p.error or (p.changed and (p.process, p.graph, p.index, _delta(p)) not in inner)
    ]


def _worth(passes: list[Pass], others: list[Pass]) -> list[Pass]:
    """Those that did something, and those that the other run does not have at all."""
    there = {_name(other) for other in others}
    telling = {id(p) for p in _telling(passes)}
    return [p for p in passes if id(p) in telling or (p.within is None and _name(p) not in there)]


def _idle(key: str, passes: list[Pass]) -> str | None:
    """What is said of a pass that ran here too and did nothing."""
    name = key.partition(" #")[0]
    return "ran, changed nothing" if any(_name(p) == name and not p.cached for p in passes) else None


def _numbered(passes: list[Pass]) -> dict[str, Pass]:
    """Passes by name; one that runs several times by name and number."""
    seen: Counter[str] = Counter()
    found: dict[str, Pass] = {}
    for each in passes:
        name = _name(each)
        seen[name] += 1
        found[name if seen[name] == 1 else f"{name} #{seen[name]}"] = each
    return found


def _name(one: Pass) -> str:
    return f"{one.name} ({one.slot})" if one.slot and one.slot != one.name else one.name


def _delta(one: Pass) -> str:
    return " ".join(f"{change:+d} {op}" for op, change in sorted(one.op_delta.items()))


def _did(one: Pass | None) -> str | None:
    if one is None:
        return None
    if one.disabled_by:
        return f"disabled: {one.disabled_by}"
    if one.error:
        return f"raised {plain(one.error)}"
    return (_delta(one) or "changed arguments or order") if one.changed else "ran, changed nothing"
