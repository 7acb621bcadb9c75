"""A run as Markdown for a ticket's body: verdict, findings, evidence folded; of a bounded length."""

from __future__ import annotations

import re

from compdbg.findings.base import Finding
from compdbg.report.contents import Contents
from compdbg.report.text import clean
from compdbg.views.base import Source
from compdbg.views.explanation import explain
from compdbg.views.source_lines import lines_around
from compdbg.views.summary import facts, verdict
from compdbg.views.together import together

MAX_CHARACTERS = 60_000
_TEXT = 1_500
_LINE = 240
_SPECIAL = re.compile(r"([\\`*{}\[\]<>#|~!&@$]|(?<![^\W_])_|_(?![^\W_]))")


def markdown(contents: Contents) -> str:
    """The text; findings that find no room are counted, with how to get at them."""
    source = contents.source
    head = [f"### {_plain(verdict(source))}", "", *_facts(source), ""]
    tail = ["", f"<sub>{_plain(_redacted(contents))}</sub>", ""]
    room = MAX_CHARACTERS - sum(len(line) + 1 for line in (*head, *tail)) - 200
    told: list[str] = []
    shown = together(source.findings)
    for number, finding in enumerate(shown):
        text = _finding(source, finding)
        if len(text) > room:
            left = len(shown) - number
            told.append(
                f"{left} more finding{'s' * (left != 1)}: `compdbg explain` on the run or its report."
            )
            break
        told.append(text)
        room -= len(text) + 1
    return "\n".join([*head, *told, *tail])


def _facts(source: Source) -> list[str]:
    rows = [f"| {_plain(label)} | {_plain(value)} |" for label, value in facts(source)]
    return ["| | |", "|---|---|", *rows]


def _finding(source: Source, finding: Finding) -> str:
    told = explain(source, finding)
    where = f" at {_code(told.where)}" if told.where else ""
    out = [
        f"#### {finding.id} {finding.severity}: {_plain(finding.title)}",
        "",
        f"{_code(finding.code)}{where}",
    ]
    out += _excerpt(source, finding)
    answers = [("Cause", finding.cause), ("Cost", told.cost), ("What to do", finding.suggestion)]
    out += [f"\n**{label}:** {_plain(value)}" for label, value in answers if value]
    if told.evidence:
        lines = [clean(line)[:_LINE] for line in told.evidence]
        out += ["", "<details><summary>Evidence</summary>", "", *_fenced(lines, ""), "", "</details>"]
    return "\n".join([*out, ""])


def _excerpt(source: Source, finding: Finding) -> list[str]:
    lines = lines_around(finding.where, 2, source.run.log.sources)
    if finding.where is None or not lines:
        return []
    here = finding.where.line
    shown = [
        f"{'>' if number == here else ' '} {number:>4} | {clean(line)[:_LINE]}" for number, line in lines
    ]
    return ["", *_fenced(shown, "python")]


def _fenced(lines: list[str], language: str) -> list[str]:
    """Lines in a fence that none of them can end."""
    runs = (len(run) for line in lines for run in re.findall(r"`+", line))
    fence = "`" * max(3, 1 + max(runs, default=0))
    return [f"{fence}{language}", *lines, fence]


def _plain(text: str) -> str:
    """Text of the program as Markdown text: no markup, no mention, no link."""
    text = clean(text)
    text = text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return _escaped(text)
    return "".join(_code(part) if n % 2 else _escaped(part) for n, part in enumerate(parts))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text).replace("://", "\\://")


def _code(text: str) -> str:
    """A span of code, whatever it holds."""
    text = clean(text).replace("|", "\\|")
    runs = (len(run) for run in re.findall(r"`+", text))
    ticks = "`" * (1 + max(runs, default=0))
    pad = " " if text.startswith("`") or text.endswith("`") or not text.strip() else ""
    return f"{ticks}{pad}{text or ' '}{pad}{ticks}"


def _redacted(contents: Contents) -> str:
    if contents.redactions is None:
        return "Made by compdbg; nothing was redacted."
    what = ", ".join(contents.redactions) or "nothing to redact"
    return f"Made by compdbg. Redacted: {what}."
