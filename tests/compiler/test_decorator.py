"""`@support_torch_compile`: what it may be put on, what may vary, and what stays as it was."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import NamedTuple

import pytest
import torch
from torch import nn

from compdbg.compiler import CompilationConfig, ignore_torch_compile, support_torch_compile, use_config
from compdbg.compiler.dynamic_dims import asked_dims
from compdbg.events import Decorated, PieceCompiled
from tests.compiler.ops import compare, eager
from tests.compiler.sized import Heard

pytestmark = pytest.mark.torch


@support_torch_compile(dynamic_arg_dims={"x": 0})
class Doubled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x) * 2


class Names(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


@dataclasses.dataclass
class Batch:
    tokens: torch.Tensor
    scale: float


def build(cls, **config):
    with use_config(eager(**config)):
        return cls()


def compiles(heard: Heard) -> int:
    return len(heard.of(PieceCompiled))


def test_one_compile_serves_every_size():
    model = build(Doubled)
    with Heard() as heard:
        compare(model, 1, 5, 2, 130, 1)
    assert compiles(heard) == 1


def test_what_was_asked_is_inspectable_and_the_eager_forward_is_beside():
    assert Doubled.forward._compdbg_compile.dynamic_arg_dims == {"x": 0}
    model = build(Doubled)
    x = torch.randn(3, 8)
    assert torch.equal(model.forward_eager(x), model.linear(x) * 2)
    with Heard() as heard:
        model.forward_eager(x)
    assert heard.events == []


def test_the_configuration_is_the_one_that_was_current_at_construction():
    with use_config(CompilationConfig(mode="NONE")):
        model = Doubled()
    with use_config(eager()), Heard() as heard:
        compare(model, 3)
    (decorated,) = heard.of(Decorated)
    assert (decorated.enabled, decorated.reason) == (False, "the mode is NONE")


def test_a_method_is_compiled_and_hooks_and_subclasses_see_an_ordinary_forward():
    class Base(nn.Module):
        @support_torch_compile(dynamic_arg_dims={"x": 0})
        def encode(self, x):
            return x.cos()

        def forward(self, x):
            return self.encode(x) + 1

    class Derived(Base):
        def forward(self, x):
            return super().forward(x) * 2

    with use_config(eager()):
        model = Derived()
    seen = []
    model.register_forward_hook(lambda module, args, output: seen.append(output.shape))
    x = torch.randn(3, 8)
    with Heard() as heard:
        torch.testing.assert_close(model(x), (x.cos() + 1) * 2)
    assert compiles(heard) == 1
    assert seen == [(3, 8)]
    assert Base.encode._compdbg_compile.dynamic_arg_dims == {"x": 0}
    assert torch.equal(model.encode_eager(x), x.cos())


def test_negative_dims_and_several_dims():
    @support_torch_compile(dynamic_arg_dims={"x": -1, "y": (0, 1)})
    class Model(nn.Module):
        def forward(self, x, y):
            return x.sum(0) * 2, y @ y.T

    model = build(Model)
    with Heard() as heard, torch.no_grad():
        for n, m in ((3, 4), (5, 2), (1, 1)):
            x, y = torch.randn(2, n), torch.randn(n, m)
            torch.testing.assert_close(model(x, y), model.forward_eager(x, y))
    assert compiles(heard) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda n: {"a": torch.randn(n, 4), "b": [torch.randn(n, 4)]},
        lambda n: Names(torch.randn(n, 4), torch.randn(n, 4)),
        lambda n: Batch(torch.randn(n, 4), 0.5),
        lambda n: (torch.randn(n, 4), (torch.randn(n, 4), None)),
    ],
    ids=["dict", "named tuple", "dataclass", "nested tuples"],
)
def test_tensors_in_containers_vary(make):
    @support_torch_compile(dynamic_arg_dims={"inputs": 0})
    class Model(nn.Module):
        def forward(self, inputs):
            if isinstance(inputs, dict):
                return inputs["a"] + inputs["b"][0]
            if isinstance(inputs, Batch):
                return inputs.tokens * inputs.scale
            first, second = inputs
            return first * (second[0] if isinstance(second, tuple) else second)

    model = build(Model)
    with Heard() as heard, torch.no_grad():
        for n in (2, 7, 1):
            inputs = make(n)
            torch.testing.assert_close(model(inputs), model.forward_eager(inputs))
    assert compiles(heard) == 1


def test_without_dims_every_argument_annotated_as_tensors_varies():
    class Model(nn.Module):
        def forward(
            self,
            x: torch.Tensor,
            scale: float,
            y: torch.Tensor | None = None,
            more: list[torch.Tensor] | None = None,
            batch: Batch | None = None,
            flag: bool = True,
        ) -> torch.Tensor:
            return x * scale if y is None else x + y

    assert asked_dims(Model.forward, None) == {"x": 0, "y": 0, "more": 0, "batch": 0}
    model = build(support_torch_compile(Model))
    assert Model.forward._compdbg_compile.dynamic_arg_dims == {"x": 0, "y": 0, "more": 0, "batch": 0}
    with Heard() as heard:
        for n in (3, 6):
            x = torch.randn(n, 2)
            torch.testing.assert_close(model(x, 2.0), x * 2)
    assert compiles(heard) == 1


def test_keyword_arguments_and_defaults_are_bound_as_python_binds_them():
    @support_torch_compile(dynamic_arg_dims={"x": 0, "y": 0})
    class Model(nn.Module):
        def forward(self, x, *, y=None, factor=3):
            return x * factor if y is None else x * factor + y

    model = build(Model)
    x, y = torch.randn(4, 2), torch.randn(4, 2)
    torch.testing.assert_close(model(x=x, y=y), x * 3 + y)
    torch.testing.assert_close(model(x[:3], y=y[:3]), x[:3] * 3 + y[:3])


def test_the_callers_tensors_are_not_marked():
    model = build(Doubled)
    x = torch.randn(3, 8)
    model(x)
    assert [name for name in vars(x) if "dynamo" in name] == []


def test_enable_if_and_ignore_keep_instances_eager():
    @support_torch_compile(dynamic_arg_dims={"x": 0}, enable_if=lambda config: bool(config.splitting_ops))
    class Model(nn.Module):
        def forward(self, x):
            return x * 2

    @ignore_torch_compile
    class Ignored(Model):
        pass

    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Again(Ignored):
        def forward(self, x):
            return x * 3

    x = torch.ones(2, 2)
    reasons = {}
    for cls, ops in ((Model, []), (Model, ["core::attention"]), (Ignored, ["core::attention"]), (Again, [])):
        with use_config(eager(*ops)):
            model = cls()
        with Heard() as heard:
            model(x)
        reasons[cls.__name__, len(ops)] = heard.of(Decorated)[0].reason
    assert reasons == {
        ("Model", 0): "enable_if said no",
        ("Model", 1): "",
        ("Ignored", 1): "Ignored is decorated with ignore_torch_compile",
        ("Again", 0): "",
    }


def test_a_decorated_module_inside_another_is_part_of_its_graph():
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Doubled()

        def forward(self, x):
            return self.inner(x) + 1

    with use_config(eager()):
        model = Outer()
    x = torch.randn(3, 8)
    with Heard() as heard:
        result = model(x)
    assert [event.target.split(".")[-2] for event in heard.of(Decorated)] == ["Outer"]
    torch.testing.assert_close(result, model.inner.forward_eager(x) + 1)


def test_copies_and_pickles_of_a_compiled_model_compile_for_themselves():
    model = build(Doubled)
    compare(model, 3)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with torch.no_grad():
            other.linear.weight.zero_()
        compare(other, 3, 5)
    compare(model, 4)


def test_a_decorated_class_may_derive_from_a_decorated_one():
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Base(nn.Module):
        def forward(self, x):
            return x * 2

    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Derived(Base):
        def forward(self, x):
            return super().forward(x) + 1

    with use_config(eager()):
        model = Derived()
    x = torch.randn(3, 2)
    for _ in range(2):
        assert torch.equal(model(x), x * 2 + 1)
        assert torch.equal(model.forward_eager(x), x * 2 + 1)


def test_decorating_twice_is_once():
    decorated = support_torch_compile(dynamic_arg_dims={"x": 0})(Doubled)
    assert decorated is Doubled
    assert "_compdbg_compile" not in vars(Doubled.forward_eager)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"y": 0}, r"has no argument 'y'"),
        ({"positins": 0}, r"has no argument 'positins'; did you mean 'positions'\?"),
        ({"x": "0"}, r"are an int or several ints, not '0'"),
        ({"x": True}, r"are an int or several ints, not True"),
        ({"x": []}, r"are an int or several ints"),
        (None, r"no argument of .* is annotated as a tensor"),
    ],
)
def test_a_slip_in_the_dims_is_an_error_at_the_decorator(dims, message):
    with pytest.raises(ValueError, match=message):

        @support_torch_compile(dynamic_arg_dims=dims)
        class Model(nn.Module):
            def forward(self, x, positions):
                return x


def test_what_can_not_be_decorated_is_said():
    with pytest.raises(TypeError, match="classes and methods"):
        support_torch_compile(3)
    with pytest.raises(TypeError, match="has no forward"):
        support_torch_compile(dynamic_arg_dims={"x": 0})(int)

    @support_torch_compile(dynamic_arg_dims={"x": 0})
    def function(x):
        return x

    with pytest.raises(TypeError, match="is no method"):
        function(torch.ones(2))


def test_a_dim_that_the_tensor_does_not_have_is_said_at_the_call():
    @support_torch_compile(dynamic_arg_dims={"x": 2})
    class Model(nn.Module):
        def forward(self, x):
            return x

    with pytest.raises(ValueError, match="'x' has 2 dimensions, none of them 2"):
        build(Model)(torch.ones(2, 2))
