"""Explanations as text: a head line, the user's line, then cause, cost, advice and evidence."""

from __future__ import annotations

import textwrap

from compdbg.report.text import clean
from compdbg.views.explanation import Explanation

LABEL = 10


def render(explanation: Explanation, width: int = 100) -> str:
    finding = explanation.finding
    head = f"{finding.id}  {finding.severity}  {finding.code}"
    out = [f"{head}  {explanation.where}".rstrip(), f"    {clean(finding.title)}"]
    if explanation.line:
        out += ["", f"      {explanation.where.rpartition(':')[2]} | {clean(explanation.line)}"]
    out.append("")
    out += _labelled("cause", finding.cause, width)
    out += _labelled("cost", explanation.cost, width)
    out += _labelled("do", finding.suggestion, width)
    for n, line in enumerate(explanation.evidence):
        out += _labelled("evidence" if n == 0 else "", line, width, wrap=False)
    out += _labelled("more", explanation.page, width, wrap=False)
    return "\n".join(line.rstrip() for line in out) + "\n"


def _labelled(label: str, text: str, width: int, wrap: bool = True) -> list[str]:
    """`label` in the margin, the text beside it; empty text leaves the line out."""
    if not text:
        return []
    margin = " " * (4 + LABEL)
    first = f"    {label:<{LABEL}}"
    room = max(40, width - len(margin))
    paragraphs = text.splitlines() if wrap else [text]
    lines = [
        piece for p in paragraphs for piece in (textwrap.wrap(clean(p), room) if wrap else [_cut(p, room)])
    ]
    return [(first if n == 0 else margin) + line for n, line in enumerate(lines)]


def _cut(text: str, room: int) -> str:
    text = clean(text)
    return text if len(text) <= room else text[: room - 1] + "…"
