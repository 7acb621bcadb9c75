"""Where recompiles are heading."""

from __future__ import annotations

import pytest

from compdbg.model.trends import Forecast, forecast, movement


@pytest.mark.parametrize(
    ("values", "moves"),
    [
        (["2", "3", "4"], "grows by 1"),
        (["9", "7", "5"], "shrinks by 2"),
        (["1", "2", "4", "8"], "grows"),
        (["1.5", "1.0", "0.25"], "shrinks"),
        (["4", "9", "5"], "new each time"),
        (["'a'", "'b'", "'c'"], "new each time"),
        (["3", "5", "3", "5"], "alternates"),
        (["3", "5"], None),
        ([], None),
    ],
)
def test_how_a_value_moves(values: list[str], moves: str | None) -> None:
    assert movement(values) == moves


def test_one_recompile_a_call_meets_the_limit_of_eight_on_call_nine() -> None:
    assert forecast(4, 8, [2, 3, 4]) == Forecast(limit=8, entries=4, eager_from_call=9)


def test_one_recompile_in_ten_calls() -> None:
    assert forecast(3, 8, [11, 21]) == Forecast(limit=8, entries=3, eager_from_call=81)


@pytest.mark.parametrize(
    ("entries", "limit", "calls"),
    [(2, 8, [5]), (3, None, [2, 3]), (9, 8, [2, 3]), (3, 8, [None, None])],
    ids=["one recompile is no rate", "no limit known", "past the limit", "calls not counted"],
)
def test_no_forecast(entries: int, limit: int | None, calls: list[int | None]) -> None:
    assert forecast(entries, limit, calls) is None
