"""What the page's scripts are given: views as plain data, columns rather than rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from compdbg.report.contents import Contents
from compdbg.report.text import clean
from compdbg.store.columns import pack_column, pack_rows
from compdbg.views.all import VIEWS
from compdbg.views.base import View
from compdbg.views.code import code
from compdbg.views.comparison import comparisons

MAX_ROWS = 20_000
"""Rows of one view that a page holds."""
MAX_CELL = 4_000
"""Characters of one cell."""
_DRAWN = ("fusion", "sizes", "splits", "time", "frames", "guards")
"""Views whose rows are drawn too, and not only listed."""


def page_data(contents: Contents) -> dict[str, Any]:
    """Everything but events and large texts, which the page looks at only when asked."""
    source = contents.source
    views = {name: make(source) for name, make in VIEWS.items() if name not in ("events", "summary")}
    return {
        "run": plain(source.run.summary),
        "findings": [finding_data(f.id, f.severity, f.code, f.title) for f in source.findings],
        "views": {name: view_data(view) for name, view in views.items()},
        "comparisons": [plain(c) for c in comparisons(source)],
        "code": plain(code(source)),
    }


def finding_data(id: str, severity: str, code: str, title: str) -> dict[str, str]:
    return {"id": id, "severity": severity, "code": code, "title": shown(title)}


def view_data(view: View) -> dict[str, Any]:
    """A view's cells as text, column by column; the rows themselves where they are drawn."""
    items = list(view.items)
    kept = items[:MAX_ROWS]
    data: dict[str, Any] = {
        "title": view.title,
        "empty": view.empty,
        "total": len(items),
        "columns": [
            {
                "title": column.title,
                "align": column.align,
                "wide": column.wide,
                "cells": pack_column([shown(column.cell(item)) for item in kept]),
            }
            for column in view.columns
        ],
    }
    telling = {id(item) for item in _telling(view)}
    if len(telling) < len(items):
        data["telling"] = [n for n, item in enumerate(kept) if id(item) in telling]
    if view.name in _DRAWN:
        data["rows"] = pack_rows([plain(item) for item in kept])
    return data


def _telling(view: View) -> Sequence[Any]:
    """The rows to begin with: those that the view shows; of guards those that were false, if any were."""
    if view.name == "guards":
        return [row for row in view.items if getattr(row, "violations", 0)] or view.items
    return view.items if view.shown is None else view.shown


def shown(text: str) -> str:
    """Text of the program as it may be shown: no control or direction characters, of a bounded length."""
    if len(text) > MAX_CELL:
        text = f"{text[:MAX_CELL]}… ({len(text):,} characters)"
    return clean(text)


def plain(value: Struct) -> Any:
    """A structure as plain values, its texts as they may be shown."""
    return _shown(msgspec.to_builtins(value, enc_hook=str))


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, list):
        return [_shown(item) for item in value]
    if isinstance(value, dict):
        return {shown(key): _shown(item) for key, item in value.items()}
    return value
