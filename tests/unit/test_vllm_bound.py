"""Locals of a call as torch's guards name them, from its arguments."""

from __future__ import annotations

import pytest

from compdbg.hooks.vllm_audit import bound


def plain(self, x, y=2, *, z=3):
    """A forward as most models have it."""


def collecting(self, *rest, **options):
    """A forward that takes anything."""


def closing(factor):
    def forward(self, x):
        return x * factor

    return forward


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "expected"),
    [
        (plain, ("s", 1), {}, {"self": "s", "x": 1, "y": 2, "z": 3}),
        (plain, ("s", 1, 5), {"z": 6}, {"self": "s", "x": 1, "y": 5, "z": 6}),
        (plain, ("s",), {"y": 7, "x": 8}, {"self": "s", "x": 8, "y": 7, "z": 3}),
        (collecting, ("s", 1, 2), {"a": 3}, {"self": "s", "rest": (1, 2), "options": {"a": 3}}),
        (collecting, ("s",), {}, {"self": "s", "rest": (), "options": {}}),
        (closing(9), ("s", 1), {}, {"self": "s", "x": 1, "factor": 9}),
    ],
)
def test_names_are_those_of_the_frame(function, args, kwargs, expected):
    assert bound(function, args, kwargs) == expected
