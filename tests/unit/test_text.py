"""How views become text: widths, hostile characters, empty views."""

from __future__ import annotations

from msgspec import Struct

from compdbg.report.text import clean, columns_of, render
from compdbg.views.base import Column, View


class Row(Struct, frozen=True):
    name: str
    count: int


COLUMNS = (
    Column("name", lambda r: r.name, wide=True),
    Column("count", lambda r: str(r.count), align="right"),
)


def view(*rows: Row) -> View:
    return View(name="v", title="Title", items=rows, columns=COLUMNS, empty="nothing, because of that")


def test_a_table_has_its_title_its_columns_and_a_line_a_row() -> None:
    assert render(view(Row("a", 1), Row("bb", 22))).splitlines() == [
        "Title",
        "",
        "  name  count",
        "  a         1",
        "  bb       22",
    ]


def test_the_wide_column_goes_on_below_and_what_is_too_long_is_cut() -> None:
    lines = render(view(Row("word " * 30, 1)), width=40).splitlines()
    assert max(map(len, lines)) <= 40
    assert len(lines) == 3 + 4
    assert lines[3].endswith("1")
    assert lines[-1].endswith("…")


def test_an_empty_view_says_why() -> None:
    assert render(view()) == "Title\n  nothing, because of that\n"


def test_control_characters_and_newlines_of_the_program_are_shown_not_obeyed() -> None:
    assert clean("a\x1b[31mred\nnext") == "a\\x1b[31mred next"


def test_wide_characters_take_two_columns() -> None:
    assert columns_of("漢字") == 4
    assert columns_of("é") == 1
