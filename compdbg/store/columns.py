"""Rows as columns: what repeats from row to row is written once, so that it is small and quick to parse.

A column is a list of values, or `{"of": [distinct values], "at": [index, ...]}`. A key that a row
lacks is null in it. The same form is read by the report's page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

_LARGE = 1e6
"""From here on a float may be a date, of which every digit counts."""
_WORTH = 0.7
"""Up to this share of distinct values a column is written by index."""


def pack_column(values: Sequence[Any]) -> Any:
    """One column; numbers stand as they are."""
    if all(value is None or isinstance(value, (int, float)) for value in values):
        return [_short(value) if type(value) is float else value for value in values]
    places: dict[bytes, int] = {}
    distinct: list[Any] = []
    at: list[int] = []
    for value in values:
        key = msgspec.json.encode(value, enc_hook=str)
        place = places.get(key)
        if place is None:
            place = places[key] = len(distinct)
            distinct.append(value)
        at.append(place)
    return {"of": distinct, "at": at} if len(distinct) <= _WORTH * len(values) else values


def _short(value: float) -> float:
    """Without digits that no clock has: measured times are most of what can't be compressed."""
    return float(f"{value:.9g}") if abs(value) < _LARGE else value


def pack_rows(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Rows, which may differ in their keys, as `{"n": count, "columns": {key: column}}`."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return {"n": len(rows), "columns": {key: pack_column([row.get(key) for row in rows]) for key in keys}}


def unpack_column(column: Any) -> list[Any]:
    """The values of a column.

    Raises:
        KeyError, IndexError, TypeError: it is none.
    """
    if isinstance(column, list):
        return column
    of = column["of"]
    return [of[place] for place in column["at"]]


def unpack_rows(packed: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """The rows, without the keys that are null.

    Raises:
        KeyError, IndexError, TypeError: they are none.
    """
    columns = {key: unpack_column(column) for key, column in packed["columns"].items()}
    for n in range(packed["n"]):
        yield {key: values[n] for key, values in columns.items() if values[n] is not None}
