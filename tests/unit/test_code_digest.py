"""Code that is the same but for what does not matter, and code that is not."""

from __future__ import annotations

import functools
import textwrap
from typing import Any

import pytest

from compdbg.hooks.code_digest import digest_of


def made(source: str, name: str = "f") -> Any:
    """What a user's module of this source calls `name`."""
    module: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(textwrap.dedent(source), "/home/someone/passes.py", "exec"), module)
    return module[name]


BASE = """
def helper(x):
    return x + 1

def f(x):
    return helper(x) * 2
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x + 1", "x + 2"),
        ("helper(x) * 2", "helper(x) * 3"),
        ("helper(x) * 2", "helper(x) - 2"),
        ("def f(x):", "def f(x, y=4):"),
    ],
    ids=["a helper", "a constant", "an operation", "a default"],
)
def test_other_code(old: str, new: str) -> None:
    assert digest_of(made(BASE)) != digest_of(made(BASE.replace(old, new)))


@pytest.mark.parametrize(
    "source",
    [
        BASE,
        "# a comment\n\n\n" + BASE.replace("* 2", "* 2  # twice"),
        BASE.replace("def f(x):\n", 'def f(x):\n    """Doubles."""\n'),
        BASE + "\ndef unrelated():\n    return 7\n",
    ],
    ids=["the same", "comments and lines", "a docstring", "another function"],
)
def test_the_same_code(source: str) -> None:
    assert digest_of(made(BASE)) == digest_of(made(source))


CLASS = """
EPS = 1e-6
calls = 0

class Pass:
    limit = 3

    def __init__(self):
        self.matched = 0

    def __call__(self, graph):
        self.matched += EPS + calls
        return graph
"""


def test_counters_do_not_matter_and_constants_do() -> None:
    one, other = made(CLASS, "Pass")(), made(CLASS.replace("calls = 0", "calls = 9"), "Pass")()
    other.matched = 12
    assert digest_of(one) == digest_of(other)
    assert digest_of(one) != digest_of(made(CLASS.replace("1e-6", "1e-5"), "Pass")())
    assert digest_of(one) != digest_of(made(CLASS.replace("limit = 3", "limit = 4"), "Pass")())


def test_methods_and_partials_are_what_they_stand_for() -> None:
    f = made(BASE)
    assert digest_of(functools.partial(f, 1)) == digest_of(f)
    one = made(CLASS, "Pass")()
    assert digest_of(one.__call__) == digest_of(made(CLASS, "Pass")().__call__)


def test_recursion_ends() -> None:
    source = "def f(x):\n    return f(x - 1) if x else 0\n"
    assert digest_of(made(source)) == digest_of(made(source))
