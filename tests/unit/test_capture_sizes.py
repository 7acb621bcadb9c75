"""The capture sizes that add fewest rows, against every choice there is."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from compdbg.model.capture_sizes import fewest_added


def added(calls: dict[int, int], chosen: tuple[int, ...]) -> int:
    return sum(count * (min(c for c in chosen if c >= size) - size) for size, count in calls.items())


def least(calls: dict[int, int], count: int) -> int:
    """By trying all: a best choice is among the called sizes, and holds the largest."""
    sizes = sorted(calls)
    largest = sizes.pop()
    others = combinations(sizes, min(count, len(calls)) - 1)
    return min(added(calls, (*some, largest)) for some in others)


@pytest.mark.parametrize("seed", range(40))
def test_it_is_as_good_as_the_best_of_all_choices(seed):
    chance = random.Random(seed)
    calls = {n: chance.randint(1, 50) for n in chance.sample(range(1, 200), chance.randint(1, 9))}
    count = chance.randint(1, 6)
    chosen, rows = fewest_added(calls, count)
    assert rows == added(calls, tuple(chosen)) == least(calls, count)
    assert len(chosen) == min(count, len(calls))


def test_no_padding_where_there_are_as_many_captures_as_sizes():
    assert fewest_added({3: 5, 7: 1}, 4) == ([3, 7], 0)


def test_common_sizes_win_over_rare_ones():
    assert fewest_added({5: 1000, 6: 1, 16: 1}, 2) == ([5, 16], 10)


def test_nothing_was_called():
    assert fewest_added({}, 3) == ([], 0)


def test_hundreds_of_sizes_are_quick():
    chosen, rows = fewest_added(dict.fromkeys(range(1, 513), 1), 64)
    assert (len(chosen), rows) == (64, 64 * 28)
