"""The hash of code: what it must tell apart, what it must not, also in another process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from compdbg.compiler.code_hash import code_hash
from compdbg.compiler.passes.inductor_pass import InductorPass
from tests.integration.launching import go, write

MAIN = """
    import helper
    from helper import act, LIMITS, Base
    SCALE = 2.0
    _calls = 0

    def run(graph):
        global _calls
        _calls += 1
        words = {"one", "two", "three", "four"}
        return act(graph) * SCALE + helper.deep(graph) + len(LIMITS) if graph in words else 0

    class Pass(Base):
        def __call__(self, graph):
            return self.step(graph)

    TABLE = (Pass, run)
"""
HELPER = """
    LIMITS = [1, 2]
    seen = []

    def act(x):
        seen.append(x)
        return inner(x)

    def inner(x):
        return x + 1

    def deep(x):
        return x - 1

    class Base:
        def step(self, graph):
            return in_base(graph)

    def in_base(graph):
        import main
        return main.TABLE
"""


PROGRAM = """
    import importlib, sys
    import helper, main
    from compdbg.compiler.code_hash import code_hash
    for change in sys.argv[1:]:
        importlib.reload(helper)
        importlib.reload(main)
        exec(change)
        print(code_hash(main.run), code_hash(main.Pass))
"""


def hashes(folder: Path, *changes: str, main: str = MAIN, helper: str = HELPER) -> list[list[str]]:
    """Of `run` and of `Pass` after each change, in a process of its own with its own order of sets."""
    write(folder, {"main.py": main, "helper.py": helper, "program.py": PROGRAM})
    went = go([sys.executable, "program.py", *changes], folder)
    assert went.status == 0, went.stderr
    return [line.split() for line in went.stdout.decode().splitlines()]


def test_it_is_the_same_in_every_process_and_follows_what_code_uses(tmp_path: Path) -> None:
    before, with_state, scale, constants, inner, named, base = hashes(
        tmp_path,
        "",
        "helper.seen.append(1); main._calls = 7",
        "main.SCALE = 3.0",
        "helper.LIMITS.append(3)",
        "helper.inner = lambda x: x",
        "main.helper.deep = abs",
        "helper.in_base = len",
    )
    assert with_state == before
    for changed in (scale, constants, inner, named):
        assert changed[0] != before[0]
    assert (base[0], base[1] != before[1]) == (before[0], True)
    (again,) = hashes(tmp_path, "")
    assert again == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [("helper", "x + 1", "x + 2"), ("main", '"three"', '"3"'), ("main", "_calls +=", "_calls -=")],
)
def test_an_edit_of_any_file_of_the_program(file: str, old: str, new: str, tmp_path: Path) -> None:
    (before,) = hashes(tmp_path, "")
    edited = {"main": MAIN, "helper": HELPER}
    edited[file] = edited[file].replace(old, new)
    (now,) = hashes(tmp_path, "", **edited)
    assert now[0] != before[0]


def test_settings_are_what_a_pass_was_made_with() -> None:
    class Pass(InductorPass):
        def __init__(self, epsilon: float, kinds: set[str]) -> None:
            self.epsilon = epsilon
            self.kinds = kinds
            self.ran = 0

        def __call__(self, graph: object) -> None:
            self.ran += 1

    one = Pass(1e-5, {"a", "b", "c"})
    before = one.uuid()
    one(None)
    assert one.uuid() == before == Pass(1e-5, {"c", "b", "a"}).uuid()
    assert before not in {Pass(1e-6, {"a", "b", "c"}).uuid(), Pass(1e-5, {"a"}).uuid()}


def test_a_table_that_names_what_uses_it_ends() -> None:
    def one() -> object:
        return two, TABLE

    def two() -> object:
        return one

    TABLE["one"] = one
    assert len(code_hash(one)) == 32


TABLE: dict[str, object] = {}
