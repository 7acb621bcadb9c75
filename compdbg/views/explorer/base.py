"""A place of the explorer: the rows that it lists, and the page that a row opens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from compdbg.events import Where
from compdbg.findings.base import Finding
from compdbg.views.base import Source, View
from compdbg.views.explorer.apart import Tell
from compdbg.views.places import place
from compdbg.views.source_lines import lines_around


class Fact(Struct, frozen=True, tag=True):
    """A label and what it says; a fact without a label is a sentence."""

    label: str
    text: str
    role: str = ""
    """`good`, `warn`, `bad`, `dim`, `title` or nothing: how it is drawn, beside what it says."""


class CodeLine(Struct, frozen=True):
    """One line of code. `mark` stands before it: `>` for the line that is meant, `+`, `-`, `=`, `x`."""

    text: str
    mark: str = ""
    number: int | None = None


class Code(Struct, frozen=True, tag=True):
    """Lines that are drawn as they are."""

    lines: Sequence[CodeLine]
    title: str = ""
    language: str = "python"


class Sides(Struct, frozen=True, tag=True):
    """Two pieces of code to compare: beside each other where there is room, else one below the other."""

    left: Code
    right: Code


Block = Fact | Code | Sides


class Page(Struct, frozen=True, kw_only=True):
    """Everything there is to say of one row."""

    title: str
    blocks: Sequence[Block]
    where: Where | None = None
    """The source line that `o` opens."""
    leads_to: tuple[str, str] | None = None
    """The place that proves what the page says, and the id of the finding that it is about."""


class Place(Struct, frozen=True, kw_only=True):
    """One place: a list of rows, each with a page; or rows that open a list of their own."""

    name: str
    letter: str
    title: str
    view: Callable[[Source], View]
    page: Callable[[Source, Any], Page]
    key: Callable[[Any], str]
    row: type[Struct]
    inside: Callable[[Source, Any], Place | None] | None = None
    """The list that a row opens; where it has none it opens its page."""
    about: Callable[[Any, Finding], bool] = lambda row, finding: False
    """Whether a row shows what a finding is about."""
    number: Callable[[Any], int | None] | None = None
    """What typed digits jump to."""
    slow_page: Callable[[Any], bool] = lambda row: False
    """Whether the page of a row may take a moment: it is made in the background."""
    slow_view: Callable[[Source, Tell], View] | None = None
    """Makes its view instead, where that may take seconds, and tells how far it is."""


def source_code(source: Source, where: Where | None, around: int = 2) -> list[Block]:
    """The user's line among its neighbours, marked; nothing if the file is gone."""
    if where is None:
        return []
    lines = lines_around(where, around, source.run.log.sources)
    found = [CodeLine(text, ">" if n == where.line else "", n) for n, text in lines]
    return [Code(found, title=place(where))] if found else []


def as_markdown(page: Page) -> str:
    """The page for a ticket or a chat."""
    parts = [f"### {one_line(page.title)}"]
    for block in page.blocks:
        if isinstance(block, Fact):
            label = f"**{block.label}** " if block.label else ""
            parts.append(f"{label}{escaped(block.text)}")
        elif isinstance(block, Sides):
            parts += [_fenced(block.left), _fenced(block.right)]
        else:
            parts.append(_fenced(block))
    return _printable("\n\n".join(parts)) + "\n"


def _printable(text: str) -> str:
    """Nothing that a terminal or an editor would obey, and nothing that UTF-8 can't say."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def one_line(text: str) -> str:
    return " ".join(text.split())


def escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"\\{c}" if c in "\\`*_<>[]#|" else c for c in one_line(text))


def _fenced(code: Code) -> str:
    body = "\n".join(_marked(line) for line in code.lines)
    fence = "```"
    while fence in body:
        fence += "`"
    title = f"{escaped(code.title)}\n\n" if code.title else ""
    marked = any(line.mark in ("+", "-") for line in code.lines)
    return f"{title}{fence}{'diff' if marked else code.language}\n{body}\n{fence}"


def _marked(line: CodeLine) -> str:
    number = f"{line.number:>5} " if line.number is not None else ""
    return f"{line.mark or ' '} {number}{line.text}".rstrip()
