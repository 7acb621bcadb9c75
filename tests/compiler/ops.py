"""Operators and small models that the tests of the compiler share."""

from __future__ import annotations

import torch
from torch import nn

from compdbg.compiler import CompilationConfig
from compdbg.compiler.compiler_interface import EagerAdaptor, register_compiler


@torch.library.custom_op("core::attention", mutates_args=())
def attention(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


@attention.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("core::attention_into", mutates_args=("out",))
def attention_into(x: torch.Tensor, out: torch.Tensor, layer: str) -> None:
    out.copy_(x.sin())


@attention_into.register_fake
def _(x, out, layer):
    return None


@torch.library.custom_op("core::pair", mutates_args=())
def pair(x: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return x + n, x * 2


@pair.register_fake
def _(x, n):
    return torch.empty_like(x), torch.empty_like(x)


def eager(*splitting_ops: str, **more) -> CompilationConfig:
    """The whole pipeline without Inductor: fast, and exact."""
    return CompilationConfig(**({"backend": "eager", "splitting_ops": list(splitting_ops)} | more))


class CountsPasses(EagerAdaptor):
    """Eager, but one of those whose results depend on passes."""

    name = "counts-passes"
    uses_inductor = True


register_compiler("counts-passes", lambda config: CountsPasses())


class Block(nn.Module):
    """A layer in which `index` stands as a constant of the graph, and `name` in the splitting operator."""

    def __init__(self, index: int, width: int = 8, scale: float = 1.0) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.index = index
        self.name = f"layers.{index}"
        self.scale = scale

    def forward(self, x):
        q = self.linear(x) + self.index
        out = torch.empty_like(q)
        torch.ops.core.attention_into(q, out, self.name)
        return x + out * self.scale


def compare(model, *sizes: int, width: int = 8) -> None:
    """The compiled model computes what its eager forward does, at each size."""
    with torch.no_grad():
        for n in sizes:
            x = torch.randn(n, width)
            torch.testing.assert_close(model(x), model.forward_eager(x))
