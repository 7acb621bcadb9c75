"""A page as lines for a width: facts wrapped beside their labels, code as it is, sides beside each other."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from compdbg.report.text import clean
from compdbg.views.explorer.base import Code, CodeLine, Fact, Page, Sides

LABEL = 10
MOST_LABEL = 18
BESIDE = 96
"""Columns from which on two sides stand beside each other."""
TAB = "    "


class Bit(NamedTuple):
    """A stretch of one line. `language` is named where the text is to be highlighted."""

    text: str
    role: str = ""
    language: str = ""


Line = tuple[Bit, ...]


class Pending(NamedTuple):
    """A line of code that is made into bits when it is seen."""

    line: CodeLine
    digits: int
    language: str


_MARK_ROLES = {">": "mark", "+": "add", "-": "del", "=": "good", "x": "bad"}
_MARK_GLYPHS = {">": "▸", "=": "✓", "x": "✗"}


def bits_of(line: Line | Pending) -> Line:
    return _code_line(*line) if isinstance(line, Pending) else line


def lines_of(page: Page, width: int) -> list[Line | Pending]:
    """All lines of a page; only facts depend on the width, and sides."""
    found: list[Line | Pending] = []
    before: object = None
    labels = [len(b.label) for b in page.blocks if isinstance(b, Fact)]
    margin = max(LABEL, min(MOST_LABEL, max(labels, default=0) + 2))
    for block in page.blocks:
        if not isinstance(block, Fact) or (block.role == "title" and found):
            if found and before is not None:
                found.append(())
        elif before is not None and not isinstance(before, Fact):
            found.append(())
        found += _block(block, width, margin)
        if isinstance(block, Fact) and block.role == "title":
            found.append(())
        before = None if isinstance(block, Fact) and block.role == "title" else block
    return found


def _block(block: Fact | Code | Sides, width: int, margin: int) -> Iterator[Line | Pending]:
    if isinstance(block, Fact):
        yield from _fact(block, width, margin)
    elif isinstance(block, Code):
        yield from _code(block)
    elif width >= BESIDE:
        yield from _beside(block, width)
    else:
        yield from _code(block.left)
        yield ()
        yield from _code(block.right)


def _fact(fact: Fact, width: int, margin: int) -> Iterator[Line]:
    margin = margin if fact.label else 0
    text = clean(fact.text)
    wrapped = textwrap.wrap(text, max(20, width - margin - 1), break_on_hyphens=False) or [""]
    for n, part in enumerate(wrapped):
        label = clean(fact.label) if n == 0 else ""
        label = f"{label:<{margin - 1}} " if margin else ""
        yield (*((Bit(label, "label"),) if margin else ()), Bit(part, fact.role))


def _code(code: Code) -> Iterator[Line | Pending]:
    if code.title:
        yield (Bit(f"─ {clean(code.title)} ", "label"),)
    digits = max((len(str(line.number)) for line in code.lines if line.number is not None), default=0)
    for line in code.lines:
        yield Pending(line, digits, code.language)


def _code_line(line: CodeLine, digits: int, language: str) -> Line:
    number = "" if not digits else f"{'' if line.number is None else line.number:>{digits}} "
    text = clean(line.text.replace("\t", TAB))
    role = _MARK_ROLES.get(line.mark, "")
    mark = _MARK_GLYPHS.get(line.mark, line.mark) or " "
    plain = role in ("add", "del", "bad", "good") or language in ("", "text", "diff")
    return (Bit(f"{mark} ", role), Bit(number, "dim"), Bit(text, role, "" if plain else language))


def _beside(sides: Sides, width: int) -> Iterator[Line]:
    room = (width - 4) // 2
    left, right = [bits_of(n) for n in _code(sides.left)], [bits_of(n) for n in _code(sides.right)]
    for n in range(max(len(left), len(right))):
        one = _fitted(left[n] if n < len(left) else (), room)
        yield (*one, Bit(" │ ", "dim"), *(right[n] if n < len(right) else ()))


def _fitted(line: Line, room: int) -> Line:
    """The line in exactly that many columns."""
    found: list[Bit] = []
    for bit in line:
        size = min(room, cell_len(bit.text))
        if size < cell_len(bit.text) and size > 0:
            found.append(Bit(f"{set_cell_size(bit.text, size - 1)}…", bit.role, bit.language))
        else:
            found.append(bit._replace(text=set_cell_size(bit.text, size)))
        room -= size
    return (*found, Bit(" " * room))


def plain_text(line: Line | Pending) -> str:
    return line.line.text if isinstance(line, Pending) else "".join(bit.text for bit in line)
