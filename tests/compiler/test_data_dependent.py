"""Models in which a size hangs on values: rows that a mask chooses, tokens sent to experts, numbers read."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from compdbg.compiler import CompilationConfig, support_torch_compile, use_config
from tests.compiler.ops import compare

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


class Chosen(nn.Module):
    def forward(self, x):
        return x[x[:, 0] > 0] * 2


class Routed(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def forward(self, x):
        out, expert = torch.zeros_like(x), x[:, :2].argmax(-1)
        for i, layer in enumerate(self.experts):
            rows = (expert == i).nonzero()[:, 0]
            out.index_add_(0, rows, layer(x[rows]))
        return out


class ReadBack(nn.Module):
    def forward(self, x):
        return x * x.amax().item()


class FirstRows(nn.Module):
    """Two pieces with nothing but a number in between, of which the trace knows a bound."""

    def forward(self, x):
        count = (x[:, 0] > 0).sum().item()
        torch._check(count <= x.shape[0])
        return torch.ops.core.attention(x)[:count].sum(0)


class Scaled(nn.Module):
    """A piece that reckons with numbers and has no tensor."""

    def forward(self, x):
        return torch.ops.core.attention(x) * float(x[0, 0])


@pytest.mark.parametrize("shapes", ["backed", "backed_size_oblivious", "unbacked"])
@pytest.mark.parametrize("model", [Chosen, Routed, ReadBack])
def test_inductor_compiles_it(model, shapes):
    decorated = support_torch_compile(dynamic_arg_dims={"x": 0})(model)
    with use_config(CompilationConfig(dynamic_shapes_config={"type": shapes})), torch.inference_mode():
        compare(decorated(), 5, 9, 1)


@pytest.mark.parametrize("shapes", ["backed", "unbacked"])
@pytest.mark.parametrize("model", [FirstRows, Scaled])
def test_numbers_cross_from_piece_to_piece(model, shapes):
    decorated = support_torch_compile(dynamic_arg_dims={"x": 0})(model)
    config = CompilationConfig(splitting_ops=["core::attention"], dynamic_shapes_config={"type": shapes})
    with use_config(config), torch.inference_mode():
        compare(decorated(), 5, 9, 1)
