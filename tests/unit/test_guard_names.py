"""What the user calls the value that a guard is about."""

from __future__ import annotations

import enum
import types

import pytest

from compdbg.hooks.guard_names import show, user_name, with_cells_named
from compdbg.hooks.shape_guards import sources_in


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("L['self'].mode", "self.mode"),
        ("L['s'].__dict__['_modules']['l']._parameters['bias']", "s.l.bias"),
        ("L['self']._modules['0'].factor", "self[0].factor"),
        ("L['fn'].__self__._modules['1'].factor", "self[1].factor"),
        ("dict(type(L['s']).__dict__)['scale']", "s.scale"),
        ("type(L['self']).__mro__[1].__dict__['k']", "self.k"),
        ("G['SETTINGS']['scale']", "SETTINGS['scale']"),
        ("G['__builtins_dict___0']['len']", "len"),
        ("G['__import_torch_dot_nn_dot_modules_dot_linear'].F", "torch.nn.modules.linear.F"),
        ("G['os'].environ._data[b'MODE']", "os.environ['MODE']"),
        ("L['x'].size()[0]", "x.shape[0]"),
    ],
)
def test_sources_as_the_user_writes_them(source: str, name: str) -> None:
    assert user_name(source) == name


def test_a_cell_has_the_name_of_its_variable() -> None:
    factor = 2

    def inner() -> int:
        return factor

    source = "L['fn'].__closure__[0].cell_contents.size"
    assert with_cells_named(source, lambda of: inner.__code__) == "factor.size"
    assert with_cells_named(source, lambda of: None) == source


class Mode(enum.Enum):
    FAST = 1


class Hidden:
    def __repr__(self) -> str:
        raise AssertionError("the user's code must not run")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (2.0, "2.0"),
        ("fast", "'fast'"),
        ([1, 2], "[1, 2]"),
        ({"a": 1}, "{'a': 1}"),
        (list(range(100)), "a list of 100"),
        ([Hidden()], "a list of 1"),
        (Hidden(), "a Hidden"),
        (Mode.FAST, "Mode.FAST"),
        (types, "types"),
        (len, "len"),
        (int, "class int"),
    ],
)
def test_values_in_a_word_and_by_no_code_of_the_users(value: object, text: str) -> None:
    assert show(value) == text


def test_long_texts_are_cut() -> None:
    assert len(show("x" * 1000)) == 80


@pytest.mark.parametrize(
    ("expr", "sources"),
    [
        ("5 <= L['x'].size()[0]", ["L['x'].size()[0]"]),
        ("L['y'].size()[0] == L['x'].size()[0]", ["L['y'].size()[0]", "L['x'].size()[0]"]),
        ("((L['x'].size()[0]*4) % 8) == 0", ["L['x'].size()[0]"]),
        ("L['self'].kv[0].size()[1] <= 16", ["L['self'].kv[0].size()[1]"]),
        ("L['n'] == 5", ["L['n']"]),
        ("L['x'].storage_offset() == 0", ["L['x'].storage_offset()"]),
    ],
)
def test_the_sizes_in_an_expression(expr: str, sources: list[str]) -> None:
    assert sources_in(expr) == sources
