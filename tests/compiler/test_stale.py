"""A kept model is never used where anything that its trace went by is another; elsewhere it always is.

Each test makes models that differ in one thing, of one class with one name: first all are compiled,
then all are made again and must be loaded. Every result is compared with eager.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
import types

import numpy
import pytest
import torch
from torch import nn

from compdbg.compiler import guard_kinds, support_torch_compile, use_config
from compdbg.compiler.piece_cache import forget
from compdbg.events import CacheLookup
from tests.compiler.ops import eager
from tests.compiler.sized import Heard

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]

FACTOR = 2.0
TABLE = {"a": 1, "b": [1, 2]}


class Setting:
    factor = 2


class Kind(enum.Enum):
    ONE = 1
    TWO = 2


@dataclasses.dataclass
class Settings:
    eps: float = 1.0
    names: tuple[str, ...] = ()


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def scaled(x, by=2):
    return x * by


def closed_over(by):
    class Part(nn.Module):
        def forward(self, x):
            return x * by

    return Part()


def of_class(by):
    class Part(nn.Module):
        BY = by

        def forward(self, x):
            return x * self.BY

    return Part()


def of_one_name(other):
    if other:

        class Part(nn.Module):
            def forward(self, x):
                return x * 2
    else:

        class Part(nn.Module):
            def forward(self, x):
                return x * 3

    Part.__qualname__ = "Part"
    return Part()


class WithProperty(nn.Module):
    def __init__(self, value):
        super().__init__()
        self._value = value

    @property
    def value(self):
        return self._value * 2

    def forward(self, x):
        return x * self.value


def hooked(by):
    def change(model):
        model.linear.register_forward_hook(lambda module, args, result: result * by)

    return change


def with_method(by):
    def forward(self, x):
        return nn.functional.linear(x, self.weight) * by

    def change(model):
        model.linear.forward = types.MethodType(forward, model.linear)

    return change


def class_attribute(value):
    return lambda model: setattr(type(model), "FACTOR", value)


CASES = {
    "a function": (
        lambda self, x: self.act(self.linear(x)),
        [{"act": lambda x: x + 1}, {"act": lambda x: x + 2}, {"act": torch.sin}, {"act": torch.cos}],
    ),
    "a module and its settings": (
        lambda self, x: self.act(self.linear(x)),
        [{"act": nn.ReLU()}, {"act": nn.Tanh()}, {"act": nn.LeakyReLU(0.1)}, {"act": nn.LeakyReLU(0.5)}],
    ),
    "a class made by a function": (
        lambda self, x: self.part(self.linear(x)),
        [{"part": make(by)} for make in (closed_over, of_class) for by in (2, 3, 2.0)],
    ),
    "two classes of one name": (
        lambda self, x: self.part(self.linear(x)),
        [{"part": of_one_name(False)}, {"part": of_one_name(True)}],
    ),
    "a property": (
        lambda self, x: self.part(self.linear(x)),
        [{"part": WithProperty(3)}, {"part": WithProperty(4)}],
    ),
    "a partial function": (
        lambda self, x: self.act(self.linear(x)),
        [{"act": functools.partial(scaled, by=3)}, {"act": functools.partial(scaled, by=4)},
         {"act": functools.partial(torch.add, 3)}, {"act": functools.partial(torch.mul, 3)}],
    ),
    "a class attribute": (
        lambda self, x: self.linear(x) * self.FACTOR,
        [class_attribute(2.0), class_attribute(3.0)],
    ),
    "an enum and a dataclass": (
        lambda self, x: self.linear(x) * (2 if self.kind is Kind.ONE else 3) * self.settings.eps,
        [{"kind": kind, "settings": Settings(eps)} for kind in Kind for eps in (1.0, 2.0)],
    ),
    "an object": (
        lambda self, x: self.linear(x) * self.object.value,
        [{"object": Slotted(2)}, {"object": Slotted(3)}, {"object": types.SimpleNamespace(value=2)}],
    ),
    "a nested container": (
        lambda self, x: self.linear(x) * self.table["k"][1],
        [{"table": {"k": (1, 2)}}, {"table": {"k": (1, 3)}}, {"table": {"k": [1, 3]}}],
    ),
    "a set": (
        lambda self, x: self.linear(x) * len(self.set) + ("a" in self.set),
        [{"set": {"a", "b"}}, {"set": {"b", "c"}}, {"set": {"c"}}],
    ),
    "the order of a list or dict": (
        lambda self, x: [f(x) for f in self.list][-1] * next(iter(self.dict)),
        [{"list": order, "dict": keys} for order in ([torch.sin, torch.cos], [torch.cos, torch.sin])
         for keys in ({2: 0, 3: 0}, {3: 0, 2: 0})],
    ),
    "an attribute that is or is not there": (
        lambda self, x: x * 2 if hasattr(self, "extra") else x * 3,
        [{"extra": 1}, {}],
    ),
    "None, numbers and truth": (
        lambda self, x: x * (self.value or 5),
        [{"value": value} for value in (None, 0, 2, True, 1, 1.0)],
    ),
    "a text that picks an operator": (
        lambda self, x: getattr(x, self.name)(),
        [{"name": "sin"}, {"name": "cos"}],
    ),
    "a dtype": (lambda self, x: x.to(self.dtype), [{"dtype": torch.float64}, {"dtype": torch.float16}]),
    "a tensor's shape": (
        lambda self, x: x.sum() * self.tensor.numel() + self.tensor.sum(),
        [{"tensor": torch.ones(3)}, {"tensor": torch.ones(4)}],
    ),
    "a hook": (lambda self, x: self.linear(x), [hooked(2), hooked(3), {}]),
    "a method of one object": (lambda self, x: self.linear(x), [with_method(2), with_method(3), {}]),
    "a function that makes a function": (
        lambda self, x: x * self.make()(2),
        [{"make": lambda: lambda y: y + 1}, {"make": lambda: lambda y: y + 2}],
    ),
}  # fmt: skip


def model_of(forward, change):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

    Model.FACTOR = 1.0
    Model.forward = forward
    forward.__qualname__ = "Model.forward"
    with use_config(eager()):
        model = support_torch_compile(dynamic_arg_dims={"x": 0})(Model)()
    if callable(change):
        change(model)
    else:
        for name, value in change.items():
            setattr(model, name, value)
    return model


def loads(forward, change) -> bool:
    """Makes and calls a model, compares with eager; whether it came from the cache."""
    forget()
    torch._dynamo.reset()
    model = model_of(forward, change)
    with torch.no_grad():
        x = torch.randn(3, 4)
        torch.testing.assert_close(model(x), model.forward_eager(x))
    (wrapper,) = (v for k, v in vars(model).items() if k.startswith("_compdbg_compiled"))
    return wrapper.loaded


@pytest.mark.parametrize("case", CASES)
def test_what_differs_is_compiled_and_what_does_not_is_loaded(case):
    forward, changes = CASES[case]
    assert [loads(forward, change) for change in changes] == [False] * len(changes)
    assert [loads(forward, change) for change in changes] == [True] * len(changes)


GLOBALS = {
    "a number": (lambda self, x: x * FACTOR, "FACTOR", [2.0, 3.0, 3]),
    "a function": (lambda self, x: scaled(x), "scaled", [scaled, lambda x: x * 5, lambda x: x * 6]),
    "an attribute of a class": (
        lambda self, x: x * Setting.factor,
        "Setting",
        [type("Setting", (), {"factor": factor}) for factor in (2, 3, 3.0)],
    ),
    "a list in a dict": (
        lambda self, x: x * sum(TABLE["b"]),
        "TABLE",
        [{"b": [1, 2]}, {"b": [1, 3]}, {"b": (1, 2)}, {"b": {1, 2, 7}}],
    ),
}


@pytest.mark.parametrize("case", GLOBALS)
def test_the_same_of_globals(case, monkeypatch):
    forward, name, values = GLOBALS[case]

    def started(value) -> bool:
        monkeypatch.setitem(globals(), name, value)
        return loads(forward, {})

    assert [started(value) for value in values] == [False] * len(values)
    assert [started(value) for value in values] == [True] * len(values)


def test_the_same_of_defaults_and_of_the_environment(monkeypatch):
    def forward(self, x):
        return scaled(x) * float(os.environ["STALE_FACTOR"])

    def started(default, factor) -> bool:
        monkeypatch.setattr(scaled, "__defaults__", (default,))
        monkeypatch.setenv("STALE_FACTOR", factor)
        return loads(forward, {})

    assert [started(*each) for each in ((2, "1"), (3, "1"), (3, "2"))] == [False] * 3
    assert [started(*each) for each in ((2, "1"), (3, "1"), (3, "2"))] == [True] * 3


def test_values_of_tensors_and_arrays_are_inputs_and_not_part_of_what_is_kept():
    def forward(self, x):
        return x * self.tensor + torch.from_numpy(self.array)

    def change(value):
        return {"tensor": torch.full((4,), value), "array": numpy.full(4, value, "float32")}

    assert not loads(forward, change(1.0))
    assert loads(forward, change(2.0))


def test_a_closure_of_the_forward_itself_is_that_of_the_process():
    def closing(by, tensor):
        def forward(self, x):
            return x * by + tensor

        return forward

    assert not loads(closing(2, torch.ones(4)), {})
    assert not loads(closing(3, torch.ones(4)), {})
    assert loads(closing(2, torch.zeros(4)), {})


def test_two_methods_of_one_class_are_two_models():
    class Model(nn.Module):
        @support_torch_compile(dynamic_arg_dims={"x": 0})
        def one(self, x):
            return x + 1

        @support_torch_compile(dynamic_arg_dims={"x": 0})
        def two(self, x):
            return x + 2

    for _ in range(2):
        forget()
        with use_config(eager()):
            model = Model()
        x = torch.ones(3)
        assert (model.one(x)[0], model.two(x)[0]) == (2, 3)


def test_a_guard_that_can_not_be_told_as_data_keeps_a_model_out_of_the_cache(monkeypatch):
    def forward(self, x):
        return x * self.value

    monkeypatch.setattr(guard_kinds, "_EQUAL", guard_kinds._EQUAL - {"CONSTANT_MATCH", "EQUALS_MATCH"})
    for value in (2, 3, 2):
        with Heard() as heard:
            assert not loads(forward, {"value": value})
        (kept,) = (event for event in heard.of(CacheLookup) if event.result == "bypass")
        assert kept.reason.startswith("a dropped guard can't be kept as data: ")
        assert "_MATCH on L['self'].value" in kept.reason
