"""A registered pattern as lines of code: what stands beside the graph in a near miss."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def matcher():
    pytest.importorskip("torch")
    from torch._inductor import pattern_matcher

    return pattern_matcher


def steps(pattern: object) -> list[str]:
    from compdbg.hooks.pattern_matcher_steps import steps_of

    return steps_of(pattern)


def test_inputs_first_with_names_and_constants(matcher) -> None:
    import torch

    aten = torch.ops.aten
    x, scale = matcher.KeywordArg("x"), matcher.KeywordArg("scale")
    total = matcher.CallFunction(aten.add.Tensor, x, 1e-6)
    pattern = matcher.CallFunction(aten.mul.Tensor, total, scale)
    assert steps(pattern) == ["add = aten.add.Tensor(x, 1e-06)", "mul = aten.mul.Tensor(add, scale)"]


def test_a_value_used_twice_has_one_line(matcher) -> None:
    import torch

    aten = torch.ops.aten
    sine = matcher.CallFunction(aten.sin.default, matcher.Arg(), _users=2)
    pattern = matcher.CallFunction(aten.mul.Tensor, sine, sine)
    assert steps(pattern) == ["sin = aten.sin.default(_)", "mul = aten.mul.Tensor(sin, sin)"]


def test_equal_names_are_told_apart_and_lists_are_kept(matcher) -> None:
    import torch

    aten = torch.ops.aten
    inner = matcher.CallFunction(aten.mul.Tensor, matcher.KeywordArg("x"), matcher.Ignored())
    outer = matcher.CallFunction(aten.mul.Tensor, inner, 2)
    pattern = matcher.CallFunction(aten.cat.default, [inner, outer], 1)
    assert steps(pattern) == [
        "mul = aten.mul.Tensor(x, *)",
        "mul_1 = aten.mul.Tensor(mul, 2)",
        "cat = aten.cat.default([mul, mul_1], 1)",
    ]


def test_several_outputs(matcher) -> None:
    import torch

    aten = torch.ops.aten
    sine = matcher.CallFunction(aten.sin.default, matcher.KeywordArg("x"), _users=2)
    cosine = matcher.CallFunction(aten.cos.default, sine)
    assert steps(matcher.MultiOutputPattern([cosine, None, sine])) == [
        "sin = aten.sin.default(x)",
        "cos = aten.cos.default(sin)",
    ]
