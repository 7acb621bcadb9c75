"""Dropped guards on Python values: told as wrong exactly where the compiled result differs from eager."""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
import types

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tests.integration.guards_here import Program, alarms_of, compiled, play, same_each_time  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

ONES = torch.ones(3)
SETTINGS = {"a": 2.0, "b": 1.0}
MEMBERS = {1, 2}
FAST = True


class Mode(enum.Enum):
    A = 1
    B = 2


@pytest.fixture(autouse=True)
def settings_as_they_were(monkeypatch):
    monkeypatch.setenv("COMPDBG_TEST_MODE", "a")
    yield
    MEMBERS.discard(3)
    SETTINGS.update(a=2.0, b=1.0)
    globals()["FAST"] = True


def scale(x, factor=2.0):
    return x * factor


def mask(x, m=None):
    return x if m is None else x * m


def total(xs):
    return sum(xs)


def look_up(x, d):
    return x * d["k"]


def add_up(x, d):
    return x * sum(d.values())


def by_mode(x, m):
    return x * 2 if m is Mode.A else x


def by_name(x, mode="fast"):
    return x * 2 if mode == "fast" else x


def by_global(x):
    return x * 2 if FAST else x


def apply(x, fn):
    return fn(x)


def by_itself(x, k):
    return x * k if k == k else x  # noqa: PLR0124


def by_flag(x, flag):
    return x * 2 if flag else x


def cut(x, part):
    return x[part] * 2


def all_of(*xs):
    return sum(xs)


def difference(d):
    return d["a"] - d["b"]


def by_environment(x):
    return x * 2 if os.environ["COMPDBG_TEST_MODE"] == "a" else x


def by_grad_mode(x):
    return x * 2 if torch.is_grad_enabled() else x


def by_member(x):
    return x * 2 if 3 in MEMBERS else x


class Plain:
    pass


class Special(Plain):
    pass


def by_type(x, thing):
    return x * 2 if type(thing) is Plain else x * 3


class Sized:
    def __init__(self, size):
        self.size = size


def by_size(x, thing):
    return x * thing.size


def with_keywords(x, **keywords):
    return x * (2 if keywords else 1)


def in_a_cell():
    factor = 4

    def multiply(x):
        return x * factor

    def change():
        nonlocal factor
        factor = 7

    return Program(multiply, (ONES,), same_each_time(ONES), change)


def in_an_inner_cell():
    factor = 4

    def inner(x):
        return x * factor

    def change():
        nonlocal factor
        factor = 7

    return Program(lambda x: inner(x) + 0, (ONES,), same_each_time(ONES), change)


def on_an_object(value, other, read=lambda x, holder: x * holder.value):
    holder = types.SimpleNamespace(value=value)
    return Program(
        lambda x: read(x, holder), (ONES,), same_each_time(ONES), lambda: setattr(holder, "value", other)
    )


def on_a_partial():
    holder = types.SimpleNamespace(f=functools.partial(scale, factor=2.0))
    change = functools.partial(setattr, holder, "f", functools.partial(scale, factor=5.0))
    return Program(lambda x: holder.f(x) + 0, (ONES,), same_each_time(ONES), change)


def behind_a_cache():
    holder = types.SimpleNamespace(k=2)

    @functools.lru_cache
    def cached(n):
        return holder.k * n

    def change():
        holder.k = 5
        cached.cache_clear()

    return Program(lambda x: x * cached(3), (ONES,), same_each_time(ONES), change)


def with_an_attribute(name, value):
    holder = types.SimpleNamespace()
    read = lambda x: x * 2 if hasattr(holder, name) else x  # noqa: E731
    return Program(read, (ONES,), same_each_time(ONES), lambda: setattr(holder, name, value))


def without_an_attribute():
    holder = types.SimpleNamespace(k=2)
    read = lambda x: x * getattr(holder, "k", 1)  # noqa: E731
    return Program(read, (ONES,), same_each_time(ONES), lambda: delattr(holder, "k"))


def on_a_class():
    class Gain(nn.Module):
        gain = 2.0

        def forward(self, x):
            return x * self.gain

    return Gain()


def shadowed(value):
    module = on_a_class()
    return Program(module, (ONES,), same_each_time(ONES), lambda: setattr(module, "gain", value))


def on_the_class_itself():
    module = on_a_class()
    return Program(module, (ONES,), same_each_time(ONES), lambda: setattr(type(module), "gain", 3.0))


def a_dataclass(change):
    @dataclasses.dataclass
    class Config:
        k: float = 2.0

    holder = types.SimpleNamespace(config=Config())
    return Program(
        lambda x: x * holder.config.k, (ONES,), same_each_time(ONES), lambda: change(holder, Config)
    )


def a_module(module, change, rows=2, width=3, **more):
    x = torch.randn(rows, width) if width == 3 else torch.randn(rows, 4, width)
    return Program(module, (x,), same_each_time(x), functools.partial(change, module), **more)


def linear_and(*more):
    return nn.Sequential(nn.Linear(3, 3), *more)


def called(target, first, later, **more):
    return Program(target, first, same_each_time(*later), **more)


TWOS = torch.full((3,), 2.0)

WRONG = {
    "a default argument": lambda: called(scale, (ONES,), (ONES, 5.0)),
    "None, then a tensor": lambda: called(mask, (ONES,), (ONES, TWOS)),
    "a tensor, then None": lambda: called(mask, (ONES, TWOS), (ONES, None)),
    "a longer list": lambda: called(total, ([ONES, ONES],), ([ONES] * 3,)),
    "a shorter list": lambda: called(total, ([ONES] * 3,), ([ONES],)),
    "a value in a dict": lambda: called(look_up, (ONES, {"k": 2}), (ONES, {"k": 3})),
    "a key more in a dict that is walked": lambda: called(add_up, (ONES, {"k": 2}), (ONES, {"k": 2, "j": 1})),
    "a string": lambda: called(by_name, (ONES,), (ONES, "slow")),
    "an enum": lambda: called(by_mode, (ONES, Mode.A), (ONES, Mode.B)),
    "an int, then a float, of whole numbers": lambda: called(scale, (ONES.long(), 2), (ONES.long(), 2.0)),
    "a complex number": lambda: called(scale, (ONES, 2j), (ONES, 3j)),
    "no number, then one": lambda: called(by_itself, (ONES, float("nan")), (ONES, 2.0)),
    "the end of a slice": lambda: called(cut, (ONES, slice(0, 1)), (ONES, slice(0, 2))),
    "one input more": lambda: called(all_of, (ONES, ONES), (ONES, ONES, ONES)),
    "an object with another value": lambda: called(by_size, (ONES, Sized(2)), (ONES, Sized(3))),
    "the environment": lambda: called(
        by_environment, (ONES,), (ONES,), change=lambda: os.environ.update(COMPDBG_TEST_MODE="b")
    ),
    "the grad mode, asked for": lambda: called(by_grad_mode, (ONES,), (ONES,), inside=torch.no_grad),
    "a member of a set": lambda: called(by_member, (ONES,), (ONES,), change=lambda: MEMBERS.add(3)),
    "another function": lambda: called(apply, (ONES, lambda x: x + 1), (ONES, lambda x: x - 1)),
    "a keyword more": lambda: called(with_keywords, (ONES,), (ONES,), keywords={"extra": 1}),
    "a closure's cell": in_a_cell,
    "the cell of a function that is called": in_an_inner_cell,
    "a global": lambda: called(by_global, (ONES,), (ONES,), change=lambda: globals().update(FAST=False)),
    "an attribute": lambda: on_an_object(2.0, 5.0),
    "an enum on an object": lambda: on_an_object(
        Mode.A, Mode.B, lambda x, holder: x * 2 if holder.value == Mode.A else x
    ),
    "a function on an object": lambda: on_an_object(
        lambda x: x + 1, lambda x: x - 1, lambda x, holder: holder.value(x)
    ),
    "a partial": on_a_partial,
    "what an lru_cache gave": behind_a_cache,
    "hasattr": lambda: with_an_attribute("boost", 1),
    "an attribute that is gone": without_an_attribute,
    "a class attribute, set on the instance": lambda: shadowed(4.0),
    "a class attribute, set on the class": on_the_class_itself,
    "a field of a dataclass": lambda: a_dataclass(lambda holder, _: setattr(holder.config, "k", 3.0)),
    "training of a dropout": lambda: a_module(linear_and(nn.Dropout(0.9)), nn.Module.eval),
    "training of a batch norm": lambda: a_module(linear_and(nn.BatchNorm1d(3)).eval(), nn.Module.train, 5),
    "a module replaced by another kind": lambda: a_module(
        linear_and(nn.ReLU()), lambda m: m.__setitem__(1, nn.Tanh())
    ),
    "a forward that was patched": lambda: a_module(
        linear_and(on_a_class()), lambda m: setattr(m[1], "forward", lambda x: x * 7)
    ),
}

HARMLESS = {
    "an int, then a float, of floats": lambda: called(scale, (ONES, 2), (ONES, 2.0)),
    "True, then 1": lambda: called(by_flag, (ONES, True), (ONES, 1)),
    "an equal object": lambda: called(by_size, (ONES, Sized(2)), (ONES, Sized(2))),
    "a module of the same kind": lambda: called(apply, (ONES, nn.Linear(3, 3)), (ONES, nn.Linear(3, 3))),
    "another order of a dict": lambda: called(
        difference, ({"a": ONES, "b": TWOS},), ({"b": TWOS, "a": ONES},)
    ),
    "the grad mode, asked for by a library": lambda: a_module(
        nn.TransformerEncoderLayer(6, 2, 8, 0.0, batch_first=True),
        lambda m: None,
        width=6,
        inside=torch.no_grad,
    ),
    "the same arguments": lambda: called(scale, (ONES, 2.0), (ONES, 2.0)),
    "a key more in a dict that is looked up": lambda: called(
        look_up, (ONES, {"k": 2}), (ONES, {"k": 2, "j": 1})
    ),
    "a list for a tuple": lambda: called(
        lambda x, dims: x.sum(dims), (torch.ones(2, 3), (0, 1)), (torch.ones(2, 3), [0, 1])
    ),
    "an unrelated attribute": lambda: a_module(nn.Linear(3, 3), lambda m: setattr(m, "note", 3)),
    "a class attribute, set on the instance to its value": lambda: shadowed(2.0),
    "a dataclass replaced by an equal one": lambda: a_dataclass(
        lambda holder, kind: setattr(holder, "config", kind())
    ),
    "training of a dropout with p = 0": lambda: a_module(linear_and(nn.Dropout(0.0)), nn.Module.eval),
    "training of modules that do not look": lambda: a_module(linear_and(nn.ReLU()), nn.Module.eval),
    "a module replaced by its like": lambda: a_module(
        linear_and(nn.ReLU()), lambda m: m.__setitem__(0, nn.Linear(3, 3))
    ),
    "a parameter replaced": lambda: a_module(
        nn.Linear(3, 3), lambda m: setattr(m, "weight", nn.Parameter(torch.zeros(3, 3)))
    ),
    "a parameter frozen": lambda: a_module(nn.Linear(3, 3), lambda m: m.weight.requires_grad_(False)),
    "a hook that only looks": lambda: a_module(
        linear_and(), lambda m: m[0].register_forward_hook(lambda *_: None)
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_changed_value_is_one_error(record_here, name):
    outcome = play(WRONG[name](), record_here())
    assert outcome.effect == "differs"
    (finding,) = outcome.alarms
    assert finding.severity == "error"
    assert (finding.data["effect"], finding.data["violations"], finding.data["call"]) == ("differs", 1, 2)
    assert finding.data["kind"] in ("constant", "type", "identity", "global-state")


@pytest.mark.parametrize("name", HARMLESS)
def test_what_changes_no_result_raises_no_alarm(record_here, name):
    outcome = play(HARMLESS[name](), record_here())
    assert (outcome.effect, outcome.alarms) == ("same", [])


def test_an_object_of_a_subclass_may_do_otherwise(record_here):
    """The compiled code has what the class of the trace does; the subclass may or may not override it."""
    outcome = play(called(by_type, (ONES, Plain()), (ONES, Special())), record_here())
    (finding,) = outcome.alarms
    assert (finding.severity, finding.data["effect"], finding.data["kind"]) == ("warning", "unknown", "type")


def test_two_settings_are_two_causes(record_here):
    program = called(
        lambda x: x * SETTINGS["a"] + SETTINGS["b"],
        (ONES,),
        (ONES,),
        change=lambda: SETTINGS.update(a=3.0, b=7.0),
    )
    names = {finding.data["expr"] for finding in play(program, record_here()).alarms}
    assert names == {"G['SETTINGS']['a'] == 2.0", "G['SETTINGS']['b'] == 1.0"}


SHARED_CONFIG = types.SimpleNamespace(k=2.0)


def test_one_attribute_seen_through_two_objects_is_one_cause(record_here):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.config = SHARED_CONFIG

        def forward(self, x):
            return x * self.config.k + SHARED_CONFIG.k

    program = called(Scaled(), (ONES,), (ONES,), change=lambda: setattr(SHARED_CONFIG, "k", 5.0))
    (finding,) = play(program, record_here()).alarms
    assert (finding.data["wanted"], finding.data["seen"]) == ("2.0", "5.0")
    SHARED_CONFIG.k = 2.0


def test_one_setting_of_all_layers_is_one_cause(record_here):
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = 2.0

        def forward(self, x):
            return x * self.gain

    layers = nn.Sequential(Layer(), Layer(), Layer())
    program = a_module(layers, lambda m: [setattr(layer, "gain", 3.0) for layer in m])
    (finding,) = play(program, record_here()).alarms
    assert finding.data["guards"] == 3
    assert "gain" in finding.title


def test_an_attribute_that_only_counts_is_wrong_too(record_here):
    """The result is right, but the compiled code writes 1 on every call."""

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x + 1

    module = Counting()
    with record_here() as recorded:
        function = compiled(module)
        for _ in range(4):
            function(ONES)
    assert module.calls == 1
    (finding,) = alarms_of(recorded.load())
    assert (finding.data["violations"], finding.data["wanted"], finding.data["seen"]) == (3, "0", "1")
