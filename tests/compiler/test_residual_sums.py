"""The sum with a residual leaves the matrix product where a kernel of the graph reads it anyway."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from compdbg.compiler.passes.utility.residual_sums import ResidualSumPass

pytestmark = pytest.mark.torch


def products_after(function, device, residual=(4, 8)):
    """The operators that are products, after the pass; the graph is never run."""
    with FakeTensorMode():
        inputs = [torch.empty(size, device=device) for size in (residual, (4, 16), (16, 8), (8, 8))]
        module = make_fx(function)(*inputs)
    ResidualSumPass()(module.graph)
    module.graph.lint()
    names = [str(node.target) for node in module.graph.nodes if node.op == "call_function"]
    return [name.removeprefix("aten.") for name in names if "mm" in name or "add." in name]


def normalised_too(residual, a, b, w):
    total = torch.addmm(residual, a, b)
    return total, total * total.pow(2).mean(-1, keepdim=True)


def test_a_gpus_kernel_that_reads_the_sum_adds_it():
    assert products_after(normalised_too, "cuda") == ["mm.default", "add.Tensor"]


def test_on_a_cpu_it_stays():
    assert products_after(normalised_too, "cpu") == ["addmm.default"]


def test_a_bias_stays():
    assert products_after(normalised_too, "cuda", residual=(8,)) == ["addmm.default"]


def test_a_sum_that_nothing_here_reads_stays():
    assert products_after(lambda r, a, b, w: torch.addmm(r, a, b), "cuda") == ["addmm.default"]


def test_a_sum_that_only_a_product_reads_stays():
    def multiplied(r, a, b, w):
        return torch.addmm(r, a, b) @ w

    assert products_after(multiplied, "cuda") == ["addmm.default", "mm.default"]
