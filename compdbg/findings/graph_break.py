"""`graph-break`: the lines at which Dynamo could not go on, one finding a function."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from compdbg.events import GraphBreak
from compdbg.findings.base import Cost, Finding
from compdbg.findings.break_hints import hint_for
from compdbg.findings.words import at, counted, listed, sentence
from compdbg.model.frames import Compile, name_of
from compdbg.model.run import Run

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_SENTENCE = re.compile(r"(?<!e\.g)(?<!i\.e)\. ")


class _Line(Struct, frozen=True):
    """One line of a function, and the first break of each kind on it."""

    number: int
    breaks: list[GraphBreak]


def graph_break(run: Run) -> Iterator[Finding]:
    """Every break, by the function in whose code it is written; resume functions count to theirs."""
    behind_disable = {id for u in run.uncompiled if u.by == "disabled" for id in u.events}
    groups: dict[tuple[str, bool], list[tuple[str, GraphBreak]]] = defaultdict(list)
    for id, event in run.frames.breaks:
        if id not in behind_disable:
            groups[_function(event), event.fatal].append((id, event))
    _join_on_purpose(groups)
    made = {(c.process, c.frame, c.compile_id): c for c in run.frames.compiles}
    for (_, fatal), found in groups.items():
        compiles = [made.get((id.partition(":")[0], e.frame, e.compile_id)) for id, e in found]
        fatal_by = _fatal_by(run, found[0][1]) if fatal else None
        yield _finding(found, [c for c in compiles if c is not None], fatal_by=fatal_by)


def _fatal_by(run: Run, event: GraphBreak) -> str:
    """What forbids breaks: an option of the request, a context around the line, or an export."""
    asked = run.frames.requests.get(event.request)
    if asked is None:
        return "the capture of one graph"
    return "fullgraph=True" if asked[1].fullgraph else "error_on_graph_break"


def _join_on_purpose(groups: dict[tuple[str, bool], list[tuple[str, GraphBreak]]]) -> None:
    """torch's own breaks below a line that is in another finding already are of that finding."""
    lines = {
        (e.where.file, e.where.line): key
        for key, found in groups.items()
        for _, e in found
        if e.where and e.function
    }
    for key in list(groups):
        first = groups[key][0][1]
        home = lines.get((first.where.file, first.where.line)) if first.where else None
        if home is not None and home != key and all(e.by_torch for _, e in groups[key]):
            groups[home] += groups.pop(key)


def _function(event: GraphBreak) -> str:
    """The function of the user's that holds the break; of library code, the line that called it."""
    if event.function:
        return event.function
    return f"{event.where.file}:{event.where.line}:" if event.where else event.frame


def _finding(
    found: list[tuple[str, GraphBreak]], compiles: list[Compile], *, fatal_by: str | None
) -> Finding:
    lines = _lines([event for _, event in found])
    first = found[0][1]
    name = first.function_name or (compiles[0].name if compiles else name_of(first.frame))
    whole = sorted({compiled.name for compiled in compiles if compiled.result == "skipped"})
    on_purpose = all(event.by_torch for _, event in found)
    numbers = [line.number for line in lines]
    count = sum(len(line.breaks) for line in lines)
    what = f"{counted(count, 'graph break')} in {name}" + _at_lines(numbers)
    fatal = fatal_by is not None
    title = f"{fatal_by} fails: {what}" if fatal else what
    if whole and not fatal:
        title += f"; torch runs {listed(whole)} eager as a whole"
    return Finding(
        code="graph-break",
        severity="error" if fatal else "info" if on_purpose else "warning",
        title=title,
        cause=" ".join(_said(line) for line in lines),
        suggestion=" ".join(
            dict.fromkeys(f"Line {n.number}: {hint_for(b)}" for n in lines for b in n.breaks)
        ),
        where=first.where,
        evidence=[id for id, _ in found],
        explains=[id for id, _ in found],
        cost=Cost(results="failed" if fatal else "same"),
        data={
            "function": name,
            "lines": numbers,
            "breaks": [_row(line.number, event) for line in lines for event in line.breaks],
            "fatal": fatal,
            "by_torch": on_purpose,
            "skipped_frames": whole,
        },
        subject=name,
    )


def _lines(events: list[GraphBreak]) -> list[_Line]:
    by_line: dict[int, dict[str, GraphBreak]] = defaultdict(dict)
    for event in events:
        by_line[event.where.line if event.where else 0].setdefault(event.reason, event)
    return [_Line(number, list(by_line[number].values())) for number in sorted(by_line)]


def _at_lines(numbers: list[int]) -> str:
    known = [str(number) for number in numbers if number]
    if not known:
        return ""
    return f", {'line' if len(known) == 1 else 'lines'} {listed(known, most=12)}"


def _said(line: _Line) -> str:
    reasons = [_reason(event) for event in line.breaks]
    return sentence(f"{at(line.breaks[0].where)}: {'; '.join(reasons)}")


def _reason(event: GraphBreak) -> str:
    inside = event.stack[-1] if event.stack else None
    deeper = ""
    if inside is not None and event.where is not None and inside.file != event.where.file:
        deeper = f" (inside {inside.function}, {at(inside)})"
    text = _ADDRESS.sub("", _SENTENCE.split(event.explanation, maxsplit=1)[0] or event.reason)
    return f"{text.rstrip('.')}{deeper}"


def _row(number: int, event: GraphBreak) -> dict[str, object]:
    return {
        "line": number,
        "file": event.where.file if event.where else None,
        "reason": event.reason,
        "explanation": event.explanation,
        "hint": hint_for(event),
        "by_torch": event.by_torch,
    }
